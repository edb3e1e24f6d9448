// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/internal/portalclient"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/text"
)

func newInstanceOutputs(reg *cli.Registries) *cobra.Command {
	var f portalFlags
	var showSensitive bool
	cmd := &cobra.Command{
		Use:   "outputs ID [NAME]",
		Short: "Print the outputs of an instance",
		Long: `Print the outputs of an instance that its template lists, or the value of one.
Sensitive ones are shown as (sensitive). With --reveal the owner gets the value
of one from the state, and the server records it.

` + instanceHelp,
		Example: `  okara instance outputs abcdefgh23
  okara instance outputs abcdefgh23 password --reveal`,
		Args: cobra.RangeArgs(1, 2),
		RunE: f.asking(reg, func(ctx context.Context, c *portalclient.Client, args []string) error {
			switch {
			case len(args) == 2 && showSensitive:
				output, err := c.ShowSensitive(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				value := valueText(output.Value)
				if cli.IsTerminal(reg.Out) {
					value = text.Block(value)
				}
				return reg.PrintExact(output, value)
			case showSensitive:
				return cli.UsageError("--reveal is for one output; name it")
			}
			return printOutputs(ctx, reg.App, c, args)
		}),
	}
	f.add(reg, cmd, false)
	cmd.Flags().BoolVar(&showSensitive, "reveal", false, "print a sensitive value as well; the server records that")
	return cmd
}

func printOutputs(ctx context.Context, a *cli.App, c *portalclient.Client, args []string) error {
	all, err := c.Outputs(ctx, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		v, ok := all.Outputs[args[1]]
		if !ok {
			return cli.UsageError("instance %s has no output %q; it has %v", args[0], args[1], slices.Sorted(maps.Keys(all.Outputs)))
		}
		return a.PrintResult(v, valueText(v))
	}
	rows := [][]string{}
	for _, name := range slices.Sorted(maps.Keys(all.Outputs)) {
		rows = append(rows, []string{name, valueText(all.Outputs[name])})
	}
	return a.PrintResult(all, cli.Table(rows))
}
