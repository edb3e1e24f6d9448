// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe/variables"
)

const replicateLong = `Copy the versions that DESTINATION lacks, in order, then update its current state. An
interrupted run is continued by the next one, so run this command on a schedule. Stored
bytes are copied unchanged: encrypted states require no key, but readers of DESTINATION
have to specify REPOSITORY with primary_repository in the backend block or
--primary-repository, unless both have the same path. --reseal encrypts each version again
for DESTINATION. Without --workspace, variables that servers store with the states are
copied too.

The first run marks DESTINATION as a replica, and locks in it are refused. To
fail over, make sure that nothing writes to REPOSITORY any more, then run
"okara state unlock DESTINATION --take-over" for each workspace.

To fail back, make the old primary the replica with --adopt. Versions of DESTINATION that
REPOSITORY does not have keep their numbers and are listed each time. From then on
DESTINATION is read-only, and further runs do not need --adopt.`

type replication struct {
	reseal, adopt, yes bool
	keep               int
}

func newStateReplicate(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var how replication
	cmd := &cobra.Command{
		Use:   "replicate REPOSITORY DESTINATION",
		Short: "Copy states to a read-only replica in another repository",
		Long:  replicateLong,
		Example: `  okara state replicate registry.example.com/state/shop dr.example.com/state/shop
  okara state replicate --adopt dr.example.com/state/shop registry.example.com/state/shop`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, dst, err := how.openBoth(reg, f, args)
			if err != nil {
				return err
			}
			names := []string{ws}
			if !cmd.Flags().Changed("workspace") {
				if names, err = how.replicaNames(cmd.Context(), src, dst); err != nil {
					return err
				}
			}
			if len(names) == 0 {
				return noStates(args[0])
			}
			if err := how.confirm(cmd.Context(), reg.App, src, dst); err != nil {
				return err
			}
			out := replicatedStates{Repository: args[0], Destination: args[1]}
			errs := out.copy(names, func(name string) (copied, kept []int64, err error) { return how.copyOne(cmd.Context(), src, dst, name) })
			if !cmd.Flags().Changed("workspace") {
				err = how.variables(cmd.Context(), reg, f, src, dst, &out)
			}
			return errors.Join(out.print(reg.App, errs), err)
		},
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().BoolVar(&how.reseal, "reseal", false, "encrypt each version again for DESTINATION")
	cmd.Flags().BoolVar(&how.adopt, "adopt", false, "accept a DESTINATION with versions of its own, and keep these")
	cmd.Flags().BoolVarP(&how.yes, "yes", "y", false, "skip the confirmation prompt before --adopt makes DESTINATION read-only")
	cmd.Flags().IntVar(&how.keep, "max-versions", 0, "keep the newest `N` versions in DESTINATION; 0 keeps all")
	cmd.Flags().Lookup("workspace").Usage = "only the workspace `NAME` (default all)"
	cmd.Flags().Lookup("workspace").DefValue = ""
	return cmd
}

func (how replication) openBoth(reg *cli.Registries, f *stateFlags, args []string) (src, dst *statebackend.Store, err error) {
	if how.keep < 0 {
		return nil, nil, cli.UsageError("--max-versions must not be negative")
	}
	if src, err = f.openStore(reg, args[0]); err != nil {
		return nil, nil, err
	}
	to := *f
	to.keep = how.keep
	if dst, err = to.openStore(reg, args[1]); err == nil && src.Repo().String() == dst.Repo().String() {
		err = cli.UsageError("%s is both the source and the destination", src.Repo())
	}
	return src, dst, err
}

// replicaNames returns the workspaces to copy, and with --adopt those that only dst has.
func (how replication) replicaNames(ctx context.Context, src, dst *statebackend.Store) ([]string, error) {
	names, err := src.Replicas().Workspaces(ctx)
	if err != nil || !how.adopt {
		return names, err
	}
	more, err := dst.Replicas().Workspaces(ctx)
	names = append(names, more...)
	slices.Sort(names)
	return slices.Compact(names), err
}

