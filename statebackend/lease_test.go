// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// gate is a transport that can be closed, which cuts the process off.
type gate struct {
	http.RoundTripper
	closed atomic.Bool
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.closed.Load() {
		return dead(r, nil)
	}
	return g.RoundTripper.RoundTrip(r)
}

// polls tries to lock every seven seconds of the bubble, as a waiting client does.
func polls(t *testing.T, s *statebackend.Store, id string, d time.Duration) (*statebackend.Lock, error) {
	t.Helper()
	var l *statebackend.Lock
	err := errors.New("never tried")
	for end := time.Now().Add(d); err != nil && time.Now().Before(end); {
		time.Sleep(7 * time.Second)
		l, err = s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: id})
	}
	return l, err
}

// A lease is renewed as long as its holder lives. After that the lock may be taken
// over, according to the registry's clock and to the observations of the client.
//
// Shows: mistakes 31 | a clock decided whether a lease had expired | a lease is ended only by a
// client that itself observed that its heartbeat stopped
func TestLease(t *testing.T) {
	for name, q := range map[string]ocitest.Quirks{"delete": {}, "no delete": {NoDelete: true}, "digest only": {DigestDeleteOnly: true}} {
		t.Run(name, func(t *testing.T) {
			h := ocitest.Handler(t, q)
			synctest.Test(t, func(t *testing.T) {
				g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
				a := newStore(t, abandonedHost, g, statebackend.Options{LockTTL: time.Minute})
				b := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
				la := mustLock(t, a, "prod", "a")
				mustPut(t, la, []byte("a1"))

				if _, err := polls(t, b, "b", time.Hour); !isLockedBy(err, "a") {
					t.Fatalf("lock while the lease is renewed: %v", err)
				}
				mustUnlock(t, la)
				la = mustLock(t, a, "prod", "a2")

				g.closed.Store(true)
				if _, err := polls(t, b, "b", time.Minute); !isLockedBy(err, "a2") {
					t.Fatalf("lock within the grace: %v", err)
				}
				if age, ttl := la.Lease(); age < time.Minute || ttl != time.Minute {
					t.Errorf("the holder counts %v of %v", age, ttl)
				}
				lb := must.Get(polls(t, b, "b", 2*time.Minute))(t)
				if got, _, err := lb.Get(t.Context()); err != nil || string(got) != "a1" {
					t.Errorf("head of the successor: %q, %v", got, err)
				}
				mustPut(t, lb, []byte("b1"))

				g.closed.Store(false)
				if _, err := la.Put(t.Context(), []byte("a2")); !errors.Is(err, statebackend.ErrLockLost) {
					t.Errorf("put of the holder whose lease expired: %v", err)
				}
				mustUnlock(t, la)
				mustUnlock(t, lb)
				must.Equal(t, "state", mustGet(t, b, "prod"), "b1")
				if held, err := b.Locks(t.Context()); err != nil || len(held) > 0 {
					t.Errorf("locks left: %v, %v", held, err)
				}
			})
		})
	}
}

// A client that comes once, long after the lease, has observed nothing: only one that
// keeps polling may take the lock over.
//
// Shows: mistakes 31
func TestLeaseSeenOnce(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
		l := mustLock(t, newStore(t, abandonedHost, g, statebackend.Options{LockTTL: time.Minute}), "prod", "a")
		synctest.Wait() // for the first heartbeat
		g.closed.Store(true)
		b := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
		for range 5 {
			time.Sleep(time.Hour)
			if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
				t.Fatal(err)
			}
		}
		if _, err := polls(t, b, "b", time.Minute); err != nil {
			t.Error(err)
		}
		g.closed.Store(false)
		mustUnlock(t, l)
	})
}

// An outage of holder and client, longer than the lease, does not end it.
func TestLeaseOutage(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
		a := newStore(t, abandonedHost, g, statebackend.Options{LockTTL: time.Minute})
		b := newStore(t, abandonedHost, g, statebackend.Options{})
		l := mustLock(t, a, "prod", "a")
		for range 5 {
			if _, err := polls(t, b, "b", 3*time.Minute); !isLockedBy(err, "a") {
				t.Fatal(err)
			}
			g.closed.Store(true)
			if _, err := polls(t, b, "b", 10*time.Minute); err == nil {
				t.Fatal("a lock without a registry")
			}
			g.closed.Store(false)
		}
		mustPut(t, l, []byte("a"))
		mustUnlock(t, l)
	})
}

