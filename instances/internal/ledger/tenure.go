// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// tenure is the term in which this replica leads. Any error ends it: nothing uncommitted
// is trusted any more, and the next leader reads what counts.
type tenure struct {
	l *Ledger

	// The ledger's lock guards the fields below, up to the blank line.
	store     *statebackend.Store
	lock      *statebackend.Lock
	number    int // of the repository
	version   int64
	committed page
	clock     *clock
	flying    *batch // what is being committed
	pending   *batch // what is committed next
	size      int    // of the document, in bytes
	over      error  // why the term ended; nil: it has not

	effects queue
	wake    chan struct{} // signals that something is pending
	stop    context.CancelCauseFunc
	running sync.WaitGroup
	fixed   atomic.Bool // old versions cannot be removed

	// Fields of the committing goroutine.
	commits int              // under this lock
	prune   int              // the number of commits at which to prune next
	again   <-chan time.Time // when to tidy again; nil: after the next commit
}

// batch is the content of one commit.
type batch struct {
	doc     *lifecycle.Document
	effects []lifecycle.Effect
	waiting []*waiter
}

// waiter is a command whose answer waits for a commit.
type waiter struct {
	done   chan struct{}
	answer lifecycle.Answer
	err    error
}

func newTenure(l *Ledger, store *statebackend.Store, lock *statebackend.Lock, s snapshot) *tenure {
	p := s.page
	if p.doc == nil {
		p.Lineage = l.o.NewID()
		p.doc = &lifecycle.Document{Version: 1}
	}
	t := &tenure{l: l, store: store, lock: lock, number: s.number, version: s.version, committed: p, size: s.page.size, wake: make(chan struct{}, 1), effects: queue{some: make(chan struct{}, 1)}}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := p.doc.Clock
	t.clock = newClock(&l.o, lock.Heartbeat(), at.At, l.serials.known.At, at.Held)
	l.serials.seePage(s.page)
	s.page = p
	l.seen = s
	l.tenure = t
	l.leader = ""
	l.refused = nil
	l.notify()
	return t
}

// run leads until ctx ends or there is an error.
func (t *tenure) run(ctx context.Context) {
	l := t.l
	l.o.Logger.InfoContext(ctx, "this server is the leader", "ledger", t.store.Repo().String(), "serial", t.committed.Serial)
	leads, stop := context.WithCancelCause(ctx)
	t.stop = stop
	// A running commit may finish when ctx ends, but not when the lease does.
	commits, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	late := context.AfterFunc(leads, func() {
		if ctx.Err() == nil {
			cut()
			return
		}
		time.AfterFunc(endTime, cut)
	})
	defer late()
	t.running.Go(func() { t.watch(leads) })
	t.running.Go(func() { t.effects.deliver(leads, l.o.Effects) })
	t.begin()
	err := t.commitAll(leads, commits)
	t.dropPending(err)
	stop(err)
	t.running.Wait()
	how := (*statebackend.Lock).Abandon
	if errors.Is(err, errRenew) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		how = (*statebackend.Lock).Unlock
	}
	l.endLock(t.lock, how)
	l.o.Logger.InfoContext(ctx, "this server is no longer the leader", "reason", err)
	l.save(ctx)
}

// begin delivers the outstanding effects, and updates the hold on expiry.
func (t *tenure) begin() {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	t.effects.addEffects(l.o.Machine.Outstanding(t.committed.doc))
	if err := t.renew(); err != nil {
		t.stop(err)
	}
}

// isFresh reports whether a heartbeat was confirmed within the lease, by uptime. l.mu is held.
func (t *tenure) isFresh() bool {
	age, ttl := t.lock.Lease()
	return t.over == nil && age < ttl
}

// headDocument returns the document with all accepted commands. l.mu is held.
func (t *tenure) headDocument() *lifecycle.Document {
	switch {
	case t.pending != nil:
		return t.pending.doc
	case t.flying != nil:
		return t.flying.doc
	}
	return t.committed.doc
}

// takeCommand steps a command. A refusal is returned; an answer waits for its commit. l.mu is held.
func (t *tenure) takeCommand(c lifecycle.Command) (*waiter, error) {
	if err := t.renew(); err != nil {
		return nil, err
	}
	if t.size >= fullDocument && addsRecords(c.Event) {
		return nil, fmt.Errorf("the ledger has %d bytes: %w", t.size, lifecycle.ErrFull)
	}
	return t.applyCommand(c)
}

func addsRecords(e lifecycle.Event) bool {
	switch e.(type) {
	case lifecycle.Create, lifecycle.Adopt, lifecycle.Fill, lifecycle.OpenWorkspace:
		return true
	}
	return false
}

