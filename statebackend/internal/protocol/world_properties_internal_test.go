// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// The properties of the world must hold after each step.

// update changes a tag and checks the properties of every version.
func (w *world) update(u update) {
	w.tags = applied(w.tags, u)
	if w.lists == listPrefix {
		u.after = w.tags
		w.order = append(w.order, u)
	}
	t, ok := format.ParseStateTag(u.tag)
	if !ok || t.Kind != format.StateNumbered || u.remove {
		return
	}
	if u.seal {
		w.seals = append(w.seals, [2]int64{t.N, u.head})
	}
	i := slices.Index(w.numbers, t.N)
	switch {
	case i < 0:
		w.numbers, w.versions = append(w.numbers, t.N), append(w.versions, u.content)
	case w.versions[i] != u.content && !u.seal:
		w.violate("version %d was written twice, by %v and %v", t.N, w.versions[i], u.content)
	}
	w.checkSeals()
	w.checkRefused()
	if slices.Contains(w.forced, u.claim) && t.N == slices.Max(w.numbers) {
		w.violate("version %d by %v arrived after its lock was ended by force, and is current", t.N, u.claim)
	}
	if w.people != nil {
		w.arrived(t.N, u.claim)
		return
	}
	for i := range w.clients {
		c := &w.clients[i]
		// A late write of an earlier lock of the same id is below all writes of this one.
		if w.holds(c) && !format.ClaimOf(u.claim.X, w.lockID(i)) && t.N > c.hold.Newest {
			w.violate("version %d by %v arrived above version %d of holder %v", t.N, u.claim, c.hold.Newest, c.hold.Claim)
		}
	}
}

// checkSeals: the newest version is no copy of one before the last acknowledged.
func (w *world) checkSeals() {
	for _, s := range w.seals {
		if s[0] == slices.Max(w.numbers) && s[0] > w.acked && s[1] < w.acked {
			w.violate("version %d is the newest and has the content of %d, and %d was acknowledged", s[0], s[1], w.acked)
		}
	}
}

// checkRefused checks that the current state is none whose writer was told that it is not.
func (w *world) checkRefused() {
	if len(w.refused) == 0 {
		return
	}
	n := slices.Max(w.numbers)
	for {
		i, ok := w.find(format.StateTag{Kind: format.StateNumbered, Fragment: worldWorkspace, N: n}.String())
		if slices.Contains(w.refused, n) {
			w.violate("version %d was refused, and is current", n)
		}
		if !ok || !w.tags[i].seal {
			return
		}
		n = w.tags[i].head
	}
}

// lost notes what the writer of a version is told after it lost its lock.
func (w *world) lost(s *saver) {
	if s.Result.Refused {
		w.refused = append(w.refused, s.n)
		w.checkRefused()
	}
}

// holds reports whether a client has the lock and was not overtaken; a crashed one still does.
func (w *world) holds(c *client) bool {
	switch c.stage {
	case stageHolding, stagePutting, stageChecking, stageCrashed:
		return c.wins > 0 && c.hold.Claim != (ClaimID{}) && !w.overtaken(c.hold.Claim)
	}
	return false
}

func (w *world) overtaken(c ClaimID) bool {
	return w.has(format.StateTag{Kind: format.ForceTombstone, Fragment: worldWorkspace, N: c.Fence, X: c.X}.String())
}

// half reports whether a claim is listed but cannot be read.
func (w *world) half(c ClaimID) bool {
	i, ok := w.find(format.StateTag{Kind: format.LockClaim, Fragment: worldWorkspace, N: c.Fence, X: c.X}.String())
	return ok && w.tags[i].half
}

func (w *world) violate(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// finish checks the end: without crashes every lock is released. Where deleting leaves tags and
// lists are old a claim may stay.
func (w *world) finish() {
	if w.people != nil {
		w.finishPeople()
		return
	}
	if w.deletes == deleteLeaves && w.lists == listPrefix {
		return
	}
	if live := NewSnapshot(names(w.tags), worldWorkspace).Live(); w.setup.faults+w.setup.crashes == 0 && len(live) > 0 {
		w.violate("claims %v are left", live)
	}
}

func (w *world) locked(i int) {
	c := &w.clients[i]
	res := c.acq.Result
	if !res.Won {
		w.rest(c)
		if res.Held && w.half(res.By) {
			c.abandoned = res.By
		}
		if res.Held {
			w.meet(c, res.By)
		}
		return
	}
	c.stage, c.hold = stageHolding, c.acq.Hold()
	c.wins++
	if w.overtaken(c.hold.Claim) {
		return
	}
	head := res.newest
	if res.Sealed {
		head = c.acq.last.Newest
	}
	if head < w.acked {
		w.violate("holder %v knows version %d, and %d was acknowledged", c.hold.Claim, head, w.acked)
	}
	for j := range w.clients {
		if d := &w.clients[j]; j != i && w.holds(d) {
			w.violate("two holders: %v and %v", c.hold.Claim, d.hold.Claim)
		}
	}
}

func (w *world) put(i int) {
	c := &w.clients[i]
	res := c.save.Result
	c.stage = stageHolding
	c.hold.Saved(&c.save)
	if res.Lost {
		if !w.overtaken(c.hold.Claim) {
			w.violate("holder %v lost its lock to nobody", c.hold.Claim)
		}
		w.lost(&c.save)
	}
	if !res.Stored {
		return
	}
	w.acked = max(w.acked, c.save.n)
	w.checkSeals()
	for j := range w.clients {
		d := &w.clients[j]
		if head := d.head(); j != i && w.holds(d) && head < c.save.n {
			w.violate("version %d was acknowledged, and holder %v knows %d", c.save.n, d.hold.Claim, head)
		}
	}
}

// checked judges Check for a holder, by claim and id. Not yes for one overtaken before the list
// began, if lists show finished pushes; not no for one that was not, if lists show its writes. By
// id it may be yes for another claim of the id: another process's of the run, or an earlier one.
func (w *world) checked(i int, v Snapshot) {
	c := &w.clients[i]
	c.stage, c.req = stageHolding, Request{}
	known := c.hold.Known()
	how, by := v.Standing(w.lockID(i), c.hold.Claim, known)
	own := c.hold.Stands(v)
	switch {
	case (own || how == StandsHeld && by == c.hold.Claim) && c.overtaken && w.lists == listByKey:
		w.violate("holder %v was overtaken, and Check says that it holds", c.hold.Claim)
	case (!own || how != StandsHeld) && !w.overtaken(c.hold.Claim) && (w.lists == listByKey || w.ownWrites):
		w.violate("holder %v was not overtaken, and Check says that it does not hold", c.hold.Claim)
	}
}

// head is the highest version that a holder read or wrote itself.
func (c *client) head() int64 {
	if c.acq.Result.Sealed && c.hold.Newest == c.hold.Claim.Fence {
		return c.acq.last.Newest
	}
	return c.hold.Newest
}
