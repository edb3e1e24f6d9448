// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const instanceHelp = `Exit codes: 0 done, 2 usage, 3 instance not found or not visible to you, 4 not
possible now, or quota exceeded, 5 denied.`

// Add adds the commands of instances to the tree and to doctor. Groups before theirs must be there.
func Add(root, doctor *cobra.Command, reg *cli.Registries) {
	root.AddGroup(&cobra.Group{ID: "instances", Title: "Instances:"})
	root.AddCommand(newInstance(reg), newInstanceExec(), newInstanceEnter(), newInstanceRun(reg.App))
	doctor.AddCommand(newDoctorInstances(reg))
}

func newInstance(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("instance", "instances", "Launch templates, and manage their instances")
	cmd.Long = `Launch templates of a server (okara serve), and manage their instances.

Every command except "ledger" uses the server set by --server or OKARA_SERVER,
with the token of --token-file or OKARA_TOKEN, or else the token that ` + "`tofu login`" + `
stored.

ID is the ID of an instance, ten letters and digits, or the name of one of your own
that has not ended.`
	cmd.AddCommand(
		newInstanceCreate(reg), newInstanceList(reg), newInstanceShow(reg), newInstanceWait(reg), newInstanceLogs(reg), newInstanceOutputs(reg),
		newInstanceExtend(reg), newInstanceUpdate(reg), newInstanceApprove(reg), newInstanceTransfer(reg), newInstanceDestroy(reg),
		newInstanceLedger(reg), newInstanceClock(reg),
	)
	cmd.AddCommand(newInstanceVerbs(reg)...)
	cmd.AddCommand(newInstanceAdopt(reg), newTemplate(reg))
	return cmd
}

type portalFlags struct {
	server cli.ServerFlags
	key    string
}

// addTo gives a command the flags, and completes the id that is its first argument.
func (f *portalFlags) addTo(reg *cli.Registries, cmd *cobra.Command, changes bool) {
	f.server.AddRequired(cmd.Flags())
	if changes {
		cmd.Flags().StringVar(&f.key, "idempotency-key", "", "idempotency `KEY`, to repeat a change after its response was lost; it is applied only once")
		reg.KeepOldName(cmd.Flags(), "idempotency-key", "key")
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = f.completeIDs(reg)
	}
}

func (f *portalFlags) openPortal(reg *cli.Registries) (*portalclient.Client, error) {
	front, err := cli.OpenServer(reg, f.server)
	return &portalclient.Client{Front: front, Key: f.key}, err
}

func (f *portalFlags) withClient(reg *cli.Registries, ask func(ctx context.Context, c *portalclient.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.openPortal(reg)
		if err != nil {
			return err
		}
		_, after, _ := strings.Cut(cmd.Use, " ")
		named := strings.HasPrefix(after, "ID") && args[0] != ""
		if !named || addr.CheckInstance(args[0]) == nil {
			err = ask(cmd.Context(), c, args)
			if e, ok := errors.AsType[*client.Error](err); !named || !ok || e.Status != http.StatusNotFound {
				return instanceError(err, args)
			} // it may be a name that looks like an ID
		}
		byID, wrong := nameToID(cmd.Context(), c, args)
		if wrong != nil || err != nil && byID[0] == args[0] {
			return instanceError(cmp.Or(err, wrong), args)
		}
		return instanceError(ask(cmd.Context(), c, byID), byID)
	}
}

// nameToID replaces the name of a live instance of the caller's own, the first argument, by its ID.
func nameToID(ctx context.Context, c *portalclient.Client, args []string) ([]string, error) {
	list, err := c.Instances(ctx, portalclient.Filter{Owner: "mine", Phase: "live"})
	var ids []string
	for _, i := range list.Instances {
		if i.Name == args[0] {
			ids = append(ids, i.ID)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(ids) > 1:
		return nil, cli.UsageError("several instances have the name %q, specify one by its ID: %s", args[0], strings.Join(ids, ", "))
	case ids == nil:
		return args, nil
	}
	return append(ids, args[1:]...), nil
}

// instanceVerb makes the RunE of a command from a change of its first argument, an instance.
func (f *portalFlags) instanceVerb(reg *cli.Registries, change func(ctx context.Context, c *portalclient.Client, id string) (api.Instance, error)) func(*cobra.Command, []string) error {
	return f.withClient(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
		instance, err := change(ctx, c, args[0])
		if err != nil {
			return err
		}
		return printInstance(reg.App, instance)
	})
}

func instanceError(err error, args []string) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	id := "ID"
	if len(args) > 0 && addr.CheckInstance(args[0]) == nil { // else it is a template
		id = args[0]
	}
	switch {
	case e.Reason == api.ReasonQuota:
		err = cli.WithHint(err, "destroy one that you no longer need: `okara instance list --owner me`, `okara instance destroy ID`")
	case e.Reason == api.ReasonStalePlan:
		err = cli.WithHint(err, "review it again: `okara instance show %s`", id)
	case e.Reason == api.ReasonProtected:
		err = cli.WithHint(err, "remove the protection first: `okara instance unprotect %s`", id)
	case e.Reason == api.ReasonPhase || e.Reason == api.ReasonExtends || e.Reason == api.ReasonNoEnd:
		err = cli.WithHint(err, "`okara instance show %s` shows its status", id)
	case e.Reason == api.ReasonPaused:
		err = cli.WithHint(err, "it cannot be launched at the moment; ask your administrator")
	case errors.Is(err, oci.ErrUnauthenticated):
		return cli.WithHint(err, "log in with `tofu login HOST`, or give a token with --token-file FILE or OKARA_TOKEN")
	case e.Text == "unknown path":
		return cli.WithHint(err, "this server has no instances, or it is not the address of `okara serve`")
	case errors.Is(err, oci.ErrNotFound) && id == "ID" && strings.Contains(e.Text, "template"):
		return cli.WithHint(err, "`okara instance template list` shows the templates that you may use")
	case errors.Is(err, oci.ErrNotFound):
		return cli.WithHint(err, "`okara instance list` and `okara instance template list` show what you can access; check that this is the address of `okara serve`")
	case errors.Is(err, oci.ErrDenied):
		return cli.WithHint(err, "the token is valid, but lacks the right %s", cmp.Or(cli.LackedRight(err), "to do this"))
	}
	switch {
	case e.Status == http.StatusUnprocessableEntity && strings.HasPrefix(e.Text, "parameter"):
		return cli.WithHint(&cli.ExitError{Code: cli.ExitUsage, Err: err}, "`okara instance template show TEMPLATE` lists the parameters and their values")
	case e.Status == http.StatusUnprocessableEntity:
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case e.Reason != "" && e.Status < http.StatusInternalServerError && e.Status != http.StatusTooManyRequests && e.Reason != api.ReasonDenied:
		return &cli.ExitError{Code: cli.ExitConflict, Err: err}
	}
	return err
}

func printInstance(a *cli.App, instance api.Instance) error {
	return a.PrintResult(instance, text.Line(instance.ID+" "+instance.Phase))
}

func stateWords(i api.Instance) string {
	switch {
	case !i.Stopped || i.Phase != "ready":
		return i.Phase
	case i.StoppedUntil == "":
		return "stopped"
	}
	return text.Line("stopped until " + i.StoppedUntil)
}

func ownerWords(o *api.Owner) string {
	switch {
	case o == nil:
		return "-"
	case o.Kind == "user" && o.Label != "":
		return text.Line(o.Label)
	}
	return text.Line(o.Kind + ":" + o.ID)
}

func timeLeft(i api.Instance, now time.Time) string {
	switch {
	case i.ExpiresAt.IsZero(), !lifecycle.Phase(i.Phase).Live(), slices.Contains([]string{"destroying", "destroy_failed"}, i.Phase):
		return "-"
	case beginsLater(i):
		return cli.Age(time.Duration(i.TTL))
	case !i.ExpiresAt.After(now):
		return "over"
	}
	return cli.Age(i.ExpiresAt.Sub(now))
}

func beginsLater(i api.Instance) bool {
	return i.TTL != 0 && i.ReadyAt.IsZero() && slices.Contains([]string{"requested", "planned", "provisioning"}, i.Phase)
}

// completeIDs completes the id of an instance, and shows its template.
func (f *portalFlags) completeIDs(reg *cli.Registries) cobra.CompletionFunc {
	return f.completeWord(reg, func(ctx context.Context, c *portalclient.Client) (names []string, err error) {
		all, err := c.Instances(ctx, portalclient.Filter{Phase: "live"})
		for _, listed := range all.Instances {
			names = append(names, listed.ID+"\t"+text.Line(strings.TrimSpace(listed.Template+" "+listed.Name)))
		}
		return names, err
	})
}

func (f *portalFlags) completeTemplates(reg *cli.Registries) cobra.CompletionFunc {
	return f.completeWord(reg, func(ctx context.Context, c *portalclient.Client) (names []string, err error) {
		all, err := c.Templates(ctx)
		for _, t := range all {
			names = append(names, text.Line(t.Name)+"\t"+text.Line(t.Title))
		}
		return names, err
	})
}

// completeWord completes the first argument with words of the server; on an error with none.
func (f *portalFlags) completeWord(reg *cli.Registries, words func(context.Context, *portalclient.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (all []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompleteTimeout)
		defer cancel()
		if c, err := f.openPortal(reg); err == nil && len(args) == 0 {
			if all, err = words(ctx, c); err != nil {
				all = nil
			}
		}
		return slices.DeleteFunc(all, func(candidate string) bool { return !strings.HasPrefix(candidate, word) }), cobra.ShellCompDirectiveNoFileComp
	}
}

func runWords(u *api.Run) string {
	if u == nil {
		return "-"
	}
	words := fmt.Sprintf("%d %s", u.N, u.Kind)
	if u.Attempt > 1 {
		words += fmt.Sprintf(", attempt %d", u.Attempt)
	}
	if u.Position > 0 {
		words += fmt.Sprintf(", position %d in the queue", u.Position)
	}
	return text.Line(words)
}
