// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// contest is a list from the point of view of the claims of one lock id.
type contest struct {
	Snapshot
	lockID string
	own    ClaimID   // the claim of this process; zero: none
	others []ClaimID // claims that look like ours, and have another owner
}

func (a *Acquirer) contestIn(v Snapshot) contest { return contest{v, a.LockID, a.Claim, a.others} }

func (s contest) isOurs(c ClaimID) bool {
	return format.ClaimOf(c.X, s.lockID) && !slices.Contains(s.others, c)
}

// siblingClaims returns the live claims of our id other than our own, oldest first.
func (s contest) siblingClaims() []ClaimID {
	return slices.DeleteFunc(s.Live(), func(c ClaimID) bool { return c == s.own || !s.isOurs(c) })
}

// rivalClaims returns the live claims of other ids, oldest first.
func (s contest) rivalClaims() []ClaimID {
	return slices.DeleteFunc(s.Live(), func(c ClaimID) bool { return c == s.own || s.isOurs(c) })
}

// firstUnread returns the first live claim that looks like ours and is not in known; zero: none.
func (s contest) firstUnread(known []ClaimID) ClaimID {
	for _, c := range s.siblingClaims() {
		if !slices.Contains(known, c) {
			return c
		}
	}
	return ClaimID{}
}

// oldestSibling returns the oldest live claim of our id, other than our own; zero: none.
func (s contest) oldestSibling() ClaimID {
	if ours := s.siblingClaims(); len(ours) > 0 {
		return ours[0]
	}
	return ClaimID{}
}

// firstFree returns the first number above all that listed claims may write. skip is the distance
// from live claims of our id: [reach], or [Jump] for a claim that names its root.
func (s contest) firstFree(skip int64) int64 {
	first := max(s.Newest+1, s.Floor())
	for _, c := range s.siblingClaims() {
		first = max(first, c.Fence+skip)
	}
	return first
}

// unknownTo returns the claims of our id that ended with a jump unseen by root's maker: its number
// is not above all theirs, or it names one of them as live.
func (s contest) unknownTo(root, live ClaimID) []ClaimID {
	var unknown []ClaimID
	for c, how := range s.Ended {
		another := c != s.own && c != root && s.isOurs(c)
		if how == EndedForced && another && (c == live || c.Fence+Jump > root.Fence) {
			unknown = append(unknown, c)
		}
	}
	slices.SortFunc(unknown, CompareClaims)
	return unknown
}

// isOutnumbered reports whether another process may have written our first number.
func (s contest) isOutnumbered() bool { return s.Newest >= s.own.Fence || s.Floor() > s.own.Fence }

// hasJoining reports that another process joins with numbers not all below ours: neither may write.
func (s contest) hasJoining() bool {
	return slices.ContainsFunc(s.siblingClaims(), func(c ClaimID) bool { return c.Fence+reach > s.own.Fence })
}
