// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/statebackend"
)

type keyUse struct {
	Workspace string  `json:"workspace"`
	Key       string  `json:"key"` // "": these are not sealed by okara
	Versions  []int64 `json:"versions"`
}

func newStateKeys(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	cmd := &cobra.Command{
		Use:   "keys [REPOSITORY]",
		Short: "List the keys that decrypt each version",
		Long: `List the IDs of the keys that the versions of a state are encrypted with; any one of
several keys decrypts a version. No key is required, and one request is made for each
version. Without --workspace all workspaces are listed.

A key can be discarded once no version uses it.`,
		Example: `  okara state keys registry.example.com/state/shop
  okara state keys -w prod --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			names := []string{ws}
			if !cmd.Flags().Changed("workspace") {
				var err error
				if names, err = listWorkspaces(cmd.Context(), s); err != nil {
					return err
				}
			}
			uses, err := keyUses(cmd.Context(), s, names)
			if err != nil {
				return err
			}
			return reg.PrintResult(uses, keysText(uses))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().Lookup("workspace").Usage = "only the workspace `NAME` (default all)"
	cmd.Flags().Lookup("workspace").DefValue = ""
	return cmd
}

func keyUses(ctx context.Context, s *statebackend.Store, names []string) ([]keyUse, error) {
	uses := []keyUse{}
	for _, name := range names {
		versions := map[string][]int64{}
		for v, err := range s.History(ctx, name) {
			if err != nil {
				return nil, err
			}
			keys := envelope.KeyIDs(v.Envelope)
			if len(keys) == 0 {
				keys = []string{""}
			}
			for _, key := range keys {
				versions[key] = append(versions[key], v.N)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(versions)) {
			uses = append(uses, keyUse{name, key, versions[key]})
		}
	}
	if len(uses) == 0 {
		return uses, noStates(fmt.Sprint(s.Repo()))
	}
	return uses, nil
}

func keysText(uses []keyUse) string {
	rows := [][]string{{"WORKSPACE", "KEY", "VERSIONS"}}
	for _, u := range uses {
		key := u.Key
		key = cmp.Or(key, "none: not encrypted, or encrypted by the tool")
		rows = append(rows, []string{u.Workspace, key, shortenRanges(u.Versions)})
	}
	return cli.Table(rows)
}

// shortenRanges shortens a descending list of numbers: 7-5, 2.
func shortenRanges(numbers []int64) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]-1 {
			j++
		}
		part := fmt.Sprint(numbers[i])
		if j > i {
			part += fmt.Sprintf("-%d", numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
