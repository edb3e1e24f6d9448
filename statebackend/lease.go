// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci/artifact"
)

// leaseGrace is added to a lease before it counts as expired: the Date header
// has whole seconds, and beats take their time.
const leaseGrace = 30 * time.Second

// beats renews the claim of a lock with a lease. Its owner is one goroutine,
// between start and stop.
type beats struct {
	x     *session
	claim claimID
	ttl   time.Duration
	stop  chan struct{}
	done  sync.WaitGroup

	sent      int  // read after stop
	uncertain bool // read after stop: a beat may still arrive
}

// startBeats renews the claim every third of the lease until stopped. The time
// of a beat is that of the registry: the Date header of the last list.
func (l *Lock) startBeats(ctx context.Context) {
	b := &beats{x: l.x.clone(), claim: l.claim, ttl: l.s.o.LockTTL, stop: make(chan struct{})}
	l.beats = b
	ctx = context.WithoutCancel(ctx) // ends by stop
	b.done.Go(func() {
		t := time.NewTicker(b.ttl / 3)
		defer t.Stop()
		for b.beat(ctx) {
			select {
			case <-b.stop:
				return
			case <-t.C:
			}
		}
	})
}

// beat sends one beat and looks whether the lock is still ours. The first call
// only looks: the claim itself was the first beat.
func (b *beats) beat(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	if b.sent++; b.sent > 1 {
		r := b.x.perform(ctx, request{op: opPutClaim, claim: b.claim})
		b.uncertain = b.uncertain || r.status == statusUncertain
	}
	v, err := b.x.list(ctx)
	if err != nil {
		return true // the next beat may get through; the lease is what ends
	}
	return v.has(b.claim) && v.ended[b.claim] == 0 // else the next Put finds out
}

// end stops the beats and waits for the one under way.
func (b *beats) end() {
	close(b.stop)
	b.done.Wait()
}

// clone returns a session that may be used beside x.
func (x *session) clone() *session {
	c := x.s.session(x.workspace, x.info)
	c.date = x.date
	return c
}

// expired tells whether the lease of a claim is over, judged by the registry's
// clock alone: now is the Date header of a list. Without one it never is.
func expired(l artifact.LockManifest, now time.Time) bool {
	if now.IsZero() || l.Beat.IsZero() || l.TTL <= 0 {
		return false
	}
	return now.Sub(l.Beat) > l.TTL+leaseGrace
}
