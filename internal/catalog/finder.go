// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/search"
)

const (
	refreshEach  = time.Second / 3  // delay after each request of the refresh
	refreshEvery = 55 * time.Minute // age at which the repository of an entry is read again
	retryAfter   = time.Minute      // the same after a failure
	rereadAge    = 24 * time.Hour   // maximum age of what a tag list does not show, such as a scan
	writeEvery   = 10 * time.Minute
	writeFirst   = time.Minute // after the start
	showEvery    = 10 * time.Second
	lookEvery    = 30 * time.Second // how often the list of the catalog is checked
	planEvery    = time.Minute      // how often the refresh is planned again
	maxNoted     = 100_000          // repositories
	maxChanged   = 64               // the same, read before the index is made again
)

// Finder keeps an index of the items of a catalog, for searches. At the start it reads
// the stored index, which other processes write too. Versions that this process publishes
// or reads are added at once, and a refresh reads the rest, with at most three requests a
// second. It is safe for concurrent use.
//
// The catalog decides which items exist, and the index describes them. A search needs
// only the list of the catalog.
type Finder struct {
	c         *Catalog
	templates bool // search finds templates too
	log       *slog.Logger
	now       func() time.Time

	shown atomic.Pointer[shown]
	views search.Views
	wake  chan struct{}

	making  sync.Mutex // held while an index is made
	mu      sync.Mutex // guards the fields below
	entries map[string]search.Entry
	loaded  bool // the stored index was read, or does not exist
	stale   bool // entries has more than is shown
	unsaved bool // entries has more than is stored
	keep    bool // the registry accepts no index from this process
	written time.Time

	dirty     map[string]bool // repositories that changed; true: by this process
	asked     map[string]int  // how often the list of a repository was requested
	planned   *Published      // the list from which todo was made
	plannedAt time.Time
	todo      []addr.Item // what the refresh reads next
}

// shown is the index that searches use.
type shown struct {
	base *Published // the list from which it was made
	x    *search.Index
	at   time.Time
}

// NewFinder returns the finder of a fresh catalog, of templates too if given.
func NewFinder(c *Catalog, templates bool) *Finder {
	f := &Finder{c: c, templates: templates, log: c.lost.log, now: c.policy.now, wake: make(chan struct{}, 1), entries: map[string]search.Entry{}, dirty: map[string]bool{}, asked: map[string]int{}}
	c.finder = f
	c.lost.server = true
	return f
}

// View returns the index's part for which may is true; rights identifies that. It waits two seconds
// for the first list; complete is false while that is read. An error: it could not be read.
func (f *Finder) View(ctx context.Context, rights string, may func(kind, address string) bool) (v *search.View, complete bool, err error) {
	x, complete, err := f.currentIndex(ctx)
	if err != nil {
		return nil, false, err
	}
	return f.views.Of(x, rights, f.now(), may), complete, nil
}

func (f *Finder) currentIndex(ctx context.Context) (x *search.Index, complete bool, err error) {
	wait, cancel := context.WithTimeout(ctx, cache.Patience)
	defer cancel()
	base, err := f.c.Published(wait)
	if err == nil {
		return f.indexOf(base).x, true, nil
	}
	if now := f.shown.Load(); now != nil {
		return now.x, true, nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return search.NewIndex(nil), false, nil
	}
	return nil, false, err
}

// indexOf returns the index for a list of the catalog.
func (f *Finder) indexOf(base *Published) *shown {
	if now := f.shown.Load(); now != nil && now.base == base {
		return now
	}
	return f.replaceIndex(base)
}

// replaceIndex replaces the index that searches use.
func (f *Finder) replaceIndex(base *Published) *shown {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	if now := f.shown.Load(); now != nil && now.base == base && !f.stale {
		f.mu.Unlock()
		return now
	}
	f.stale = false
	entries := make([]search.Entry, 0, len(base.items))
	for _, it := range f.items(base) {
		e := f.entry(it)
		e.Title = base.Titles[it]
		entries = append(entries, e)
	}
	f.mu.Unlock()
	now := &shown{base, search.NewIndex(entries), f.now()}
	f.shown.Store(now)
	return now
}

// items returns the items of a list that a search can find.
func (f *Finder) items(base *Published) []addr.Item {
	if f.templates {
		return slices.Concat(base.items, base.templates)
	}
	return base.items
}

