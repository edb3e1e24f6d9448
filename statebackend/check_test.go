// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// lists returns the number of requests for one LIST of the repository: its pages.
func lists(t *testing.T, s *statebackend.Store, c *ocitest.Count) int {
	t.Helper()
	c.Take()
	mustListing(t, s)
	return c.Take()["GET tags"]
}

// A holder checks with one request whether it still holds the lock.
func TestLockCheck(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, c, statebackend.Options{})
		l := mustLock(t, s, "prod", "a")
		mustPut(t, l, []byte("one"))
		pages := lists(t, s, c)
		if err := l.Check(t.Context()); err != nil {
			t.Errorf("held: %v", err)
		}
		if n := c.Take(); n["GET tags"] != pages || sum(n) != pages {
			t.Errorf("requests %v, want one list", n)
		}
		must.Succeed(t, newStore(t, host, nil, statebackend.Options{}).ForceUnlock(t.Context(), "prod", "a"))
		if err := l.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("forced: %v", err)
		}
		mustUnlock(t, l)
		if err := l.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("released: %v", err)
		}
	})
}

// TestStoreCheck checks by lock id, in the process that won the lock and in another.
func TestStoreCheck(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		here, there := newStore(t, host, c, statebackend.Options{}), newStore(t, host, c, statebackend.Options{})
		check := func(what string, s *statebackend.Store, id string, want error) {
			t.Helper()
			pages := lists(t, s, c)
			err := s.Check(t.Context(), "prod", id)
			n := c.Take()
			if want == nil && (err != nil || n["GET tags"] != pages || sum(n) != pages) {
				t.Errorf("%s: %v, requests %v; want no error and one list", what, err, n)
			}
			if want != nil && (!errors.Is(err, want) || n["GET tags"] != pages || sum(n) > pages+1) {
				t.Errorf("%s: %v, requests %v; want %v, one list, at most one manifest", what, err, n, want)
			}
			if _, mine := s.Holding("prod", id); want == nil || mine {
				return
			}
			if _, rerr := s.Resume(t.Context(), "prod", id); rerr == nil || err == nil || rerr.Error() != err.Error() {
				t.Errorf("%s: Resume says %v, Check %v", what, rerr, err)
			}
		}
		check("never taken", here, "run", statebackend.ErrNotHeld)
		l := mustLock(t, here, "prod", "run")
		check("held", here, "run", nil)
		check("held elsewhere", there, "run", nil)
		mustPut(t, l, []byte("1"))
		check("held, and written", here, "run", nil)
		check("held elsewhere, and written", there, "run", nil)
		if err := there.Check(t.Context(), "prod", "other"); !isLockedBy(err, "run") || errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("held by another: %v", err)
		}
		must.Succeed(t, there.ForceUnlock(t.Context(), "prod", "run"))
		check("forced", here, "run", statebackend.ErrLockEnded)
		check("forced elsewhere", there, "run", statebackend.ErrLockEnded)
		next := mustLock(t, there, "prod", "next")
		check("forced, and taken by another", here, "run", statebackend.ErrLockEnded)
		mustUnlock(t, next)
		mustUnlock(t, l)
		check("the successor is gone", there, "run", statebackend.ErrLockEnded)
	})
}

// A higher version ends a lock that was won here, although its claim is live.
func TestStoreCheckAbove(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	l := mustLock(t, s, "prod", "run")
	mustPut(t, l, testState(1, 0))
	r := s.Repo()
	m := must.Get(r.Fetch(t.Context(), "state-prod-v1"))(t)
	must.Succeed(t, r.PutTag(t.Context(), "state-prod-v2", m))
	if err := s.Check(t.Context(), "prod", "run"); !errors.Is(err, statebackend.ErrLockLost) || errors.Is(err, statebackend.ErrLockEnded) {
		t.Errorf("by the id: %v", err)
	}
	if err := l.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
		t.Errorf("by the lock: %v", err)
	}
	if err := newStore(t, host, nil, statebackend.Options{}).Check(t.Context(), "prod", "run"); err != nil {
		t.Errorf("elsewhere, where nobody knows what the holder wrote: %v", err)
	}
}

// A lock whose claim was removed is lost in this process, and unknown in others.
func TestStoreCheckRemoved(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	mustLock(t, s, "prod", "run")
	for _, tag := range mustTags(t, s) {
		if strings.HasPrefix(tag, "locked-prod-") {
			must.Succeed(t, s.Repo().Untag(t.Context(), tag))
		}
	}
	if err := s.Check(t.Context(), "prod", "run"); !errors.Is(err, statebackend.ErrLockLost) || errors.Is(err, statebackend.ErrNotHeld) {
		t.Errorf("here: %v", err)
	}
	if err := newStore(t, host, nil, statebackend.Options{}).Check(t.Context(), "prod", "run"); !errors.Is(err, statebackend.ErrNotHeld) {
		t.Errorf("elsewhere: %v", err)
	}
}

func mustTags(t *testing.T, s *statebackend.Store) []string {
	t.Helper()
	l := must.Get(s.Repo().Snapshot(t.Context()))(t)
	return l.Tags
}

