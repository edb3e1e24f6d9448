// SPDX-License-Identifier: Apache-2.0

package main

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

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/workspaceclient"
	"github.com/seed-141914ff/okara/oci"
)

const workspaceHelp = `Exit codes: 0 done, 2 usage, 3 workspace not found, 4 it already exists, is locked or has
resources, 5 denied.`

func newWorkspace(reg *cli.Registries) *cobra.Command {
	cmd := cli.Parent("workspace", "state", "Create, list and delete the workspaces of a cloud block")
	cmd.Long = `Create, list and delete the workspaces that a cloud block or backend "remote" uses on a
server (okara serve).

ORGANIZATION is the organization of that block, and the NAME of /state/NAME. Requests go
to the server that --server or OKARA_SERVER specifies, with the token of --token-file or
OKARA_TOKEN, else the one that ` + "`tofu login`" + ` stored. The server checks the rights. "okara state" works without a server, but does not show tags.`
	cmd.AddCommand(newWorkspaceList(reg), newWorkspaceCreate(reg), newWorkspaceDelete(reg), newVariable(reg))
	return cmd
}

type workspaceFlags struct{ server cli.ServerFlags }

// addTo gives a command the flags, and completes its first argument: an organization, or with
// whole a workspace in one.
func (f *workspaceFlags) addTo(reg *cli.Registries, cmd *cobra.Command, whole bool) {
	f.server.AddRequired(cmd.Flags())
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompleteTimeout)
		defer cancel()
		return f.completeWorkspace(ctx, reg, word, whole)
	}
}

func (f *workspaceFlags) openWorkspaces(reg *cli.Registries) (*workspaceclient.Client, error) {
	front, err := cli.OpenServer(reg, f.server)
	return &workspaceclient.Client{Front: front}, err
}

// withWorkspace makes the RunE of a command from a function on the workspace that its argument names.
func (f *workspaceFlags) withWorkspace(reg *cli.Registries, run func(context.Context, *workspaceclient.Client, workspaceclient.Ref, []string) error) runFunc {
	return func(cmd *cobra.Command, args []string) error {
		p, err := workspaceclient.ParseRef(args[0])
		if err != nil {
			return workspaceError(err)
		}
		c, err := f.openWorkspaces(reg)
		if err != nil {
			return err
		}
		return workspaceError(run(cmd.Context(), c, p, args[1:]))
	}
}

// completeWorkspace gets completions from the server. On an error there are none, and no message.
func (f *workspaceFlags) completeWorkspace(ctx context.Context, reg *cli.Registries, word string, whole bool) ([]string, cobra.ShellCompDirective) {
	c, err := f.openWorkspaces(reg)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	directive := cobra.ShellCompDirectiveNoFileComp
	if organization, _, named := strings.Cut(word, "/"); named && whole {
		all, _ := c.List(ctx, organization, workspaceclient.Filter{})
		for _, w := range all {
			words = append(words, text.Line(organization+"/"+w.Name))
		}
	} else {
		words, _ = c.Organizations(ctx)
		for i := range words {
			if words[i] = text.Line(words[i]); whole {
				words[i] += "/"
				directive |= cobra.ShellCompDirectiveNoSpace
			}
		}
	}
	return slices.DeleteFunc(words, func(one string) bool { return !strings.HasPrefix(one, word) }), directive
}

func workspaceError(err error) error {
	if errors.Is(err, workspaceclient.ErrName) {
		return cli.UsageError("%w", err)
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok && errors.Is(err, oci.ErrNotFound):
		return cli.WithHint(err, "`okara workspace variable list` shows the variables")
	case !ok:
		return err
	case e.Status == http.StatusUnprocessableEntity:
		if reason, hint, ok := strings.Cut(err.Error(), " hint: "); ok {
			return cli.WithHint(cli.UsageError("%s", reason), "%s", hint)
		}
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	case errors.Is(err, oci.ErrUnauthenticated):
		return cli.WithHint(err, "log in with `tofu login HOST`, or give a token with --token-file FILE or OKARA_TOKEN")
	case errors.Is(err, oci.ErrDenied):
		return cli.WithHint(err, "the token is valid; ask for the right %s", cmp.Or(cli.LackedRight(err), "write:state:ORGANIZATION/WORKSPACE, or read"))
	case errors.Is(err, oci.ErrNotFound):
		return cli.WithHint(err, "`okara workspace list ORGANIZATION` shows the workspaces that you may read; is this the address of `okara serve`?")
	}
	return err
}

