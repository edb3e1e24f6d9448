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

// heartbeats renews the claim of a lock with a lease. One goroutine owns it between start and stop.
type heartbeats struct {
	x     *session
	claim protocol.Request // makes the claim, again
	ttl   time.Duration
	stop  func()
	done  sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	confirmed timestamp  // taken before the last acknowledged heartbeat was sent
	dated     Heartbeat  // the clocks at the last list

	sent      int  // heartbeats sent, the claim itself included; read after stop
	uncertain bool // read after stop: a heartbeat may still arrive
}

// timestamp is a time by two clocks; age uses the one by which more time has passed. Go's clock
// stops while the machine sleeps; the other may be set back if it is the wall clock.
type timestamp struct {
	at     time.Time
	uptime time.Duration
}

// Heartbeat holds the registry's clock and our own, read at one time.
type Heartbeat struct {
	Date   time.Time     // the registry's Date, in whole seconds
	Now    time.Time     // [Options].Now, when the answer had arrived
	Uptime time.Duration // [Options].Uptime at that time
}

func (x *session) heartbeatNow() Heartbeat { return Heartbeat{x.date, x.s.o.Now(), x.s.o.Uptime()} }

func newTimestamp(o *Options) timestamp { return timestamp{time.Now(), o.Uptime()} }

func (m timestamp) age(now timestamp) time.Duration {
	return max(now.at.Sub(m.at), now.uptime-m.uptime)
}

func wallTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

// startHeartbeats renews the claim, with the Date of the last list, every third of the lease.
func startHeartbeats(ctx context.Context, x *session, claim protocol.Request) *heartbeats {
	stopped := make(chan struct{})
	beside := newSession(x.s, x.names.workspace, x.info, terms{}) // may be used beside x
	beside.date = x.date
	b := &heartbeats{x: beside, claim: claim, ttl: x.s.o.LockTTL, confirmed: x.claimed, dated: x.heartbeatNow(), sent: 1}
	b.stop = sync.OnceFunc(func() { close(stopped) })
	ctx = context.WithoutCancel(ctx) // ends by stop
	// The claim was the first heartbeat, and a list after it won the lock, unless the repository
	// was empty and the registry had not sent its time yet.
	now := x.undated
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
	return b
}

// sendOne sends one heartbeat and checks whether the lock is still ours; false ends the heartbeats,
// and the next Put finds out why. One that comes after the lease, as on a machine that slept,
// checks before it writes: a claim that was ended and cleaned up must not be written again. If
// listing fails the loop continues, bounded by the lease.
func (b *heartbeats) sendOne(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	if b.heartbeatAge() >= b.ttl {
		if ours, err := b.isClaimLive(ctx); err != nil || !ours {
			return err != nil || ours
		}
	}
	b.sent++
	r := b.x.perform(ctx, b.claim, nil)
	b.uncertain = b.uncertain || r.Status == protocol.StatusUncertain
	ours, err := b.isClaimLive(ctx)
	if err == nil && ours && r.Status == protocol.StatusDone {
		b.mu.Lock()
		b.confirmed = b.x.claimed
		b.mu.Unlock()
	}
	return err != nil || ours
}

func (b *heartbeats) isClaimLive(ctx context.Context) (ours bool, err error) {
	v, _, err := b.x.listToLock(ctx)
	if err == nil && !b.x.date.IsZero() {
		b.mu.Lock()
		b.dated = b.x.heartbeatNow()
		b.mu.Unlock()
	}
	return v.Has(b.claim.Claim) && v.Ended[b.claim.Claim] == 0, err
}

func (b *heartbeats) heartbeatAge() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.confirmed.age(newTimestamp(b.x.s.o))
}

// stopAndWait also waits for the heartbeat under way. It may be called again.
func (b *heartbeats) stopAndWait() {
	b.stop()
	b.done.Wait()
}

// Lease returns the age of the lock's last confirmed heartbeat, counted from before it was sent and
// also while the machine sleeps, and the duration of the lease; 0, 0 without one. Work guarded by
// the lock must stop before the age reaches the lease: from then on others may take over.
func (l *Lock) Lease() (age, ttl time.Duration) {
	if l.heartbeats == nil {
		return 0, 0
	}
	return l.heartbeats.heartbeatAge(), l.heartbeats.ttl
}

// Heartbeat returns the clocks at the last answer to a heartbeat; zero without a lease or a Date.
func (l *Lock) Heartbeat() Heartbeat {
	if l.heartbeats == nil {
		return Heartbeat{}
	}
	l.heartbeats.mu.Lock()
	defer l.heartbeats.mu.Unlock()
	return l.heartbeats.dated
}

// observations keeps what was seen of the claims of each workspace, across attempts: a server
// answers each LOCK at once, so the time passes between the polls of its client. A lock that moved
// from server to server has several claims, and has expired when each of them has.
type observations struct {
	mu   sync.Mutex // guards last
	last map[string]map[protocol.ClaimID]protocol.Observation
}

const maxObservations = 64

// noteClaim notes what the list of that date shows of a claim; the zero value for a 404.
func (s *observations) noteClaim(workspace string, c protocol.ClaimID, l format.LockManifest, date time.Time) protocol.Observation {
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

// discardLeases drops what was seen of leases after no answer: the holder may have got none either.
func (s *observations) discardLeases(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last[workspace], func(_ protocol.ClaimID, g protocol.Observation) bool { return g.Heartbeat != "" })
}

func (s *observations) forgetWorkspace(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, workspace)
}
