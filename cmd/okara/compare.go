// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci/artifact"
)

type compared struct {
	Address     string                   `json:"address"`
	From        string                   `json:"from"`
	To          string                   `json:"to"`
	Differences []description.Difference `json:"differences"`
}

func newCompare(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "compare NAMESPACE/NAME/SYSTEM OLD NEW",
		Short: "Show what changed between two versions of a module",
		Long: `Show what changed between two versions of a module, in three groups: what breaks callers,
what may break them, and what is new. Versions of tools and providers, inputs, outputs,
resources and submodules are compared; the code of the module is not.

` + readServerHelp + `

Exit codes: 0 done, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara compare net/vpc/aws 5.21.0 6.6.0
  okara compare net/vpc/aws 5.21.0 6.6.0 --json`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := addr.ParseModule(args[0])
			if err != nil {
				return cli.UsageError("%w", err)
			}
			c := compared{Address: m.String(), Differences: []description.Difference{}}
			var sides [2]artifact.ModuleDescription
			for i, version := range args[1:] {
				if sides[i], err = readDescription(cmd.Context(), reg, server, m, version); err != nil {
					return err
				}
			}
			c.From = sides[0].Version
			c.To = sides[1].Version
			c.Differences = append(c.Differences, description.Compare(sides[0], sides[1])...)
			return reg.PrintResult(c, c.formatText())
		},
	}
	server.Add(cmd.Flags())
	return cmd
}

func readDescription(ctx context.Context, reg *cli.Registries, server cli.ServerFlags, m addr.Module, version string) (d artifact.ModuleDescription, err error) {
	if _, err := addr.ParseVersion(version); err != nil {
		return d, cli.UsageError("%w", err)
	}
	t, err := selectRead(ctx, reg, server, m.String()+"@"+version, nil)
	if err != nil {
		return d, err
	}
	s, err := t.showVersion(ctx)
	if err != nil {
		return d, err
	}
	if s.Description == nil {
		return d, fmt.Errorf("%s %s has no description: it was not published by okara", m, version)
	}
	return *s.Description, nil
}

func (c compared) formatText() string {
	if len(c.Differences) == 0 {
		return fmt.Sprintf("%s: no changes that affect callers between %s and %s", c.Address, c.From, c.To)
	}
	headings := map[string]string{description.Breaks: "Breaks callers", description.MayBreak: "May break callers", description.New: "New, or no effect on callers"}
	var out strings.Builder
	for _, effect := range description.Effects() {
		var rows [][]string
		for _, d := range c.Differences {
			if d.Effect == effect {
				rows = append(rows, []string{"  " + d.What, d.Name, d.Change, d.Detail})
			}
		}
		if len(rows) > 0 {
			out.WriteString(headings[effect] + ":\n" + cli.Table(rows) + "\n")
		}
	}
	return strings.TrimRight(out.String(), "\n")
}
