// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	// Jump is how far the successor of an overtaken claim skips: all its later writes stay below.
	Jump = 100_000
	// reach is how many version numbers a claim may use. The last before its successor's is free,
	// for a copy beside an older claim. A LOCK beside a live claim of its id skips only these.
	reach = Jump - 1
)

// ClaimID is one attempt to lock: its first version number and a unique part, ordered by both.
type ClaimID struct {
	Fence int64
	X     string
}

func CompareClaims(a, b ClaimID) int {
	return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.X, b.X))
}

// Snapshot is the content of one tag list for one workspace.
type Snapshot struct {
	Claims  []ClaimID          // ordered
	Ended   map[ClaimID]ending // by tombstones
	Newest  int64              // highest version, 0: none
	numbers []int64            // of all versions
	Marker  bool               // locked-W
	Written bool               // unlocked-W
	Pointer bool               // state-W
}

type ending uint8

const (
	EndedClean ending = iota + 1
	EndedForced
)

// NewSnapshot extracts the tags of one workspace from a list.
func NewSnapshot(tags []string, fragment string) Snapshot {
	v := Snapshot{Ended: map[ClaimID]ending{}}
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		if !ok || t.Fragment != fragment {
			continue
		}
		v.addTag(t)
	}
	slices.SortFunc(v.Claims, CompareClaims)
	return v
}

func (v *Snapshot) addTag(t format.StateTag) {
	c := ClaimID{Fence: t.N, X: t.X}
	switch t.Kind {
	case format.StatePointer:
		v.Pointer = true
	case format.StateNumbered:
		v.Newest = max(v.Newest, t.N)
		v.numbers = append(v.numbers, t.N)
	case format.LockMarker:
		v.Marker = true
	case format.UnlockMarker:
		v.Written = true
	case format.LockClaim:
		v.Claims = append(v.Claims, c)
	case format.LockTombstone:
		v.Ended[c] = max(v.Ended[c], EndedClean)
	case format.ForceTombstone:
		v.Ended[c] = EndedForced
	}
}

func (v Snapshot) Has(c ClaimID) bool { return slices.Contains(v.Claims, c) }

// Live returns the claims without a tombstone.
func (v Snapshot) Live() []ClaimID {
	var live []ClaimID
	for _, c := range v.Claims {
		if v.Ended[c] == 0 {
			live = append(live, c)
		}
	}
	return live
}

// Alive reports whether a claim is listed and has no tombstone.
func (v Snapshot) Alive(c ClaimID) bool { return v.Has(c) && v.Ended[c] == 0 }

func (v Snapshot) withoutClaim(c ClaimID) Snapshot {
	v.Claims = slices.DeleteFunc(slices.Clone(v.Claims), func(other ClaimID) bool { return other == c })
	return v
}

// Floor is the first number that no overtaken claim can write; 0 if there is none.
func (v Snapshot) Floor() int64 {
	var floor int64
	for c, how := range v.Ended {
		if how == EndedForced {
			floor = max(floor, c.Fence+Jump)
		}
	}
	return floor
}

// decisiveVersion returns the lowest version from n on whose claim was not overtaken; 0: none. One
// of an overtaken claim may be below what decided before it.
func (v Snapshot) decisiveVersion(n int64) int64 {
	lowest := int64(0)
	for _, version := range v.numbers {
		if version >= n && (lowest == 0 || version < lowest) && !v.isOvertaken(version) {
			lowest = version
		}
	}
	return lowest
}

// isOvertaken reports whether a version has a number of a claim that was overtaken.
func (v Snapshot) isOvertaken(version int64) bool {
	for c, how := range v.Ended {
		if how == EndedForced && c.Fence <= version && version < c.Fence+Jump {
			return true
		}
	}
	return false
}

func (v Snapshot) withTombstone(c ClaimID, how ending) Snapshot {
	ended := make(map[ClaimID]ending, len(v.Ended)+1)
	maps.Copy(ended, v.Ended)
	ended[c] = max(ended[c], how)
	v.Ended = ended
	return v
}

// Over returns a copy of the snapshot in which all claims of an id have ended.
func (v Snapshot) Over(id string) Snapshot {
	for _, c := range v.Live() {
		if format.ClaimOf(c.X, id) {
			v = v.withTombstone(c, EndedClean)
		}
	}
	return v
}

// Standing is the state of the lock of one id according to a list.
type Standing uint8

const (
	standsNowhere Standing = iota // no trace of it, and the workspace is free
	StandsHeld                    // the lock is held
	StandsEnded                   // there is a tombstone of the lock
	StandsLost                    // this process won it, and its claim is gone or a higher version was written
	StandsOther                   // no trace of it, and another client holds the workspace
)

// claimStands reports whether a claim holds, if its holder knows of versions up to known.
func (v Snapshot) claimStands(c ClaimID, known int64) bool {
	return v.Has(c) && v.Ended[c] == 0 && v.Newest <= known
}

// Standing judges the lock of id. own is the claim that this process won for it, or zero; the
// returned claim decides. Another live claim of the id is of a process whose versions are unknown.
func (v Snapshot) Standing(id string, own ClaimID, known int64) (Standing, ClaimID) {
	lost := own != ClaimID{} && v.Ended[own] == 0
	other := ClaimID{}
	for _, c := range v.Live() {
		switch {
		case c == own && v.claimStands(c, known), c != own && format.ClaimOf(c.X, id):
			return StandsHeld, c
		case c != own && other == ClaimID{}:
			other = c
		}
	}
	ended := ClaimID{}
	for c, how := range v.Ended {
		later := ended == ClaimID{} || how > v.Ended[ended] || how == v.Ended[ended] && CompareClaims(c, ended) > 0
		if format.ClaimOf(c.X, id) && later {
			ended = c
		}
	}
	switch {
	case lost:
		return StandsLost, own
	case ended != ClaimID{}:
		return StandsEnded, ended
	case other != ClaimID{}:
		return StandsOther, other
	}
	return standsNowhere, ClaimID{}
}
