// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newInstanceAdopt(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var id string
	cmd := &cobra.Command{
		Use:   "adopt REPOSITORY",
		Short: "Take back an instance that the ledger has lost",
		Long: `Take back an instance that the ledger has lost, for admins: okara admin doctor
instances lists the repositories of such states. The server trusts the last
result that it can open with its state keys, and makes a record of the source,
the template and the parameters that it names. You own the record; okara
instance transfer gives it to its owner. An instance that was destroyed normally
is refused.

` + instanceHelp,
		Example: `  okara instance adopt registry.example.com/platform/instances/sandbox/vpc/abcdefgh23`,
		Args:    cobra.ExactArgs(1),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			instance, err := c.Adopt(ctx, api.Adopt{Repository: args[0], ID: id})
			if err != nil {
				return err
			}
			return reg.PrintResult(instance, instance.ID)
		}),
	}
	f.add(reg, cmd, true)
	cmd.ValidArgsFunction = cobra.NoFileCompletions // a repository is not an instance id
	cmd.Flags().StringVar(&id, "id", "", "the `ID`, where instances share the repository")
	return cmd
}
