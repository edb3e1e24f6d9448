// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

func mustListing(t *testing.T, s *statebackend.Store) *statebackend.Listing {
	t.Helper()
	return must.Get(s.List(t.Context()))(t)
}

func checkNumbers(t *testing.T, l *statebackend.Listing, workspace string, want ...int64) {
	t.Helper()
	if diff := cmp.Diff(want, l.Numbers(workspace)); diff != "" {
		t.Errorf("versions of %s (-want +got):\n%s", workspace, diff)
	}
}

// mustHeads returns the newest version of each workspace.
func mustHeads(t *testing.T, l *statebackend.Listing) map[string]int64 {
	t.Helper()
	list := must.Get(l.Heads(t.Context()))(t)
	heads := map[string]int64{}
	for _, h := range list {
		heads[h.Workspace] = h.N
	}
	return heads
}

// TestListing answers for versions and locks from one list of tags on each registry.
func TestListing(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		count := &ocitest.Count{}
		s := newStore(t, host, count, statebackend.Options{})
		empty := mustListing(t, s)
		checkNumbers(t, empty, "prod")
		if heads := mustHeads(t, empty); len(heads) != 0 || empty.Replica() || empty.Size() != 0 {
			t.Errorf("a repository that is not there: %v", heads)
		}
		l := mustLock(t, s, "prod", "a")
		mustPut(t, l, testState(1, 0))
		mustPut(t, l, testState(2, 0))
		held := mustLock(t, s, "my team/ä", "b")
		mustPut(t, held, testState(1, 0))
		mustUnlock(t, l)

		count.Take()
		list := mustListing(t, s)
		once := count.Take()["GET tags"]
		checkNumbers(t, list, "prod", 2, 1)
		checkNumbers(t, list, "my team/ä", 1)
		checkNumbers(t, list, "other")
		if h, err := list.Held(t.Context(), "prod"); h != nil || err != nil || list.Replica() {
			t.Errorf("prod is held by %v, %v", h, err)
		}
		// Where nothing can be deleted, the marker of the lock stays and is read.
		if n := count.Take(); once == 0 || n["GET manifest"] > 1 || sum(n) != n["GET manifest"] {
			t.Errorf("requests beside the list: %v, want at most a manifest", n)
		}
		if h, err := list.Held(t.Context(), "my team/ä"); err != nil || h == nil || h.Info.ID != "b" {
			t.Errorf("held by %v, %v, want b", h, err)
		}
		if n := count.Take(); n["GET manifest"] != 1 || n["GET tags"] != 0 {
			t.Errorf("requests for a lock: %v, want its manifest", n)
		}
		if locks, err := list.Locks(t.Context()); err != nil || len(locks) != 1 || locks[0].Workspace != "my team/ä" {
			t.Errorf("locks %v, %v", locks, err)
		}
		must.Match(t, "heads", mustHeads(t, list), map[string]int64{"prod": 2, "my team/ä": 1})
		mustUnlock(t, held)
		if locks, err := mustListing(t, s).Locks(t.Context()); err != nil || len(locks) != 0 {
			t.Errorf("after the unlock: %v, %v", locks, err)
		}
	})
}

// TestListingDangling: an unreadable version hides no workspace, an unreadable claim locks.
func TestListingDangling(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
	mustStore(t, s, "prod", testState(1, 0))
	g.Add("infra/state", "state-prod-v2")
	g.Add("infra/state", "state-lost-v7")
	g.Add("infra/state", abandonedClaim)
	list := mustListing(t, s)
	checkNumbers(t, list, "prod", 2, 1)
	must.Match(t, "heads", mustHeads(t, list), map[string]int64{"prod": 2, "lost": 7})
	if h, err := list.Held(t.Context(), "prod"); err != nil || h == nil || !h.Unreadable || h.Tag != abandonedClaim {
		t.Errorf("the claim that cannot be read: %+v, %v", h, err)
	}
	if _, err := s.Describe(t.Context(), "prod", 2); err == nil {
		t.Error("a version that cannot be read was described")
	}
}

// TestListingJump: the gap of a forced unlock keeps order; the next holder writes above it.
func TestListingJump(t *testing.T) {
	s := newStore(t, ocitest.New(t, ocitest.Quirks{PageSize: 2}), nil, statebackend.Options{})
	mustPut(t, mustLock(t, s, "prod", "killed"), testState(1, 0))
	must.Succeed(t, s.ForceUnlock(t.Context(), "prod", "killed"))
	l := mustLock(t, s, "prod", "b")
	next := mustPut(t, l, testState(2, 0)).N
	mustUnlock(t, l)
	if next < 100_000 {
		t.Fatalf("version %d is no jump", next)
	}
	checkNumbers(t, mustListing(t, s), "prod", next, next-1, 1)
}

// TestListingReplica recognizes a copy by its tags, with the versions of its source.
func TestListingReplica(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src, dst := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
	mustWrite(t, src, 1, 2)
	must.Get(src.Replicas().Replicate(t.Context(), dst, "prod"))(t)
	mustWrite(t, src, 3)
	if mustListing(t, src).Replica() || !mustListing(t, dst).Replica() {
		t.Error("not the copy says that it is one")
	}
	checkNumbers(t, mustListing(t, src), "prod", 3, 2, 1)
	checkNumbers(t, mustListing(t, dst), "prod", 2, 1)
}
