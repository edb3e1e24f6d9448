// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Time passes in thirds of a lease; the registry's Date is hours ahead, as is the local clock: only
// observations keep a lease.

const worldTTL = HeartbeatsPerLease * time.Minute

func (w *world) now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(w.tick) * worldTTL / HeartbeatsPerLease)
}

func (w *world) date() time.Time { return w.now().Add(7 * time.Hour) }

// settled reports whether time may pass: locking is short beside a lease.
func (w *world) settled() bool {
	for i := range w.clients {
		switch w.clients[i].stage {
		case stageLocking, stageReleasing, stageForcing, stageSealing:
			return false
		}
	}
	return true
}

// pass lets a third of the lease pass. Each running holder renews its claim.
func (w *world) pass() {
	w.tick++
	for i := range w.clients {
		c := &w.clients[i]
		if c.stage != stageHolding && c.stage != stagePutting && c.stage != stageChecking {
			continue
		}
		tag := format.StateTag{Kind: format.LockClaim, Fragment: worldWorkspace, N: c.hold.Claim.Fence, X: c.hold.Claim.X}.String()
		if w.has(tag) && !w.overtaken(c.hold.Claim) {
			w.update(update{entry: entry{tag: tag, content: content{c.hold.Claim, w.tick}}})
			c.lastWrite = len(w.order)
		}
	}
}

// meet lets a client observe the claim in its way.
func (w *world) meet(c *client, by ClaimID) {
	if w.ticks == 0 {
		return
	}
	i, ok := w.find(format.StateTag{Kind: format.LockClaim, Fragment: worldWorkspace, N: by.Fence, X: by.X}.String())
	if !ok || w.tags[i].half {
		return
	}
	heartbeat := w.tags[i].put
	l := format.LockManifest{
		Manifest:  oci.Descriptor{Digest: digest.FromString(strconv.Itoa(heartbeat))},
		Heartbeat: time.Unix(0, 0).Add(time.Duration(heartbeat) * worldTTL / HeartbeatsPerLease), TTL: worldTTL,
	}
	if c.acq.attempt == 0 && !w.now().Equal(c.seen.seen) {
		c.cycles++
		c.attempts -= 16
		c.stage = stageIdle
	}
	c.seen = c.seen.Again(by, l, w.now(), w.date())
	if !c.seen.Expired(l, w.date()) {
		return
	}
	c.expired = by
	if w.overtaken(by) { // the list was old
		return
	}
	for j := range w.clients {
		if d := &w.clients[j]; d.hold.Claim == by && (d.stage == stageHolding || d.stage == stagePutting || d.stage == stageChecking) {
			w.violate("the lease of %v ends while its holder beats", by)
		}
	}
}
