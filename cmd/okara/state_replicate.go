// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStateReplicate(reg *registries, f *stateFlags) *cobra.Command {
	var ws string
	var reseal bool
	cmd := &cobra.Command{
		Use:   "replicate REPOSITORY DESTINATION",
		Short: "Copy states to a read-only replica in another repository",
		Long: `Copy the versions that DESTINATION lacks, in order, then move its current state.
Locks are not copied. A run that was cut off is continued by the next one, so
this is a command for a timer. Stored bytes are copied as they are: replicating
encrypted states needs no key, but readers of DESTINATION then have to name
REPOSITORY, with primary_repository in the backend block or --primary-repository,
unless both have the same path. --reseal seals each version anew for DESTINATION,
which needs the keys.

The first run marks DESTINATION as a replica, and locks in it are refused. To
fail over, make sure that nothing writes to REPOSITORY any more, then run
"okara state unlock DESTINATION --take-over" for each workspace.`,
		Example: "  okara state replicate registry.example.com/infrastructure/tofu-state dr.example.com/infrastructure/tofu-state",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := f.store(reg, args[0])
			if err != nil {
				return err
			}
			dst, err := f.store(reg, args[1])
			if err != nil {
				return err
			}
			names := []string{ws}
			if !cmd.Flags().Changed("workspace") {
				if names, err = src.Replicable(cmd.Context()); err != nil {
					return err
				}
			}
			if len(names) == 0 {
				return fmt.Errorf("states in %s: %w", args[0], oci.ErrNotFound)
			}
			replicate := src.Replicate
			if reseal {
				replicate = src.Reseal
			}
			return replicateStates(reg.app, replicatedStates{Repository: args[0], Destination: args[1]}, names,
				func(name string) ([]int64, error) { return replicate(cmd.Context(), dst, name) })
		},
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().BoolVar(&reseal, "reseal", false, "seal each version anew for DESTINATION")
	cmd.Flags().Lookup("workspace").Usage = "only the workspace `NAME`; without it all of them"
	cmd.Flags().Lookup("workspace").DefValue = ""
	return cmd
}

// replicatedStates is the result of state replicate.
type replicatedStates struct {
	Repository  string                `json:"repository"`
	Destination string                `json:"destination"`
	Workspaces  []replicatedWorkspace `json:"workspaces"`
}

type replicatedWorkspace struct {
	Workspace string  `json:"workspace"`
	Copied    []int64 `json:"copied"`
	Error     string  `json:"error,omitempty"`
}

// replicateStates copies one workspace after the other and prints what came of each.
// One that fails does not stop the others.
func replicateStates(a *app, out replicatedStates, names []string, one func(name string) ([]int64, error)) error {
	var lines []string
	var errs []error
	for _, name := range names {
		copied, err := one(name)
		r := replicatedWorkspace{Workspace: name, Copied: append([]int64{}, copied...)}
		if err != nil {
			r.Error = states.Remedy(err)
			errs = append(errs, err)
		}
		out.Workspaces = append(out.Workspaces, r)
		lines = append(lines, fmt.Sprintf("workspace %s: %s copied", name, plural(len(copied), "version")))
	}
	if err := a.printResult(out, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if len(errs) > 0 && len(errs) < len(names) {
		return partlyError("%d of %d workspaces: %w", len(errs), len(names), errors.Join(errs...))
	}
	return errors.Join(errs...)
}

// workspaces lists those that have a state.
func workspaces(ctx context.Context, s *statebackend.Store) (names []string, err error) {
	for name, err := range s.Workspaces(ctx) {
		if err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}
