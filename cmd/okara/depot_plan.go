// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
)

func newDepotPlan(up *upstreams) *cobra.Command {
	var f depotFlags
	all := false
	cmd := &cobra.Command{
		Use:   "plan [FILE]",
		Short: "Show what a run would publish, approve, scan and prune, and why",
		Long: `Show what a run would publish, approve, scan and prune, and why.

It lists every difference between the depot file and the registry: what is missing,
including platforms of a version, what differs, what only the registry has ("kept"),
and what the origin lists but cannot be used ("left out").`,
		Example: `  okara depot plan -f depot.hcl
  okara depot plan --used-by live/ --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return depotPlan(cmd.Context(), up, f, all) },
	}
	f.addTo(up, cmd)
	cmd.Flags().BoolVar(&f.repair, "repair", false, repairUsage)
	cmd.Flags().BoolVar(&all, "all", false, "also show what is present")
	return cmd
}

func depotPlan(ctx context.Context, up *upstreams, f depotFlags, all bool) error {
	s, done, err := openSyncer(up, f)
	if err != nil {
		return err
	}
	defer done()
	p, err := s.Plan(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"ACTION", "ENTRY", "VERSION", "REASON"}}
	changes := 0
	failed := 0
	for _, st := range p.Steps {
		if st.Changes() {
			changes++
		}
		if st.Err() != nil {
			failed++
		}
		if all || st.Action != supply.ActionPresent || st.Reason != "" {
			rows = append(rows, []string{string(st.Action), st.Entry, st.Version, st.Reason})
		}
	}
	for _, k := range p.Kept {
		rows = append(rows, []string{"kept", k.Entry, k.Version, k.Reason})
	}
	for _, d := range p.LeftOut {
		rows = append(rows, []string{"left out", d.Entry, d.Version, d.Reason})
	}
	table := ""
	if len(rows) > 1 {
		table = strings.TrimSuffix(cli.Table(rows), "\n")
	}
	if err := up.reg.PrintResult(p, table); err != nil {
		return err
	}
	up.reg.Note("%s, %s", text.Plural(len(p.Steps), "version"), text.Plural(changes, "change"))
	if failed > 0 {
		return cli.PartlyError("%s could not be read or repaired", text.Plural(failed, "entry"))
	}
	return nil
}