// A client whose clock differs from the registry's does not judge leases.
func TestLeaseSkew(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
		l := mustLock(t, newStore(t, abandonedHost, g, statebackend.Options{LockTTL: time.Minute}), "prod", "a")
		synctest.Wait() // for the first heartbeat
		g.closed.Store(true)
		for _, skew := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
			b := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{Now: func() time.Time { return time.Now().Add(skew) }})
			if _, err := polls(t, b, "b", time.Hour); !isLockedBy(err, "a") {
				t.Errorf("clock off by %v: %v", skew, err)
			}
		}
		g.closed.Store(false)
		mustUnlock(t, l)
	})
}

// A holder that was suspended beyond its lease notices at once, by a clock that kept
// running. Its heartbeats do not restore a claim that was ended and cleaned up meanwhile.
//
// Shows: mistakes 31
func TestLeaseSuspended(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		g := &gate{RoundTripper: ocitest.Direct{Handler: h}}
		a := newStore(t, abandonedHost, g, statebackend.Options{LockTTL: time.Minute, Uptime: func() time.Duration { return time.Duration(slept.Load()) }})
		b := newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
		la := mustLock(t, a, "prod", "a")
		time.Sleep(10 * time.Minute)
		if age, ttl := la.Lease(); age > ttl/2 {
			t.Errorf("age %v of a lease that is kept", age)
		}
		g.closed.Store(true)
		lb := must.Get(polls(t, b, "b", 3*time.Minute))(t)
		mustPut(t, lb, []byte("b"))
		mustUnlock(t, lb)
		time.Sleep(8 * 24 * time.Hour)
		lb = mustLock(t, b, "prod", "b2") // cleans up
		mustPut(t, lb, []byte("b2"))
		mustUnlock(t, lb)

		slept.Add(int64(8 * 24 * time.Hour))
		if age, ttl := la.Lease(); age < ttl {
			t.Errorf("age %v after a long sleep", age)
		}
		g.closed.Store(false)
		time.Sleep(time.Hour)
		if held, err := b.Locks(t.Context()); err != nil || len(held) > 0 {
			t.Errorf("the beats brought back %v, %v", held, err)
		}
		if age, ttl := la.Lease(); age < ttl {
			t.Errorf("age %v of a lost lease", age)
		}
		if _, err := la.Put(t.Context(), []byte("a")); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("put after a takeover: %v", err)
		}
		mustUnlock(t, la)
	})
}

// Without a lease a lock never expires.
func TestNoLease(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{})
		mustLock(t, a, "prod", "a")
		time.Sleep(10_000 * time.Hour)
		b := newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{LockTTL: time.Second})
		if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
			t.Errorf("lock: %v", err)
		}
	})
}

// A lease that is renewed does not end, whether the registry's clock is hours wrong or
// set back, or the local clock jumps.
//
// Shows: mistakes 21
func TestLeaseClocks(t *testing.T) {
	for _, tc := range []struct {
		name     string
		registry func(since time.Duration) time.Duration // the error of its Date
		own      func(since time.Duration) time.Duration
	}{
		{"registry hours behind", fixed(-7 * time.Hour), fixed(0)},
		{"registry hours ahead", fixed(7 * time.Hour), fixed(0)},
		{"registry set back", jumping(-5 * time.Hour), fixed(0)},
		{"registry jumps ahead", jumping(7 * time.Hour), jumping(7 * time.Hour)},
		{"registry jumps ahead, and nobody else", jumping(7 * time.Hour), fixed(0)},
		{"registry drifts", func(since time.Duration) time.Duration { return since / 10 }, fixed(0)},
		{"own clock jumps ahead", fixed(0), jumping(24 * time.Hour)},
		{"own clock jumps back", fixed(0), jumping(-24 * time.Hour)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				d := dated{ocitest.Direct{Handler: h}, func() string { return httpDate(time.Now().Add(tc.registry(time.Since(begin)))) }}
				o := statebackend.Options{LockTTL: time.Minute, Now: func() time.Time { return time.Now().Add(tc.own(time.Since(begin))) }}
				a, b := newStore(t, abandonedHost, d, o), newStore(t, abandonedHost, d, o)
				l := mustLock(t, a, "prod", "a")
				if _, err := polls(t, b, "b", 50*time.Minute); !isLockedBy(err, "a") {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
				mustPut(t, l, []byte("a"))
				mustUnlock(t, l)
			})
		})
	}
}

func fixed(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

func jumping(d time.Duration) func(time.Duration) time.Duration {
	return func(since time.Duration) time.Duration {
		if since < 10*time.Minute {
			return 0
		}
		return d
	}
}
