// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

// acceptedClock is the result of instance clock.
type acceptedClock struct {
	Accepted bool   `json:"accepted"`
	Held     string `json:"held,omitempty"` // why expiry was suspended
}

func newInstanceClock(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var accept bool
	cmd := &cobra.Command{
		Use:   "clock --accept",
		Short: "Confirm that the clock of the server is right",
		Long: `Confirm that the clock of the server is right. No instance expires while the
clocks of server and registry are more than 5 minutes apart, after one of them
jumped, or after the server was away for a week: a wrong clock would destroy
everything. If the clocks are right nevertheless, an admin confirms it, and
instances expire again.

` + instanceHelp,
		Example: "  okara instance clock --accept",
		Args:    cobra.NoArgs,
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			if !accept {
				return cli.UsageError("--accept is needed")
			}
			held, err := c.AcceptClock(ctx)
			if err != nil {
				return err
			}
			text := "the clock is accepted; nothing waited for it"
			if held != "" {
				text = "the clock is accepted; expiry waited: " + held
			}
			return reg.PrintResult(acceptedClock{true, held}, text)
		}),
	}
	f.add(reg, cmd, true)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Flags().BoolVar(&accept, "accept", false, "let instances expire again")
	return cmd
}
