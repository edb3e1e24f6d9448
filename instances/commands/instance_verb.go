// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/internal/cli"
)

// instanceVerbs are the commands that take only an id, and, with an example of one, a reason.
var instanceVerbs = []struct{ verb, short, long, reason string }{
	{"retry", "Retry what failed", `Retry what failed: the run of an instance in the phase failed, or the
destruction of one in the phase destroy_failed. If it is waiting for the next
attempt, that attempt starts immediately.`, ""},
	{"cancel", "Cancel what an instance is doing", `Cancel what an instance is doing: its run is interrupted, and a request or a
plan that waits for approval is withdrawn. Resources that exist stay until the
instance is destroyed. If it is waiting for the next attempt to destroy it, that
attempt waits until the next day, or until ` + "`okara instance retry`" + `.`, ""},
	{"protect", "Protect an instance from being destroyed", `Protect an instance from being destroyed, even when its lifetime ends. Owners may
do so if the template allows it, and their protection ends some time after the
lifetime; an admin's does not.`, ""},
	{"unprotect", "Remove the protection of an instance", `Remove the protection of an instance, so it is destroyed when its lifetime
ends or its owner asks for it. Only an admin can remove the protection of an
admin.`, ""},
	{"stop", "Stop an instance until it is started again", `Stop an instance, if its template names the input of the module that stops it.
It stays stopped until the schedule of the template starts it, or until
` + "`okara instance start`" + `. Its lifetime continues.`, ""},
	{"start", "Start an instance that was stopped", `Start an instance that was stopped, by the schedule of its template or by hand.
It runs until the schedule stops it, or until ` + "`okara instance stop`" + `.`, ""},
	{"take", "Take an instance that is offered to you", `Take an instance that is offered to you or one of your groups: it then belongs
to you or to that group, and counts against the same quota.
` + "`okara instance list --owner offered`" + `
lists what you may take.`, ""},
	{"decline", "Decline an instance that is offered to you", `Decline an instance that is offered to you: it stays with its owner, unchanged.`, ""},
	{"reject", "Reject someone else's request or plan", `Reject someone else's request or plan. An instance that was ready before stays
as it was; any other is destroyed.`, "too large for a test"},
	{"orphan", "Stop managing an instance, and keep its resources", `Stop managing an instance, and keep its resources: nothing is destroyed, and its state
stays. For admins, where destroying cannot succeed.`, "the account is closed"},
}

func newInstanceVerbs(reg *cli.Registries) (all []*cobra.Command) {
	for _, v := range instanceVerbs {
		var f portalFlags
		var body api.Reason
		var yes bool
		cmd := &cobra.Command{
			Use: v.verb + " ID", Short: v.short, Long: v.long + "\n\n" + instanceHelp,
			Example: "  okara instance " + v.verb + " abcdefgh23",
			Args:    cobra.ExactArgs(1),
		}
		cmd.RunE = f.instanceVerb(reg, func(ctx context.Context, c *portalclient.Client, id string) (api.Instance, error) {
			if v.verb == "unprotect" {
				if now, err := c.Instance(ctx, id); err == nil && now.Protected == "" {
					reg.Note("%s is not protected", id)
					return now, nil
				}
			}
			if v.reason == "" {
				return c.Verb(ctx, id, v.verb, nil)
			}
			if body.Reason == "" {
				return api.Instance{}, cli.UsageError("--reason is required")
			}
			if err := reg.ConfirmOverwrite(yes || v.verb != "orphan", "stop managing instance "+id+" and keep its resources"); err != nil {
				return api.Instance{}, err
			}
			return c.Verb(ctx, id, v.verb, body)
		})
		f.addTo(reg, cmd, true)
		if v.verb == "orphan" {
			cli.AddYes(cmd.Flags(), &yes)
		}
		if v.reason != "" {
			cmd.Use += " --reason TEXT"
			cmd.Example += " --reason '" + v.reason + "'"
			cmd.Flags().StringVar(&body.Reason, "reason", "", "reason `TEXT`, visible to others")
		}
		all = append(all, cmd)
	}
	return all
}

func newInstanceDestroy(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var w waitFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "destroy ID",
		Short: "Destroy an instance",
		Long: `Destroy an instance and everything that it created. A run is interrupted first.
Without --wait the command returns when the server has recorded the request. If
destroying fails, it is retried within hours, and then every day: --timeout
limits how long the command waits for that.

` + instanceHelp + `
6 with --wait: destroying failed, or continues after --timeout.`,
		Example: `  okara instance destroy abcdefgh23
  okara instance destroy abcdefgh23 --wait --timeout 15m`,
		Args: cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			if err := w.checkTimeout(); err != nil {
				return err
			}
			if err := reg.ConfirmOverwrite(yes, "destroy instance "+args[0]+" and all that it created"); err != nil {
				return err
			}
			instance, err := c.Destroy(ctx, args[0])
			if err != nil {
				return err
			}
			if w.wait {
				return w.waitUntil(ctx, reg.App, c, instance.ID)
			}
			return printInstance(reg.App, instance)
		}),
	}
	f.addTo(reg, cmd, true)
	w.addTo(cmd, "it is destroyed")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}

