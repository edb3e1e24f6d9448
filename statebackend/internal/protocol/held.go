// SPDX-License-Identifier: Apache-2.0

package protocol

// Hold is what the holder of a lock knows of it, and so how it may write and leave.
type Hold struct {
	Claim     ClaimID
	Newest    int64 // the head when last seen
	Next      int64 // the number of the next write
	Joined    bool  // the lock has claims of other processes as well
	shared    bool  // these may still write below next
	Uncertain bool  // a write may still arrive
	Lost      bool
}

// Hold returns what the winner knows.
func (a *Acquirer) Hold() Hold {
	r := a.Result
	return Hold{Claim: a.Claim, Newest: r.newest, Next: r.next, Joined: r.joined, shared: r.joined && !r.Sealed}
}

// Save begins a write. Its number is used up.
func (h *Hold) Save() *saver {
	n := h.Next
	h.Next++
	return &saver{claim: h.Claim, n: n}
}

// Saved takes the outcome of a write.
func (h *Hold) Saved(s *saver) {
	h.Uncertain = h.Uncertain || s.Result.uncertain
	h.Lost = h.Lost || s.Result.Lost
	if s.Result.Stored {
		h.Newest = s.n
		h.shared = false
	}
}

// Known is the highest version that the holder knows of, or may have written.
func (h *Hold) Known() int64 { return max(h.Newest, h.Next-1) }

// unsure reports whether a write may still come above the head.
func (h *Hold) unsure() bool { return h.Uncertain || h.Lost || h.shared }

// Sealed is the number below which nothing that other processes of the client write
// can count any more; 0 where that is not known.
func (h *Hold) Sealed() int64 {
	if h.unsure() {
		return 0
	}
	return h.Claim.Fence
}

// Release begins to end the claim.
func (h *Hold) Release() *releaser {
	return &releaser{claim: h.Claim, forced: h.unsure(), marked: !h.Lost}
}
