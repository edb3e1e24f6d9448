// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func isLockedBy(err error, id string) bool {
	e, ok := errors.AsType[*statebackend.LockedError](err)
	return ok && e.Held.ID == id
}

func TestTakeOver(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		la := mustLock(t, a, "prod", "a")
		mustPut(t, la, []byte("a1"))
		lb, err := b.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b", Who: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = la.Put(t.Context(), []byte("a2"))
		if !errors.Is(err, statebackend.ErrLockLost) {
			t.Fatalf("put of the overtaken holder: %v", err)
		}
		for _, want := range []string{
			"the lock was taken over at 20", "by bob (forced); your state was saved as version 2, which is not current:",
			"\nhint: ", "okara state diff " + host + "/infra/state 2 -w prod", "okara state restore " + host + "/infra/state 2 -w prod",
		} {
			if !strings.Contains(states.Remedy(err), want) {
				t.Errorf("message %q lacks %q", err, want)
			}
		}
		if _, err := la.Put(t.Context(), []byte("a3")); !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "saved as version 3, which is not current:") {
			t.Errorf("second put of the overtaken holder: %v", err)
		}
		got, v, err := lb.Get(t.Context())
		if err != nil || string(got) != "a1" || v.N != 100_001 {
			t.Errorf("head of the successor: %q, %+v, %v", got, v, err)
		}
		if v := mustPut(t, lb, []byte("b1")); v.N != 100_002 || v.Parent != 100_001 {
			t.Errorf("version of the successor: %+v", v)
		}
		if err := la.Unlock(t.Context()); err != nil {
			t.Errorf("unlock of the overtaken holder: %v", err)
		}
		if _, err := a.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "c"}); !isLockedBy(err, "b") {
			t.Errorf("lock: %v", err)
		}
		mustUnlock(t, lb)
		must.Equal(t, "state", mustGet(t, a, "prod"), "b1")
		if got, _, err := a.GetVersion(t.Context(), "prod", 2); err != nil || string(got) != "a2" {
			t.Errorf("the overtaken holder's bytes: %q, %v", got, err)
		}
		lc := mustLock(t, a, "prod", "c")
		if v := mustPut(t, lc, []byte("c1")); v.N != 100_003 {
			t.Errorf("version after a clean hand-over: %d", v.N)
		}
		mustUnlock(t, lc)
	})
}

func TestForceUnlock(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		if err := b.ForceUnlock(t.Context(), "prod", "x"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("unknown id, free workspace: %v", err)
		}
		la := mustLock(t, a, "prod", "a")
		if err := b.ForceUnlock(t.Context(), "prod", "x"); !isLockedBy(err, "a") {
			t.Errorf("unknown id, held workspace: %v", err)
		}
		must.Succeed(t, b.ForceUnlock(t.Context(), "prod", "a"))
		lb := mustLock(t, b, "prod", "b")
		mustPut(t, lb, []byte("b1"))
		if _, err := la.Put(t.Context(), []byte("a1")); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("put of the forced holder: %v", err)
		}
		mustUnlock(t, lb)
		must.Equal(t, "state", mustGet(t, b, "prod"), "b1")
	})
}

// TestForcedWrite forces a running holder's lock. What it writes after is refused; what was in the
// registry before is stored.
func TestForcedWrite(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		b := newStore(t, host, nil, statebackend.Options{})
		forced := false
		a := newStore(t, host, &ocitest.Fault{Match: putsVersion2, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil {
				forced = true
				err = b.ForceUnlock(t.Context(), "prod", "a")
			}
			return resp, err
		}}, statebackend.Options{})
		la := mustLock(t, a, "prod", "a")
		mustPut(t, la, []byte("a1"))
		mustPut(t, la, []byte("a2"))
		if got, _, err := la.Get(t.Context()); err != nil || string(got) != "a2" {
			t.Errorf("the holder reads %q after it wrote a2, %v", got, err)
		}
		if _, err := la.Put(t.Context(), []byte("a3")); !forced || !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "saved as version 3, which is not current:") {
			t.Errorf("put after the end of the lock: %v, forced: %v", err, forced)
		}
		for _, strict := range []bool{true, false} {
			if got := mustGet(t, newStore(t, host, nil, statebackend.Options{StrictReads: strict}), "prod"); got != "a2" {
				t.Errorf("state, strict %v: %q", strict, got)
			}
		}
		lb := mustLock(t, b, "prod", "b")
		if got, v, err := lb.Get(t.Context()); err != nil || string(got) != "a2" || v.N != 100_001 {
			t.Errorf("the next holder reads %q, %+v, %v", got, v, err)
		}
		mustUnlock(t, lb)
		if held, err := b.Locks(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("locks left: %v, %v", held, err)
		}
	})
}

