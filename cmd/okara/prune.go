// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

type pruned struct {
	Address  string   `json:"address"`
	Versions []string `json:"versions"`
	Deleted  bool     `json:"deleted"`        // false: yanked only
	Kept     []string `json:"kept,omitempty"` // only yanked, while others are deleted
	DryRun   bool     `json:"dry_run,omitempty"`
}

func newPrune(reg *cli.Registries) *cobra.Command {
	var keep string
	var pins []string
	var removal cli.Removal
	var policy policyFlags
	cmd := &cobra.Command{
		Use:   "prune ADDRESS[@CONSTRAINT] --keep N",
		Short: "Remove old versions of a module or provider",
		Long: `Remove old versions of a module or provider: all but the N highest and those named by
--pin. With a constraint only versions that match it are counted and removed. Versions that are withdrawn, deprecated in favour of another, or refused by the
policy of --require, --openpgp-key, --cosign-key and --block are not counted. They stay
while they are above the lowest counted version, and are removed below it. The release
that clients choose always stays. With --keep used, so does the lowest version that the
newest version of a state uses, and all above it, since a run that changes nothing records
nothing; while not all states can be read, every version stays.

On a terminal okara shows what would be removed and asks for confirmation; elsewhere
--yes is required. A version is withdrawn first, then its tag and its editions are
removed. On a registry that does not delete tags the manifest is removed, unless another
tag refers to it; what remains is withdrawn and reported.

Prints what was removed. okara yank --undo restores one until the registry's garbage
collection frees it; until then its number is not reused.

Exit codes: 0 done, 2 usage, 3 module or provider not found, 5 denied.`,
		Example: `  okara admin prune net/vpc/aws --keep 20 --dry-run
  okara admin prune acme/dns --keep 5,used --pin 1.0.0 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, used, err := supply.ParseKeep(keep)
			if err != nil || n < 1 {
				return cli.UsageError("--keep %q: must be at least 1, used, or both, such as 20,used", keep)
			}
			require, err := policy.readPolicy()
			if err != nil {
				return err
			}
			t, err := selectItem(reg, args[0], nil)
			if err != nil {
				return err
			}
			if _, version, _ := strings.Cut(args[0], "@"); version != "" {
				if v, err := addr.ParseVersion(version); err == nil {
					return cli.WithHint(cli.UsageError("@%s is one version, and --keep %s keeps it", version, keep), "`okara yank --delete-tag %s@%s` removes it", t.address, v)
				}
			}
			l, err := t.policyVersions(cmd.Context(), require)
			if err != nil {
				return err
			}
			for _, pin := range pins {
				if _, err := addr.ParseVersion(pin); err != nil {
					return cli.UsageError("--pin %s: must be a version such as 1.0.0", pin)
				}
				if !slices.ContainsFunc(l.Listing.Versions, func(v addr.Version) bool { return v.String() == pin }) {
					return cli.WithHint(fmt.Errorf("--pin %s: %s has no such version: %w", pin, t.address, oci.ErrNotFound), "`okara list %s` shows the versions", t.address)
				}
			}
			inUse := func(addr.Version) bool { return false }
			if used {
				inUse = keepUsed(reg, nil)(cmd.Context(), t.Item.String())
			}
			versions := l.Listing.Prunable(depot.Retention{
				Keep:   n,
				Pinned: func(v addr.Version) bool { return slices.Contains(pins, v.String()) || !t.Selects(v) || inUse(v) },
				Usable: func(v addr.Version) bool { return t.Selects(v) && slices.Contains(l.Listed, v) },
			})
			return pruneItem(cmd.Context(), reg.App, t, l, versions, removal)
		},
	}
	f := cmd.Flags()
	f.StringVar(&keep, "keep", "", "`NUMBER` of versions to keep, \"used\" for those that states use, or both, such as 20,used")
	f.StringArrayVar(&pins, "pin", nil, "`VERSION` to keep (repeatable)")
	removal.Add(f)
	policy.addTo(cmd)
	return cmd
}

// policyVersions lists the versions as a server with this policy would; nil: no policy.
func (t selected) policyVersions(ctx context.Context, require *trust.Policy) (*catalog.Versions, error) {
	if require == nil {
		return t.catalog.Versions(ctx, t.Item)
	}
	if err := catalog.ValidateRequire(t.Kind, *require); err != nil {
		return nil, cli.UsageError("%w", err)
	}
	o := t.depot.Options()
	c := catalog.New(catalog.Options{Client: o.Client, Layout: o.Layout, Require: map[string]trust.Policy{t.Kind: *require}})
	return c.Versions(ctx, t.Item)
}

func pruneItem(ctx context.Context, a *cli.App, t selected, l *catalog.Versions, versions []addr.Version, removal cli.Removal) error {
	var rows [][]string
	for _, v := range versions {
		rows = append(rows, []string{v.String(), l.Listing.Status(v).Text()})
	}
	if len(versions) == 0 {
		a.Note("nothing to remove: %s of %s stay", text.Plural(len(l.Listing.Versions), "version"), t.address)
	}
	question := fmt.Sprintf("remove %s of %s (%d remain)", text.Plural(len(versions), "version"), t.address, len(l.Listing.Versions)-len(versions))
	remove, err := a.Removes(removal, cli.Table(rows), question)
	if err != nil {
		return err
	}
	if remove {
		err = depot.PruneVersions(ctx, l.Listing, versions)
	}
	return printPruned(a, pruned{Address: t.address, Versions: []string{}, Deleted: remove, DryRun: removal.DryRun}, versions, err)
}

// printPruned prints the versions; those that the registry cannot delete are yanked.
func printPruned(a *cli.App, out pruned, versions []addr.Version, err error) error {
	if kept, ok := errors.AsType[*depot.KeptError](err); ok {
		a.Note("warning: %v", err)
		out.Deleted = len(kept.Kept) < len(versions)
		err = nil
		for _, v := range kept.Kept {
			out.Kept = append(out.Kept, v.String())
		}
	}
	if err != nil {
		return err
	}
	for _, v := range versions {
		out.Versions = append(out.Versions, v.String())
	}
	verb := "removed "
	if out.DryRun {
		verb = "would remove "
	} else if !out.Deleted {
		verb = "withdrew "
	}
	var lines []string
	for _, v := range out.Versions {
		lines = append(lines, verb+out.Address+" "+v)
	}
	return a.PrintResult(out, strings.Join(lines, "\n"))
}