// renew updates in the document whether expiry is held. l.mu is held.
func (t *tenure) renew() error {
	t.clock.observe(t.lock.Heartbeat())
	if t.clock.reason == t.headDocument().Clock.Held {
		return nil
	}
	c := lifecycle.Command{Event: lifecycle.ClockHeld{Reason: t.clock.reason}}
	_, _ = rand.Read(c.Seed[:]) // never fails
	_, err := t.applyCommand(c)
	return err
}

func (t *tenure) applyCommand(c lifecycle.Command) (*waiter, error) {
	head := t.headDocument()
	doc := head
	clock := t.clock
	if _, ok := c.Event.(lifecycle.AcceptClock); ok {
		clock = clock.acceptClock()
		copied := *head
		copied.Clock.At = clock.clockTime() // even where the last commit was ahead
		doc = &copied
	}
	next, effects, answer, err := t.l.o.Machine.Step(doc, c, clock.clockTime())
	if err != nil {
		return nil, err
	}
	t.clock = clock
	w := &waiter{done: make(chan struct{}), answer: answer}
	b := t.pending
	switch {
	case next != head || len(effects) > 0:
		if b == nil {
			b = &batch{}
			t.pending = b
		}
		b.doc = next
		b.effects = append(b.effects, effects...)
		select {
		case t.wake <- struct{}{}:
		default:
		}
	case b == nil:
		b = t.flying
	}
	if b == nil { // it is based only on what is committed
		close(w.done)
		return w, nil
	}
	b.waiting = append(b.waiting, w)
	return w, nil
}

// commitAll commits pending batches until there is an error or the term ends.
func (t *tenure) commitAll(leads, commits context.Context) error {
	for {
		select {
		case <-leads.Done():
			return context.Cause(leads)
		case <-t.wake:
		case <-t.again:
		}
		if leads.Err() != nil {
			return context.Cause(leads)
		}
		if err := t.commit(commits); err != nil {
			return err
		}
		if err := t.tidyLedger(leads, commits); err != nil {
			return err
		}
	}
}

// commit writes what is pending, then answers its callers and begins its effects.
func (t *tenure) commit(ctx context.Context) error {
	l := t.l
	l.mu.Lock()
	b := t.pending
	t.flying = b
	t.pending = nil
	p := t.committed
	l.mu.Unlock()
	if b == nil {
		return nil
	}
	p.doc = b.doc
	p.Serial++
	begun := l.o.Now()
	n, written, err := writePage(ctx, t.lock, p)
	if err != nil {
		return err
	}
	if l.o.Committed != nil {
		l.o.Committed(l.o.Now().Sub(begun))
	}
	t.commits++
	l.mu.Lock()
	defer l.mu.Unlock()
	t.committed = p
	t.version = n
	t.flying = nil
	t.size = len(written)
	t.showCommitted()
	for _, w := range b.waiting {
		close(w.done)
	}
	if !t.isFresh() { // the next leader finds the effects outstanding
		return errOver
	}
	t.effects.addEffects(b.effects)
	return nil
}

// showCommitted records the committed document as the newest known. l.mu is held.
func (t *tenure) showCommitted() {
	l := t.l
	l.seen = snapshot{t.committed, t.number, t.version, t.clock.clockTime()}
	l.serials.seePage(t.committed)
	l.notify()
}

func writePage(ctx context.Context, lock *statebackend.Lock, p page) (version int64, written []byte, err error) {
	b, err := p.encode()
	if err != nil {
		return 0, nil, err
	}
	if len(b) > maxDocument {
		return 0, nil, fmt.Errorf("the ledger would have %d bytes: %w", len(b), oci.ErrTooLarge)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := lock.Put(ctx, b)
	return v.N, b, err
}

// watch ends the term when the last heartbeat is as old as the lease, and checks the clocks.
func (t *tenure) watch(ctx context.Context) {
	saved := t.l.o.Now()
	for {
		t.l.mu.Lock()
		age, ttl := t.lock.Lease()
		t.l.mu.Unlock()
		if age >= ttl {
			t.stop(fmt.Errorf("the registry has confirmed no heartbeat for %s", ttl))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Second, ttl-age)):
		}
		t.l.mu.Lock()
		err := t.renew()
		if at := t.clock.clockTime(); at.After(t.l.serials.known.At) {
			t.l.serials.known.At = at
		}
		t.l.mu.Unlock()
		if err != nil {
			t.stop(err)
			return
		}
		if now := t.l.o.Now(); now.Sub(saved).Abs() >= lease {
			saved = now
			t.l.save(ctx)
		}
	}
}

// dropPending discards all that was not committed, and reports that to the waiting callers.
func (t *tenure) dropPending(err error) {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	t.over = err
	l.tenure = nil
	for _, b := range []*batch{t.flying, t.pending} {
		if b == nil {
			continue
		}
		for _, w := range b.waiting {
			w.err = fmt.Errorf("%w: %w", lifecycle.ErrNoLeader, err)
			close(w.done)
		}
	}
	t.flying = nil
	t.pending = nil
	l.notify()
}
