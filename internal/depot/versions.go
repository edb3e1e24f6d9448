// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// catalogParallel is how many entries are read concurrently.
const catalogParallel = 8

// Catalog is the list of everything that was published into a depot.
type Catalog struct {
	Entries  []artifact.CatalogEntry // by kind and address
	Tags     []string                // of the catalog repository, sorted
	Dangling []string                // tags that are listed although their GET returns 404

	byTag map[string]artifact.CatalogEntry
}

// KnownCatalog returns known entries as a start for [ReadCatalog], which drops those that are gone.
func KnownCatalog(entries []artifact.CatalogEntry) *Catalog {
	c := &Catalog{byTag: make(map[string]artifact.CatalogEntry, len(entries))}
	for _, e := range entries {
		c.byTag[artifact.CatalogTag(e.Repository)] = e
	}
	return c
}

// ReadCatalog reads the catalog r. Entries never change: those in old, which may be nil, are not
// read again, and with equal tags it returns old. What is no entry is skipped, what dangles is read
// each time. An error comes with what is known, from which the next read can continue. note, if not
// nil, is called repeatedly and concurrently with the numbers of entries known and in all.
func ReadCatalog(ctx context.Context, r *oci.Repo, old *Catalog, note func(known, all int)) (*Catalog, error) {
	list, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	c := &Catalog{Tags: slices.Sorted(slices.Values(list.Tags))}
	if old == nil {
		old = &Catalog{}
	} else if slices.Equal(old.Tags, c.Tags) && len(old.Dangling) == 0 {
		return old, nil
	}
	entries := make([]artifact.CatalogEntry, len(c.Tags))
	missing := make([]bool, len(c.Tags))
	done := make([]bool, len(c.Tags))
	var todo []int
	all := 0
	for i, tag := range c.Tags {
		entry := artifact.IsCatalogTag(tag)
		if entry {
			all++
		}
		if entries[i], done[i] = old.byTag[tag]; entry && !done[i] {
			todo = append(todo, i)
		}
	}
	var known atomic.Int64
	noted := func(n int) {
		if n := known.Add(int64(n)); note != nil {
			note(int(n), all)
		}
	}
	noted(all - len(todo))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(catalogParallel)
	for _, i := range todo {
		g.Go(func() error {
			e, err := artifact.ReadCatalogEntry(ctx, r, c.Tags[i])
			noted(1)
			if errors.Is(err, oci.ErrCorrupt) {
				return nil // not an entry
			}
			entries[i] = e
			missing[i] = errors.Is(err, oci.ErrNotFound)
			if missing[i] {
				return nil
			}
			done[i] = err == nil
			return err
		})
	}
	if err := g.Wait(); err != nil {
		known := &Catalog{byTag: make(map[string]artifact.CatalogEntry, len(c.Tags))}
		for i, e := range entries {
			if done[i] {
				known.byTag[c.Tags[i]] = e
			}
		}
		return known, err
	}
	c.byTag = make(map[string]artifact.CatalogEntry, len(c.Tags))
	for i, e := range entries {
		if missing[i] {
			c.Dangling = append(c.Dangling, c.Tags[i])
			continue
		}
		c.byTag[c.Tags[i]] = e
		if e.Kind != "" {
			c.Entries = append(c.Entries, e)
		}
	}
	if slices.Equal(old.Tags, c.Tags) && slices.Equal(old.Dangling, c.Dangling) {
		return old, nil
	}
	slices.SortFunc(c.Entries, func(a, b artifact.CatalogEntry) int {
		return strings.Compare(a.Kind+" "+a.Address, b.Kind+" "+b.Address)
	})
	return c, nil
}

// Catalog returns all that is published, sorted by kind and address; empty without a catalog.
func (d *Depot) Catalog(ctx context.Context) ([]artifact.CatalogEntry, error) {
	c, err := readCatalog(ctx, d)
	return c.Entries, err
}

func readCatalog(ctx context.Context, d *Depot) (*Catalog, error) {
	r, err := d.Repo(d.o.Layout.CatalogRepo())
	if err != nil {
		return &Catalog{}, err
	}
	c, err := ReadCatalog(ctx, r, nil, nil)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return &Catalog{}, nil
	case err != nil:
		return &Catalog{}, err
	}
	return c, nil
}

// Listing is the list of versions of a module or provider.
type Listing struct {
	Repository *oci.Repo
	Kind       string                        // of the item
	Versions   []addr.Version                // highest first
	Hidden     map[addr.Version]addr.Version // versions that differ from one published before only after "+", which is the value
	Tags       []string                      // all of them, sorted
	Events     []evidence.StatusEvent        // in chronological order
	Dangling   []string                      // tags of events that are listed although their GET returns 404
	Times      map[string]time.Time          // recorded publish times, by version tag
	Cached     bool                          // a cache answered, so the list may be old

	moved  map[string]time.Time // when the last edition of a version was published, by version tag
	future []string             // tags of events and publish times that are not due
	ahead  time.Duration        // of the registry's clock before the own one, as far as a list told
}

