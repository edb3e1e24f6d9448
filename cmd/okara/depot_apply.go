// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
)

func newDepotApply(up *upstreams) *cobra.Command {
	var f depotFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Publish missing versions and prune those that retention allows",
		Long: `Carry out what okara depot plan shows, several entries at a time. A broken entry does not
stop the others; the exit code is then 6. An interrupted run is continued by the next.
--repair also restores parts of versions that the registry has lost; it makes one request
for each part.`,
		Example: "  okara depot apply -f depot.hcl --used-by live/",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun {
				return depotPlan(cmd.Context(), up, f, false)
			}
			return depotApply(cmd.Context(), up, f)
		},
	}
	f.addTo(up, cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print the plan, as okara depot plan does")
	cmd.Flags().BoolVar(&f.repair, "repair", false, repairUsage)
	return cmd
}

func depotApply(ctx context.Context, up *upstreams, f depotFlags) error {
	s, done, err := openSyncer(up, f)
	if err != nil {
		return err
	}
	p, err := s.Plan(ctx)
	if err != nil {
		done()
		return err
	}
	results, err := s.Apply(ctx, p, stepCounter(up.reg.App, p))
	done()
	if err != nil {
		return err
	}
	count := map[string]int{}
	var failures []error
	var lines []string
	var drift []string
	for _, r := range results {
		switch {
		case r.Error != "":
			count["failed"]++
			failures = append(failures, r.Err())
			lines = append(lines, fmt.Sprintf("failed %s: %s", strings.TrimSpace(r.Entry+" "+r.Version), r.Error))
		case r.Action == supply.ActionDrift:
			drift = append(drift, fmt.Sprintf("%s %s: %s", r.Entry, r.Version, r.Reason))
		case r.Changes():
			count["changed"]++
			lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%s %s %s: %s", r.Action, r.Entry, r.Version, r.State), ": "))
		}
	}
	if err := up.reg.PrintResult(results, strings.Join(lines, "\n")); err != nil {
		return err
	}
	for _, r := range results {
		for _, w := range r.Published.Warnings {
			if r.Changes() { // else it was told when it was published
				up.reg.Note("warning: %s %s: %s", r.Entry, r.Version, w)
			}
		}
	}
	for _, d := range drift {
		up.reg.Note("drift: %s", d)
	}
	noteLeftOut(up.reg.App, p)
	up.reg.Note("%d changed, %d drifted, %d failed, %d checked", count["changed"], len(drift), count["failed"], len(results))
	if len(drift) > 0 {
		return cli.PartlyError("versions: %d failed, %d drifted from what was published", count["failed"], len(drift))
	}
	return unfinishedError(failures, text.Plural(len(failures), "version")+" failed")
}
