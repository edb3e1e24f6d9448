// SPDX-License-Identifier: Apache-2.0

package registry

import (
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

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	countEvery    = time.Hour       // how often counts are written and read
	countRetry    = time.Minute     // after a failure that may pass
	countSaveTime = 5 * time.Second // for the last time, when the server ends
	countParallel = 4
)

// counts are the downloads by all replicas and of all time. Each process has a
// tag of its own for each day, which it alone rewrites: no two writers meet,
// and readers add all tags up. What cannot be written or read is tried again an
// hour later, and no request waits for it. A process that is killed loses what
// it counted since it last wrote.
type counts struct {
	repo *oci.Repo
	log  *slog.Logger
	now  func() time.Time
	id   string // of this process, in its tags

	mu     sync.Mutex                    // guards the fields below
	days   map[string]*dayCounts         // of this process, by tag; old ones until they are written
	series map[artifact.Counted]struct{} // those of the metric
	own    map[item]int64                // by this process, since its start
	stored map[item]int64                // by all others, the sum of known
	known  map[string]map[item]int64
}

type dayCounts struct {
	by      map[artifact.Counted]int64
	changed bool // since it was written
}

// item is a module or provider with all its versions.
type item struct{ kind, address string }

func newCounts(o Options) (*counts, error) {
	r, err := o.Client.Repo(o.Layout.QueueRepo())
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return &counts{
		repo: r, log: o.Logger, now: o.Now, id: hex.EncodeToString(id), days: map[string]*dayCounts{}, series: map[artifact.Counted]struct{}{},
		own: map[item]int64{}, stored: map[item]int64{}, known: map[string]map[item]int64{},
	}, nil
}

// add counts a download and returns the series of the metric that has it.
func (c *counts) add(what artifact.Counted) artifact.Counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own[item{what.Kind, what.Address}]++
	tag := artifact.CountTag(c.now(), c.id)
	day := c.days[tag]
	if day == nil {
		day = &dayCounts{by: map[artifact.Counted]int64{}}
		c.days[tag] = day
	}
	day.by[fit(day.by, what)]++
	day.changed = true
	what = fit(c.series, what)
	c.series[what] = struct{}{}
	return what
}

// fit is the key of m under which a download is counted, so that m never has
// more than [artifact.MaxCounts] keys: when half of them are used, versions that are
// new count for all of their item, and at the end everything new is one.
func fit[V any](m map[artifact.Counted]V, what artifact.Counted) artifact.Counted {
	if _, known := m[what]; known || len(m) < artifact.MaxCounts/2 {
		return what
	}
	what.Version = ""
	if _, known := m[what]; known || len(m) < artifact.MaxCounts-1 {
		return what
	}
	return artifact.Counted{}
}

// total is how often a module or provider was downloaded, as far as this
// process knows.
func (c *counts) total(kind, address string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := item{kind, address}
	return c.own[i] + c.stored[i]
}

// run reads what others counted and writes what this process did, at once,
// every hour, and when ctx ends.
func (c *counts) run(ctx context.Context) {
	for {
		wait := countEvery
		err := errors.Join(c.save(ctx), c.read(ctx))
		if err != nil && ctx.Err() == nil {
			c.log.Warn("downloads are not counted at this moment", "error", err)
		}
		if errors.Is(err, oci.ErrUnavailable) {
			wait = countRetry
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			c.finish(ctx)
			return
		case <-t.C:
		}
	}
}

// finish writes for the last time, which must not hold up the end for long.
func (c *counts) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countSaveTime)
	defer cancel()
	if err := c.save(ctx); err != nil {
		c.log.Warn("the last downloads are not counted", "error", err)
	}
}

// save writes the days of this process that have changed. What fails is left for
// the next time.
func (c *counts) save(ctx context.Context) error {
	var errs []error
	for tag, by := range c.unsaved() {
		if err := artifact.PutCounts(ctx, c.repo, tag, by); err != nil {
			c.mu.Lock()
			c.days[tag].changed = true
			c.mu.Unlock()
			errs = append(errs, fmt.Errorf("write %s: %w", tag, err))
		}
	}
	return errors.Join(errs...)
}

// unsaved returns the days to write, by tag, and forgets those that are over
// and written.
func (c *counts) unsaved() map[string]map[artifact.Counted]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	todo := map[string]map[artifact.Counted]int64{}
	for tag, day := range c.days {
		switch {
		case day.changed:
			todo[tag] = maps.Clone(day.by)
			day.changed = false
		case tag != artifact.CountTag(c.now(), c.id):
			delete(c.days, tag)
		}
	}
	return todo
}

// read adds up what others wrote.
func (c *counts) read(ctx context.Context) error {
	list, err := c.repo.Snapshot(ctx)
	if err != nil {
		return ignoreMissing(err)
	}
	known, changing := c.others(list.Tags)
	var mu sync.Mutex // guards known
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countParallel)
	for _, tag := range changing {
		g.Go(func() error {
			by, err := artifact.ReadCounts(ctx, c.repo, tag)
			if errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) {
				return nil // not ours, or deleted
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			known[tag] = byItem(by)
			return nil
		})
	}
	err = g.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.stored = known, map[item]int64{}
	for _, tag := range known {
		for i, n := range tag {
			c.stored[i] += n
		}
	}
	return err
}

// others parts the tags of other processes into those with counts that are known
// and those to be read, which is both true of today's and yesterday's.
func (c *counts) others(tags []string) (known map[string]map[item]int64, changing []string) {
	known = map[string]map[item]int64{}
	settled := c.now().Add(-2 * day)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tag := range tags {
		day, id, ok := artifact.ParseCountTag(tag)
		if !ok || id == c.id {
			continue
		}
		by, has := c.known[tag]
		if has {
			known[tag] = by
		}
		if !has || !day.Before(settled) {
			changing = append(changing, tag)
		}
	}
	return known, changing
}

func byItem(by map[artifact.Counted]int64) map[item]int64 {
	items := map[item]int64{}
	for what, n := range by {
		items[item{what.Kind, what.Address}] += n
	}
	return items
}
