// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func newList(reg *cli.Registries) *cobra.Command {
	var server cli.ServerFlags
	var long bool
	cmd := &cobra.Command{
		Use:   "list [ADDRESS]",
		Short: "List and search modules and providers, or list the versions of one",
		Long: `List and search modules and providers, or list the versions of one, highest first.

Without an argument the catalog is read, which contains what okara published or mirrored.
A word without "/", or a pattern with "*", lists addresses that contain or match it; "**"
stands for several parts. ADDRESS is NAMESPACE/NAME/SYSTEM of a module, NAMESPACE/TYPE of
a provider, or HOST/NAMESPACE/TYPE of a mirrored one, with an optional constraint after
"@".

On a terminal and with --long, the newest version of each and when it was published are
listed too.

With --server, an okara server lists what the token may read: that of
--token-file or OKARA_TOKEN, else the one that tofu and terraform send there.

Exit codes: 0 done, 2 usage, 3 module or provider not found, 5 denied.`,
		Example: `  okara list
  okara list vpc
  okara list 'net/**' --long
  okara list net/vpc/aws
  okara list "acme/dns@~> 1.0" --json
  okara list --server https://okara.example.com`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var it addr.Selection
			filter := ""
			if len(args) == 0 {
				args = []string{""}
			}
			if isFilter(args[0]) {
				filter = strings.ToLower(args[0])
			} else {
				var err error
				if it, err = addr.ParseSelection(args[0]); err != nil {
					return cli.UsageError("%w", err)
				}
			}
			from, err := openLister(reg, server)
			if err != nil {
				return err
			}
			if isFilter(args[0]) {
				return listCatalog(cmd.Context(), reg.App, from, filter, reg.IsLong(long))
			}
			return listVersions(cmd.Context(), reg.App, from, it, reg.IsLong(long))
		},
	}
	server.Add(cmd.Flags())
	cli.AddLong(cmd.Flags(), &long, "the newest version, and when it was published")
	return cmd
}

type lister interface {
	List(ctx context.Context) ([]artifact.CatalogEntry, error)
	Versions(ctx context.Context, it addr.Item) (*depot.Listing, error)
}

func openLister(reg *cli.Registries, s cli.ServerFlags) (lister, error) {
	front, err := cli.OpenFrontEnd(reg, s, nil)
	if err != nil {
		return nil, err
	}
	if front != nil {
		return frontLister{front}, nil
	}
	return openRegistryLister(reg)
}

func openRegistryLister(reg *cli.Registries) (lister, error) {
	client, layout, err := reg.Client()
	if err != nil {
		return nil, err
	}
	return registryLister{client, layout, catalog.New(catalog.Options{Client: client, Layout: layout, Logger: reg.WarnLogger()})}, nil
}

type registryLister struct {
	client *oci.Client
	layout addr.Layout
	c      *catalog.Catalog
}

// List returns the entries of the catalog; where the account may not read that, the
// repositories that the registry itself lists for it.
func (r registryLister) List(ctx context.Context) ([]artifact.CatalogEntry, error) {
	index, err := r.c.Published(ctx)
	if errors.Is(err, oci.ErrDenied) {
		if names, listErr := r.client.Repositories(ctx); listErr == nil {
			return entriesOf(r.layout, names), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return index.Entries, nil
}

// entriesOf returns what the catalog would have of repositories, by kind and address.
func entriesOf(l addr.Layout, repositories []string) (all []artifact.CatalogEntry) {
	for _, name := range repositories {
		if it, ok := l.Parse(name); ok && it.Versioned() {
			all = append(all, artifact.CatalogEntry{Kind: it.Kind, Address: it.String(), Repository: name})
		}
	}
	slices.SortFunc(all, func(a, b artifact.CatalogEntry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Address, b.Address))
	})
	return all
}

func (r registryLister) Versions(ctx context.Context, it addr.Item) (*depot.Listing, error) {
	l, err := r.c.Versions(ctx, it)
	if err != nil {
		return nil, err
	}
	return l.Shown(), nil
}

type frontLister struct{ c *client.Client }

func (f frontLister) List(ctx context.Context) ([]artifact.CatalogEntry, error) {
	all, err := f.c.List(ctx)
	return all, listHint(err)
}

func (f frontLister) Versions(ctx context.Context, it addr.Item) (*depot.Listing, error) {
	l, err := f.c.Versions(ctx, it)
	return l, listHint(err)
}

func listHint(err error) error {
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		return cli.WithHint(err, "give a token with --token-file FILE or OKARA_TOKEN, or log in with `tofu login HOST`")
	case errors.Is(err, oci.ErrDenied):
		return cli.WithHint(err, "the token is valid, but has no right to read this")
	case errors.Is(err, oci.ErrNotFound):
		return cli.WithHint(err, "`okara list --server URL` shows what is available; URL is the address of okara serve, without the path of a page")
	}
	return cli.ServerHint(err)
}

type catalogLine struct {
	Kind        string    `json:"kind"`
	Address     string    `json:"address"`
	Repository  string    `json:"repository"`
	Title       string    `json:"title,omitempty"` // the address as it was first written, if not as in address
	Newest      string    `json:"newest,omitempty"`
	PublishedAt time.Time `json:"published_at,omitzero"` // of the newest version
}

