// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed-141914ff/okara/oci"
)

// Forever is longer than any process lives.
const Forever = time.Duration(math.MaxInt64)

const (
	missingTTL  = 5 * time.Second  // how long "not found" is remembered
	FailureTTL  = 5 * time.Second  // how long an old value is served without waiting after a failed refresh
	Patience    = 2 * time.Second  // how long a request waits for a newer value when an old one is available
	LoadTimeout = 30 * time.Second // for one shared fetch, which belongs to no request
)

// Policy says how long a value is used; the durations add up. It is used as it is during Fresh,
// while a refresh runs during Grace; then requests wait. While a refresh fails temporarily, the old
// value serves until it is Stale old.
type Policy struct {
	Fresh, Grace, Stale time.Duration
}

// Cache holds values by key; the least recently used are removed when limit is
// exceeded. Identical misses share one load. It is safe for concurrent use.
type Cache[V any] struct {
	kind   string
	limit  int
	size   func(V) int
	now    func() time.Time
	count  func(kind, result string) // hit, miss, stale, coalesced
	flight singleflight.Group

	mu      sync.Mutex // guards the fields below
	entries map[string]*list.Element
	order   *list.List // of *entry[V], most recently used first
	bytes   int
	kept    int // entries so far
	epoch   int // raised by Forget, so that the result of an earlier load is not cached
}

type entry[V any] struct {
	key       string
	number    int // sequence number among all cached entries
	value     V
	err       error // "not found", kept for missingTTL
	at        time.Time
	failed    time.Time // of the last refresh that failed
	size      int
	refreshed bool // a background refresh runs
}

// New returns an empty cache. limit is in bytes of size; count gets hit, miss, stale or coalesced,
// under kind.
func New[V any](kind string, limit int, size func(V) int, now func() time.Time, count func(kind, result string)) *Cache[V] {
	return &Cache[V]{
		kind: kind, limit: limit, size: size, now: now, count: count,
		entries: make(map[string]*list.Element), order: list.New(),
	}
}

// Loader fetches a value. An unchanged old one, if has, should be returned, so that what derives
// from it stays.
type Loader[V any] func(ctx context.Context, old V, has bool) (V, error)

// Get returns a value, from memory or load, which goes on for others when ctx ends.
func (c *Cache[V]) Get(ctx context.Context, key string, p Policy, load Loader[V]) (V, error) {
	e, state, kept := c.lookUp(key, p)
	switch state {
	case fresh:
		c.count(c.kind, "hit")
		return e.value, e.err
	case ageing:
		c.count(c.kind, "hit")
		c.startLoad(ctx, key, load)
		return e.value, nil
	case failing:
		c.count(c.kind, "stale")
		c.startLoad(ctx, key, load)
		return e.value, nil
	case old:
		wait, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		v, err := c.wait(wait, key, kept, load)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			c.count(c.kind, "stale")
			return e.value, nil
		}
		return v, err
	}
	return c.wait(ctx, key, kept, load)
}

type freshness int

const (
	absent  freshness = iota
	fresh             // valid, or known to be missing
	ageing            // valid, and being refreshed
	failing           // old; the last refresh failed recently
	old               // must be refreshed first
)

// lookUp returns key's entry, its freshness, and how many were cached so far. It marks a refresh
// that the caller has to start.
func (c *Cache[V]) lookUp(key string, p Policy) (entry[V], freshness, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, f := c.judgeEntry(key, p)
	return e, f, c.kept
}

// judgeEntry is lookUp without the count. The caller must hold mu.
func (c *Cache[V]) judgeEntry(key string, p Policy) (entry[V], freshness) {
	el, ok := c.entries[key]
	if !ok {
		return entry[V]{}, absent
	}
	c.order.MoveToFront(el)
	e := el.Value.(*entry[V])
	now := c.now()
	age := now.Sub(e.at)
	switch {
	case e.err != nil && age < missingTTL:
		return *e, fresh
	case e.err != nil:
		return entry[V]{}, absent
	case age < p.Fresh:
		return *e, fresh
	case age-p.Fresh < p.Grace:
		if e.refreshed || now.Sub(e.failed) < FailureTTL {
			return *e, fresh
		}
		e.refreshed = true
		return *e, ageing
	case age < p.Stale && now.Sub(e.failed) < FailureTTL:
		if e.refreshed {
			return *e, fresh
		}
		return *e, failing
	case age < p.Stale:
		return *e, old
	}
	return entry[V]{}, absent
}

