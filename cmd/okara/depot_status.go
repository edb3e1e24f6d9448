// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/supply"
)

func newDepotStatus(up *upstreams) *cobra.Command {
	var f depotFlags
	cmd := &cobra.Command{
		Use:     "status [FILE]",
		Short:   "Show what earlier runs published, what waits, and what is blocked or drifted",
		Example: "  okara depot status --registry registry.example.com/platform --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return depotStatus(cmd.Context(), up.registries, f) },
	}
	f.add(up, cmd)
	return cmd
}

func depotStatus(ctx context.Context, reg *registries, f depotFlags) error {
	if reg.registry == "" && reg.getenv("OKARA_REGISTRY") == "" {
		set, err := readSet(f.file)
		if err != nil {
			return err
		}
		reg.registry = set.Registry
	}
	d, done, err := openDepot(reg)
	if err != nil {
		return err
	}
	defer done()
	rec, err := supply.ReadRecord(ctx, d)
	if err != nil {
		return err
	}
	return reg.printResult(rec.Entries, recordText(rec))
}

func recordText(rec *supply.Record) string {
	rows := [][]string{{"ENTRY", "PUBLISHED", "WAITING", "BLOCKED", "DRIFTED"}}
	var notes []string
	for _, entry := range rec.Names() {
		count := map[supply.State]int{}
		for _, v := range rec.Versions(entry) {
			vr := rec.Entries[entry][v]
			count[vr.State]++
			if vr.Reason != "" {
				notes = append(notes, fmt.Sprintf("%s %s: %s: %s", entry, v, vr.State, vr.Reason))
			}
		}
		row := []string{entry}
		for _, s := range []supply.State{supply.StatePublished, supply.StateWaiting, supply.StateBlocked, supply.StateDrift} {
			row = append(row, fmt.Sprint(count[s]))
		}
		rows = append(rows, row)
	}
	return strings.Join(append([]string{strings.TrimSuffix(table(rows), "\n")}, notes...), "\n")
}
