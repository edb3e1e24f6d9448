// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
)

func newInstanceList(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var filter portalclient.Filter
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instances, the newest first",
		Long: `List the instances that you may see, the newest first: your own, those of your
groups, and others' as far as your rights go. Instances that have ended are
listed only with --all.

` + instanceHelp,
		Example: `  okara instance list
  okara instance list --owner mine
  okara instance list --template 'sandbox/*' --phase failed,destroy_failed`,
		Args: cobra.NoArgs,
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, _ []string) error {
			if filter.Phase == "" && !all {
				filter.Phase = "live"
			}
			list, err := c.Instances(ctx, filter)
			if err != nil {
				return err
			}
			rows := [][]string{{"ID", "TEMPLATE", "PHASE", "OWNER", "ENDS IN", "NAME"}}
			for _, instance := range list.Instances {
				rows = append(rows, []string{
					instance.ID, instance.Template, stateWords(instance), ownerWords(instance.Owner),
					left(instance, time.Now()), instance.Name,
				})
			}
			if list.Limit > 0 {
				reg.Note("you have %d of %d instances", list.Used, list.Limit)
			}
			return reg.PrintResult(list, cli.Table(rows))
		}),
	}
	f.add(reg, cmd, false)
	fl := cmd.Flags()
	fl.StringVar(&filter.Owner, "owner", "", "only those of `OWNER`: me, mine (my groups' as well) or KIND:ID; offered: what others offer you")
	fl.StringVar(&filter.Template, "template", "", "only those of templates that match `GLOB`")
	fl.StringVar(&filter.Phase, "phase", "", "only those in these `PHASES`, separated by commas")
	fl.BoolVar(&all, "all", false, "also those that have ended")
	return cmd
}
