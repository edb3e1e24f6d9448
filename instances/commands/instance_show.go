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
)

func newInstanceShow(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show an instance",
		Long:    "Show an instance: how it is, what it waits for, how to reach it, and what happened\nto it last.\n\n" + instanceHelp,
		Example: "  okara instance show abcdefgh23",
		Args:    cobra.ExactArgs(1),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			one, err := c.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			return reg.PrintResult(one, instanceText(one, time.Now()))
		}),
	}
	f.add(reg, cmd, false)
	return cmd
}

// instanceText is an instance for people.
func instanceText(one api.Instance, now time.Time) string {
	rows := [][]string{}
	add := func(name, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{name, value})
		}
	}
	add("id", one.ID)
	add("name", one.Name)
	add("template", one.Template)
	add("module", one.Source.Module+" "+one.Source.Version)
	add("owner", ownerWords(one.Owner))
	add("phase", strings.TrimSpace(stateWords(one)+"  "+one.Reason))
	for _, c := range one.Conditions {
		add("", strings.TrimSpace(c.Type+" "+c.Reason+"  "+c.Message))
	}
	add("run", runWords(one.Run))
	add("plan", one.Plan)
	if p := one.Pending; p != nil {
		add("", "waits for approval, asked for by "+personWords(p.By))
	}
	if o := one.Offer; o != nil {
		add("offered", "to "+ownerWords(o.To)+" by "+personWords(o.By)+", until "+cli.Timestamp(o.Until))
		add("", o.Refused)
	}
	switch {
	case begins(one):
		add("ends", left(one, now)+" after it is ready")
	case !one.ExpiresAt.IsZero():
		add("ends", cli.Timestamp(one.ExpiresAt)+", in "+left(one, now))
	}
	if one.ExtendsMax > 0 {
		add("extended", fmt.Sprintf("%d of %d times", one.Extends, one.ExtendsMax))
	}
	if !one.StopsAt.IsZero() {
		add("stops", cli.Timestamp(one.StopsAt))
	}
	if !one.StartsAt.IsZero() {
		add("starts", cli.Timestamp(one.StartsAt))
	}
	add("protected", one.Protected)
	if one.Connection != nil {
		add("open", one.Connection.URL)
		add("connect", one.Connection.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(one.Parameters)) {
		add("parameter", name+" = "+valueText(one.Parameters[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(one.Outputs)) {
		add("output", name+" = "+valueText(one.Outputs[name]))
	}
	for _, e := range one.Events {
		add("event", strings.TrimSpace(cli.Timestamp(e.At)+"  "+e.Action+"  "+e.Actor+"  "+e.Detail))
	}
	return cli.Table(rows)
}

// valueText is a text as it is, and any other value as JSON.
func valueText(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}
