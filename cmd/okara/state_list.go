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
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type listedStates struct {
	Repository string        `json:"repository"`
	Workspaces []string      `json:"workspaces"`
	States     []listedState `json:"states,omitempty"` // of the workspaces, with --long
}

type listedState struct {
	Workspace string    `json:"workspace"`
	Version   int64     `json:"version"`
	Serial    uint64    `json:"serial"`
	Created   time.Time `json:"created"`
	Lock      *lockJSON `json:"lock"`
}

func newStateList(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var all, long bool
	cmd := &cobra.Command{
		Use:   "list [REPOSITORY]",
		Short: "List the workspaces that have a state",
		Long: `List the workspaces that have a state. With --all, REPOSITORY is a prefix,
HOST[:PORT][/PATH]: every repository at and under it that has states is listed, if the
registry can list its repositories.

On a terminal and with --long, the current version of each state, its age and who holds
its lock are listed too; elsewhere, only the names.`,
		Example: `  okara state list registry.example.com/state/shop
  okara state list registry.example.com/infrastructure --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.withNamedState(reg, 1, &ws, func(cmd *cobra.Command, args []string) error {
			list, err := listStates(cmd.Context(), reg, f, args[0], all, reg.IsLong(long))
			if err != nil {
				return err
			}
			words := statesText(reg.App, list, all)
			if words == "" {
				reg.Note("no states in %s", args[0])
			}
			if all {
				return reg.PrintResult(list, words)
			}
			return reg.PrintResult(list[0], words)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "list all repositories at and under REPOSITORY")
	cli.AddLong(cmd.Flags(), &long, "the version, its age and the lock")
	return cmd
}

func listStates(ctx context.Context, reg *cli.Registries, f *stateFlags, name string, all, long bool) ([]listedStates, error) {
	return fromStores(ctx, reg, f, name, all, func(s *statebackend.Store, name string) (listedStates, bool, error) {
		found, err := listWorkspaces(ctx, s)
		list := listedStates{Repository: name, Workspaces: append([]string{}, found...)} // a list in JSON, never null
		if err == nil && long && len(found) > 0 {
			list.States, err = readStates(ctx, s, found)
		}
		return list, len(found) > 0, err
	})
}

// readStates returns the current versions of workspaces, 0 of one that cannot be read, and who
// holds their locks.
func readStates(ctx context.Context, s *statebackend.Store, names []string) ([]listedState, error) {
	held, err := s.Locks(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]listedState, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i, name := range names {
		g.Go(func() error {
			v, err := s.Current(ctx, name)
			if ctx.Err() != nil || errors.Is(err, oci.ErrUnavailable) || errors.Is(err, oci.ErrDenied) {
				return err
			} // a workspace that cannot be read has no version, and hides no others
			all[i] = listedState{Workspace: name, Version: v.N, Serial: v.Serial, Created: v.Created}
			if h := slices.IndexFunc(held, func(h statebackend.Held) bool { return h.Workspace == name }); h >= 0 {
				l := toLockJSON(held[h])
				all[i].Lock = &l
			}
			return nil
		})
	}
	return all, g.Wait()
}

// parallelReads bounds the concurrent requests of a list.
const parallelReads = 4

// fromStores returns what read finds in one repository, or in all at and under it that have
// something.
func fromStores[T any](ctx context.Context, reg *cli.Registries, f *stateFlags, name string, all bool, read func(*statebackend.Store, string) (T, bool, error)) ([]T, error) {
	names, err := listRepositories(ctx, reg, name, all)
	if err != nil {
		return nil, err
	}
	list := []T{}
	for _, name := range names {
		s, err := f.openStore(reg, name)
		if err != nil {
			return nil, err
		}
		one, found, err := read(s, name)
		if err != nil && !errors.Is(err, oci.ErrNotFound) { // no repository yet
			return nil, err
		}
		if found || !all {
			list = append(list, one)
		}
	}
	return list, nil
}

func statesText(a *cli.App, list []listedStates, all bool) string {
	rows := [][]string{{"REPOSITORY", "WORKSPACE", "VERSION", "AGE", "LOCK"}}
	var names []string
	for _, s := range list {
		for _, ws := range s.Workspaces {
			if all {
				ws = s.Repository + "\t" + ws
			}
			names = append(names, ws)
		}
		for _, one := range s.States {
			lock := "free"
			if l := one.Lock; l != nil {
				lock = cli.OrDash(oneLine(l.Who, 40)) + " for " + cli.Age(l.age)
			}
			version, age := "-", "-" // it cannot be read
			if one.Version > 0 {
				version, age = fmt.Sprint(one.Version), cli.Age(time.Since(one.Created))
			}
			rows = append(rows, []string{s.Repository, one.Workspace, version, age, lock})
		}
	}
	if len(rows) == 1 {
		return strings.Join(names, "\n")
	}
	if !all {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return a.Rows(rows, len(rows[0]))
}
