// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/manual"
)

func newDocs(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docs [TOPIC...]",
		Short: "Read okara's documentation, without a network",
		Long: `Read the documentation of this version, which is built into okara. TOPIC is a page, such as
use/start or start, or words to search for. Without a topic the list of all pages is printed.

A server shows the same pages below /ui/docs.

Exit codes: 0 done, 2 usage, 3 nothing found.`,
		Example: `  okara docs
  okara docs start
  okara docs expired key --json | jq -r '.[0].page'`,
		RunE: func(_ *cobra.Command, args []string) error {
			topic := strings.Join(args, " ")
			if topic == "" {
				topic = manual.Index
			}
			topic = strings.TrimPrefix(topic, "docs/")
			if p, ok := manual.Get(topic); ok {
				return a.PrintResult(map[string]string{"page": p.Name, "title": p.Title, "text": p.Text}, strings.TrimSuffix(p.Text, "\n"))
			}
			found := manual.Search(topic)
			if len(found) == 0 || strings.Contains(topic, "/") && !strings.Contains(topic, " ") {
				return cli.WithHint(&cli.ExitError{Code: cli.ExitNotFound, Err: fmt.Errorf("no page about %q", topic)}, "`okara docs` lists all pages")
			}
			rows := [][]string{{"PAGE", "TITLE"}}
			for _, p := range found {
				rows = append(rows, []string{p.Name, p.Title})
			}
			return a.PrintResult(found, cli.Table(rows))
		},
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		for _, p := range manual.Pages() {
			names = append(names, p.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func newMan(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true, // for package maintainers
		Short:  "Write the manual pages, one for each command",
		Long: `Write the manual pages into a folder, one for each command: okara.1,
okara-publish-module.1 and so on. The folder is created if missing.`,
		Example: `  okara man ~/.local/share/man/man1
  man okara-publish-module`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.UsageError("%w", err)
			}
			if err := cli.WriteManual(cmd.Root(), args[0], "okara "+a.Version, cli.BuildTime(a.Getenv)); err != nil {
				return err
			}
			return a.PrintResult(map[string]string{"folder": args[0]}, "")
		},
	}
}
