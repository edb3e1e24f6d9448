// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Versions are the versions of one item at one time.
type Versions struct {
	Listing *depot.Listing // all versions, with their status events
	Listed  []addr.Version // those that are served, highest first, editions included: not withdrawn, lost or refused

	Derived sync.Map // values that callers derive from these versions, by form

	yanked  map[addr.Version]evidence.StatusEvent
	refused map[addr.Version]error // by the policy, or because they are lost
	learned atomic.Int64           // how often more became known about a version
	base    *Versions              // in a union with the versions of an origin: those in the registry
}

// Revision increases when more becomes known about a version.
func (l *Versions) Revision() int64 {
	n := l.learned.Load()
	if l.base != nil {
		n += l.base.learned.Load()
	}
	return n
}

// Learn increases the revision.
func (l *Versions) Learn() { l.learned.Add(1) }

func (l *Versions) size() int {
	// The versions and the encoded answers are each about as large as the tags.
	n := 256
	for _, t := range l.Listing.Tags {
		n += 3*len(t) + 128
	}
	return n
}

// PeekProvider returns the cached versions of a provider, without a request.
func (c *Catalog) PeekProvider(p addr.Provider) (*Versions, bool) {
	return c.lists.Peek(p.Item().Repository(c.layout))
}

// Versions returns an item's versions, or [oci.ErrNotFound].
func (c *Catalog) Versions(ctx context.Context, it addr.Item) (*Versions, error) {
	repository := it.Repository(c.layout)
	return c.lists.Get(ctx, repository, listPolicy(), func(ctx context.Context, old *Versions, has bool) (*Versions, error) {
		r, err := c.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		var known *depot.Listing
		if has {
			known = old.Listing
		}
		all, err := depot.ListVersions(ctx, r, it.Kind, known)
		if err != nil {
			return nil, err
		}
		if c.finder != nil {
			c.finder.recordRequest(repository)
		}
		if _, _, ok := c.policy.requirement(repository); all == known && !ok && len(c.lost.lostIn(repository)) == 0 {
			return old, nil
		}
		c.lost.warnListed(repository, all.Dangling)
		for _, warning := range all.WarnCached() {
			if c.lost.shouldLog(repository) {
				c.lost.log.Warn(warning, "repository", repository)
			}
		}
		l := &Versions{Listing: all}
		l.split()
		for v := range l.Listing.Hidden {
			l.refuse(v, newRefused("%v", l.Listing.NoVersion(v)))
		}
		if it.Versioned() {
			dropForeign(ctx, c, repository, l)
		}
		back := dropLost(ctx, c, r, repository, l)
		if err := c.policy.screenVersions(ctx, repository, l); err != nil {
			return nil, err
		}
		if all == known && slices.Equal(old.Listed, l.Listed) && !back {
			return old, nil
		}
		if c.finder != nil && known != nil {
			c.finder.recordChange(repository, false)
		}
		return l, nil
	})
}

// listForVersion is Versions for one version; a repository just made elsewhere is an empty list.
func listForVersion(ctx context.Context, c *Catalog, it addr.Item) (*Versions, error) {
	l, err := c.Versions(ctx, it)
	if errors.Is(err, oci.ErrNotFound) {
		return &Versions{Listing: &depot.Listing{}}, nil
	}
	return l, err
}

// All returns the served and the withdrawn versions, highest first.
func (l *Versions) All() []addr.Version {
	return slices.DeleteFunc(slices.Clone(l.Listing.Versions), func(v addr.Version) bool {
		return l.refused[v] != nil || !slices.Contains(l.Listed, v) && !l.Withdrawn(v)
	})
}

// Shown returns the listing with the served and the withdrawn versions alone.
func (l *Versions) Shown() *depot.Listing {
	listing := *l.Listing
	listing.Versions = l.All()
	listing.Cached = false // the catalog has warned
	return &listing
}

// Highest returns the highest served version that allow accepts.
func (l *Versions) Highest(allow func(addr.Version) bool) (addr.Version, bool) {
	if i := slices.IndexFunc(l.Listed, allow); i >= 0 {
		return l.Listed[i], true
	}
	return addr.Version{}, false
}

// Latest returns the highest served release, else pre-release, never an edition.
func (l *Versions) Latest() (addr.Version, bool) {
	if v, ok := l.Highest(func(v addr.Version) bool { return !v.Prerelease() }); ok {
		return v, true
	}
	return l.Highest(func(v addr.Version) bool { return !v.Edition() })
}

// Union adds an origin's versions to the registry's, which may be nil and takes precedence: what
// was withdrawn or lost here is not added.
func Union(stored *Versions, origin []addr.Version) *Versions {
	u := &Versions{Listing: &depot.Listing{}, Listed: slices.Clone(origin), base: stored}
	if stored != nil {
		u.Listing = stored.Listing
		u.yanked = stored.yanked
		u.Listed = slices.DeleteFunc(u.Listed, func(v addr.Version) bool { return stored.Available(v) != nil || stored.Withdrawn(v) })
		u.Listed = append(u.Listed, stored.Listed...)
	}
	slices.SortFunc(u.Listed, func(a, b addr.Version) int { return b.Compare(a) })
	u.Listed = slices.Compact(u.Listed)
	return u
}

// Of reports whether l is a union with stored.
func (l *Versions) Of(stored *Versions) bool { return l.base == stored }
