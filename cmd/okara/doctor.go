// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

const doctorLong = `Test whether a registry can keep locks, and what it can delete, by writing and
removing a few hundred small tags in REPOSITORY.

The litmus test: two connections each push a tag and then list the tags, at the
same time, 200 times (1000 times with --thorough). A round in which neither sees
the other's tag means that two runs could hold one lock. --peer runs the second
connection against another host of the same registry.

The verdict is recorded in the repository under the tag okara-doctor, and locks
in it follow the verdict. A registry on which locking is refused exits 1.

Where the registry refuses to delete, the litmus test uses the repository
REPOSITORY/okara-doctor, which can be removed afterwards.`

func newDoctor(a *app) *cobra.Command {
	var thorough, dryRun bool
	var peer string
	cmd := &cobra.Command{
		Use:   "doctor REPOSITORY",
		Short: "Test what a registry guarantees for locks, versions and deletion",
		Long:  doctorLong,
		Example: `  okara doctor registry.example.com/infrastructure/tofu-state
  okara doctor registry.example.com/infrastructure/tofu-state --thorough --peer registry-eu.example.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := newExamination(a, args[0], peer, thorough)
			if err != nil {
				return err
			}
			if err := d.run(cmd.Context()); err != nil {
				return err
			}
			if !dryRun {
				if err := d.record(cmd.Context()); err != nil {
					return err
				}
			}
			if err := a.printResult(d.report, d.text()); err != nil {
				return err
			}
			if d.report.Verdict.Locking == statebackend.LockingRefused {
				return fmt.Errorf("locking is refused on %s: %s: %w", args[0], d.report.Verdict.Reason, statebackend.ErrUnsafe)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&thorough, "thorough", false, "run 1000 rounds of the litmus test instead of 200")
	cmd.Flags().StringVar(&peer, "peer", "", "`HOST[:PORT]` of the same registry for the second connection")
	cmd.Flags().BoolVar(&dryRun, "no-record", false, "do not record the verdict in the repository")
	return cmd
}

// finding is one line of the report.
type finding struct {
	Check   string `json:"check"`
	Seen    string `json:"seen"`
	Follows string `json:"follows"`
	OK      bool   `json:"ok"` // false: something does not work here that does elsewhere
}

// doctorReport is the result of a whole examination.
type doctorReport struct {
	Repository string      `json:"repository"`
	Peer       string      `json:"peer,omitempty"`
	Findings   []finding   `json:"findings"`
	Verdict    oci.Verdict `json:"verdict"`
}

func (d *examination) text() string {
	rows := [][]string{{"CHECK", "SEEN", "WHAT FOLLOWS"}}
	for _, f := range d.report.Findings {
		rows = append(rows, []string{f.Check, f.Seen, f.Follows})
	}
	v := d.report.Verdict
	verdict := map[string]string{
		statebackend.LockingExact:   "locking is exact",
		statebackend.LockingSettle:  "locks, and waits 2 s for the tag list to settle",
		statebackend.LockingRefused: "locking is refused",
	}[v.Locking]
	return table(rows) + "\n\nverdict: " + strings.TrimSuffix(verdict+": "+v.Reason, ": ")
}

// record keeps the verdict where locks look for it.
func (d *examination) record(ctx context.Context) error {
	return statebackend.New(d.repo, statebackend.Options{}).RecordVerdict(ctx, d.report.Verdict)
}