// Versions lists an item's versions; oci.ErrNotFound if there are none.
func (d *Depot) Versions(ctx context.Context, it addr.Item) (*Listing, error) {
	l, err := d.ReadListing(ctx, it)
	if err == nil {
		err = l.emptyError()
	}
	return l, err
}

// ReadListing is [Depot.Versions] for an item that may have no version.
func (d *Depot) ReadListing(ctx context.Context, it addr.Item) (*Listing, error) {
	r, err := d.Repo(it.Repository(d.o.Layout))
	if err != nil {
		return nil, err
	}
	return ReadListing(ctx, r, it.Kind, nil)
}

// Subject reads a version to verify or sign; oci.ErrNotFound if it does not exist.
func (d *Depot) Subject(ctx context.Context, it addr.Item, v addr.Version) (trust.Subject, error) {
	l, err := d.Versions(ctx, it)
	if err != nil {
		return trust.Subject{}, err
	}
	if _, hidden := l.Hidden[v]; hidden {
		return trust.Subject{}, l.NoVersion(v)
	}
	m, err := l.Repository.Fetch(ctx, v.Tag())
	if errors.Is(err, oci.ErrNotFound) && !l.hasVersion(v) {
		err = l.NoVersion(v)
	}
	return d.SubjectOf(it, l, v, m), err
}

// SubjectOf is [Depot.Subject] for a manifest that the caller has, as version v.
func (d *Depot) SubjectOf(it addr.Item, l *Listing, v addr.Version, m oci.Manifest) trust.Subject {
	return trust.Subject{Repository: l.Repository, Item: it, Name: d.o.Layout.Below(l.Repository.Name()), NameFromServer: d.o.LayoutFromServer, Version: v, Manifest: m, Events: l.Events, Now: l.now()}
}

// Verify is [trust.Verify] for a version of the depot.
func (d *Depot) Verify(ctx context.Context, it addr.Item, v addr.Version, o trust.Policy) ([]trust.Check, error) {
	s, err := d.Subject(ctx, it, v)
	if err != nil {
		return nil, err
	}
	return trust.Verify(ctx, s, o)
}

// ListVersions is [Depot.Versions] for repeated reads: events in old are not read again, and with
// nothing new it returns old, which may be nil.
func ListVersions(ctx context.Context, r *oci.Repo, kind string, old *Listing) (*Listing, error) {
	l, err := ReadListing(ctx, r, kind, old)
	if err == nil {
		err = l.emptyError()
	}
	return l, err
}

// emptyError returns the error for a list without any version.
func (l *Listing) emptyError() error {
	switch {
	case len(l.Tags) == 0:
		return &UnpublishedError{l.Repository.String()}
	case len(l.Versions) == 0:
		return fmt.Errorf("%s has no versions: %w", l.Repository, oci.ErrNotFound)
	}
	return nil
}

// ReadListing is [ListVersions] for a repository that may have no version, or not exist.
func ReadListing(ctx context.Context, r *oci.Repo, kind string, old *Listing) (*Listing, error) {
	list, err := r.Snapshot(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return nil, err
	}
	if old == nil {
		old = &Listing{Repository: r, Kind: kind}
	}
	return old.withTags(ctx, list)
}

// now returns the time by the registry's clock, if that is known and differs.
func (l *Listing) now() time.Time {
	if l.ahead.Abs() > clocksDiffer {
		return time.Now().Add(l.ahead)
	}
	return time.Now()
}

// Warnings returns what a reader should know: what is not offered, and that a cache answered.
func (l *Listing) Warnings() (out []string) {
	for _, v := range slices.SortedFunc(maps.Keys(l.Hidden), addr.Version.Compare) {
		out = append(out, fmt.Sprintf("version %s is not available: %s", v, l.whyHidden(v)))
	}
	return append(out, l.WarnCached()...)
}

func (l *Listing) whyHidden(v addr.Version) string {
	return fmt.Sprintf("to OpenTofu and Terraform it is %s, which was published first", l.Hidden[v])
}

// WarnCached returns the warning that a cache answered.
func (l *Listing) WarnCached() []string {
	if !l.Cached {
		return nil
	}
	return []string{"the response came from a cache of the registry: a version withdrawn since then still appears as available; query the registry behind it"}
}

