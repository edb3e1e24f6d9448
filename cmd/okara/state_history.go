// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

type stateHistory struct {
	Repository string                 `json:"repository"`
	Workspace  string                 `json:"workspace"`
	Versions   []statebackend.Version `json:"versions"`
	More       bool                   `json:"more"`
}

func newStateHistory(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var limit uint
	cmd := &cobra.Command{
		Use:   "history [REPOSITORY]",
		Short: "List the versions of a state, newest first",
		Long: `List the versions of a state, newest first: who wrote each, and why. RUN is
the page of the CI job, or of the run on a server. A takeover removes the lock of a run that
is gone: it skips 100000 numbers, which that run may still use, and stores the previous
state above them. What that run still writes is kept below and never becomes current.`,
		Example: "  okara state history registry.example.com/state/shop -w prod",
		Args:    cobra.MaximumNArgs(1),
		RunE: f.withStore(reg, 1, &ws, func(cmd *cobra.Command, s *statebackend.Store, args []string) error {
			out := stateHistory{Repository: args[0], Workspace: ws, Versions: []statebackend.Version{}}
			rows := [][]string{{"VERSION", "CREATED", "SERIAL", "STORED", "WHO", "WHY", "RUN", "TOOL", ""}}
			for v, err := range s.History(cmd.Context(), ws) {
				if err != nil {
					return noState(err, args[0], ws)
				}
				if out.More = limit > 0 && uint(len(out.Versions)) == limit; out.More {
					break
				}
				if last := len(rows) - 1; last > 0 && states.OtherTool(v.Tool, out.Versions[last-1].Tool) {
					rows[last][len(rows[last])-1] += " after OpenTofu: compare with " + fmt.Sprint(v.N)
				}
				out.Versions = append(out.Versions, v)
				rows = append(rows, historyRow(v))
			}
			if len(out.Versions) == 0 {
				return noState(oci.ErrNotFound, args[0], ws)
			}
			if out.More {
				reg.Note("older versions not shown, use --limit 0 to show all")
			}
			return reg.PrintResult(out, cli.Table(rows))
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().UintVar(&limit, "limit", 20, "show at most `N` versions, 0 for all")
	return cmd
}

func historyRow(v statebackend.Version) []string {
	mark := ""
	switch {
	case v.Deleted:
		mark = "deleted"
	case v.Empty:
		mark = "no state"
	case v.Encrypted:
		mark = "encrypted"
	}
	if v.Current {
		mark = "current " + mark
	}
	return []string{fmt.Sprint(v.N), cli.Timestamp(v.Created), fmt.Sprint(v.Serial), text.Size(v.Size), cli.OrDash(oneLine(v.By(), 40)), cli.OrDash(oneLine(v.Why(), 60)), cli.OrDash(oneLine(v.Run, 200)), cli.OrDash(v.Tool), mark}
}
