// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
)

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
