// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newTemplateList(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what a server lets you launch",
		Long: `List the templates of a server (okara serve) that you may see, by name.

Exit codes: 0 done, 2 usage, 5 denied.`,
		Example: `  okara instance template list --server https://okara.example.com
  okara instance template list --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			list, err := c.Templates(ctx)
			if err != nil {
				return err
			}
			rows := [][]string{{"TEMPLATE", "STATE", "TITLE"}}
			for _, t := range list {
				rows = append(rows, []string{t.Name, templateState(t), t.Title})
			}
			return reg.PrintResult(list, cli.Table(rows))
		}),
	}
	f.add(reg, cmd, false)
	return cmd
}

// templateState says in a word whether a template can be launched.
func templateState(t api.Template) string {
	switch {
	case t.Invalid != "":
		return "invalid"
	case t.Paused != "":
		return "paused"
	case !t.Enabled:
		return "disabled"
	}
	return "ready"
}
