// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Each heartbeat writes the owner's text with the claim's tag, for others to read.
func TestClaimSaysMore(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{LockTTL: time.Minute, Claim: func(tag string, i statebackend.LockInfo) statebackend.LockInfo {
			i.ID, i.Path = "another", "for "+tag
			return i
		}})
		b := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
		l := mustLock(t, a, "prod", "a")
		for range 3 {
			_, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
			e, ok := errors.AsType[*statebackend.LockedError](err)
			if !ok || e.Tag == "" || e.Held.ID != "a" || e.Held.Path != "for "+e.Tag {
				t.Fatalf("second lock: %#v", err)
			}
			if held, err := b.Held(t.Context(), "prod"); err != nil || held.Tag != e.Tag {
				t.Errorf("held under %v, %v, want %s", held, err, e.Tag)
			}
			time.Sleep(time.Minute)
		}
		mustUnlock(t, l)
	})
}

// The successor of an abandoned lock skips the numbers of writes that may still arrive.
func TestAbandon(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{})
		l := mustLock(t, s, "prod", "a")
		v := mustPut(t, l, []byte("one"))
		must.Equal(t, "versions", l.Versions(), 1)
		must.Succeed(t, l.Abandon(t.Context()))
		if _, err := l.Put(t.Context(), []byte("late")); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("a late write: %v", err)
		}
		next := mustLock(t, s, "prod", "b")
		if got := next.Fence() - v.N; got < 99_999 {
			t.Errorf("the next lock begins %d above", got)
		}
		mustUnlock(t, next)
		must.Equal(t, "state", mustGet(t, s, "prod"), "one")
	})
}

// Each heartbeat reports the time of the registry.
func TestHeartbeat(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		ahead := 3 * time.Minute
		begin := time.Now()
		d := dated{ocitest.Direct{Handler: h}, func() string { return httpDate(time.Now().Add(ahead)) }}
		s := newStore(t, abandonedHost, d, statebackend.Options{LockTTL: time.Minute, Uptime: func() time.Duration { return time.Since(begin) }})
		l := mustLock(t, s, "prod", "a")
		for range 3 {
			synctest.Wait()
			b := l.Heartbeat()
			if got := b.Date.Sub(b.Now); got != ahead || b.Uptime != b.Now.Sub(begin) || time.Since(b.Now) > 0 {
				t.Errorf("beat %+v at %v", b, time.Now())
			}
			time.Sleep(20 * time.Second)
		}
		mustUnlock(t, l)
	})
	if b := mustLock(t, newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{}), "prod", "a").Heartbeat(); b != (statebackend.Heartbeat{}) {
		t.Errorf("beat without a lease: %+v", b)
	}
}

// A client that follows a state asks with one request whether there is a newer one.
func TestNewer(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, nil, statebackend.Options{})
		reader := newStore(t, host, c, statebackend.Options{})
		if _, _, err := reader.Newer(t.Context(), "prod", 0); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("without a state: %v", err)
		}
		l := mustLock(t, s, "prod", "a")
		v := mustPut(t, l, []byte("one"))
		if b, got, err := reader.Newer(t.Context(), "prod", 0); err != nil || string(b) != "one" || got.N != v.N {
			t.Errorf("%q, %+v, %v", b, got, err)
		}
		c.Take()
		if b, got, err := reader.Newer(t.Context(), "prod", v.N); err != nil || b != nil || got.N != v.N || sum(c.Take()) != 1 {
			t.Errorf("nothing new: %q, %+v, %v", b, got, err)
		}
		mustUnlock(t, l)
	})
}

// A lease begins with the claim, even in an empty repository.
func TestLeaseOfEmptyRepository(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
		a := newStore(t, abandonedHost, &ocitest.Fault{Base: g, Match: ocitest.On("GET", "tags"), Nth: 2, Times: -1, Do: func(*http.Request, http.RoundTripper) (*http.Response, error) {
			g.closed.Store(true) // after its claim
			return nil, errors.New("killed")
		}}, statebackend.Options{LockTTL: time.Minute})
		if _, err := a.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"}); err == nil {
			t.Fatal("locked by who was killed")
		}
		l := must.Get(polls(t, newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{}), "b", 10*time.Minute))(t)
		mustUnlock(t, l)
	})
}
