// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

func newTemplateList(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the templates that you can launch",
		Long: `List the templates of a server (okara serve) that you may see, by name.

Exit codes: 0 done, 2 usage, 5 denied.`,
		Example: `  okara instance template list --server https://okara.example.com
  okara instance template list --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
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
	f.addTo(reg, cmd, false)
	return cmd
}

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

func newTemplateShow(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:   "show TEMPLATE",
		Short: "Show a template and its parameters",
		Long: `Show the parameters of a template of a server (okara serve) with their values and
defaults, and what happens to its instances.

Exit codes: 0 done, 2 usage, 3 template not found or not visible to you, 5 denied.`,
		Example:           "  okara instance template show sandbox/vpc --server https://okara.example.com",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeTemplates(reg),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			t, err := c.Template(ctx, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(t, cli.Table(templateRows(t)))
		}),
	}
	f.addTo(reg, cmd, false)
	return cmd
}

func parameterText(p api.Parameter) string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(p.Required, "required")
	add(p.Sensitive, "sensitive")
	add(p.Default != nil && !p.Sensitive, "default %s", p.Default)
	add(len(p.Enum) > 0, "must be %s", joinValues(p.Enum))
	add(p.Pattern != "", "matches %s", p.Pattern)
	if p.Minimum != nil {
		add(true, "at least %v", *p.Minimum)
	}
	if p.Maximum != nil {
		add(true, "at most %v", *p.Maximum)
	}
	for _, name := range slices.Sorted(maps.Keys(p.When)) {
		add(true, "only when %s is %s", name, joinValues(p.When[name]))
	}
	words := strings.TrimSpace(p.Name + "  " + p.Title)
	if all != nil {
		words += "  (" + strings.Join(all, ", ") + ")"
	}
	return words
}

func joinValues(values []json.RawMessage) string {
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return strings.Join(texts, " or ")
}

func lifetimeText(ttl *api.TTL) string {
	if ttl == nil {
		return "no end"
	}
	words := ttl.Default.String()
	if ttl.Max > 0 {
		words += ", at most " + ttl.Max.String()
	}
	if ttl.Extends > 0 {
		words += ", can be extended " + text.Plural(ttl.Extends, "time")
	}
	if ttl.Extend > 0 {
		words += " by " + ttl.Extend.String()
	}
	return strings.TrimSuffix(words+", then "+ttl.OnExpire, ", then ")
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
	row("lifetime", lifetimeText(t.TTL))
	row("hours", t.Hours)
	for _, p := range t.Parameters {
		p.Sensitive = p.Sensitive && t.Invalid == "" // unknown without the module
		row("parameter", parameterText(p))
	}
	row("outputs", strings.Join(t.Outputs, ", "))
	if t.Pool != nil {
		row("pool", fmt.Sprintf("%d of %d ready", t.Pool.Available, t.Pool.Size))
	}
	return rows
}

const pauseHelp = `This requires the right admin on the template.

Exit codes: 0 done, 2 usage, 3 template not found, 5 denied.`

func newTemplatePause(reg *cli.Registries) *cobra.Command {
	var reason string
	cmd := newTemplateChange(reg, func(ctx context.Context, c *portalclient.Client, name string) (api.Template, error) {
		return c.Pause(ctx, name, reason)
	})
	cmd.Use = "pause TEMPLATE"
	cmd.Short = "Refuse new instances of a template"
	cmd.Long = `Refuse new instances of a template, and stop filling its pool. Existing
instances are not affected.

` + pauseHelp
	cmd.Example = "  okara instance template pause sandbox/vpc --reason 'the account is full'"
	cmd.Flags().StringVar(&reason, "reason", "", "reason `TEXT`, visible to others")
	return cmd
}

func newTemplateResume(reg *cli.Registries) *cobra.Command {
	cmd := newTemplateChange(reg, func(ctx context.Context, c *portalclient.Client, name string) (api.Template, error) {
		return c.Resume(ctx, name)
	})
	cmd.Use = "resume TEMPLATE"
	cmd.Short = "Allow new instances of a template again"
	cmd.Long = `Allow new instances of a template again, even if its pool was paused after failures.

` + pauseHelp
	cmd.Example = "  okara instance template resume sandbox/vpc"
	return cmd
}

func newTemplateChange(reg *cli.Registries, change func(context.Context, *portalclient.Client, string) (api.Template, error)) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeTemplates(reg),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			t, err := change(ctx, c, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(t, text.Line(t.Name)+" "+templateState(t))
		}),
	}
	f.addTo(reg, cmd, true)
	return cmd
}
