// SPDX-License-Identifier: Apache-2.0

package protocol

// Hold is what the holder of a lock knows of it; it decides how to write and release.
type Hold struct {
	Claim     ClaimID
	root      ClaimID // the claim that it joined; zero: none
	Newest    int64   // the head when last listed
	Next      int64   // the number of the next write
	Joined    bool    // the lock has claims of other processes as well
	Beside    bool    // it was listed beside such a claim, perhaps one that came later
	shared    bool    // these claims may still write below Next
	Uncertain bool    // a write may still arrive
	Lost      bool
}

// Hold returns the knowledge of the winner.
func (a *Acquirer) Hold() Hold {
	r := a.Result
	return Hold{Claim: a.Claim, root: a.Root, Newest: r.newest, Next: r.next, Joined: r.joined, Beside: r.beside, shared: r.joined && !r.Sealed}
}

// Save begins a write and uses up its number.
func (h *Hold) Save() *saver {
	n := h.Next
	h.Next++
	return &saver{claim: h.Claim, n: n}
}

// Saved records the result of a write.
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

// Stands reports whether a list shows the lock held. A claim with an ended root holds nothing.
func (h *Hold) Stands(v Snapshot) bool {
	return v.claimStands(h.Claim, h.Known()) && (h.root == ClaimID{} || v.Alive(h.root))
}

// isUnsure reports whether another write may still land above the head.
func (h *Hold) isUnsure() bool { return h.Uncertain || h.Lost || h.shared }

// Sealed returns below which number no other write of the client can count; 0 if unknown.
func (h *Hold) Sealed() int64 {
	if h.isUnsure() {
		return 0
	}
	return h.Claim.Fence
}

// Release returns the machine that ends the claim.
func (h *Hold) Release() *releaser {
	return &releaser{claim: h.Claim, forced: h.isUnsure(), marked: !h.Lost}
}