func newInstanceExtend(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var by, reason string
	cmd := &cobra.Command{
		Use:   "extend ID",
		Short: "Extend the lifetime of an instance",
		Long: `Extend the lifetime of an instance, by as much and as often as its template
allows. An admin may choose by how much.

` + instanceHelp,
		Example: `  okara instance extend abcdefgh23
  okara instance extend abcdefgh23 --by 2h`,
		Args: cobra.ExactArgs(1),
		RunE: f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			body := api.Extend{Reason: reason}
			if by != "" {
				var err error
				if body.By, err = span.Parse(by); err != nil {
					return cli.UsageError("--by %w", err)
				}
			}
			instance, err := c.Verb(ctx, args[0], "extend", body)
			if err != nil {
				return err
			}
			if instance.Pending != nil && instance.Pending.What == api.PendingExtend {
				reg.Note("the extension until %s is waiting for approval", cli.Timestamp(instance.Pending.Until))
			} else {
				reg.Note("it ends at %s", cli.Timestamp(instance.ExpiresAt))
			}
			return printInstance(reg.App, instance)
		}),
	}
	f.addTo(reg, cmd, true)
	cmd.Flags().StringVar(&by, "by", "", "how much longer, such as 2h (default: as set in the template)")
	cmd.Flags().StringVar(&reason, "reason", "", "reason `TEXT` for the approver")
	return cmd
}

func newInstanceUpdate(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var parameters []string
	var name, version, reason string
	var w waitFlags
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Change parameters, version or name of an instance",
		Long: `Change an instance: parameters that may be changed according to the template,
the version of its module, or its name. If an instance failed before it was ever
ready, all its parameters can be changed; those that are not named stay as they
are, and it is launched again. A parameter is written as for create. The name
must be changed on its own, which starts no run.

` + instanceHelp,
		Example: `  okara instance update abcdefgh23 -p size=large --wait
  okara instance update abcdefgh23 --version newest
  okara instance update abcdefgh23 --name demo`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
		body := api.Update{Version: version, Reason: reason}
		err := w.checkTimeout()
		if err == nil && len(parameters) > 0 {
			body.Parameters, err = parseParameters(parameters)
		}
		if cmd.Flags().Changed("name") {
			body.Name = &name
		}
		if err != nil {
			return err
		}
		if body.Parameters == nil && body.Name == nil && version == "" {
			return cli.UsageError("nothing to change: use -p, --version or --name")
		}
		instance, err := c.Verb(ctx, args[0], "update", body)
		if err == nil && instance.Pending != nil {
			reg.Note("the update of instance %s is waiting for approval", instance.ID)
		} else if err == nil && w.wait {
			return w.waitUntil(ctx, reg.App, c, instance.ID)
		}
		if err != nil {
			return err
		}
		return printInstance(reg.App, instance)
	})
	f.addTo(reg, cmd, true)
	fl := cmd.Flags()
	fl.StringArrayVarP(&parameters, "parameter", "p", nil, "value of a parameter, `NAME=VALUE`; may be repeated")
	fl.StringVar(&name, "name", "", "display `NAME`")
	fl.StringVar(&version, "version", "", "`VERSION` of the module, or newest: the newest that the template allows")
	fl.StringVar(&reason, "reason", "", "reason `TEXT` for the approver")
	w.addTo(cmd, "it is ready")
	return cmd
}

func newInstanceTransfer(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var to api.Transfer
	cmd := &cobra.Command{
		Use:   "transfer ID --to OWNER",
		Short: "Transfer an instance to another owner",
		Long: `Transfer an instance to another owner: between yourself and your groups, as far as
the template allows. An admin may transfer it to anyone. It counts against the
quota of the new owner.

To another user who has logged in to the portal, or a group that is not yours, it is
offered: it stays yours until it is taken, within a week, with
` + "`okara instance take`" + `. Transfer it to yourself to withdraw the offer.

` + instanceHelp,
		Example: `  okara instance transfer abcdefgh23 --to group:team-a
  okara instance transfer abcdefgh23 --to ben@example.com
  okara instance transfer abcdefgh23 --to user:248289761001 --issuer https://login.example.com`,
		Args: cobra.ExactArgs(1),
		RunE: f.instanceVerb(reg, func(ctx context.Context, c *portalclient.Client, id string) (api.Instance, error) {
			if to.To == "" {
				return api.Instance{}, cli.UsageError("--to is required")
			}
			instance, err := c.Verb(ctx, id, "transfer", to)
			if err == nil && instance.Offer != nil {
				reg.Note("offered to %s until %s; unchanged until it is taken", ownerWords(instance.Offer.To), cli.Timestamp(instance.Offer.Until))
			}
			return instance, err
		}),
	}
	f.addTo(reg, cmd, true)
	fl := cmd.Flags()
	fl.StringVar(&to.To, "to", "", "new `OWNER`: a name, a verified address, user:SUBJECT or group:NAME")
	fl.StringVar(&to.Issuer, "issuer", "", "issuer `URL` of the owner; your own by default, another one for admins only")
	fl.StringVar(&to.Label, "label", "", "display `NAME` of the owner, for admins")
	return cmd
}
