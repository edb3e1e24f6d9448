// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/workspaceclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newWorkspaceCreate(reg *cli.Registries) *cobra.Command {
	var f workspaceFlags
	var n workspaceclient.New
	var tags []string
	cmd := &cobra.Command{
		Use:   "create ORGANIZATION/WORKSPACE",
		Short: "Make a workspace, with its tags",
		Long: `Make a workspace, with its tags.

` + "`tofu init`" + ` makes the workspace that a cloud block names by itself. Where the block
has tags and nobody can be asked, as in CI, this command makes the first one.

With --execution-mode remote the server executes plans and applies of the workspace,
which takes a right to run and a server that does so.

The name has 1 to 90 of A-Z, a-z, 0-9, -, _ and . characters.

` + workspaceHelp,
		Example: `  okara workspace create acme/network-prod --tag network --tag env=prod
  okara workspace create acme/shop --project retail --description "the shop"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := workspaceclient.ParsePlace(args[0])
			if err != nil {
				return workspaceError(err)
			}
			if n.Tags, err = parseTags(tags); err != nil {
				return err
			}
			if n.Mode != "" && n.Mode != "local" && n.Mode != "remote" {
				return cli.UsageError("--execution-mode %q: want local or remote", n.Mode)
			}
			c, err := f.open(reg)
			if err != nil {
				return err
			}
			w, err := c.Create(cmd.Context(), p, n)
			if err != nil {
				return workspaceError(err)
			}
			return reg.PrintResult(w, fmt.Sprintf("workspace %s is made", p))
		},
	}
	f.add(reg, cmd, true)
	fl := cmd.Flags()
	fl.StringArrayVar(&tags, "tag", nil, "tag `KEY` or KEY=VALUE (repeatable)")
	fl.StringVar(&n.Project, "project", "", "`NAME` of its project, a label that lists can ask for")
	fl.StringVar(&n.Mode, "execution-mode", "", "where its runs are executed, `MODE` local or remote (default: what the organization has)")
	fl.StringVar(&n.Description, "description", "", "`TEXT` for people")
	return cmd
}

// parseTags reads tags as they stand on the command line.
func parseTags(list []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, tag := range list {
		key, value, _ := strings.Cut(tag, "=")
		if _, twice := tags[key]; twice || key == "" {
			return nil, cli.WithHint(cli.UsageError("--tag %q: want KEY or KEY=VALUE, and each KEY once", tag), "write --tag network, or --tag env=prod")
		}
		tags[key] = value
	}
	return tags, nil
}
