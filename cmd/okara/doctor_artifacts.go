// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
)

func newDoctorArtifacts(reg *cli.Registries) *cobra.Command {
	var deep, rebuild bool
	cmd := &cobra.Command{
		Use:   "artifacts [ADDRESS...]",
		Short: "Find defects in modules and providers that make clients fail",
		Long: `Find defects in modules and providers that make clients fail: tags that OpenTofu
mistakes for versions, tags that do not match the artifact, packages that are not the
signed ones, and platforms missing from the newest version. Without an argument
everything in the catalog is checked. Nothing is changed, except with --rebuild-catalog.

Only manifests are read. --deep also reads every package and computes its hashes again,
which finds packages that the registry damaged.

--rebuild-catalog first adds missing entries to the catalog, which okara list reads: the
named modules and providers, or all that the registry lists under the prefix (most
hosted registries cannot list them).

Without an argument, parked jobs of okara serve are reported as well: those during which
the server stopped three times.

Prints one line per finding.

Exit codes: 0 nothing found, 1 something found, 2 usage, 3 module or provider not found.`,
		Example: `  okara admin doctor artifacts
  okara admin doctor artifacts acme/dns --deep --json
  okara admin doctor artifacts --rebuild-catalog`,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, layout, err := reg.Client()
			if err != nil {
				return err
			}
			d := depot.New(depot.Options{Client: client, Layout: layout})
			items, err := parseItems(args)
			if err != nil {
				return err
			}
			if rebuild {
				if err := rebuildCatalog(cmd.Context(), reg.App, d, items); err != nil {
					return err
				}
			}
			findings, n, err := d.ExamineAll(cmd.Context(), items, deep)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				findings = append(findings, parkedJobs(cmd.Context(), reg.App, client, layout)...)
			}
			return cli.PrintFindings(reg.App, findings, n)
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "read every package and compute its hashes again")
	cmd.Flags().BoolVar(&rebuild, "rebuild-catalog", false, "add missing entries to the catalog")
	reg.AddDryRun(cmd)
	return cmd
}

func parseItems(args []string) ([]addr.Item, error) {
	var items []addr.Item
	for _, arg := range args {
		it, err := addr.ParseSelection(arg)
		if err != nil {
			return nil, cli.UsageError("%w", err)
		}
		items = append(items, it.Item)
	}
	return items, nil
}

func rebuildCatalog(ctx context.Context, a *cli.App, d *depot.Depot, items []addr.Item) error {
	n, err := d.RebuildCatalog(ctx, items)
	if err != nil && len(items) == 0 {
		return cli.WithHint(err, "specify the modules and providers: okara admin doctor artifacts ADDRESS... --rebuild-catalog")
	}
	if err == nil {
		a.Note("%s in the catalog", text.Plural(n, "repository"))
	}
	return err
}
