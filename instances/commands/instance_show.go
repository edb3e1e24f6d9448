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
		Long:    "Show an instance: its state, what it waits for, how to reach it, and what happened\nto it last.\n\n" + instanceHelp,
		Example: "  okara instance show abcdefgh23",
		Args:    cobra.ExactArgs(1),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			instance, err := c.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(instance, instanceText(instance, time.Now()))
		}),
	}
	f.add(reg, cmd, false)
	return cmd
}

// instanceText describes an instance.
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
		add("", "waits for approval, requested by "+personWords(p.By))
	}
	if o := instance.Offer; o != nil {
		add("offered", "to "+ownerWords(o.To)+" by "+personWords(o.By)+", until "+cli.Timestamp(o.Until))
		add("", o.Refused)
	}
	switch {
	case begins(instance):
		add("ends", left(instance, now)+" after it is ready")
	case !instance.ExpiresAt.IsZero():
		add("ends", cli.Timestamp(instance.ExpiresAt)+", in "+left(instance, now))
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