// TestCheckAway: an unreachable registry never looks like a lock that is gone.
func TestCheckAway(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		f := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Match: ocitest.On("GET", "tags"), Do: ocitest.Status(503, 0), Times: -1}
		s := newStore(t, "registry.test", f, statebackend.Options{})
		for _, ask := range []func() error{
			func() error { return s.Check(t.Context(), "prod", "run") },
			func() error { _, err := s.Resume(t.Context(), "prod", "run"); return err },
		} {
			if err := ask(); !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, statebackend.ErrLockLost) {
				t.Errorf("got %v, want that the registry is away", err)
			}
		}
	})
}

// TestOtherRepository: no state is stored beside the versions of a module, whose readers have other
// rights. Where there are states already, it goes on.
func TestOtherRepository(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{})
		m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "application/x", Config: ocispec.DescriptorEmptyJSON}))(t)
		must.Get(s.Repo().EnsureBlob(t.Context(), oci.BytesBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"))))(t)
		must.Succeed(t, s.Repo().PutTag(t.Context(), "1.2.0", m))
		if _, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"}); !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "1.2.0") {
			t.Errorf("beside a version: %v", err)
		}
	})
}

// TestLockWhen calls fit with the list that a lock makes anyway.
func TestLockWhen(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, c, statebackend.Options{})
		mustUnlock(t, mustLock(t, s, "prod", "warm"))
		errUnfit := errors.New("unfit")
		before := len(mustTags(t, s))
		pages := lists(t, s, c)
		_, err := s.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "a"}, func(_ context.Context, l *statebackend.Listing) error {
			if n := l.Numbers("prod"); len(n) != 0 {
				t.Errorf("versions %v", n)
			}
			return errUnfit
		})
		if n := c.Take(); !errors.Is(err, errUnfit) || sum(n) != pages {
			t.Errorf("unfit: %v, requests %v; want one list", err, n)
		}
		if n := len(mustTags(t, s)); n != before {
			t.Errorf("%d tags, had %d: something was written", n, before)
		}
		asked := 0
		fit := func(context.Context, *statebackend.Listing) error { asked++; return nil }
		l, err := s.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "a"}, fit)
		if err != nil || asked != 1 {
			t.Fatalf("fit: %v, asked %d times", err, asked)
		}
		if again, err := s.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "a"}, fit); again != l || err != nil || asked != 1 {
			t.Errorf("the lock that is held: %v, asked %d times", err, asked)
		}
		mustUnlock(t, l)
	})
}

// TestLockBegun locks with an earlier list: if the workspace is free in it, the lock costs
// one list less, and later changes are still noticed.
//
// Shows: cloud 2
func TestLockBegun(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s, other := newStore(t, host, c, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		mustStore(t, s, "prod", testState(1, 0))
		c.Take()
		mustUnlock(t, mustLock(t, s, "prod", "warm"))
		fresh := c.Take()
		errUnfit := errors.New("unfit")
		lock := func(known *statebackend.Listing, fit func(*statebackend.Listing) error) (*statebackend.Lock, error) {
			return known.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "a"}, func(_ context.Context, l *statebackend.Listing) error { return fit(l) })
		}
		fits := func(*statebackend.Listing) error { return nil }

		known := mustList(t, s)
		marked := known.Has("locked-prod") // if the registry cannot delete; then the marker must be read
		c.Take()
		l, err := lock(known, fits)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
		if got := c.Take(); sum(got) >= sum(fresh) && !marked {
			t.Errorf("requests %v, want fewer than %v", got, fresh)
		}

		mustStore(t, other, "prod", testState(2, 0))
		if l, err = lock(known, fits); err != nil || l.Fence() != 3 {
			t.Fatalf("after version 2: %v, %v", l, err)
		}
		mustUnlock(t, l)

		before := len(mustTags(t, s))
		held := mustLock(t, other, "prod", "b")
		if _, err := lock(known, fits); !isLockedBy(err, "b") {
			t.Errorf("held since: %v", err)
		}
		if _, err := lock(mustList(t, s), fits); !isLockedBy(err, "b") {
			t.Errorf("held then: %v", err)
		}
		mustUnlock(t, held)
		if n := len(mustTags(t, s)); n > before+3 { // tombstones, if the registry cannot delete
			t.Errorf("%d tags, had %d", n, before)
		}
		if _, err := lock(known, func(l *statebackend.Listing) error {
			if len(l.Numbers("prod")) > 1 {
				return errUnfit
			}
			return nil
		}); !errors.Is(err, errUnfit) {
			t.Errorf("unfit since: %v", err)
		}
		if held, err := s.Held(t.Context(), "prod"); held != nil || err != nil {
			t.Errorf("a lock is left: %+v, %v", held, err)
		}
	})
}

// TestLockBegunOlderTool: an older tool locked after the first list.
func TestLockBegunOlderTool(t *testing.T) {
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
	known := mustList(t, s)
	lockByOlderTool(t, s)
	before := mustTags(t, s)
	_, err := known.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "new"}, func(context.Context, *statebackend.Listing) error { return nil })
	if !isLockedBy(err, "old") {
		t.Errorf("lock: %v", err)
	}
	if after := mustTags(t, s); !slices.Equal(after, before) {
		t.Errorf("%v became %v", before, after)
	}
}

func mustList(t *testing.T, s *statebackend.Store) *statebackend.Listing {
	t.Helper()
	return must.Get(s.List(t.Context()))(t)
}
