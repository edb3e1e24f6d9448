// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed-141914ff/okara/internal/taglog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	writeEvery = time.Minute
	readEvery  = time.Hour
	freshFor   = 30 * time.Second // maximum age of what is shown without reading again
	readTime   = 10 * time.Minute // for one read
	waitTime   = 8 * time.Second  // for the first read
	saveTime   = 5 * time.Second  // for the last write, when the server ends

	// MaxDecisions is how many decisions are kept.
	MaxDecisions = 5000
)

// Options configure a [Log]. Repo is required.
type Options struct {
	Repo    *oci.Repo       // holds the parts; all replicas share it
	Sealer  artifact.Sealer // nil: without state keys, nothing is protected
	Logger  *slog.Logger    // nil: no log
	Now     func() time.Time
	Settle  func() // is called before the changes are shown, to record those that wait; may be nil
	Dropped func() // is called for each change that is not kept; may be nil
}

// Log is the audit log as one process knows it. It is safe for concurrent use.
type Log struct {
	o         Options
	own       *keeper
	all       *reader
	decisions ring
	flight    singleflight.Group // for reads
	old       *taglog.Expiry     // of parts; used by remove
	life      context.Context    // of reads, which continue after their caller has gone
	end       context.CancelFunc

	mu     sync.Mutex // guards the fields below
	state  state
	read   time.Time // when state was read; zero: never
	tried  time.Time // time of the last read or attempt
	failed error     // of the last read
	silent bool      // a failed write has been logged
}

// New returns the audit log of a process that has changed nothing. It makes no request.
func New(o Options) *Log {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, f := range []*func(){&o.Settle, &o.Dropped} {
		if *f == nil {
			*f = func() {}
		}
	}
	t := &Log{o: o, own: newKeeper(o.Repo, o.Sealer, o.Dropped), old: taglog.New(o.Repo, o.Logger, "old changes of the server")}
	t.life, t.end = context.WithCancel(context.Background())
	t.all = &reader{repo: o.Repo, sealer: o.Sealer, log: o.Logger, parts: map[string]*knownPart{}}
	return t
}

// Run writes the changes of this process every minute, and reads all parts every hour,
// until ctx ends. It is called once per process, and [Log.Finish] afterwards.
func (t *Log) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { callEvery(ctx, writeEvery, func() { t.writeChanges(ctx) }) })
	running.Go(func() {
		look := t.o.Now()
		callEvery(ctx, writeEvery, func() {
			if t.o.Now().Before(look) {
				return
			}
			err := t.refresh(ctx, true)
			if err == nil {
				err = t.removeExpired(ctx)
			}
			if err == nil {
				look = t.o.Now().Add(readEvery)
			} else if ctx.Err() == nil {
				t.o.Logger.Warn("reading the server's audit log failed", "error", err)
			}
		})
	})
	running.Wait()
}

// callEvery calls do after each interval until ctx ends.
func callEvery(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// Finish writes for the last time, for at most saveTime.
func (t *Log) Finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	defer t.end()
	if err := t.own.writeParts(ctx); err != nil {
		_, waiting := t.own.entriesAfter(0)
		t.o.Logger.Error("the last changes were not written to the registry", "changes", waiting, "error", err)
	}
}

// writeChanges writes new changes. It logs a failure once, until a write succeeds again.
func (t *Log) writeChanges(ctx context.Context) {
	err := t.own.writeParts(ctx)
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	silent := t.silent
	t.silent = err != nil
	t.mu.Unlock()
	switch {
	case err != nil && !silent:
		t.o.Logger.Warn("changes kept in memory: writing them to the registry failed", "error", err)
	case err == nil && silent:
		t.o.Logger.Info("changes are written to the registry again")
	}
}

// Read reads all parts, for a caller that shows them once.
func (t *Log) Read(ctx context.Context) error { return t.refresh(ctx, true) }

// refresh reads new parts, or all of them. Concurrent callers share one read.
func (t *Log) refresh(ctx context.Context, all bool) error {
	key := "new"
	if all {
		key = "all"
	}
	done := t.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(t.life, readTime)
		defer cancel()
		s, err := t.all.readParts(ctx, t.o.Now(), all)
		t.takeState(s, err)
		return nil, err
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case r := <-done:
		return r.Err
	}
}

