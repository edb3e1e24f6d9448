// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/files"
)

const execLong = `Run any command that calls tofu or terraform in root modules whose state is in an
OCI registry: a makefile, a script, a wrapper.

okara is first on PATH under the names tofu and terraform, so each call of a tool runs
"okara tofu" or "okara terraform" with the same arguments in the same folder. A tool
that is called by its path runs without okara.

Exit codes: those of the command; 125 if okara itself fails; 127 if the command is not
found.`

func newExec(reg *cli.Registries) *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec -- CMD [ARGS...]", Short: "Run a command that uses tofu or terraform with its state in the registry",
		Long: execLong, Args: cobra.MinimumNArgs(1),
		Example: `  okara exec -- make deploy
  okara exec -- terragrunt run --all -- plan
  okara exec -- sh -c 'cd network && tofu init && tofu apply'`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			shims, remove, err := toolShims()
			if err != nil {
				return reportRun(reg.App, args[0], bridge.Result{}, err)
			}
			defer func() { err = errors.Join(err, remove()) }()
			path, err := exec.LookPath(filepath.Join(shims, args[0]))
			if err != nil {
				path, err = exec.LookPath(args[0])
			}
			if err != nil {
				return noProgram(args[0], "")
			}
			res, err := bridge.RunShimmed(cmd.Context(), shims, append([]string{path}, args[1:]...), bridgeOptions(reg))
			return reportRun(reg.App, path, res, err)
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cli.WithoutJSON(cmd, "it prints what the program prints; the program's own flags come after --")
}

func toolShims() (dir string, remove func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("finding okara: %w", err)
	}
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", nil, err
	}
	if strings.ContainsRune(parent, os.PathListSeparator) {
		return "", nil, fmt.Errorf("the temporary folder %s cannot be on PATH; set TMPDIR to another folder", parent)
	}
	if dir, remove, err = files.TempDir(parent); err != nil {
		return "", nil, err
	}
	for _, name := range []string{"tofu", "terraform"} {
		if err := os.Symlink(self, filepath.Join(dir, name+filepath.Ext(self))); err != nil {
			return "", nil, errors.Join(fmt.Errorf("link okara as %s: %w", name, err), remove())
		}
	}
	return dir, remove, nil
}
