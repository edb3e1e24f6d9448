// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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
			var docs [2]*stateDocument
			for i, n := range numbers {
				state, v, err := read(cmd.Context(), s, ws, n)
				if err != nil {
					return noState(err, args[0], ws)
				}
				if docs[i], err = parseStateDocument(state); err != nil {
					return fmt.Errorf("version %d: %w", v.N, err)
				}
				numbers[i] = v.N
			}
			changes := diffStates(docs[0], docs[1])
			shown := changes
			if limit > 0 && len(shown) > limit {
				shown = shown[:limit]
				a.note("%d more changes are not shown, --limit 0 shows all", len(changes)-limit)
			}
			if len(changes) == 0 {
				a.note("no difference between version %d and version %d", numbers[0], numbers[1])
			}
			return a.printResult(struct {
				Repository string        `json:"repository"`
				Workspace  string        `json:"workspace"`
				From       int64         `json:"from"`
				To         int64         `json:"to"`
				Changes    []stateChange `json:"changes"`
				More       bool          `json:"more"`
			}{args[0], ws, numbers[0], numbers[1], shown, len(shown) < len(changes)}, changesText(shown))
		},
	}
	f.workspaceFlag(a, cmd, &ws)
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `N` changed addresses, 0 for all")
	return cmd
}

func changesText(changes []stateChange) string {
	var lines []string
	for _, c := range changes {
		sign := map[string]string{actionAdd: "+", actionRemove: "-", actionChange: "~"}[c.Action]
		lines = append(lines, sign+" "+c.Address)
		for _, at := range c.Attributes {
			lines = append(lines, fmt.Sprintf("    %s: %s -> %s", at.Path, at.text(at.Before), at.text(at.After)))
		}
	}
	return strings.Join(lines, "\n")
}

// maxValueText bounds a value in a line for people; --json has it whole.
const maxValueText = 120

func (c attributeChange) text(value []byte) string {
	switch {
	case c.Sensitive:
		return "(sensitive)"
	case value == nil:
		return "(none)"
	}
	runes := []rune(string(value))
	if len(runes) > maxValueText {
		return string(runes[:maxValueText]) + "…"
	}
	return string(runes)
}
