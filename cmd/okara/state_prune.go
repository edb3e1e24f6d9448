// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// prunedState is the result of state prune.
type prunedState struct {
	Repository string  `json:"repository"`
	Workspace  string  `json:"workspace"`
	Removed    []int64 `json:"removed"`
}

func newStatePrune(reg *registries, f *stateFlags) *cobra.Command {
	var ws string
	var keep int
	cmd := &cobra.Command{
		Use:   "prune REPOSITORY --keep N",
		Short: "Remove old versions of a state",
		Long: `Remove all versions but the newest N. The highest version number always stays,
also that of a deleted workspace, and so do versions that lost against another
one in the last 30 days. The manifest of a version goes with it unless another tag
points to it. A registry that refuses DELETE keeps everything.`,
		Example: "  okara state prune registry.example.com/infrastructure/tofu-state -w prod --keep 50",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 1 {
				return usageError("--keep must be at least 1")
			}
			s, err := f.store(reg, args[0])
			if err != nil {
				return err
			}
			removed, err := s.Prune(cmd.Context(), ws, keep)
			if err != nil {
				return noState(err, args[0], ws)
			}
			if removed == nil {
				removed = []int64{}
			}
			numbers := make([]string, len(removed))
			for i, n := range removed {
				numbers[i] = fmt.Sprintf("version %d", n)
			}
			reg.note("%d versions of workspace %s removed", len(removed), ws)
			return reg.printResult(prunedState{args[0], ws, removed}, strings.Join(numbers, "\n"))
		},
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().IntVar(&keep, "keep", 0, "keep the newest `N` versions")
	return cmd
}
