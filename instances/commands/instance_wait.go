// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func newInstanceWait(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	w := waitFlags{wait: true}
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until an instance is ready or gone",
		Long: `Wait until an instance is ready, or is gone if it is being destroyed. Each
failed attempt is shown, with the time of the next one. The command does not
wait for an approval. Ctrl-C stops only the waiting: the instance continues.

` + instanceHelp + `
6 it failed, or was not done after --timeout and continues on its own.`,
		Example: `  okara instance wait abcdefgh23
  okara instance wait abcdefgh23 --timeout 20m && okara instance outputs abcdefgh23`,
		Args: cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			if err := w.checkTimeout(); err != nil {
				return err
			}
			return w.waitUntil(ctx, reg.App, c, args[0])
		}),
	}
	f.addTo(reg, cmd, false)
	w.addTimeout(cmd)
	return cmd
}

// waitFlags say whether a command waits for the result of its request, and how long.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

// addTo adds the flags to a command that waits on request; until names the end of the wait.
func (w *waitFlags) addTo(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until "+until)
	w.addTimeout(cmd)
}

func (w *waitFlags) addTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "maximum time to wait; 0: no limit")
}

// checkTimeout refuses a timeout without waiting, and an invalid timeout.
func (w *waitFlags) checkTimeout() error {
	switch {
	case w.timeout != 0 && !w.wait:
		return cli.UsageError("--timeout requires --wait")
	case w.timeout < 0:
		return cli.UsageError("--timeout %s is not a duration such as 15m", w.timeout)
	}
	return nil
}

// waitPause is the time between two requests to the server.
const waitPause = 2 * time.Second

// waitUntil waits until an instance's change has ended, prints it, and fails if the change did.
func (w *waitFlags) waitUntil(ctx context.Context, a *cli.App, c *portalclient.Client, id string) error {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	printed := ""
	for {
		instance, err := c.Instance(ctx, id)
		if err == nil {
			if line := waitLine(instance); line != printed {
				a.Note("%s", line)
				printed = line
			}
			if isSettled(instance) {
				return printFinal(a, instance)
			}
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(waitPause):
				continue
			}
		}
		if ctx.Err() == nil {
			return err
		}
		return w.unfinishedWait(ctx.Err(), id)
	}
}

// unfinishedWait returns the error for a wait that ended before the instance was done.
func (w *waitFlags) unfinishedWait(why error, id string) error {
	err := fmt.Errorf("instance %s continues: %w", id, why)
	if errors.Is(why, context.DeadlineExceeded) {
		err = cli.PartlyError("instance %s is not done after %s; it continues", id, w.timeout)
	}
	return cli.WithHint(err, "wait again with `okara instance wait %s`, or destroy it with `okara instance destroy %s`", id, id)
}

// isSettled reports whether an instance stays as it is until a user acts.
func isSettled(instance api.Instance) bool {
	switch instance.Phase {
	case "provisioning", "updating", "destroying":
		return false
	}
	return true
}

func waitLine(instance api.Instance) string {
	var line strings.Builder
	line.WriteString(instance.ID + " " + instance.Phase)
	if instance.Run != nil {
		line.WriteString(", run " + runWords(instance.Run))
	}
	if instance.Run != nil && !instance.Run.NotBefore.IsZero() {
		line.WriteString(", next attempt at " + cli.Timestamp(instance.Run.NotBefore))
	}
	for _, c := range instance.Conditions {
		if c.Type == "Waiting" {
			line.WriteString(", waits: " + c.Reason)
			if c.Message != "" {
				line.WriteString(" (" + c.Message + ")")
			}
		}
	}
	return text.Line(line.String())
}

func printFinal(a *cli.App, instance api.Instance) error {
	if err := printInstance(a, instance); err != nil {
		return err
	}
	switch instance.Phase {
	case "failed", "destroy_failed":
		err := cli.PartlyError("instance %s: %s", instance.ID, text.Line(instance.Phase+": "+instance.Reason))
		return cli.WithHint(err, "see `okara instance logs %s`, then run `okara instance retry %s`", instance.ID, instance.ID)
	case "rejected":
		return cli.PartlyError("instance %s was rejected: %s", instance.ID, text.Line(instance.Reason))
	case "requested", "planned":
		a.Note("waiting for approval")
	}
	return nil
}

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
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			runs, err := c.Runs(ctx, args[0])
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				return fmt.Errorf("instance %s has no runs: %w", args[0], oci.ErrNotFound)
			}
			if n == 0 {
				n = runs[0].N
			}
			if first, last := runs[len(runs)-1].N, runs[0].N; n < first || n > last {
				return cli.WithHint(fmt.Errorf("instance %s has no run %d: %w", args[0], n, oci.ErrNotFound), "its runs are %d to %d", first, last)
			}
			if follow && !plan {
				return followLog(ctx, reg.App, c, args[0], n)
			}
			return printLog(ctx, reg.App, c, args[0], n, plan)
		}),
	}
	f.addTo(reg, cmd, false)
	fl := cmd.Flags()
	fl.IntVar(&n, "run", 0, "number `N` of the run; the newest by default")
	fl.BoolVarP(&follow, "follow", "f", false, "print new output until the run ends")
	fl.BoolVar(&plan, "plan", false, "print the plan of the run instead")
	return cli.WithoutJSON(cmd, "use `okara instance show ID --json` for the results of its runs")
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
		return cli.WithHint(cli.PartlyError("run %d: %s", n, text.Line(result)), "`okara instance show %s` shows what comes next", id)
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
