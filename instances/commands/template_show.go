// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newTemplateShow(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:   "show TEMPLATE",
		Short: "Show a template and its parameters",
		Long: `Show the parameters of a template of a server (okara serve), and what happens to
its instances.

Exit codes: 0 done, 2 usage, 3 there is no such template that you may see, 5 denied.`,
		Example:           "  okara instance template show sandbox/vpc --server https://okara.example.com",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeTemplates(reg),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			t, err := c.Template(ctx, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(t, cli.Table(templateRows(t)))
		}),
	}
	f.add(reg, cmd, false)
	return cmd
}

// parameterWhen describes when a parameter applies.
func parameterWhen(p api.Parameter) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.When)) {
		var values []string
		for _, value := range p.When[name] {
			values = append(values, string(value))
		}
		all = append(all, name+" is "+strings.Join(values, " or "))
	}
	if all == nil {
		return ""
	}
	return "  (only when " + strings.Join(all, ", and ") + ")"
}

func templateRows(t api.Template) [][]string {
	rows := [][]string{{"template", t.Name}}
	row := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	row("title", t.Title)
	row("state", templateState(t))
	row("reason", t.Invalid+t.Paused)
	row("module", strings.TrimSpace(t.Module+" "+t.Version))
	row("owner", t.Owner)
	row("approval", t.Approval)
	for _, p := range t.Parameters {
		row("parameter", strings.TrimSpace(p.Name+"  "+p.Title)+parameterWhen(p))
	}
	row("outputs", strings.Join(t.Outputs, ", "))
	if t.Pool != nil {
		row("pool", fmt.Sprintf("%d of %d ready", t.Pool.Available, t.Pool.Size))
	}
	return rows
}