// takeState keeps the result of a read.
func (t *Log) takeState(s state, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = err
	t.tried = t.o.Now()
	if err != nil {
		return
	}
	t.state = s
	t.read = t.o.Now()
}

// removeExpired deletes expired tags, if the registry deletes tags.
func (t *Log) removeExpired(ctx context.Context) error {
	t.mu.Lock()
	gone := t.state.gone
	t.mu.Unlock()
	return t.old.Expire(ctx, gone[:min(len(gone), removeAtOnce)]...)
}

// View is what is known of the changes of all processes.
type View struct {
	Entries    []*Entry  // newest first, those held in memory
	Older      int       // number of parts whose entries are not in memory
	Unreadable int       // number of parts that the keys do not open, or that are not valid
	Protected  bool      // by state keys
	Read       time.Time // time of the last read; zero: none yet
	Failed     error     // error of the last read; nil: it succeeded
	Waiting    int       // changes of this process that are not written yet
	Dropped    int64     // changes of this process that will never be written
	older      []AuditTag
}

// View returns what is known now. If it was read more than 30 s ago, it is read again in
// the background; a caller waits only for the first read, at most 8 s.
func (t *Log) View(ctx context.Context) View {
	t.o.Settle()
	t.mu.Lock()
	read := t.read
	tried := t.tried
	t.mu.Unlock()
	if t.o.Now().Sub(tried) > freshFor {
		wait, cancel := context.WithTimeout(ctx, waitTime)
		defer cancel()
		if !read.IsZero() {
			cancel() // the read continues in the background
		}
		_ = t.refresh(wait, false) // take keeps the error
	}
	t.mu.Lock()
	s := t.state
	v := View{Entries: s.entries, Older: len(s.older), older: s.older, Unreadable: s.unreadable, Protected: t.o.Sealer != nil, Read: t.read, Failed: t.failed}
	t.mu.Unlock()
	var known int64 // of this process
	for _, e := range v.Entries {
		if e.Process == t.own.id {
			known = max(known, e.N)
		}
	}
	fresh, waiting := t.own.entriesAfter(known)
	v.Waiting = waiting
	v.Dropped = t.own.droppedSoFar()
	if len(fresh) > 0 {
		fresh = slices.Clone(fresh)
		slices.Reverse(fresh)
		v.Entries = slices.Concat(fresh, v.Entries)
		newestFirst(v.Entries)
	}
	return v
}

// Each calls do for entries that match q, newest first, part by part, up to the first error.
func (t *Log) Each(ctx context.Context, q Query, do func(*Entry) error) error {
	if q.Decisions {
		return eachMatching(t.decisions.allDecisions(), q, do)
	}
	v := t.View(ctx)
	if v.Read.IsZero() && v.Failed != nil {
		return v.Failed
	}
	if err := eachMatching(v.Entries, q, do); err != nil {
		return err
	}
	for _, tag := range v.older {
		if tag.Day.Add(day).Before(q.Since) {
			continue
		}
		entries, err := t.all.entriesOf(ctx, tag)
		if err == nil {
			err = eachMatching(entries, q, do)
		}
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
	}
	return nil
}

func eachMatching(all []*Entry, q Query, do func(*Entry) error) error {
	for _, e := range all {
		if q.matchesEntry(e) {
			if err := do(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// ring holds the newest decisions.
type ring struct {
	mu   sync.Mutex // guards the fields below
	of   []Entry
	next int // index of the oldest entry once the ring is full
}

func (r *ring) addDecision(rec Record) {
	e := Entry{Record: rec}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) < MaxDecisions {
		r.of = append(r.of, e)
		return
	}
	r.of[r.next] = e
	r.next = (r.next + 1) % MaxDecisions
}

// allDecisions returns the decisions, newest first.
func (r *ring) allDecisions() []*Entry {
	r.mu.Lock()
	all := slices.Concat(r.of[r.next:], r.of[:r.next])
	r.mu.Unlock()
	var entries []*Entry
	for i := range slices.Backward(all) {
		entries = append(entries, &all[i])
	}
	return entries
}