// isFilter reports whether an argument selects addresses, and is none.
func isFilter(arg string) bool {
	return !strings.Contains(arg, "@") && (strings.Contains(arg, "*") || !strings.Contains(arg, "/"))
}

func listCatalog(ctx context.Context, a *cli.App, from lister, filter string, long bool) error {
	entries, err := from.List(ctx)
	if err != nil {
		return err
	}
	lines := []catalogLine{}
	for _, e := range entries {
		if strings.Contains(e.Address, filter) || strings.Contains(filter, "*") && addr.Match(filter, e.Address) {
			lines = append(lines, catalogLine{Kind: e.Kind, Address: e.Address, Repository: e.Repository, Title: e.Title})
		}
	}
	if len(lines) == 0 {
		a.Note("no modules or providers found")
		return a.PrintResult(lines, "")
	}
	columns := 2
	if long {
		columns = 4
		if err := addNewest(ctx, from, lines); err != nil {
			return err
		}
	}
	rows := [][]string{{"KIND", "ADDRESS", "NEWEST", "PUBLISHED"}}
	for _, l := range lines {
		rows = append(rows, []string{l.Kind, cmp.Or(l.Title, l.Address), cli.OrDash(l.Newest), cli.Timestamp(l.PublishedAt)})
	}
	return a.PrintResult(lines, a.Rows(rows, columns))
}

// addNewest adds the highest release that was not withdrawn to each line that has one and may be
// read, else the highest version.
func addNewest(ctx context.Context, from lister, lines []catalogLine) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i := range lines {
		g.Go(func() error {
			it, err := addr.ParseItem(lines[i].Address)
			if err != nil {
				return err
			}
			l, err := from.Versions(ctx, it)
			if err != nil && !errors.Is(err, oci.ErrUnavailable) && ctx.Err() == nil {
				return nil // the list says that it has none to show
			}
			if err != nil {
				return err
			}
			versions, _ := l.Selected(addr.Selection{Item: it})
			at := max(0, slices.IndexFunc(versions, func(v addr.Version) bool { return !v.Prerelease() && l.Status(v).Yanked == nil }))
			if len(versions) > 0 {
				lines[i].Newest = versions[at].String()
				lines[i].PublishedAt = l.Published(versions[at], nil)
			}
			return nil
		})
	}
	return g.Wait()
}

type versionLine struct {
	Version     string    `json:"version"`
	PublishedAt time.Time `json:"published_at,omitzero"`
	marks
}

type marks struct {
	Deprecated  bool   `json:"deprecated,omitempty"`
	Yanked      bool   `json:"yanked,omitempty"`
	Message     string `json:"message,omitempty"`     // of the yank, else of the deprecation
	Replacement string `json:"replacement,omitempty"` // likewise
}

func marksOf(s evidence.Status) marks {
	m := marks{Deprecated: s.Deprecated != nil, Yanked: s.Yanked != nil}
	if e := cmp.Or(s.Yanked, s.Deprecated); e != nil {
		m.Message = e.Message
		m.Replacement = e.Replacement
	}
	return m
}

func listVersions(ctx context.Context, a *cli.App, from lister, it addr.Selection, long bool) error {
	l, err := from.Versions(ctx, it.Item)
	if err != nil {
		return err
	}
	versions, err := l.Selected(it)
	if err != nil {
		return err
	}
	lines := []versionLine{}
	rows := [][]string{{"VERSION", "STATUS", "PUBLISHED"}}
	for _, v := range versions {
		s := l.Status(v)
		lines = append(lines, versionLine{v.String(), l.Published(v, nil), marksOf(s)})
		rows = append(rows, []string{v.String(), s.Text(), cli.Timestamp(l.Published(v, nil))})
	}
	for _, w := range l.Warnings() {
		a.Note("warning: %s", w)
	}
	columns := 2
	if long {
		columns = 3
	}
	return a.PrintResult(lines, a.Rows(rows, columns))
}

// itemVersion finds the version selected by an item on the command line: the highest that
// its constraint allows, the latest without a constraint.
func itemVersion(ctx context.Context, c *catalog.Catalog, it addr.Selection) (*catalog.Versions, addr.Version, error) {
	l, err := c.Versions(ctx, it.Item)
	if err != nil {
		return nil, addr.Version{}, err
	}
	if exact, err := addr.ParseVersion(it.Versions); err == nil { // even if it has been yanked
		if !slices.Contains(l.Listing.Versions, exact) {
			return nil, exact, l.Listing.NoVersion(exact)
		}
		return l, exact, nil
	}
	v, ok := selectVersion(l, it)
	if !ok {
		return nil, v, noneSelected(l, it)
	}
	return l, v, nil
}

func noneSelected(l *catalog.Versions, it addr.Selection) error {
	if len(l.Listing.Versions) > 0 && !slices.ContainsFunc(l.Listing.Versions, func(v addr.Version) bool { return !v.Edition() && l.Listing.Status(v).Yanked == nil }) {
		return fmt.Errorf("every version of %s is withdrawn, okara list shows why: %w", it.Item, oci.ErrNotFound)
	}
	return fmt.Errorf("%s has no such version: %w", it.Item, oci.ErrNotFound)
}

// selectVersion returns the version that an item without an exact version selects.
func selectVersion(l *catalog.Versions, it addr.Selection) (addr.Version, bool) {
	if it.Versions != "" {
		return l.Highest(it.Allow.Allows)
	}
	return l.Latest()
}
