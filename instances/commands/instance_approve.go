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
	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

func newInstanceApprove(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var plan, reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve ID",
		Short: "Approve someone else's request or plan",
		Long: `Approve someone else's request or plan. The request is shown first: who requested
it and why, current and new values, version and digest of the module, the
differences between its versions, and the whole plan if there is one, with its
cost if the server has prices. Then the command asks for confirmation, unless
--yes is given. Only what was shown is approved: if it has changed since, nothing
is done.

With --plan nothing is shown and there is no prompt: exactly the given plan
is approved, as ` + "`okara instance show`" + ` prints it.

` + instanceHelp,
		Example: `  okara instance approve abcdefgh23
  okara instance approve abcdefgh23 --plan sha256:...`,
		Args: cobra.ExactArgs(1),
		RunE: f.instanceVerb(reg, func(ctx context.Context, c *portalclient.Client, id string) (api.Instance, error) {
			if plan == "" {
				var err error
				if plan, err = confirmApproval(ctx, reg.App, c, id, yes); err != nil {
					return api.Instance{}, err
				}
			}
			return c.Verb(ctx, id, "approve", api.Approve{Plan: plan, Reason: reason})
		}),
	}
	f.addTo(reg, cmd, true)
	cmd.Flags().StringVar(&plan, "plan", "", "the `PLAN` that you reviewed")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for the requester and the owner")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "show it, and approve it without a confirmation prompt")
	return cmd
}

// confirmApproval shows what waits for approval, asks, and returns the digest to approve.
func confirmApproval(ctx context.Context, a *cli.App, c *portalclient.Client, id string, yes bool) (string, error) {
	instance, err := c.Instance(ctx, id)
	if err != nil {
		return "", err
	}
	p := instance.Pending
	if p == nil || instance.Plan == "" {
		return "", &cli.ExitError{Code: cli.ExitConflict, Err: cli.WithHint(fmt.Errorf("instance %s has nothing for you to approve", id), "`okara instance list --phase approval` lists pending approvals")}
	}
	words := pendingText(instance, time.Now())
	if p.Run != 0 {
		plan, err := readWholePlan(ctx, c, id, p.Run)
		if err != nil {
			return "", err
		}
		words += "\n" + plan
	}
	fmt.Fprintf(a.Err, "%s\nAbout to approve %s\n", colorPlan(words, cli.IsTerminal(a.Err)), text.Line(instance.Plan))
	return instance.Plan, a.Confirm(yes, "Approve this")
}

// readWholePlan reads the plan of a run. A plan that cannot be read completely is refused.
func readWholePlan(ctx context.Context, c *portalclient.Client, id string, n int) (string, error) {
	from, err := c.Plan(ctx, id, n)
	if err != nil {
		return "", fmt.Errorf("cannot show the plan of run %d, nothing was approved: %w", n, err)
	}
	defer from.Close()
	var words strings.Builder
	size, err := io.Copy(text.Writer(&words), io.LimitReader(from, plantext.Max+1))
	if err == nil && size > plantext.Max {
		err = errors.New("plan too large to approve: limit 1 MiB")
	}
	return words.String(), err
}

func pendingText(instance api.Instance, now time.Time) string {
	p := instance.Pending
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("instance", strings.TrimSpace(instance.ID+" "+instance.Name))
	add("template", instance.Template)
	if p.TemplateWas != "" && p.TemplateWas != p.Template {
		add("", "it has changed: "+p.TemplateWas+" -> "+p.Template)
	}
	add("owner", ownerWords(instance.Owner))
	add("request", map[string]string{api.PendingLaunch: "launch", api.PendingUpdate: "update", api.PendingPlan: "plan", api.PendingExtend: "extension"}[p.What])
	add("requested by", personWords(p.By)+", "+cli.Age(now.Sub(p.At))+" ago")
	if p.First != nil {
		add("first requested", personWords(p.First))
	}
	add("reason", p.Reason)
	if u := instance.Run; u != nil && u.N == p.Run {
		add("costs", u.Cost.String())
		for _, n := range u.Notes {
			add(map[string]string{lifecycle.NoteForget: "forgets", lifecycle.NoteImport: "imports", lifecycle.NoteCheck: "check failed"}[n.Kind], n.Text)
		}
	}
	add("module", fromTo(p.Was, p.Source, func(s api.Source) string { return strings.TrimSpace(s.Module + " " + s.Version) }))
	add("digest", fromTo(p.Was, p.Source, func(s api.Source) string { return s.Digest }))
	for _, c := range p.Changes {
		add("changes", changeWords(c))
	}
	if p.Left > 0 {
		add("changes", fmt.Sprintf("and %d more", p.Left))
	}
	add("not compared", p.Uncompared)
	if p.TTL != 0 {
		add("lifetime", p.TTL.String())
	}
	if !p.Until.IsZero() {
		add("ends", cli.Timestamp(p.Ends)+" -> "+cli.Timestamp(p.Until))
	}
	for _, v := range p.Values {
		add("value", valueWords(v))
	}
	return cli.Table(rows)
}

func fromTo(was *api.Source, is api.Source, of func(api.Source) string) string {
	if was == nil || of(*was) == of(is) {
		return of(is)
	}
	return of(*was) + " -> " + of(is)
}

func changeWords(c api.ModuleChange) string {
	words := c.What + " " + c.Name + " " + c.Change
	if c.Detail != "" {
		words += ": " + c.Detail
	}
	switch {
	case c.Breaking: // all that an older server says of effects
		words += " (breaks)"
	case c.Effect != "" && c.Effect != "new":
		words += " (" + c.Effect + ")"
	}
	return words
}

func valueWords(v api.ValueChange) string {
	show := func(raw []byte) string {
		if raw == nil {
			return "(none)"
		}
		return string(raw)
	}
	switch {
	case !v.Changed, v.Old == nil:
		return v.Name + " = " + show(v.New)
	}
	return v.Name + " = " + show(v.Old) + " -> " + show(v.New)
}

func personWords(p *api.Person) string {
	switch {
	case p == nil:
		return "the server"
	case p.Label != "" && p.Label != p.Subject:
		return p.Label + " (" + p.Subject + ")"
	}
	return p.Subject
}

// colorPlan colors the lines of a plan for a terminal (ECMA-48, 8.3.117).
func colorPlan(plan string, terminal bool) string {
	if !terminal {
		return plan
	}
	codes := map[string]string{"add": "32", "remove": "31", "change": "33", "replace": "35"}
	var b strings.Builder
	for line := range strings.Lines(plan) {
		line = strings.TrimSuffix(line, "\n")
		if code, ok := codes[plantext.Effect(line)]; ok {
			line = "\x1b[" + code + "m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
