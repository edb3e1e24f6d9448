// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/statebackend"
)

func newStateDiff(reg *cli.Registries, f *stateFlags) *cobra.Command {
	var ws string
	var limit int
	cmd := &cobra.Command{
		Use:   "diff [REPOSITORY] A [B]",
		Short: "Compare two versions of a state by resource address",
		Long: `Compare version A with version B, or with the current one, by resource address.

Values are masked where the state marks them as sensitive, and where an
attribute's name says so (password, secret, token, private_key and the like).`,
		Example: "  okara state diff registry.example.com/infrastructure/tofu-state 41 42 -w prod",
		Args:    cobra.RangeArgs(1, 3),
		RunE: f.named(reg, 2, &ws, func(cmd *cobra.Command, args []string) error {
			var from, to int64 // 0: the current version
			for i, n := range []*int64{&from, &to}[:len(args)-1] {
				var err error
				if *n, err = versionArg(args[i+1]); err != nil {
					return err
				}
			}
			s, err := f.store(reg, args[0])
			if err != nil {
				return err
			}
			d, err := compareVersions(cmd.Context(), s, ws, from, to)
			if err != nil {
				return noState(err, args[0], ws)
			}
			d.Repository = args[0]
			return printDiff(reg.App, d, limit)
		}),
	}
	f.workspaceFlag(reg, cmd, &ws)
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `N` changed addresses, 0 for all")
	return cmd
}

// stateDiff is the result of state diff.
type stateDiff struct {
	Repository string          `json:"repository"`
	Workspace  string          `json:"workspace"`
	From       int64           `json:"from"`
	To         int64           `json:"to"`
	Changes    []states.Change `json:"changes"`
	More       bool            `json:"more"`
}

// compareVersions compares two versions, 0 being the current one.
func compareVersions(ctx context.Context, s *statebackend.Store, ws string, from, to int64) (stateDiff, error) {
	d := stateDiff{Workspace: ws, From: from, To: to}
	var docs [2]*states.Document
	for i, n := range []*int64{&d.From, &d.To} {
		state, v, err := read(ctx, s, ws, *n)
		if err != nil {
			return stateDiff{}, err
		}
		if docs[i], err = states.Parse(state); err != nil {
			return stateDiff{}, fmt.Errorf("version %d: %w", v.N, err)
		}
		*n = v.N
	}
	d.Changes = states.Diff(docs[0], docs[1])
	return d, nil
}

// printDiff prints the first changes, all of them if limit is 0.
func printDiff(a *cli.App, d stateDiff, limit int) error {
	if more := len(d.Changes) - limit; limit > 0 && more > 0 {
		d.Changes, d.More = d.Changes[:limit], true
		a.Note("%d more changes are not shown, --limit 0 shows all", more)
	}
	if len(d.Changes) == 0 {
		a.Note("no difference between version %d and version %d", d.From, d.To)
	}
	var lines []string
	for _, c := range d.Changes {
		lines = append(lines, c.String())
	}
	return a.PrintResult(d, strings.Join(lines, "\n"))
}
