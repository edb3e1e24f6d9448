// SPDX-License-Identifier: Apache-2.0

package downloads

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/taglog"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const (
	countEvery    = time.Hour       // how often counts are written and read
	countRetry    = time.Minute     // after a temporary failure
	countSaveTime = 5 * time.Second // for the final write, when the server shuts down
	countParallel = 4
	removedAtOnce = 100 // old tags per hour
)

// keepFor is how long a tag counts.
const keepFor = 400 * day

const day = 24 * time.Hour

// Options configures a counter. Repo is required.
type Options struct {
	Repo   *oci.Repo        // repository of the counts, shared by all replicas
	Logger *slog.Logger     // nil: none
	Now    func() time.Time // nil: time.Now
}

// Counter counts the downloads of this process, and knows the counts of all
// others. It is safe for concurrent use.
type Counter struct {
	repo *oci.Repo
	log  *slog.Logger
	now  func() time.Time
	id   string // of this process, in its tags

	old *taglog.Expiry // used only by read

	mu      sync.Mutex            // guards the fields below
	days    map[string]*dayCounts // counts of this process, by tag; old ones until they are written
	series  map[Counted]struct{}  // series of the metric
	own     tally                 // of this process, since its start
	settled tally                 // of all others, from the tags in merged
	merged  map[string]bool
	recent  map[string]map[Counted]int64 // by tag: counts that others may still change
	changes tally                        // the sum of recent
}

type dayCounts struct {
	by      map[Counted]int64
	changed bool // changed since the last write
}

// New returns a counter at zero. It sends no request.
func New(o Options) *Counter {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return &Counter{
		repo: o.Repo, log: o.Logger, old: taglog.New(o.Repo, o.Logger, "old counts of downloads"), now: o.Now, id: hex.EncodeToString(id), days: map[string]*dayCounts{}, series: map[Counted]struct{}{},
		own: tally{}, settled: tally{}, merged: map[string]bool{}, recent: map[string]map[Counted]int64{}, changes: tally{},
	}
}

// Add counts a download and returns its series in the metric.
func (c *Counter) Add(what Counted) Counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.countItem(what, dayOf(c.now()), 1)
	tag := CountTag(c.now(), c.id)
	day := c.days[tag]
	if day == nil {
		day = &dayCounts{by: map[Counted]int64{}}
		c.days[tag] = day
	}
	day.by[fitKey(day.by, what)]++
	day.changed = true
	what.Tool = ""
	what = fitKey(c.series, what)
	c.series[what] = struct{}{}
	return what
}

// fitKey returns the key under which a download is counted, at most [maxCounts] of them: half full,
// new versions count for their item; at the end all new items count together.
func fitKey[V any](m map[Counted]V, what Counted) Counted {
	if _, known := m[what]; known || len(m) < maxCounts/2 {
		return what
	}
	what.Version = ""
	if _, known := m[what]; known || len(m) < maxCounts-1 {
		return what
	}
	return Counted{}
}

// Total returns how often an item was downloaded, as far as this process knows.
func (c *Counter) Total(kind, address string) (n int64) {
	return c.sumDownloads(kind, address, func(d *daily) int64 { return d.total })
}

// Month is [Counter.Total] for the last 30 days.
func (c *Counter) Month(kind, address string) int64 {
	from := dayOf(c.now()) - monthDays + 1
	return c.sumDownloads(kind, address, func(d *daily) int64 { return d.sumSince(from) })
}

func (c *Counter) sumDownloads(kind, address string, of func(*daily) int64) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range []tally{c.own, c.settled, c.changes} {
		if i := t[item{kind, address}]; i != nil {
			n += of(&i.all)
		}
	}
	return n
}

// Of returns all known downloads of a module or provider.
func (c *Counter) Of(kind, address string) Stats {
	now := c.now().UTC()
	s := Stats{Last: now.Truncate(day)}
	c.mu.Lock()
	for _, t := range []tally{c.own, c.settled, c.changes} {
		t.addToStats(&s, item{kind, address}, dayOf(now))
	}
	c.mu.Unlock()
	sortParts(s.Versions)
	sortParts(s.Tools)
	return s
}

