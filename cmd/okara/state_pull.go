// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStatePull(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws, output string
	var version, oldest int64
	cmd := &cobra.Command{
		Use:   "pull [REPOSITORY]",
		Short: "Write a state to stdout or to a file",
		Long: `Write the current state, or version N of it, exactly as the tool wrote it. With
--min-version a current version below N is an error: anyone who may write to the
registry can hide the newest versions of a state, encrypted or not. With --json the
document describes what was read and --output is required.`,
		Example: `  okara state pull registry.example.com/state/shop > terraform.tfstate
  okara state pull registry.example.com/state/shop -w prod --version 41 -o old.tfstate`,
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if output == "-" {
				output = ""
			}
			return requireOutput(reg.App, output)
		},
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			state, v, err := readVersion(cmd.Context(), s, ws, version)
			if err != nil {
				return noState(err, args[0], ws)
			}
			if v.N < oldest {
				return cli.WithHint(fmt.Errorf("the current version of workspace %q in %s is %d, expected at least %d: %w", ws, args[0], v.N, oldest, statebackend.ErrStale),
					"`okara state history %s -w %s` shows the versions; newer ones were pruned, lost or hidden", args[0], ws)
			}
			return writeState(reg.App, output, state, v)
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` instead of the current one")
	cmd.Flags().Int64Var(&oldest, "min-version", 0, "fail if the version read is below `N`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write, with mode 0600; - for stdout")
	return cmd
}

// readVersion returns version n of a state; 0 means the current one.
func readVersion(ctx context.Context, s *statebackend.Store, ws string, n int64) ([]byte, statebackend.Version, error) {
	if n == 0 {
		return s.Get(ctx, ws)
	}
	return s.GetVersion(ctx, ws, n)
}
