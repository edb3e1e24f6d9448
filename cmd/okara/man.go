// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/seed-141914ff/okara/internal/cli"
)

func newMan(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Hidden: true, // for package maintainers
		Short:  "Write the manual pages, one for each command",
		Long: `Write the manual pages into a folder, one for each command: okara.1,
okara-publish-module.1 and so on. The folder is made if it is missing.`,
		Example: `  okara man ~/.local/share/man/man1
  man okara-publish-module`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.UsageError("%w", err)
			}
			header := &doc.GenManHeader{Title: "OKARA", Source: "okara " + a.Version, Manual: "okara"} // its date is SOURCE_DATE_EPOCH
			cmd.Root().DisableAutoGenTag = true
			keepLines(cmd.Root())
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return err
			}
			return a.PrintResult(map[string]string{"folder": args[0]}, "")
		},
	}
}

// keepLines has the text of each command shown as it is written: cobra takes it for
// Markdown, in which TF_TOKEN_... is emphasis.
func keepLines(cmd *cobra.Command) {
	if cmd.Long != "" {
		cmd.Long = "```\n" + cmd.Long + "\n```"
	}
	for _, c := range cmd.Commands() {
		keepLines(c)
	}
}
