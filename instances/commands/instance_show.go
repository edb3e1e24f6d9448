// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

func newInstanceShow(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an instance",
		Long:    "Show an instance: its status, what it is waiting for, how to reach it, and its\nlatest events.\n\n" + instanceHelp,
		Example: "  okara instance show abcdefgh23",
		Args:    cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			instance, err := c.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(instance, instanceText(instance, time.Now()))
		}),
	}
	f.addTo(reg, cmd, false)
	return cmd
}

func instanceText(instance api.Instance, now time.Time) string {
	rows := [][]string{}
	add := func(name, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{name, value})
		}
	}
	add("id", instance.ID)
	add("name", instance.Name)
	add("template", instance.Template)
	add("module", instance.Source.Module+" "+instance.Source.Version)
	add("owner", ownerWords(instance.Owner))
	add("phase", strings.TrimSpace(stateWords(instance)+"  "+instance.Reason))
	for _, c := range instance.Conditions {
		add("", strings.TrimSpace(c.Type+" "+c.Reason+"  "+c.Message))
	}
	add("run", runWords(instance.Run))
	add("plan", instance.Plan)
	if p := instance.Pending; p != nil {
		add("", "waiting for approval, requested by "+personWords(p.By))
	}
	if o := instance.Offer; o != nil {
		add("offered", "to "+ownerWords(o.To)+" by "+personWords(o.By)+", until "+cli.Timestamp(o.Until))
		add("", o.Refused)
	}
	switch {
	case timeLeft(instance, now) == "-":
	case beginsLater(instance):
		add("ends", timeLeft(instance, now)+" after it is ready")
	default:
		add("ends", cli.Timestamp(instance.ExpiresAt)+", in "+timeLeft(instance, now))
	}
	if instance.ExtendsMax > 0 {
		add("extended", fmt.Sprintf("%d of %d times", instance.Extends, instance.ExtendsMax))
	}
	if !instance.StopsAt.IsZero() {
		add("stops", cli.Timestamp(instance.StopsAt))
	}
	if !instance.StartsAt.IsZero() {
		add("starts", cli.Timestamp(instance.StartsAt))
	}
	add("protected", instance.Protected)
	if instance.Connection != nil {
		add("open", instance.Connection.URL)
		add("connect", instance.Connection.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(instance.Parameters)) {
		add("parameter", name+" = "+valueText(instance.Parameters[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(instance.Outputs)) {
		add("output", name+" = "+valueText(instance.Outputs[name]))
	}
	for _, e := range instance.Events {
		add("event", strings.TrimSpace(cli.Timestamp(e.At)+"  "+e.Action+"  "+e.Actor+"  "+text.Line(e.Detail)))
	}
	return cli.Table(rows)
}

// valueText returns a string unquoted, and any other value as JSON.
func valueText(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

func newInstanceList(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var filter portalclient.Filter
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instances, newest first",
		Long: `List the instances that you may see, newest first: your own, those of your
groups, and others' as far as your rights allow. Ended instances are
listed only with --all.

` + instanceHelp,
		Example: `  okara instance list
  okara instance list --owner mine
  okara instance list --template 'sandbox/*' --phase failed,destroy_failed`,
		Args: cobra.NoArgs,
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			if o := filter.Owner; o != "" && o != "me" && o != "mine" && o != "offered" && !strings.Contains(o, ":") {
				return cli.UsageError("--owner %q must be mine, me, offered, or KIND:ID such as group:team-a", o)
			}
			if filter.Phase == "" && !all {
				filter.Phase = "live"
			}
			list, err := c.Instances(ctx, filter)
			if err != nil {
				return err
			}
			rows := [][]string{{"ID", "TEMPLATE", "PHASE", "OWNER", "ENDS IN", "NAME"}}
			for _, instance := range list.Instances {
				rows = append(rows, []string{
					instance.ID, instance.Template, stateWords(instance), ownerWords(instance.Owner),
					timeLeft(instance, time.Now()), instance.Name,
				})
			}
			if list.Limit > 0 {
				reg.Note("you have %d of %d instances", list.Used, list.Limit)
			}
			if len(rows) == 1 {
				reg.Note("no instances")
				return reg.PrintResult(list, "")
			}
			return reg.PrintResult(list, cli.Table(rows))
		}),
	}
	f.addTo(reg, cmd, false)
	fl := cmd.Flags()
	fl.StringVar(&filter.Owner, "owner", "", "only instances of `OWNER`: me, mine (with my groups), KIND:ID, or offered (those offered to you)")
	fl.StringVar(&filter.Template, "template", "", "only instances of templates that match `GLOB`")
	fl.StringVar(&filter.Phase, "phase", "", "only instances in these `PHASES`, comma-separated")
	fl.BoolVar(&all, "all", false, "include ended instances")
	return cmd
}

func newInstanceOutputs(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var showSensitive bool
	cmd := &cobra.Command{
		Use:   "outputs ID [NAME]",
		Short: "Print the outputs of an instance",
		Long: `Print the outputs of an instance that its template lists, or the value of one.
Sensitive ones are shown as (sensitive). With --reveal the owner gets the value
of one from the state, and the server records it.

` + instanceHelp,
		Example: `  okara instance outputs abcdefgh23
  okara instance outputs abcdefgh23 password --reveal`,
		Args: cobra.RangeArgs(1, 2),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			switch {
			case len(args) == 2 && showSensitive:
				output, err := c.ShowSensitive(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				value := valueText(output.Value)
				if cli.IsTerminal(reg.Out) {
					value = text.Block(value)
				}
				return reg.PrintExact(output, value)
			case showSensitive:
				return cli.UsageError("--reveal requires the name of an output")
			}
			return printOutputs(ctx, reg.App, c, args)
		}),
	}
	f.addTo(reg, cmd, false)
	cmd.Flags().BoolVar(&showSensitive, "reveal", false, "print a sensitive value; the server records this")
	return cmd
}

func printOutputs(ctx context.Context, a *cli.App, c *portalclient.Client, args []string) error {
	all, err := c.Outputs(ctx, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		v, ok := all.Outputs[args[1]]
		if !ok {
			return cli.UsageError("instance %s has no output %q; outputs are %v", args[0], args[1], slices.Sorted(maps.Keys(all.Outputs)))
		}
		return a.PrintResult(v, valueText(v))
	}
	if len(all.Outputs) == 0 {
		if now, err := c.Instance(ctx, args[0]); err == nil && now.Phase == "destroyed" {
			return &cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("%s is destroyed: it has no outputs", args[0])}
		}
		a.Note("%s has no outputs", args[0])
	}
	rows := [][]string{}
	for _, name := range slices.Sorted(maps.Keys(all.Outputs)) {
		rows = append(rows, []string{name, valueText(all.Outputs[name])})
	}
	return a.PrintResult(all, cli.Table(rows))
}