// entry returns the entry of an item, empty if it was not read; f.mu is held.
func (f *Finder) entry(it addr.Item) search.Entry {
	e := search.Entry{Kind: it.Kind, Address: it.String()}
	if known, ok := f.entries[e.Key()]; ok {
		return known
	}
	return e
}

// recordChange records that a repository has changed, or the list of all if it is "". Here: this
// process changed it, so that its entry is read anew even if its tags are the same.
func (f *Finder) recordChange(repository string, here bool) {
	f.mu.Lock()
	if repository != "" && len(f.dirty) < maxNoted {
		f.dirty[repository] = f.dirty[repository] || here
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// recordRequest records that the list of a repository was requested.
func (f *Finder) recordRequest(repository string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, ok := f.asked[repository]; ok || len(f.asked) < maxNoted {
		f.asked[repository] = min(n+1, maxNoted)
	}
}

// Run updates the index until ctx ends. It is called once per process.
func (f *Finder) Run(ctx context.Context) {
	f.mu.Lock()
	f.written = f.now().Add(writeFirst - writeEvery)
	f.mu.Unlock()
	for ctx.Err() == nil {
		began := f.now()
		wait := f.readNext(ctx)
		// After each change the list and the index are made anew: in a large catalog for a tenth of the time at most.
		rest := min(9*f.now().Sub(began), showEvery)
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
		t := time.NewTimer(max(0, wait-rest))
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-f.wake:
		}
		t.Stop()
	}
}

// readNext reads what this process changed, and one more repository. It returns how long to wait before the next step.
func (f *Finder) readNext(ctx context.Context) time.Duration {
	base, err := f.c.Published(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.log.Warn("reading the catalog for the search failed", "error", err)
		}
		return cache.FailureTTL
	}
	it, changed, ok := f.nextItem(base)
	shows := changed
	for range maxChanged {
		if !changed {
			break
		}
		f.readItem(ctx, it, true)
		it, changed, ok = f.nextItem(base)
	}
	if !ok {
		f.showEntries(base, true) // nothing else is to be read
		f.saveIndexIfDue(ctx, base)
		return lookEvery
	}
	cost := f.readItem(ctx, it, changed)
	f.showEntries(base, shows)
	f.saveIndexIfDue(ctx, base)
	if changed {
		return 0
	}
	return time.Duration(max(1, cost)) * refreshEach
}

// readItem reads the entry of an item, and returns how many requests that took.
func (f *Finder) readItem(ctx context.Context, it addr.Item, changed bool) int {
	cost, err := f.readEntry(ctx, it, changed)
	if err != nil && ctx.Err() == nil {
		f.log.Warn("reading a repository for the search failed", "repository", it.Repository(f.c.layout), "error", err)
	}
	return cost
}

// showEntries makes new entries visible to searches, at once or at intervals.
func (f *Finder) showEntries(base *Published, at bool) {
	now := f.shown.Load()
	f.mu.Lock()
	due := f.stale && (at || now == nil || f.now().Sub(now.at) >= showEvery)
	f.mu.Unlock()
	if due || now == nil || now.base != base {
		f.replaceIndex(base)
	}
}

// nextItem returns the item to read next: changed here, unknown, oldest; most requested first.
func (f *Finder) nextItem(base *Published) (it addr.Item, changed, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for repository, here := range f.dirty {
		delete(f.dirty, repository)
		if it, ok = f.c.layout.Parse(repository); ok && (it.Versioned() || f.templates && it.Kind == addr.KindTemplate) {
			return it, here, true
		}
	}
	if now := f.now(); f.planned != base || now.Sub(f.plannedAt) >= planEvery {
		f.planned = base
		f.plannedAt = now
		f.todo = f.planReads(base, now)
	}
	if len(f.todo) == 0 {
		return it, false, false
	}
	it = f.todo[0]
	f.todo = f.todo[1:]
	return it, false, true
}

// planReads returns the items to read, in order; f.mu is held.
func (f *Finder) planReads(base *Published, now time.Time) []addr.Item {
	var todo []addr.Item
	asked := map[addr.Item]int{}
	for _, it := range f.items(base) {
		switch e := f.entry(it); {
		case e.Listed.IsZero():
			asked[it] = maxNoted
		case now.Sub(e.Listed) < refreshEvery:
			continue
		}
		asked[it] += f.asked[it.Repository(f.c.layout)]
		todo = append(todo, it)
	}
	slices.SortStableFunc(todo, func(a, b addr.Item) int { return asked[b] - asked[a] })
	return todo
}
