// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/supply"
)

func newDepotStatus(up *upstreams) *cobra.Command {
	var f depotFlags
	cmd := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Show what earlier runs published, and what is waiting, blocked or drifted",
		Long: `Show what earlier runs published, and what is waiting, blocked or drifted.

A depot file has one common record in the registry. A Kubernetes operator keeps a
separate record for each module and provider; RECORD shows which one a line is from.

With a depot file, every difference between it, its record and the registry is listed:
entries and versions that only one of them has, and missing platforms.`,
		Example: "  okara depot status --registry registry.example.com/platform --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return depotStatus(cmd.Context(), up.reg, f) },
	}
	f.addTo(up, cmd)
	return cmd
}

func depotStatus(ctx context.Context, reg *cli.Registries, f depotFlags) error {
	set := &supply.Set{}
	named := reg.Registry != "" || reg.Getenv("OKARA_REGISTRY") != ""
	if _, err := os.Stat(f.file); err == nil || !named || f.given {
		if set, err = readSet(f.file); err != nil {
			return err
		}
	}
	if !named {
		reg.Registry = set.Registry
	}
	d, done, err := openDepot(reg)
	if err != nil {
		return err
	}
	defer done()
	common, own, err := supply.ReadRecords(ctx, d)
	if err != nil {
		return err
	}
	if len(common.Entries)+len(own) == 0 {
		reg.Note("no depot has published anything here")
	}
	if err := reg.PrintResult(knownVersions(common, own), recordText(common, own)); err != nil || len(set.Modules)+len(set.Providers) == 0 {
		return err
	}
	differences, err := set.Differences(ctx, d, common)
	for _, d := range differences {
		reg.Note("%s: %s", strings.TrimSpace(d.Entry+" "+d.Version), d.Reason)
	}
	return err
}

// knownVersions returns the versions of all records, by entry. An entry's own record takes
// precedence.
func knownVersions(common *supply.Record, own []*supply.Record) map[string]map[string]supply.VersionRecord {
	all := maps.Clone(common.Entries)
	for _, rec := range own {
		maps.Copy(all, rec.Entries)
	}
	return all
}

// recordText shows all records. An entry that both a depot file and an operator maintain
// appears twice.
func recordText(common *supply.Record, own []*supply.Record) string {
	rows := [][]string{{"ENTRY", "PUBLISHED", "WAITING", "BLOCKED", "DRIFTED", "RECORD"}}
	var notes []string
	add := func(rec *supply.Record, which string) {
		for _, entry := range rec.Names() {
			row, found := entryRow(rec, entry)
			rows = append(rows, append(row, which))
			notes = append(notes, found...)
		}
	}
	add(common, "common")
	for _, rec := range own {
		add(rec, "own")
	}
	return strings.Join(append([]string{strings.TrimSuffix(cli.Table(rows), "\n")}, notes...), "\n")
}

// entryRow counts the versions of an entry, and lists those that need a decision.
func entryRow(rec *supply.Record, entry string) (row, notes []string) {
	count := map[supply.State]int{}
	for _, v := range rec.Versions(entry) {
		vr := rec.Entries[entry][v]
		count[vr.State]++
		if problem := vr.Problem(); problem != "" {
			notes = append(notes, fmt.Sprintf("%s %s: %s: %s", entry, v, vr.State, problem))
		}
	}
	row = []string{entry}
	for _, s := range []supply.State{supply.StatePublished, supply.StateWaiting, supply.StateBlocked, supply.StateDrift} {
		row = append(row, fmt.Sprint(count[s]))
	}
	return row, notes
}
