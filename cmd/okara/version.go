// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and build of okara",
		Hidden:  true, // --version is shown
		Example: `  okara version --json | jq -r .version`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildinfo.Read()
			return a.PrintResult(b, builtFrom(b))
		},
	}
}

func builtFrom(b buildinfo.Info) string {
	from := []string{b.Go, b.Platform}
	if b.Commit != "" {
		commit := "commit " + b.Commit
		if !b.Date.IsZero() {
			commit += " of " + b.Date.Format(time.DateOnly)
		}
		if b.Modified {
			commit += " with changes"
		}
		from = append([]string{commit}, from...)
	}
	return "okara " + b.Version + " (" + strings.Join(from, ", ") + ")"
}
