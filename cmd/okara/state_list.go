// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// listedStates are the workspaces of one repository.
type listedStates struct {
	Repository string   `json:"repository"`
	Workspaces []string `json:"workspaces"`
}

func newStateList(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var all bool
	cmd := &cobra.Command{
		Use:   "list [REPOSITORY]",
		Short: "List the workspaces that have a state",
		Long: `List the workspaces that have a state. With --all, REPOSITORY is a prefix,
HOST[:PORT][/PATH]: every repository at and under it that has states is listed, if the
registry can list its repositories.`,
		Example: `  okara state list registry.example.com/infrastructure/tofu-state
  okara state list registry.example.com/infrastructure --all`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.withNamedState(reg, 1, &ws, func(cmd *cobra.Command, args []string) error {
			list, err := listStates(cmd.Context(), reg, f, args[0], all)
			if err != nil {
				return err
			}
			if all {
				return reg.PrintResult(list, statesText(list, true))
			}
			if len(list[0].Workspaces) == 0 {
				reg.Note("no states in %s", args[0])
			}
			return reg.PrintResult(list[0], statesText(list, false))
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all repositories at and under REPOSITORY")
	return cmd
}

// listStates lists the states of one repository, or of all repositories below it.
func listStates(ctx context.Context, reg *cli.Registries, f *stateFlags, name string, all bool) ([]listedStates, error) {
	return fromStores(ctx, reg, f, name, all, func(s *statebackend.Store, name string) (listedStates, bool, error) {
		found, err := listWorkspaces(ctx, s)
		return listedStates{name, append([]string{}, found...)}, len(found) > 0, err // a list in JSON, never null
	})
}

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

func statesText(list []listedStates, repository bool) string {
	var lines []string
	for _, s := range list {
		for _, ws := range s.Workspaces {
			if repository {
				ws = s.Repository + "\t" + ws
			}
			lines = append(lines, ws)
		}
	}
	return strings.Join(lines, "\n")
}