func putsVersion2(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/state-prod-v2")
}

// TestForcedByOlder: an older program forces without a copy, so the write may become current.
func TestForcedByOlder(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
		la := mustLock(t, a, "prod", "a")
		mustPut(t, la, []byte("a1"))
		c, m := claimOf(t, a)
		c.Kind = format.ForceTombstone
		must.Succeed(t, a.Repo().PutTag(t.Context(), c.String(), m))
		if _, err := la.Put(t.Context(), []byte("a2")); !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "saved as version 2, and the next lock decides") {
			t.Errorf("put of the forced holder: %v", err)
		}
		lb := mustLock(t, newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{}), "prod", "b")
		if got, _, err := lb.Get(t.Context()); err != nil || string(got) != "a2" {
			t.Errorf("the next holder reads %q, %v", got, err)
		}
	})
}

// TestLateClaimOfForcedLock: a killed server's claim arrives after the forced end: its client does
// not get the lock back.
//
// Shows: servers 7
func TestLateClaimOfForcedLock(t *testing.T) {
	ocitest.EachHandler(t, func(t *testing.T, h http.Handler) {
		synctest.Test(t, func(t *testing.T) { lateClaimOfForcedLock(t, h) })
	})
}

func lateClaimOfForcedLock(t *testing.T, h http.Handler) {
	open := func() *statebackend.Store {
		return newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{})
	}
	a, b, c := open(), open(), open()
	mustLock(t, a, "prod", "a")
	_, m := claimOf(t, a)
	mustLock(t, c, "prod", "a") // repeated, beside that claim
	_, beside := claimOf(t, a)
	must.Succeed(t, b.ForceUnlock(t.Context(), "prod", "a"))
	lb := mustLock(t, b, "prod", "b")
	for n, m := range map[int64]oci.Manifest{1: m, 500_000: beside} {
		late := format.StateTag{Kind: format.LockClaim, Fragment: "prod", N: n, X: format.ClaimX("a", 7)}
		must.Succeed(t, a.Repo().PutTag(t.Context(), late.String(), m))
		if _, err := open().Resume(t.Context(), "prod", "a"); !errors.Is(err, statebackend.ErrLockEnded) {
			t.Errorf("the forced lock is resumed by a late claim %d: %v", n, err)
		}
		must.Succeed(t, b.ForceUnlock(t.Context(), "prod", format.ClaimX("a", 7)))
	}
	mustPut(t, lb, []byte("b1"))
	mustUnlock(t, lb)
	must.Equal(t, "state", mustGet(t, c, "prod"), "b1")
}

// TestUnreadableTombstone: a listed, unreadable tombstone is another's, and stays so when written
// again.
func TestUnreadableTombstone(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	s := func() *statebackend.Store {
		return newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
	}
	a := s()
	mustLock(t, a, "prod", "a")
	tag, m := claimOf(t, a)
	late := tag
	late.X = format.ClaimX("a", math.MaxUint32)
	tag.Kind = format.ForceTombstone
	g.Add("infra/state", tag.String())
	ended := func() {
		t.Helper()
		must.Succeed(t, a.Repo().PutTag(t.Context(), late.String(), m))
		if _, err := s().Resume(t.Context(), "prod", "a"); !errors.Is(err, statebackend.ErrLockEnded) {
			t.Errorf("a late claim is joined: %v", err)
		}
		must.Succeed(t, a.ForceUnlock(t.Context(), "prod", late.X))
	}
	ended()
	l := mustLock(t, s(), "prod", "b")
	mustPut(t, l, []byte("b1"))
	mustUnlock(t, l)
	late.X = format.ClaimX("a", math.MaxUint32-1)
	ended()
	left := must.Get(a.Repo().Fetch(t.Context(), tag.String()))(t)
	if l, err := format.ParseLock(left); err != nil || l.Reason != format.ReasonForced {
		t.Errorf("the tombstone that the next holder cleaned up: reason %q, %v", l.Reason, err)
	}
}