func (c *Cache[V]) startLoad(ctx context.Context, key string, load Loader[V]) {
	c.flight.DoChan(key, c.fetch(ctx, key, load))
}

// wait loads a value missing when kept entries had been cached, or uses one cached since.
func (c *Cache[V]) wait(ctx context.Context, key string, kept int, load Loader[V]) (V, error) {
	own := false
	fetch := c.fetch(ctx, key, load)
	ch := c.flight.DoChan(key, func() (any, error) {
		if e, ok := c.cachedSince(key, kept); ok {
			return e.value, e.err
		}
		own = true
		return fetch()
	})
	select {
	case r := <-ch:
		if own {
			c.count(c.kind, "miss")
		} else {
			c.count(c.kind, "coalesced")
		}
		v, _ := r.Val.(V)
		return v, r.Err
	case <-ctx.Done():
		var zero V
		return zero, fmt.Errorf("wait for the registry: %w", context.Cause(ctx))
	}
}

// fetch returns the function that runs load once and caches its result.
func (c *Cache[V]) fetch(ctx context.Context, key string, load Loader[V]) func() (any, error) {
	return func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LoadTimeout)
		defer cancel()
		old, has, epoch := c.cachedValue(key)
		v, err := guardLoad(ctx, load, old, has)
		c.keepValue(key, v, err, epoch)
		return v, err
	}
}

// guardLoad turns a load's panic into an error for its waiters: the goroutine is its own.
func guardLoad[V any](ctx context.Context, load Loader[V], old V, has bool) (v V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return load(ctx, old, has)
}

// cachedSince returns the entry of key if it was cached after the first kept entries.
func (c *Cache[V]) cachedSince(key string, kept int) (entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[key]
	if !ok {
		return entry[V]{}, false
	}
	e := el.Value.(*entry[V])
	return *e, e.number > kept
}

func (c *Cache[V]) cachedValue(key string) (v V, has bool, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[key]; ok {
		if e := el.Value.(*entry[V]); e.err == nil {
			return e.value, true, c.epoch
		}
	}
	return v, false, c.epoch
}

func (c *Cache[V]) keepValue(key string, v V, err error, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[key]
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		if ok {
			e := el.Value.(*entry[V])
			e.failed = c.now()
			e.refreshed = false
		}
		return
	}
	if epoch != c.epoch {
		return
	}
	if ok {
		c.removeEntry(el)
	}
	c.kept++
	e := &entry[V]{key: key, number: c.kept, value: v, err: err, at: c.now(), size: len(key) + 128}
	if err == nil {
		e.size += c.size(v)
	}
	c.entries[key] = c.order.PushFront(e)
	c.bytes += e.size
	for c.bytes > c.limit && c.order.Len() > 1 {
		c.removeEntry(c.order.Back())
	}
}

// Put caches a value that was obtained in another way.
func (c *Cache[V]) Put(key string, v V) {
	c.mu.Lock()
	epoch := c.epoch
	c.mu.Unlock()
	c.keepValue(key, v, nil, epoch)
}

// Peek returns the value of key if it is cached, without loading it.
func (c *Cache[V]) Peek(key string) (V, bool) {
	v, has, _ := c.cachedValue(key)
	return v, has
}

// Age returns how long ago the value of key was loaded, or found unchanged.
func (c *Cache[V]) Age(key string) (age time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[key]
	if !ok {
		return 0, false
	}
	e := el.Value.(*entry[V])
	return c.now().Sub(e.at), e.err == nil
}

// Forget drops the value of key, and the result of every running load.
func (c *Cache[V]) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.flight.Forget(key)
	if el, ok := c.entries[key]; ok {
		c.removeEntry(el)
	}
}

// removeEntry drops an entry. The caller must hold mu.
func (c *Cache[V]) removeEntry(el *list.Element) {
	e := c.order.Remove(el).(*entry[V])
	delete(c.entries, e.key)
	c.bytes -= e.size
}