func newWorkspaceList(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var filter workspaceclient.Filter
	cmd := &cobra.Command{
		Use:   "list ORGANIZATION",
		Short: "List the workspaces of an organization",
		Long: `List the workspaces of an organization that you may read, by name, with their
tags and projects. A workspace whose state was created in another way has
neither.

` + workspaceHelp,
		Example: `  okara workspace list acme --server https://okara.example.com
  okara workspace list acme --tag network --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			organization, err := workspaceclient.ParseOrganization(args[0])
			if err != nil {
				return workspaceError(err)
			}
			c, err := f.openWorkspaces(reg)
			if err != nil {
				return err
			}
			list, err := c.List(cmd.Context(), organization, filter)
			if err != nil {
				return workspaceError(err)
			}
			if len(list) == 0 {
				filtered := ""
				if len(filter.Tags) > 0 || filter.Project != "" {
					filtered = " match --tag and --project"
				}
				reg.Note("no workspaces in %s that you may read%s", organization, filtered)
				return reg.PrintResult(list, "")
			}
			rows := [][]string{{"WORKSPACE", "TAGS", "PROJECT", "LOCKED", "CREATED"}}
			for _, w := range list {
				rows = append(rows, workspaceRow(w))
			}
			return reg.PrintResult(list, cli.Table(rows))
		},
	}
	f.addTo(reg, cmd, false)
	fl := cmd.Flags()
	fl.StringArrayVar(&filter.Tags, "tag", nil, "only workspaces with the tag `KEY` or KEY=VALUE (repeatable; all must match)")
	fl.StringVar(&filter.Project, "project", "", "only workspaces of the project `NAME`")
	return cmd
}

func workspaceRow(w workspaceclient.Workspace) []string {
	created := "-"
	if !w.Created.IsZero() {
		created = w.Created.UTC().Format(time.DateOnly)
	}
	tags := slices.Clone(w.Tags)
	for i, key := range tags {
		if value := w.Values[key]; value != "" {
			tags[i] += "=" + value
		}
	}
	return []string{cli.OrDash(w.Name), cli.OrDash(strings.Join(tags, ",")), cli.OrDash(w.Project), cli.YesNo(w.Locked), created}
}

func newWorkspaceCreate(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var n workspaceclient.New
	var tags []string
	cmd := &cobra.Command{
		Use:   "create ORGANIZATION/WORKSPACE",
		Short: "Create a workspace, with its tags",
		Long: `Create a workspace, with its tags.

Use it where a cloud block has tags and no terminal is available, as in CI; otherwise
` + "`tofu init`" + ` creates the workspace.

With --execution-mode remote the server executes plans and applies of the workspace,
which requires the right to run, and a server that executes runs.

A name has 1 to 90 characters: A-Z, a-z, 0-9, -, _ and .

` + workspaceHelp,
		Example: `  okara workspace create acme/network-prod --tag network --tag env=prod
  okara workspace create acme/shop --project retail --description "the shop"`,
		Args: cobra.ExactArgs(1),
		RunE: f.withWorkspace(reg, func(ctx context.Context, c *workspaceclient.Client, p workspaceclient.Ref, _ []string) (err error) {
			if n.Tags, err = parseTags(tags); err != nil {
				return err
			}
			if n.Mode != "" && n.Mode != "local" && n.Mode != "remote" {
				return cli.UsageError("--execution-mode %q must be local or remote", n.Mode)
			}
			if _, there := c.Workspace(ctx, p); there == nil {
				return cli.WithHint(fmt.Errorf("workspace %s: %w", p, oci.ErrExists), "`okara workspace list %s` shows it; nothing was changed", p.Organization)
			}
			w, err := c.Create(ctx, p, n)
			if err != nil {
				return err
			}
			return reg.PrintResult(w, fmt.Sprintf("created workspace %s", p))
		}),
	}
	f.addTo(reg, cmd, true)
	fl := cmd.Flags()
	fl.StringArrayVar(&tags, "tag", nil, "tag `KEY` or KEY=VALUE (repeatable)")
	fl.StringVar(&n.Project, "project", "", "`NAME` of its project, a label for filtering lists")
	fl.StringVar(&n.Mode, "execution-mode", "", "where its runs are executed: `local|remote` (default: as set for the organization)")
	fl.StringVar(&n.Description, "description", "", "`TEXT` for users")
	return cmd
}

func parseTags(list []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, tag := range list {
		key, value, _ := strings.Cut(tag, "=")
		if _, twice := tags[key]; twice || key == "" {
			return nil, cli.WithHint(cli.UsageError("--tag %q: must be KEY or KEY=VALUE, with each KEY once", tag), "use --tag network, or --tag env=prod")
		}
		tags[key] = value
	}
	return tags, nil
}

type deletedWorkspace struct {
	Organization string `json:"organization"`
	Name         string `json:"name"`
	Deleted      bool   `json:"deleted"`
}

func newWorkspaceDelete(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "delete ORGANIZATION/WORKSPACE",
		Short: "Delete a workspace; its versions stay until they are pruned",
		Long: `Delete a workspace. The infrastructure stays as it is, and so do the versions of
the state: "okara state restore" brings one back.

A locked workspace is not deleted, and one whose state has resources, or is encrypted by
OpenTofu, only with --force.

` + workspaceHelp,
		Example: `  okara workspace delete acme/old-test
  okara workspace delete acme/old-test --force --yes`,
		Args: cobra.ExactArgs(1),
		RunE: f.withWorkspace(reg, func(ctx context.Context, c *workspaceclient.Client, p workspaceclient.Ref, _ []string) error {
			if err := reg.Confirm(yes, fmt.Sprintf("delete workspace %s", p)); err != nil {
				return err
			}
			err := c.Delete(ctx, p, force)
			if errors.Is(err, oci.ErrExists) && !force {
				return cli.WithHint(err, "destroy its resources with `tofu destroy`, or delete only the workspace with --force; remove a lock with `tofu force-unlock`")
			}
			if err != nil {
				return err
			}
			return reg.PrintResult(deletedWorkspace{p.Organization, p.Name, true}, fmt.Sprintf("deleted workspace %s", p))
		}),
	}
	f.addTo(reg, cmd, true)
	cmd.Flags().BoolVar(&force, "force", false, "delete it even if its state has resources")
	cli.AddYes(cmd.Flags(), &yes)
	return cmd
}
