// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
)

const execLong = `Run any command that calls tofu or terraform in a root module whose state is in
an OCI registry: a makefile, a script, a wrapper.

While the command runs, okara serves the state of the backend "oci" block on
loopback and replaces the block by an override file, as "okara tofu" does.
-backend-config cannot be taken from a command line that okara does not see:
set TF_BACKEND_OCI_<NAME> instead.

Exit codes: those of the command; 125 when okara itself fails; 127 when there is
no such command.`

func newExec(reg *cli.Registries) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "exec [--chdir DIR] -- CMD [ARGS...]", Short: "Run a command that uses tofu or terraform with its state in the registry",
		Long: execLong, Args: cobra.MinimumNArgs(1),
		Example: `  okara exec -- make deploy
  okara exec --chdir network -- sh -c 'cd network && tofu init && tofu apply'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return noProgram(args[0], "", err)
			}
			res, err := bridge.RunIn(cmd.Context(), dir, append([]string{path}, args[1:]...), bridgeOptions(reg))
			return ran(reg.App, path, res, err)
		},
	}
	cmd.Flags().StringVar(&dir, "chdir", ".", "root module `DIR` that the command works in")
	cmd.Flags().SetInterspersed(false)
	return cmd
}