// confirm asks before a repository that runs may be using becomes read-only.
func (how replication) confirm(ctx context.Context, a *cli.App, src, dst *statebackend.Store) error {
	if !how.adopt {
		return nil
	}
	mark, err := dst.Replicas().Mark(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	already := err == nil && !mark.Promoted
	return a.Confirm(how.yes || already, fmt.Sprintf("make %s a read-only copy of %s", dst.Repo(), src.Repo()))
}

func (how replication) copyOne(ctx context.Context, src, dst *statebackend.Store, name string) (copied, kept []int64, err error) {
	switch {
	case how.adopt:
		return src.Replicas().Adopt(ctx, dst, name, how.reseal)
	case how.reseal:
		copied, err = src.Replicas().Reseal(ctx, dst, name)
	default:
		copied, err = src.Replicas().Replicate(ctx, dst, name)
	}
	return copied, nil, err
}

// variables copies the variables that servers store beside the states.
func (how replication) variables(ctx context.Context, reg *cli.Registries, f *stateFlags, src, dst *statebackend.Store, out *replicatedStates) error {
	o, err := f.storeOptions(reg.App)
	if err != nil {
		return err
	}
	from, err := variables.Open(src.Repo(), o.Sealer, time.Now, nil)
	if err != nil {
		return err
	}
	to, err := variables.Open(dst.Repo(), o.Sealer, time.Now, nil)
	if err != nil {
		return err
	}
	n, err := from.Replicate(ctx, to, how.reseal)
	if err == nil { // of versions that kept them among the states
		var more variables.Replicated
		more, err = from.Former().Replicate(ctx, to.Former(), how.reseal)
		n = variables.Replicated{Copied: n.Copied + more.Copied, Removed: n.Removed + more.Removed, Left: n.Left + more.Left}
	}
	if out.Variables = n.Copied + n.Removed; err != nil {
		err = cli.PartlyError("copying the variables of workspaces: %w", err)
	}
	if n.Left > 0 {
		reg.Note("%s of the states, encrypted for %s, not copied: with another path, use --reseal to copy them", text.Plural(n.Left, "variable"), out.Repository)
	}
	return err
}

type replicatedStates struct {
	Repository  string                `json:"repository"`
	Destination string                `json:"destination"`
	Workspaces  []replicatedWorkspace `json:"workspaces"`
	Variables   int                   `json:"variables,omitempty"` // of workspaces, variable sets and uses of sets that were copied or removed
}

type replicatedWorkspace struct {
	Workspace string  `json:"workspace"`
	Copied    []int64 `json:"copied"`
	Kept      []int64 `json:"kept,omitempty"` // In the destination, beside those of the repository
	Error     string  `json:"error,omitempty"`
}

// copy copies one workspace after the other. A failure does not stop the others.
func (out *replicatedStates) copy(names []string, one func(name string) (copied, kept []int64, err error)) (errs []error) {
	for _, name := range names {
		copied, kept, err := one(name)
		r := replicatedWorkspace{Workspace: name, Copied: append([]int64{}, copied...), Kept: kept}
		if err != nil {
			r.Error = states.Remedy(err)
			errs = append(errs, err)
		}
		out.Workspaces = append(out.Workspaces, r)
	}
	return errs
}

func (out *replicatedStates) print(a *cli.App, errs []error) error {
	var lines []string
	for _, r := range out.Workspaces {
		lines = append(lines, fmt.Sprintf("workspace %s: %s copied", r.Workspace, text.Plural(len(r.Copied), "version"))+keptText(r.Kept, out.Repository))
	}
	if out.Variables > 0 {
		lines = append(lines, fmt.Sprintf("%s copied or removed, including variable sets", text.Plural(out.Variables, "variable")))
	}
	if err := a.PrintResult(out, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if n := len(out.Workspaces); len(errs) > 0 && len(errs) < n {
		return cli.PartlyError("%d of %d workspaces: %w", len(errs), n, errors.Join(errs...))
	}
	return errors.Join(errs...)
}

func keptText(kept []int64, source string) string {
	if len(kept) == 0 {
		return ""
	}
	return fmt.Sprintf("; kept, and not in %s: version %s", source, shortenRanges(kept))
}

func listWorkspaces(ctx context.Context, s *statebackend.Store) (names []string, err error) {
	for name, err := range s.Workspaces().All(ctx) {
		if err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}