// withTags returns the list with these tags, reading new events, future ones when due.
func (old *Listing) withTags(ctx context.Context, list oci.TagList) (*Listing, error) {
	l := &Listing{Repository: old.Repository, Kind: old.Kind, Tags: slices.Sorted(slices.Values(list.Tags)), Events: old.Events, Cached: list.Cached, ahead: old.ahead}
	if !list.Date.IsZero() && !list.Cached {
		l.ahead = time.Until(list.Date)
	}
	var fresh []string
	for _, tag := range l.Tags {
		_, known := slices.BinarySearch(old.Tags, tag)
		isUnread := !known || slices.Contains(old.Dangling, tag) || slices.Contains(old.future, tag)
		switch _, at, _ := parseTime(tag); {
		case isUnread && evidence.IsStatusAhead(tag, list.Date), at.After(l.now().Add(clocksDiffer)):
			l.future = append(l.future, tag)
		case isUnread && evidence.IsStatusTag(tag):
			fresh = append(fresh, tag)
		}
	}
	isSame := len(old.Tags) > 0 && slices.Equal(old.Tags, l.Tags) && slices.Equal(old.future, l.future) && old.Cached == l.Cached
	if len(fresh) > 0 {
		read, dangling, err := evidence.ReadStatusEvents(ctx, l.Repository, oci.TagList{Tags: fresh, Date: list.Date})
		if err != nil {
			return nil, err
		}
		l.Dangling = dangling
		l.Events = slices.SortedFunc(slices.Values(slices.Concat(old.Events, read)), func(a, b evidence.StatusEvent) int { return cmp.Compare(a.Tag, b.Tag) })
	}
	if isSame && slices.Equal(old.Dangling, l.Dangling) {
		return old, nil
	}
	l.Times, l.moved = timesIn(l.Tags, l.now())
	for _, tag := range l.Tags {
		if v, ok := addr.VersionFromTag(tag); ok {
			l.Versions = append(l.Versions, v)
		}
	}
	slices.SortFunc(l.Versions, func(a, b addr.Version) int { return b.Compare(a) })
	l.hide()
	return l, nil
}

// UnpublishedError means that an item has no version. It wraps oci.ErrNotFound.
type UnpublishedError struct{ Repository string }

func (e *UnpublishedError) Error() string {
	return fmt.Sprintf("nothing is published in %s: %v", e.Repository, oci.ErrNotFound)
}

func (e *UnpublishedError) Unwrap() error { return oci.ErrNotFound }

// NoVersion returns the oci.ErrNotFound for a version that is not listed, with the newest that is.
func (l *Listing) NoVersion(v addr.Version) error {
	if e := l.Status(v).Yanked; e != nil && !l.hasVersion(v) {
		return fmt.Errorf("version %s of %s was withdrawn and removed%s: %w", v, l.Repository, e.Because(), oci.ErrNotFound)
	}
	if err := l.emptyError(); err != nil {
		return err
	}
	if _, hidden := l.Hidden[v]; hidden {
		return fmt.Errorf("version %s of %s is not available: %s: %w", v, l.Repository, l.whyHidden(v), oci.ErrNotFound)
	}
	return fmt.Errorf("%s has no version %s, the newest is %s: %w", l.Repository, v, l.Versions[0], oci.ErrNotFound)
}

// Status returns a version's status by events, without signatures.
func (l *Listing) Status(v addr.Version) evidence.Status { return l.StatusOf(v, "") }

// StatusOf is Status including the replaced signatures of the manifest.
func (l *Listing) StatusOf(v addr.Version, manifest digest.Digest) evidence.Status {
	return evidence.FoldStatus(l.Events, v.String(), manifest)
}

// Next returns the release after the highest, of a higher part, major, minor or patch (see
// [addr.Version.Bump]). Pre-releases are ignored, withdrawn versions count. The first is 1.0.0 for
// major, else 0.1.0.
func (l *Listing) Next(part string) (addr.Version, error) {
	highest, err := addr.ParseVersion("0.0.0")
	if err != nil {
		return highest, err
	}
	numbers := slices.Clone(l.Versions)
	for _, e := range l.Events {
		if v, err := addr.ParseVersion(e.Version); err == nil { // any publisher may push events
			numbers = append(numbers, v)
		}
	}
	for tag := range l.Times {
		if v, ok := addr.VersionFromTag(tag); ok {
			numbers = append(numbers, v)
		}
	}
	for _, v := range numbers {
		if !v.Prerelease() && v.Compare(highest) > 0 {
			highest = v
		}
	}
	if highest.String() == "0.0.0" && part == addr.Patch {
		part = addr.Minor
	}
	return highest.Bump(part)
}

// WarnYanked returns the warning that an existing version is yanked, and why.
func (l *Listing) WarnYanked(v addr.Version) []string {
	if e := l.Status(v).Yanked; e != nil {
		return []string{fmt.Sprintf("version %s was withdrawn%s; it is not served until it is unyanked", v, e.Because())}
	}
	return nil
}

// Selected returns matching versions, yanked ones too; oci.ErrNotFound if none.
func (l *Listing) Selected(it addr.Selection) ([]addr.Version, error) {
	versions := slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool { return !it.Selects(v) })
	switch {
	case len(l.Versions) == 0:
		return nil, fmt.Errorf("%s has no versions: %w", it.Item, oci.ErrNotFound)
	case len(versions) == 0:
		return nil, fmt.Errorf("%s has no version that matches %s, the newest is %s: %w", it.Item, it.Versions, l.Versions[0], oci.ErrNotFound)
	}
	return versions, nil
}