// Run reads others' counts and writes its own, now, every hour, and at the end of ctx.
func (c *Counter) Run(ctx context.Context) {
	for {
		wait := countEvery
		err := errors.Join(c.save(ctx), c.readCounts(ctx))
		if err != nil && ctx.Err() == nil {
			c.log.Warn("downloads are currently not counted", "error", err)
		}
		if errors.Is(err, oci.ErrUnavailable) {
			wait = countRetry
		}
		if text.Wait(ctx, wait) != nil {
			c.Finish(ctx)
			return
		}
	}
}

// Finish writes for the last time, with a short timeout.
func (c *Counter) Finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countSaveTime)
	defer cancel()
	if err := c.save(ctx); err != nil {
		c.log.Warn("the last downloads were not counted", "error", err)
	}
}

// save writes the changed days; failed writes are repeated the next time.
func (c *Counter) save(ctx context.Context) error {
	var errs []error
	for tag, by := range c.unsavedDays() {
		if err := PutCounts(ctx, c.repo, tag, by); err != nil {
			c.mu.Lock()
			c.days[tag].changed = true
			c.mu.Unlock()
			errs = append(errs, fmt.Errorf("write %s: %w", tag, err))
		}
	}
	return errors.Join(errs...)
}

// unsavedDays returns the days to write, by tag, and drops past ones that are written.
func (c *Counter) unsavedDays() map[string]map[Counted]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	todo := map[string]map[Counted]int64{}
	for tag, day := range c.days {
		switch {
		case day.changed:
			todo[tag] = maps.Clone(day.by)
			day.changed = false
		case tag != CountTag(c.now(), c.id):
			delete(c.days, tag)
		}
	}
	return todo
}

// readCounts adds up the counts of other processes.
func (c *Counter) readCounts(ctx context.Context) error {
	list, err := c.repo.Snapshot(ctx)
	if err != nil {
		return oci.IgnoreNotFound(err)
	}
	changing, old := c.splitOthers(list.Tags)
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(countParallel)
	for _, tag := range changing {
		g.Go(func() error {
			by, err := ReadCounts(reading, c.repo, tag)
			if errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) {
				err = nil // a foreign tag, or deleted
			}
			if err == nil {
				c.takeCounts(tag, by)
			}
			return err
		})
	}
	err = g.Wait()
	c.mu.Lock()
	c.changes = tally{}
	for tag, by := range c.recent {
		addAll(c.changes, tag, by)
	}
	for _, t := range []tally{c.own, c.settled} {
		t.foldItems(dayOf(c.now()) - Days + 1)
	}
	c.mu.Unlock()
	return errors.Join(err, c.old.Expire(ctx, old[:min(len(old), removedAtOnce)]...))
}

// settledBefore returns the day before which counts no longer change.
func (c *Counter) settledBefore() time.Time { return c.now().Add(-2 * day) }

// splitOthers splits the tags of other processes into those to read, which always
// include today and yesterday, and expired ones.
func (c *Counter) splitOthers(tags []string) (changing, old []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := make(map[string]bool, len(tags))
	for _, tag := range tags {
		there[tag] = true
		at, id, ok := ParseCountTag(tag)
		switch {
		case !ok || id == c.id || c.merged[tag]:
		case at.Before(c.now().Add(-keepFor)):
			old = append(old, tag)
		default:
			changing = append(changing, tag)
		}
	}
	maps.DeleteFunc(c.recent, func(tag string, _ map[Counted]int64) bool { return !there[tag] })
	for tag := range c.merged {
		if at, _, _ := ParseCountTag(tag); there[tag] && at.Before(c.now().Add(-keepFor)) {
			old = append(old, tag)
		}
	}
	return changing, old
}

// takeCounts adds the counts under a tag, permanently if they can no longer change.
func (c *Counter) takeCounts(tag string, by map[Counted]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, _, _ := ParseCountTag(tag); !at.Before(c.settledBefore()) {
		c.recent[tag] = by
		return
	}
	delete(c.recent, tag)
	c.merged[tag] = true
	addAll(c.settled, tag, by)
}

func addAll(t tally, tag string, by map[Counted]int64) {
	at, _, _ := ParseCountTag(tag)
	for what, n := range by {
		t.countItem(what, dayOf(at), n)
	}
}
