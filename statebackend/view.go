// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// jump is how many version numbers a claim may use, and so the distance by
// which the successor of an overtaken claim skips ahead: whatever the
// overtaken one still writes stays below.
const jump = 100_000

// claimID identifies one attempt to lock: the first version number it may
// write, and the part that tells attempts apart. Claims are ordered by both.
type claimID struct {
	fence int64
	x     string
}

func compareClaims(a, b claimID) int {
	return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.x, b.x))
}

// view is what one tag list says about one workspace.
type view struct {
	claims  []claimID          // ordered
	ended   map[claimID]ending // by tombstones
	newest  int64              // highest version, 0: none
	marker  bool               // locked-W
	written bool               // unlocked-W
	pointer bool               // state-W
}

// ending is how a tombstone ended a claim.
type ending uint8

const (
	endedClean ending = iota + 1
	endedForced
)

// newView picks the tags of one workspace out of a list.
func newView(tags []string, fragment string) view {
	v := view{ended: map[claimID]ending{}}
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		if !ok || t.Fragment != fragment {
			continue
		}
		v.add(t)
	}
	slices.SortFunc(v.claims, compareClaims)
	return v
}

func (v *view) add(t format.StateTag) {
	c := claimID{fence: t.N, x: t.X}
	switch t.Kind {
	case format.StatePointer:
		v.pointer = true
	case format.StateNumbered:
		v.newest = max(v.newest, t.N)
	case format.LockMarker:
		v.marker = true
	case format.UnlockMarker:
		v.written = true
	case format.LockClaim:
		v.claims = append(v.claims, c)
	case format.LockTombstone:
		v.ended[c] = max(v.ended[c], endedClean)
	case format.ForceTombstone:
		v.ended[c] = endedForced
	}
}

func (v view) has(c claimID) bool { return slices.Contains(v.claims, c) }

// live returns the claims without a tombstone.
func (v view) live() []claimID {
	var live []claimID
	for _, c := range v.claims {
		if v.ended[c] == 0 {
			live = append(live, c)
		}
	}
	return live
}

// alive tells whether a claim is listed and has no tombstone.
func (v view) alive(c claimID) bool { return v.has(c) && v.ended[c] == 0 }

// without returns the view in which a claim is not listed. The receiver keeps its own.
func (v view) without(c claimID) view {
	v.claims = slices.DeleteFunc(slices.Clone(v.claims), func(other claimID) bool { return other == c })
	return v
}

// floor is the first number that no overtaken claim can write; 0 without one.
func (v view) floor() int64 {
	var floor int64
	for c, how := range v.ended {
		if how == endedForced {
			floor = max(floor, c.fence+jump)
		}
	}
	return floor
}

// with returns the view after one more tombstone. The receiver keeps its own.
func (v view) with(c claimID, how ending) view {
	ended := make(map[claimID]ending, len(v.ended)+1)
	maps.Copy(ended, v.ended)
	ended[c] = max(ended[c], how)
	v.ended = ended
	return v
}

// standing is what a list says of the lock of one id.
type standing uint8

const (
	standsNowhere standing = iota // no trace of it, and nobody holds
	standsHeld                    // it is held
	standsEnded                   // there is a tombstone of it
	standsLost                    // this process won it, and it is gone or written above
	standsOther                   // no trace of it, and others hold
)

// stands tells whether a claim holds where its holder knows of versions up to known.
func (v view) stands(c claimID, known int64) bool {
	return v.has(c) && v.ended[c] == 0 && v.newest <= known
}

// standing judges the lock of id, of which this process won the claim own, zero if
// none; the claim it returns is the one that decides. A live claim of the id that is
// not own was won by another process, whose versions are not known here.
func (v view) standing(id string, own claimID, known int64) (standing, claimID) {
	lost := own != claimID{} && v.ended[own] == 0
	other := claimID{}
	for _, c := range v.live() {
		switch {
		case c == own && v.stands(c, known), c != own && format.ClaimOf(c.x, id):
			return standsHeld, c
		case c != own && other == claimID{}:
			other = c
		}
	}
	ended := claimID{}
	for c, how := range v.ended {
		later := ended == claimID{} || how > v.ended[ended] || how == v.ended[ended] && compareClaims(c, ended) > 0
		if format.ClaimOf(c.x, id) && later {
			ended = c
		}
	}
	switch {
	case lost:
		return standsLost, own
	case ended != claimID{}:
		return standsEnded, ended
	case other != claimID{}:
		return standsOther, other
	}
	return standsNowhere, claimID{}
}
