// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func newInstanceLogs(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var n int
	var follow, plan bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the log of a run, or follow it",
		Long: `Print the log of a run of an instance: the output of tofu, without secrets. With
--follow new output is printed until the run ends; if the server stops, the
command continues with another one. Ctrl-C stops only the printing.

` + instanceHelp + `
6 with --follow: the run failed.`,
		Example: `  okara instance logs abcdefgh23 -f
  okara instance logs abcdefgh23 --run 2
  okara instance logs abcdefgh23 --plan`,
		Args: cobra.ExactArgs(1),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			if n == 0 {
				runs, err := c.Runs(ctx, args[0])
				if err != nil {
					return err
				}
				if len(runs) == 0 {
					return fmt.Errorf("instance %s has had no run: %w", args[0], oci.ErrNotFound)
				}
				n = runs[0].N
			}
			if follow && !plan {
				return followLog(ctx, reg.App, c, args[0], n)
			}
			return printLog(ctx, reg.App, c, args[0], n, plan)
		}),
	}
	f.add(reg, cmd, false)
	fl := cmd.Flags()
	fl.IntVar(&n, "run", 0, "number `N` of the run; the newest by default")
	fl.BoolVarP(&follow, "follow", "f", false, "print new output until the run ends")
	fl.BoolVar(&plan, "plan", false, "print the plan of the run instead")
	return cli.WithoutJSON(cmd, "`okara instance show ID --json` has what became of its runs")
}

func followLog(ctx context.Context, a *cli.App, c *portalclient.Client, id string, n int) error {
	result, err := c.Follow(ctx, id, n, a.Out)
	a.Printed = true
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return cli.WithHint(fmt.Errorf("the run continues: %w", ctx.Err()), "follow it again with `okara instance logs %s -f`", id)
	case err != nil:
		return err
	case result == "failed" || result == "lost":
		return cli.WithHint(cli.PartlyError("run %d: %s", n, text.Line(result)), "`okara instance show %s` says what comes next", id)
	}
	return nil
}

func printLog(ctx context.Context, a *cli.App, c *portalclient.Client, id string, n int, plan bool) error {
	open := c.Log
	if plan {
		open = c.Plan
	}
	from, err := open(ctx, id, n)
	if err != nil {
		return err
	}
	defer from.Close()
	a.Printed = true
	_, err = io.Copy(text.Writer(a.Out), from)
	return err
}
