// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

const pauseHelp = `This needs the right admin on the template.

Exit codes: 0 done, 2 usage, 3 there is no such template, 5 denied.`

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
	cmd.Flags().StringVar(&reason, "reason", "", "why, in a `TEXT` that others can read")
	return cmd
}

func newTemplateResume(reg *cli.Registries) *cobra.Command {
	cmd := newTemplateChange(reg, func(ctx context.Context, c *portalclient.Client, name string) (api.Template, error) {
		return c.Resume(ctx, name)
	})
	cmd.Use = "resume TEMPLATE"
	cmd.Short = "Allow new instances of a template again"
	cmd.Long = `Allow new instances of a template again, also if its pool was paused after failures.

` + pauseHelp
	cmd.Example = "  okara instance template resume sandbox/vpc"
	return cmd
}

// newTemplateChange makes a command that changes the template named by its argument.
func newTemplateChange(reg *cli.Registries, change func(context.Context, *portalclient.Client, string) (api.Template, error)) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeTemplates(reg),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			t, err := change(ctx, c, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(t, text.Line(t.Name)+" "+templateState(t))
		}),
	}
	f.add(reg, cmd, true)
	return cmd
}
