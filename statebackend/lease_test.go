// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// gate is a transport that can be closed: the process is cut off.
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

// A lease is renewed as long as its holder lives; afterwards the lock may be
// taken over, judged by the registry's clock.
func TestLease(t *testing.T) {
	for name, q := range map[string]ocitest.Quirks{"delete": {}, "no delete": {NoDelete: true}, "digest only": {DigestDeleteOnly: true}} {
		t.Run(name, func(t *testing.T) {
			h := ocitest.Handler(t, q)
			synctest.Test(t, func(t *testing.T) {
				const host = "registry.test"
				g := &gate{RoundTripper: direct{h}}
				a := newStore(t, host, g, statebackend.Options{LockTTL: time.Minute})
				// The clock of b is wrong, and nobody looks at it.
				b := newStore(t, host, direct{h}, statebackend.Options{Now: func() time.Time { return time.Unix(0, 0) }})
				la := mustLock(t, a, "prod", "a")
				mustPut(t, la, []byte("a1"))

				time.Sleep(time.Hour) // of the bubble
				if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
					t.Fatalf("lock while the lease is renewed: %v", err)
				}
				mustUnlock(t, la)
				la = mustLock(t, a, "prod", "a2")

				g.closed.Store(true)
				time.Sleep(time.Minute)
				if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a2") {
					t.Fatalf("lock within the grace: %v", err)
				}
				time.Sleep(2 * time.Minute)
				lb := mustLock(t, b, "prod", "b")
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
				if got := mustGet(t, b, "prod"); got != "b1" {
					t.Errorf("state: %q", got)
				}
				if held, err := b.Locks(t.Context()); err != nil || len(held) > 0 {
					t.Errorf("locks left: %v, %v", held, err)
				}
			})
		})
	}
}

// Without a lease a lock never expires.
func TestNoLease(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t, "registry.test", direct{h}, statebackend.Options{})
		mustLock(t, a, "prod", "a")
		time.Sleep(10_000 * time.Hour)
		b := newStore(t, "registry.test", direct{h}, statebackend.Options{LockTTL: time.Second})
		if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
			t.Errorf("lock: %v", err)
		}
	})
}

// Neither the registry's clock, hours wrong or set back, nor a clock of ours
// that jumps ends a lease that is kept.
func TestLeaseClocks(t *testing.T) {
	for _, tc := range []struct {
		name     string
		registry func(since time.Duration) time.Duration // how far its Date is off
		own      func(since time.Duration) time.Duration
	}{
		{"registry hours behind", fixed(-7 * time.Hour), fixed(0)},
		{"registry hours ahead", fixed(7 * time.Hour), fixed(0)},
		{"registry set back", jumping(-5 * time.Hour), fixed(0)},
		{"registry drifts", func(since time.Duration) time.Duration { return since / 10 }, fixed(0)},
		{"own clock jumps ahead", fixed(0), jumping(24 * time.Hour)},
		{"own clock jumps back", fixed(0), jumping(-24 * time.Hour)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				d := dated{direct{h}, func() string { return httpDate(time.Now().Add(tc.registry(time.Since(begin)))) }}
				o := statebackend.Options{LockTTL: time.Minute, Now: func() time.Time { return time.Now().Add(tc.own(time.Since(begin))) }}
				a, b := newStore(t, ghostHost, d, o), newStore(t, ghostHost, d, o)
				l := mustLock(t, a, "prod", "a")
				for range 40 {
					time.Sleep(77 * time.Second)
					if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
						t.Fatalf("after %v: %v", time.Since(begin), err)
					}
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
