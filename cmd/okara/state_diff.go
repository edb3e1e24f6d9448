// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/statefile"
)

func newStateDiff(a *app, f *stateFlags) *cobra.Command {
	var ws string
	var limit int
	cmd := &cobra.Command{
		Use:   "diff REPOSITORY A [B]",
		Short: "Compare two versions of a state by resource address",
		Long: `Compare version A with version B, or with the current one, by resource address.

Values are masked where the state marks them as sensitive, and where an
attribute's name says so (password, secret, token, private_key and the like).`,
		Example: "  okara state diff registry.example.com/infrastructure/tofu-state 41 42 -w prod",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			numbers := []int64{0, 0}
			for i, arg := range args[1:] {
				n, err := versionArg(arg)
				if err != nil {
					return err
				}
				numbers[i] = n
			}
			s, err := f.store(a, args[0])
			if err != nil {
				return err
			}
			var docs [2]*statefile.Document
			for i, n := range numbers {
				state, v, err := read(cmd.Context(), s, ws, n)
				if err != nil {
					return noState(err, args[0], ws)
				}
				if docs[i], err = statefile.Parse(state); err != nil {
					return fmt.Errorf("version %d: %w", v.N, err)
				}
				numbers[i] = v.N
			}
			changes := statefile.Diff(docs[0], docs[1])
			shown := changes
			if limit > 0 && len(shown) > limit {
				shown = shown[:limit]
				a.note("%d more changes are not shown, --limit 0 shows all", len(changes)-limit)
			}
			if len(changes) == 0 {
				a.note("no difference between version %d and version %d", numbers[0], numbers[1])
			}
			return a.printResult(struct {
				Repository string             `json:"repository"`
				Workspace  string             `json:"workspace"`
				From       int64              `json:"from"`
				To         int64              `json:"to"`
				Changes    []statefile.Change `json:"changes"`
				More       bool               `json:"more"`
			}{args[0], ws, numbers[0], numbers[1], shown, len(shown) < len(changes)}, changesText(shown))
		},
	}
	f.workspaceFlag(a, cmd, &ws)
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `N` changed addresses, 0 for all")
	return cmd
}

func changesText(changes []statefile.Change) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}
