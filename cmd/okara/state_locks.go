// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/oci"
)

// heldLocks is the result of state locks.
type heldLocks struct {
	Repository string     `json:"repository"`
	Locks      []lockJSON `json:"locks"`
}

func newStateLocks(reg *registries, f *stateFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "locks REPOSITORY",
		Short: "List the locks that are held: who, since when, for what",
		Long: `List the locks that are held in a repository, with the line that ends each.
An age is by the clock of the holder and this machine, so it is approximate. A
lock that is listed but cannot be read has the last part of its tag as its ID.`,
		Example: "  okara state locks registry.example.com/infrastructure/tofu-state",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.store(reg, args[0])
			if err != nil {
				return err
			}
			locks, err := s.Locks(cmd.Context())
			if err != nil && !errors.Is(err, oci.ErrNotFound) {
				return err
			}
			out := heldLocks{Repository: args[0], Locks: []lockJSON{}}
			rows := [][]string{{"WORKSPACE", "AGE", "WHO", "OPERATION", "VERSION", "ID", "INFO"}}
			for _, h := range locks {
				out.Locks = append(out.Locks, toLockJSON(h))
				rows = append(rows, []string{h.Workspace, age(h.Age), orDash(h.Info.Who), orDash(h.Info.Operation),
					orDash(h.Info.Version), orDash(h.Info.ID), oneLine(h.Info.Info, 80)})
			}
			if len(locks) == 0 {
				reg.note("no lock is held in %s", args[0])
				return reg.printResult(out, "")
			}
			reg.note("after making sure that the holder is gone: okara state unlock %s -w WORKSPACE --id ID", args[0])
			return reg.printResult(out, table(rows))
		},
	}
}

// oneLine makes text from elsewhere fit into a table.
func oneLine(s string, limit int) string {
	runes := []rune(fmt.Sprintf("%q", s))
	runes = runes[1 : len(runes)-1]
	if len(runes) > limit {
		runes = append(runes[:limit-1], '…')
	}
	return string(runes)
}
