// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// heartbeats renews the claim of a lock with a lease. Its owner is one goroutine,
// between start and stop.
type heartbeats struct {
	x     *session
	claim protocol.ClaimID
	root  protocol.ClaimID
	ttl   time.Duration
	stop  func()
	done  sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	confirmed timestamp  // before the last heartbeat that the registry acknowledged was sent
	dated     Heartbeat  // the last list

	sent      int  // with the claim itself; read after stop
	uncertain bool // read after stop: a heartbeat may still arrive
}

// timestamp is a time by two clocks: whichever says that more time has passed is
// believed. Go's own does not run while the machine sleeps; the other may, where
// it is the wall clock, be set back.
type timestamp struct {
	at     time.Time
	uptime time.Duration
}

// Heartbeat is what the registry's clock and our own said at one moment.
type Heartbeat struct {
	Date   time.Time     // of the registry: whole seconds
	Now    time.Time     // [Options].Now, when the answer had come
	Uptime time.Duration // [Options].Uptime then
}

func (x *session) dated() Heartbeat { return Heartbeat{x.date, x.s.o.Now(), x.s.o.Uptime()} }

func (s *vault) timestamp() timestamp { return timestamp{time.Now(), s.o.Uptime()} }

func (m timestamp) age(now timestamp) time.Duration {
	return max(now.at.Sub(m.at), now.uptime-m.uptime)
}

// wallTime is the time of the day as a duration.
func wallTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

// startHeartbeats renews the claim every third of the lease until stopped. The time
// of a heartbeat is that of the registry: the Date header of the last list.
func (l *Lock) startHeartbeats(ctx context.Context, root protocol.ClaimID) {
	stopped := make(chan struct{})
	b := &heartbeats{x: l.x.clone(), claim: l.hold.Claim, root: root, ttl: l.s.o.LockTTL, confirmed: l.x.claimed, dated: l.x.dated(), sent: 1}
	b.stop = sync.OnceFunc(func() { close(stopped) })
	l.heartbeats = b
	ctx = context.WithoutCancel(ctx) // ends by stop
	// The claim itself was the first heartbeat, and a list after it won the lock; unless
	// the repository was empty and the registry had sent no time yet.
	now := l.x.undated
	b.done.Go(func() {
		t := time.NewTicker(b.ttl / protocol.HeartbeatsPerLease)
		defer t.Stop()
		for ; !now || b.sendOne(ctx); now = true {
			select {
			case <-stopped:
				return
			case <-t.C:
			}
		}
	})
}

// sendOne sends one heartbeat and looks whether the lock is still ours; false ends the
// heartbeats, and the next Put finds out why. One that comes after the lease, as in a
// machine that slept, looks before it writes: a claim that was ended and cleaned
// up meanwhile must not be written again. Where no list is to be had the next heartbeat
// may get through: the lease is what ends.
func (b *heartbeats) sendOne(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	if b.age() >= b.ttl {
		if ours, err := b.look(ctx); err != nil || !ours {
			return err != nil || ours
		}
	}
	b.sent++
	r := b.x.perform(ctx, protocol.Request{Op: protocol.OpPutClaim, Claim: b.claim, Root: b.root})
	b.uncertain = b.uncertain || r.Status == protocol.StatusUncertain
	ours, err := b.look(ctx)
	if err == nil && ours && r.Status == protocol.StatusDone {
		b.mu.Lock()
		b.confirmed = b.x.claimed
		b.mu.Unlock()
	}
	return err != nil || ours
}

// look reports whether the claim has not ended.
func (b *heartbeats) look(ctx context.Context) (ours bool, err error) {
	v, err := b.x.list(ctx)
	if err == nil && !b.x.date.IsZero() {
		b.mu.Lock()
		b.dated = b.x.dated()
		b.mu.Unlock()
	}
	return v.Has(b.claim) && v.Ended[b.claim] == 0, err
}

// age is how old the last confirmed heartbeat is.
func (b *heartbeats) age() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.confirmed.age(b.x.s.timestamp())
}

// end stops the heartbeats and waits for the one under way. It may be called again.
func (b *heartbeats) end() {
	b.stop()
	b.done.Wait()
}

// Lease returns how old the last confirmed heartbeat of the lock is, counted from
// before it was sent and also while the machine sleeps, and the lease; 0, 0
// without one. Who guards something by the lock stops it before the age reaches
// the lease: from then on others may take the lock over.
func (l *Lock) Lease() (age, ttl time.Duration) {
	if l.heartbeats == nil {
		return 0, 0
	}
	return l.heartbeats.age(), l.heartbeats.ttl
}

// Heartbeat returns what the clocks said when the registry last answered a heartbeat; the
// zero value without a lease, as where the registry tells no time.
func (l *Lock) Heartbeat() Heartbeat {
	if l.heartbeats == nil {
		return Heartbeat{}
	}
	l.heartbeats.mu.Lock()
	defer l.heartbeats.mu.Unlock()
	return l.heartbeats.dated
}

// clone returns a session that may be used beside x.
func (x *session) clone() *session {
	c := x.s.session(x.workspace, x.info)
	c.date = x.date
	return c
}

// observations keeps what was seen of the claims of each workspace, across the attempts
// of a process: a server answers each LOCK at once, and the client that polls it
// makes the time pass. A lock that moved from server to server has several claims,
// and is over when each of them is.
type observations struct {
	mu   sync.Mutex // guards last
	last map[string]map[protocol.ClaimID]protocol.Observation
}

// maxObservations bounds what is kept of one workspace.
const maxObservations = 64

// missing notes a 404 for a claim that the list of that date shows.
func (s *observations) missing(workspace string, c protocol.ClaimID, date time.Time) protocol.Observation {
	return s.read(workspace, c, format.LockManifest{}, date)
}

// read notes a claim that the list of that date shows, as it was read.
func (s *observations) read(workspace string, c protocol.ClaimID, l format.LockManifest, date time.Time) protocol.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.last[workspace]
	if known == nil || len(known) >= maxObservations {
		known = map[protocol.ClaimID]protocol.Observation{}
		s.last[workspace] = known
	}
	known[c] = known[c].Again(c, l, time.Now(), date)
	return known[c]
}

// failed says that the registry did not answer: what was seen of a lease counts
// no more, since its holder may have got no answer either.
func (s *observations) failed(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last[workspace], func(_ protocol.ClaimID, g protocol.Observation) bool { return g.Heartbeat != "" })
}

// forget drops what was noted about a workspace whose lock is free.
func (s *observations) forget(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, workspace)
}
