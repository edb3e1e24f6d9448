// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/workspaceclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/oci"
)

// deletedWorkspace is the result of workspace delete.
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

While the state has resources, or is locked, the workspace stays, with --force too
if it is locked. Whether a state that OpenTofu encrypted has resources nobody can
see, so that takes --force.

` + workspaceHelp,
		Example: `  okara workspace delete acme/old-test
  okara workspace delete acme/old-test --force --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := workspaceclient.ParsePlace(args[0])
			if err != nil {
				return workspaceError(err)
			}
			c, err := f.open(reg)
			if err != nil {
				return err
			}
			if err := reg.Confirm(yes, "--yes", fmt.Sprintf("delete workspace %s", p)); err != nil {
				return err
			}
			if err := c.Delete(cmd.Context(), p, force); err != nil {
				if errors.Is(err, oci.ErrExists) && !force {
					return cli.WithHint(workspaceError(err), "destroy what is in it with `tofu destroy`, or delete the workspace alone with --force; a lock ends with `tofu force-unlock`")
				}
				return workspaceError(err)
			}
			return reg.PrintResult(deletedWorkspace{p.Organization, p.Name, true}, fmt.Sprintf("workspace %s is deleted", p))
		},
	}
	f.add(reg, cmd, true)
	cmd.Flags().BoolVar(&force, "force", false, "delete it with resources in its state as well")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
