// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/workspaceclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newWorkspaceList(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var filter workspaceclient.Filter
	cmd := &cobra.Command{
		Use:   "list ORGANIZATION",
		Short: "List the workspaces of an organization",
		Long: `List the workspaces of an organization that you may read, by name, with their tags
and projects. A workspace whose state came by another way has neither.

` + workspaceHelp,
		Example: `  okara workspace list acme --server https://okara.example.com
  okara workspace list acme --tag network --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			organization, err := workspaceclient.ParseOrganization(args[0])
			if err != nil {
				return workspaceError(err)
			}
			c, err := f.open(reg)
			if err != nil {
				return err
			}
			list, err := c.List(cmd.Context(), organization, filter)
			if err != nil {
				return workspaceError(err)
			}
			rows := [][]string{{"WORKSPACE", "TAGS", "PROJECT", "LOCKED", "CREATED"}}
			for _, w := range list {
				rows = append(rows, workspaceRow(w))
			}
			return reg.PrintResult(list, cli.Table(rows))
		},
	}
	f.add(reg, cmd, false)
	fl := cmd.Flags()
	fl.StringArrayVar(&filter.Tags, "tag", nil, "only those with this `KEY` among their tags (repeatable: with all of them)")
	fl.StringVar(&filter.Project, "project", "", "only those of the project `NAME`")
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
