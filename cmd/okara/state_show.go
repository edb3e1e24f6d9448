// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type shownState struct {
	Repository string `json:"repository"`
	Workspace  string `json:"workspace"`
	statebackend.Version
	ByTool  bool         `json:"encrypted_by_tool,omitempty"` // OpenTofu encrypted the stored state
	Keys    []string     `json:"keys,omitempty"`              // IDs of the keys that open it
	Lock    *lockJSON    `json:"lock"`
	Replica *replicaJSON `json:"replica,omitempty"`
}

func newStateShow(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var version int64
	cmd := &cobra.Command{
		Use:     "show [REPOSITORY]",
		Short:   "Show the current version of a state and who holds its lock",
		Example: "  okara state show registry.example.com/state/shop -w prod\n  okara state show registry.example.com/state/shop --version 41",
		Args:    cobra.MaximumNArgs(1),
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			current, err := s.Current(cmd.Context(), ws)
			if err != nil {
				return noState(err, args[0], ws)
			}
			v := current
			if version > 0 && version != current.N {
				if v, err = s.Describe(cmd.Context(), ws, version); err != nil {
					return cli.WithHint(err, "`okara state history %s -w %s` shows the versions", args[0], ws)
				}
			}
			held, err := s.Held(cmd.Context(), ws)
			if err != nil {
				return err
			}
			out := shownState{Repository: args[0], Workspace: ws, Version: v, Keys: envelope.KeyIDs(v.Envelope)}
			out.ByTool = byTool(cmd.Context(), s, ws, v)
			if held != nil {
				l := toLockJSON(*held)
				out.Lock = &l
			}
			if out.Replica, err = f.compareReplica(cmd.Context(), reg, s, ws, current); err != nil {
				return err
			}
			return reg.PrintResult(out, showText(out, held))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().Int64Var(&version, "version", 0, "version `N` instead of the current one")
	return cmd
}

// byTool reports whether the tool encrypted a version. Only the state itself shows it; an
// unreadable state is not an error here.
func byTool(ctx context.Context, s *statebackend.Store, ws string, v statebackend.Version) bool {
	if v.Encrypted {
		return false
	}
	state, _, err := s.GetVersion(ctx, ws, v.N)
	return err == nil && statebackend.EncryptedByTool(state)
}

func showText(out shownState, held *statebackend.Held) string {
	v := out.Version
	copied := out.Replica
	rows := [][]string{
		{"repository", out.Repository},
		{"workspace", out.Workspace},
		{"version", fmt.Sprint(v.N)},
		{"created", cli.Timestamp(v.Created)},
		{"serial", fmt.Sprint(v.Serial)},
		{"lineage", cli.OrDash(v.Lineage)},
		{"stored", text.Size(v.Size)},
		{"encrypted", encryptedText(v, out.ByTool)},
		{"written by", cli.OrDash(v.Tool)},
		{"who", cli.OrDash(oneLine(v.By(), 80))},
		{"why", cli.OrDash(oneLine(v.Why(), 60))},
		{"digest", v.Digest},
	}
	lock := "free"
	if held != nil {
		lock = fmt.Sprintf("held by %s for %s (%s), ID %s", cli.OrDash(held.Info.Who), cli.Age(held.Age), cli.OrDash(statebackend.Version{Operation: held.Info.Operation}.Why()), held.Info.ID)
	}
	rows = append(rows, []string{"lock", lock})
	if copied != nil {
		rows = append(rows, []string{"replica of", copied.Source + ", " + copied.lag()})
		if len(copied.Kept) > 0 {
			rows = append(rows, []string{"also kept", "version " + shortenRanges(copied.Kept)})
		}
	}
	for _, row := range rows {
		row[0] += ":"
	}
	return cli.Table(rows)
}

func encryptedText(v statebackend.Version, byTool bool) string {
	if byTool {
		return "by OpenTofu, with its own keys"
	}
	if keys := envelope.KeyIDs(v.Envelope); v.Encrypted && len(keys) > 0 {
		return "for " + strings.Join(keys, ", ")
	}
	return cli.YesNo(v.Encrypted)
}

type replicaJSON struct {
	Source string `json:"source"`
	Behind int    `json:"versions_behind"`
	Error  string `json:"error,omitempty"` // the source could not be read
	// Kept are the versions that only the replica has.
	Kept []int64 `json:"kept,omitempty"`
}

func (r replicaJSON) lag() string {
	switch {
	case r.Error != "":
		return "which cannot be read: " + r.Error
	case r.Behind == 0:
		return "up to date"
	}
	return text.Plural(r.Behind, "version") + " behind"
}

// compareReplica compares a replica with its source; nil if the repository is not a replica. An
// unreachable source is not an error, since that is when replicas are inspected.
func (f *stateFlags) compareReplica(ctx context.Context, reg *cli.Registries, s *statebackend.Store, ws string, v statebackend.Version) (*replicaJSON, error) {
	mark, err := s.Replicas().Mark(ctx)
	if errors.Is(err, oci.ErrNotFound) || err == nil && mark.Promoted {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	there := l.Numbers(ws) // some kept versions may have been pruned
	r := &replicaJSON{Source: mark.Source, Kept: slices.DeleteFunc(mark.Kept[ws], func(n int64) bool { return !slices.Contains(there, n) })}
	src, err := f.openStore(reg, mark.Source)
	if err != nil {
		return nil, err
	}
	if l, err = src.List(ctx); err != nil {
		r.Error = states.Remedy(err)
		return r, nil
	}
	r.Behind = len(slices.DeleteFunc(l.Numbers(ws), func(n int64) bool { return n <= v.N }))
	return r, nil
}
