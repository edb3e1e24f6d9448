// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const catalogueParallel = 8

// Catalogue returns what has been published into the depot, sorted by kind and
// address. A depot without a catalogue is empty.
func (d *Depot) Catalogue(ctx context.Context) ([]artifact.CatalogEntry, error) {
	r, err := d.Repo(d.o.Layout.CatalogRepo())
	if err != nil {
		return nil, err
	}
	list, err := r.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tags := slices.DeleteFunc(list.Tags, func(tag string) bool { return !artifact.IsCatalogTag(tag) })
	entries := make([]artifact.CatalogEntry, len(tags))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(catalogueParallel)
	for i, tag := range tags {
		g.Go(func() (err error) {
			entries[i], err = artifact.ReadCatalogEntry(ctx, r, tag)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b artifact.CatalogEntry) int {
		return strings.Compare(a.Kind+" "+a.Address, b.Kind+" "+b.Address)
	})
	return entries, nil
}

// Listing is the list of versions of a module or provider.
type Listing struct {
	Repository *oci.Repo
	Versions   []addr.Version // highest first
	Tags       []string       // all of them

	events []artifact.StatusEvent
}

// Versions lists the versions in a repository of the layout. A repository
// without any version is oci.ErrNotFound.
func (d *Depot) Versions(ctx context.Context, repository string) (*Listing, error) {
	r, err := d.Repo(repository)
	if err != nil {
		return nil, err
	}
	l, err := d.Listing(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case len(l.Tags) == 0:
		return nil, fmt.Errorf("nothing is published in %s: %w", r, oci.ErrNotFound)
	case len(l.Versions) == 0:
		return nil, fmt.Errorf("%s has no version: %w", r, oci.ErrNotFound)
	}
	return l, nil
}

// Listing is Versions of a repository that may have none or not exist.
func (d *Depot) Listing(ctx context.Context, r *oci.Repo) (*Listing, error) {
	list, err := r.Snapshot(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return nil, err
	}
	l := &Listing{Repository: r, Tags: list.Tags}
	for _, tag := range list.Tags {
		if v, ok := addr.VersionFromTag(tag); ok {
			l.Versions = append(l.Versions, v)
		}
	}
	slices.SortFunc(l.Versions, func(a, b addr.Version) int { return b.Compare(a) })
	l.events, err = artifact.ReadStatusEvents(ctx, r, list.Tags)
	return l, err
}

// Status returns what the status events say about a version, signatures apart.
func (l *Listing) Status(v addr.Version) artifact.Status { return l.StatusOf(v, "") }

// StatusOf is Status with what was signed again for the manifest.
func (l *Listing) StatusOf(v addr.Version, manifest digest.Digest) artifact.Status {
	return artifact.FoldStatus(l.events, v.String(), manifest)
}

// Highest returns the highest version that allow accepts and that has not been
// yanked, oci.ErrNotFound if there is none.
func (l *Listing) Highest(allow func(addr.Version) bool) (addr.Version, error) {
	for _, v := range l.Versions {
		if allow(v) && l.Status(v).Yanked == nil {
			return v, nil
		}
	}
	return addr.Version{}, fmt.Errorf("%s has no such version: %w", l.Repository, oci.ErrNotFound)
}
