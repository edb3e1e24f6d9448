// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// pruned is the result of prune.
type pruned struct {
	Address  string   `json:"address"`
	Versions []string `json:"versions"`
	Deleted  bool     `json:"deleted"` // false: yanked only
	DryRun   bool     `json:"dryRun,omitempty"`
}

func newPrune(reg *registries) *cobra.Command {
	var keep int
	var pins []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune ADDRESS --keep N",
		Short: "Remove old versions of a module or provider",
		Long: `Remove old versions of a module or provider: all but the N highest and those
named by --pin. A version is yanked first and its tag removed second; editions go
with their version. On a registry that does not delete tags the versions stay
yanked. The registry's garbage collection frees the space.

Prints the versions. A yanked version comes back with okara unyank as long as its
tag exists.

Exit codes: 0 done, 2 usage, 3 there is no such module or provider, 5 denied.`,
		Example: `  okara prune net/vpc/aws --keep 20 --dry-run
  okara prune acme/dns --keep 5 --pin 1.0.0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 1 {
				return usageError("--keep %d: at least one version stays", keep)
			}
			t, err := selectItem(reg, args[0], nil)
			if err != nil {
				return err
			}
			l, err := t.depot.Versions(cmd.Context(), t.repo.Name())
			if err != nil {
				return err
			}
			versions := l.Prunable(keep, func(v addr.Version) bool { return slices.Contains(pins, v.String()) || !t.Selects(v) })
			if !dryRun {
				err = depot.PruneVersions(cmd.Context(), l.Repository, versions)
			}
			return printPruned(reg.app, pruned{Address: args[0], Versions: []string{}, Deleted: !dryRun, DryRun: dryRun}, versions, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&keep, "keep", 0, "number of versions that stay")
	f.StringArrayVar(&pins, "pin", nil, "`VERSION` that stays (repeatable)")
	f.BoolVar(&dryRun, "dry-run", false, "print what would go, and change nothing")
	return cmd
}

// printPruned prints the versions; where the registry does not delete tags, they
// are yanked.
func printPruned(a *app, out pruned, versions []addr.Version, err error) error {
	if errors.Is(err, oci.ErrUnsupported) {
		a.note("warning: %v", err)
		out.Deleted, err = false, nil
	}
	if err != nil {
		return err
	}
	for _, v := range versions {
		out.Versions = append(out.Versions, v.String())
	}
	return a.printResult(out, strings.Join(out.Versions, "\n"))
}
