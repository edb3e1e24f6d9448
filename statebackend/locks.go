// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Held describes a lock that is held.
type Held struct {
	Workspace string
	Info      LockInfo
	Fence     int64
	Tag       string
	Age       time.Duration // by the clocks of the holder and of the caller
	// TTL is the lease, 0: none; expired when Heartbeat stays the same for longer than that.
	TTL       time.Duration
	Heartbeat string
	// Unreadable says that the claim is listed, but reading it answers not found, as after a
	// registry died while it wrote the tag. Info.ID is what ForceUnlock accepts.
	Unreadable bool
}

// Locks lists the locks that are held in the repository.
func (s *Store) Locks(ctx context.Context) ([]Held, error) {
	tags, err := s.manifests.tags(ctx)
	if err != nil {
		return nil, err
	}
	return s.manifests.locksOf(ctx, lockTags(tags))
}

func (s *manifests) locksOf(ctx context.Context, listed []format.StateTag) ([]Held, error) {
	var held []Held
	unreadable := false
	for _, t := range listed {
		h, ok, err := s.heldBy(ctx, t)
		if err != nil {
			return nil, err
		}
		if ok {
			held = append(held, h)
			unreadable = unreadable || h.Unreadable
		}
	}
	if unreadable { // or released since the list
		tags, err := s.tags(ctx)
		if err != nil {
			return nil, err
		}
		still := lockTags(tags)
		held = slices.DeleteFunc(held, func(h Held) bool {
			return h.Unreadable && !slices.ContainsFunc(still, func(t format.StateTag) bool { return t.String() == h.Tag })
		})
	}
	return held, nil
}

// Held returns the lock of one workspace, nil when it is free.
func (s *Store) Held(ctx context.Context, workspace string) (*Held, error) {
	l, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	return l.Held(ctx, workspace)
}

// lockTags returns the markers and the claims without a tombstone, only the oldest of one id: a
// lock that moved from server to server has several.
func lockTags(tags []string) []format.StateTag {
	var list []format.StateTag
	ended := endedClaims(tags)
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		if ok && (t.Kind == format.LockMarker || t.Kind == format.LockClaim && !ended[t]) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b format.StateTag) int {
		return cmp.Or(strings.Compare(a.Fragment, b.Fragment), cmp.Compare(a.N, b.N), strings.Compare(a.X, b.X))
	})
	known := map[[2]string]bool{}
	return slices.DeleteFunc(list, func(t format.StateTag) bool {
		if t.Kind != format.LockClaim {
			return false
		}
		key := [2]string{t.Fragment, format.IDOfClaim(t.X)}
		again := known[key]
		known[key] = true
		return again
	})
}

// heldBy reads a claim or a marker; false if the tag is not a held lock.
func (r *manifests) heldBy(ctx context.Context, t format.StateTag) (Held, bool, error) {
	h := Held{Workspace: t.Fragment, Fence: t.N, Tag: t.String()}
	l, err := r.fetchLock(ctx, h.Tag, "")
	switch {
	case errors.Is(err, oci.ErrNotFound) && t.Kind == format.LockMarker:
		return h, false, nil // a marker that cannot be read does not lock
	case errors.Is(err, oci.ErrNotFound):
		h.Workspace = r.workspaceOf(ctx, t.Fragment)
		h.Info = abandonedInfo(h.Tag, t.X)
		h.Unreadable = true
		return h, true, nil
	case errors.Is(err, oci.ErrCorrupt) && t.Kind == format.LockClaim: // it holds, and can be ended
		h.Workspace = r.workspaceOf(ctx, t.Fragment)
		h.Info = LockInfo{ID: t.X, Info: "unknown: " + err.Error()}
		return h, true, nil
	case err != nil:
		return h, false, err
	case t.Kind == format.LockMarker && (l.Nonce != "" || l.Kind == format.KindUnlocked || l.Info.ID == ""):
		return h, false, nil // a copy of a claim, or unlocked
	}
	if l.Workspace != "" {
		h.Workspace = l.Workspace
	}
	h.Info = l.Info
	if l.TTL > 0 {
		h.TTL = l.TTL
		h.Heartbeat = l.Manifest.Digest.String()
	}
	if !l.Info.Created.IsZero() {
		h.Age = max(0, r.o.Now().Sub(l.Info.Created))
	}
	return h, true, nil
}

func endedClaims(tags []string) map[format.StateTag]bool {
	ended := map[format.StateTag]bool{}
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		if ok && (t.Kind == format.LockTombstone || t.Kind == format.ForceTombstone) {
			t.Kind = format.LockClaim
			ended[t] = true
		}
	}
	return ended
}