// The same id in another process is the same run on another server.
func TestResume(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		la := mustLock(t, a, "prod", "run")
		if again := mustLock(t, a, "prod", "run"); again != la {
			t.Error("the same id in the same process is another lock")
		}
		mustPut(t, la, []byte("1"))
		lb := must.Get(b.Resume(t.Context(), "prod", "run"))(t)
		must.Equal(t, "who", lb.Info().Who, "alice@run")
		mustPut(t, lb, []byte("2"))
		if _, err := la.Put(t.Context(), []byte("3")); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("put of the first process: %v", err)
		}
		if _, err := b.Resume(t.Context(), "prod", "other"); !isLockedBy(err, "run") {
			t.Errorf("another id: %v", err)
		}
		mustUnlock(t, lb)
		if _, err := a.Resume(t.Context(), "dev", "run"); !errors.Is(err, statebackend.ErrNotHeld) || !errors.Is(err, statebackend.ErrLockLost) || errors.Is(err, statebackend.ErrLockEnded) {
			t.Errorf("nobody's id: %v", err)
		}
		// The claim of a has a tombstone.
		if _, err := newStore(t, host, nil, statebackend.Options{}).Resume(t.Context(), "prod", "run"); !errors.Is(err, statebackend.ErrLockEnded) || !errors.Is(err, statebackend.ErrLockLost) || errors.Is(err, statebackend.ErrNotHeld) {
			t.Errorf("an id that ended: %v", err)
		}
		must.Equal(t, "state", mustGet(t, a, "prod"), "2")
	})
}

// The first write of an overtaken holder that never read is also kept.
func TestTakeOverBeforeFirstWrite(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	a, b := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
	la := mustLock(t, a, "prod", "a")
	lb := must.Get(b.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	mustPut(t, lb, []byte("b"))
	if _, err := la.Put(t.Context(), []byte("a")); !errors.Is(err, statebackend.ErrLockLost) || !strings.Contains(err.Error(), "saved as version 1, which is not current:") {
		t.Errorf("put of the overtaken holder: %v", err)
	}
	mustUnlock(t, lb)
	if got, _, err := b.GetVersion(t.Context(), "prod", 1); err != nil || string(got) != "a" {
		t.Errorf("the overtaken holder's bytes: %q, %v", got, err)
	}
}

// A lock released between list and reading blocks nobody.
func TestLockReleasedMeanwhile(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	a := newStore(t, host, nil, statebackend.Options{})
	la := mustLock(t, a, "prod", "a")
	f := &ocitest.Fault{Match: ocitest.On("GET", "manifest"), Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		mustUnlock(t, la)
		return next.RoundTrip(r)
	}}
	mustUnlock(t, mustLock(t, newStore(t, host, f, statebackend.Options{}), "prod", "b"))
}

// lockByOlderTool writes the lock "old" of prod by carol, and returns its manifest.
func lockByOlderTool(t *testing.T, s *statebackend.Store) oci.Manifest {
	t.Helper()
	m := must.Get(oci.NewManifest(ocispec.Manifest{
		ArtifactType: "application/vnd.terraform.lock.v1",
		Config:       ocispec.DescriptorEmptyJSON,
		Layers:       []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{
			"org.terraform.workspace": "prod", "org.terraform.lock.id": "old",
			"org.terraform.lock.info": `{"ID":"old","Who":"carol@ci"}`,
		},
	}))(t)
	must.Succeed(t, s.Repo().PushBlob(t.Context(), oci.EmptyBlob()))
	must.Succeed(t, s.Repo().PutTag(t.Context(), "locked-prod", m))
	return m
}

// Older tools know one lock tag: theirs is respected, okara's visible.
func TestOlderToolsLock(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	m := lockByOlderTool(t, s)
	if _, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "new"}); !isLockedBy(err, "old") || !strings.Contains(err.Error(), "carol@ci") {
		t.Errorf("lock: %v", err)
	}
	if err := s.ForceUnlock(t.Context(), "prod", "new"); !isLockedBy(err, "old") {
		t.Errorf("wrong id: %v", err)
	}
	must.Succeed(t, s.ForceUnlock(t.Context(), "prod", "old"))
	l := mustLock(t, s, "prod", "new")
	if _, err := s.Repo().Resolve(t.Context(), "locked-prod"); err != nil {
		t.Errorf("the marker of our lock: %v", err)
	}
	mustUnlock(t, l)
	// Unlock in the way of a registry that cannot delete.
	for _, tag := range []string{"locked-prod", "unlocked-prod"} {
		must.Succeed(t, s.Repo().PutTag(t.Context(), tag, m))
	}
	mustUnlock(t, mustLock(t, s, "prod", "next"))
}
