// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/doctor"
)

const doctorLong = `Test whether locks are safe in a registry, and what it can delete, by writing and
removing a few hundred small tags in REPOSITORY.

Two connections each push a tag and then list the tags, at the same time, 200 times (1000
with --thorough). If neither sees the other's tag, two runs could hold one lock. --peer
runs the second connection against another host of the same registry. A tag that is pushed
twice shows whether tags are immutable.

The verdict is recorded in the repository under the tag okara-doctor, and locks and reads
there follow it. If locking is refused, the exit code is 1.

If the registry refuses to delete, the litmus test uses the repository
REPOSITORY/okara-doctor, which can be removed afterwards.`

func newDoctor(reg *cli.Registries) *cobra.Command {
	var thorough, dryRun bool
	var peer string
	cmd := &cobra.Command{
		Use:   "doctor REPOSITORY",
		Short: "Test what a registry guarantees for locks, versions and deletion",
		Long:  doctorLong,
		Example: `  okara admin doctor registry.example.com/state/shop
  okara admin doctor registry.example.com/state/shop --thorough --peer registry-eu.example.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if peer != "" && !strings.Contains(args[0], "/") {
				return cli.UsageError("repository %q has no path", args[0])
			}
			o := doctor.Options{Repository: args[0], Peer: peer, Record: !dryRun, Open: reg.OpenThrough, Tool: reg.UserAgent(), Note: reg.Note}
			if thorough {
				o.Rounds = 1000
			}
			r, err := doctor.Examine(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := reg.PrintResult(r, doctorText(r)); err != nil {
				return err
			}
			if r.Verdict.Locking == statebackend.LockingRefused {
				return fmt.Errorf("locking is unsafe on %s: %s: %w", args[0], r.Verdict.Reason, statebackend.ErrUnsafe)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&thorough, "thorough", false, "run 1000 rounds of the litmus test instead of 200")
	cmd.Flags().StringVar(&peer, "peer", "", "`HOST[:PORT]` of the same registry for the second connection")
	cmd.Flags().BoolVar(&dryRun, "no-record", false, "do not record the verdict in the repository")
	return cmd
}

func doctorText(r doctor.Report) string {
	rows := [][]string{{"CHECK", "RESULT", "EFFECT"}}
	for _, f := range r.Findings {
		rows = append(rows, []string{f.Check, f.Seen, f.Follows})
	}
	v := r.Verdict
	verdict := map[string]string{
		statebackend.LockingExact:   "locking is safe",
		statebackend.LockingSettle:  "locking is safe, but waits 2 s for the tag list to settle",
		statebackend.LockingRefused: "locking is refused",
	}[v.Locking]
	return cli.Table(rows) + "\n\nverdict: " + strings.TrimSuffix(verdict+": "+v.Reason, ": ")
}
