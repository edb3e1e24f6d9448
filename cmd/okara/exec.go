// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
)

const execLong = `Run any command that calls tofu or terraform in a root module whose state is in
an OCI registry: a makefile, a script, a wrapper.

The command finds okara under the names tofu and terraform first on PATH, so each
call of a tool is one of "okara tofu", in the folder that it works in: terragrunt
and scripts that work in several folders. For a command that calls the tool by its
path, okara serves the state of the root module in --chdir too, while the command
runs; -backend-config cannot be taken from such a call: set TF_BACKEND_OCI_<NAME>.

Exit codes: those of the command; 125 when okara itself fails; 127 when there is
no such command.`

func newExec(reg *cli.Registries) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "exec [--chdir DIR] -- CMD [ARGS...]", Short: "Run a command that uses tofu or terraform with its state in the registry",
		Long: execLong, Args: cobra.MinimumNArgs(1),
		Example: `  okara exec -- make deploy
  okara exec -- terragrunt run --all -- plan
  okara exec --chdir network -- sh -c 'cd network && tofu init && tofu apply'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return noProgram(args[0], "", err)
			}
			o := bridgeOptions(reg)
			shims, remove, err := toolShims()
			if err != nil {
				return err
			}
			o.Environ = []string{"PATH=" + shims + string(os.PathListSeparator) + reg.Getenv("PATH")}
			res, err := bridge.RunIn(cmd.Context(), dir, append([]string{path}, args[1:]...), o)
			return errors.Join(ran(reg.App, path, res, err), remove())
		},
	}
	cmd.Flags().StringVar(&dir, "chdir", ".", "root module `DIR` that the command works in")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// toolShims makes a folder in which okara has the names of the tools.
func toolShims() (dir string, remove func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("finding okara: %w", err)
	}
	dir, remove, err = files.TempDir("")
	if err != nil {
		return "", nil, err
	}
	for _, name := range []string{"tofu", "terraform"} {
		if err := os.Symlink(self, filepath.Join(dir, name+filepath.Ext(self))); err != nil {
			return "", nil, errors.Join(fmt.Errorf("giving okara the name %s: %w", name, err), remove())
		}
	}
	return dir, remove, nil
}
