// SPDX-License-Identifier: Apache-2.0

package statebackend

// hold is what the holder of a lock knows of it, and so how it may write and leave.
type hold struct {
	claim     claimID
	newest    int64 // the head when last seen
	next      int64 // the number of the next write
	joined    bool  // it has claims of other processes beside it
	shared    bool  // these may still write below next
	uncertain bool  // a write may still arrive
	lost      bool
}

// hold returns what the winner knows.
func (a *acquirer) hold() hold {
	r := a.result
	return hold{claim: a.claim, newest: r.newest, next: r.next, joined: r.joined, shared: r.joined && !r.sealed}
}

// save begins a write. Its number is used up.
func (h *hold) save() *saver {
	n := h.next
	h.next++
	return &saver{claim: h.claim, n: n}
}

// saved takes the outcome of a write.
func (h *hold) saved(s *saver) {
	h.uncertain = h.uncertain || s.result.uncertain
	h.lost = h.lost || s.result.lost
	if s.result.stored {
		h.newest, h.shared = s.n, false
	}
}

// known is the highest version that the holder knows of, or may have written.
func (h *hold) known() int64 { return max(h.newest, h.next-1) }

// unsure tells whether a write may still come above the head.
func (h *hold) unsure() bool { return h.uncertain || h.lost || h.shared }

// sealed is the number below which nothing that other processes of the client write
// can count any more; 0 where that is not known.
func (h *hold) sealed() int64 {
	if h.unsure() {
		return 0
	}
	return h.claim.fence
}

// release begins to end the claim.
func (h *hold) release() *releaser {
	return &releaser{claim: h.claim, forced: h.unsure(), marked: !h.lost}
}
