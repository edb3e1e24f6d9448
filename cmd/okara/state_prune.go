// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type prunedState struct {
	Repository string  `json:"repository"`
	Workspace  string  `json:"workspace"`
	Removed    []int64 `json:"removed"`
	DryRun     bool    `json:"dry_run,omitempty"`
}

func newStatePrune(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var keep int
	var removal cli.Removal
	cmd := &cobra.Command{
		Use:   "prune [REPOSITORY] --keep N",
		Short: "Remove old versions of a state",
		Long: `Remove all but the newest N versions. The highest version number always stays, even that
of a deleted workspace, and so do versions that lost to another one in the last 30 days.
On a terminal okara shows what would be removed and asks for confirmation; elsewhere
--yes is required. The manifest of a version is removed with it unless another tag
points to it. If the registry refuses DELETE, everything is kept.`,
		Example: "  okara state prune registry.example.com/state/shop -w prod --keep 50 --dry-run",
		Args:    cobra.MaximumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if keep < 1 {
				return cli.UsageError("--keep must be at least 1")
			}
			return nil
		},
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			return pruneState(cmd.Context(), reg.App, s, prunedState{args[0], ws, []int64{}, removal.DryRun}, keep, removal)
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	removal.Add(cmd.Flags())
	cmd.Flags().IntVar(&keep, "keep", 0, "keep the newest `N` versions")
	return cmd
}

func pruneState(ctx context.Context, a *cli.App, s *statebackend.Store, out prunedState, keep int, removal cli.Removal) error {
	old, err := s.Workspaces().Prunable(ctx, out.Workspace, keep)
	if err != nil {
		return noState(err, out.Repository, out.Workspace)
	}
	if list, err := s.List(ctx); err == nil && list.Size() == 0 {
		return noStates(out.Repository)
	}
	if len(old) == 0 {
		a.Note("nothing to remove: workspace %s of %s has no more than %s", out.Workspace, out.Repository, text.Plural(keep, "version"))
	}
	remove, err := a.Removes(removal, versionLines(old), fmt.Sprintf("remove %s of workspace %q in %s", text.Plural(len(old), "version"), out.Workspace, out.Repository))
	if err != nil {
		return err
	}
	if remove {
		old, err = s.Workspaces().Prune(ctx, out.Workspace, keep)
		if errors.Is(err, oci.ErrUnsupported) {
			return cli.WithHint(err, "the registry refuses DELETE: the other versions stay")
		}
		if err != nil {
			return err
		}
		a.Note("removed %s of workspace %s", text.Plural(len(old), "version"), out.Workspace)
	}
	out.Removed = append(out.Removed, old...)
	return a.PrintResult(out, versionLines(old))
}

func versionLines(numbers []int64) string {
	lines := make([]string, len(numbers))
	for i, n := range numbers {
		lines[i] = fmt.Sprintf("version %d", n)
	}
	return strings.Join(lines, "\n")
}
