// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// dead is a killed process: none of its requests arrive.
func dead(*http.Request, http.RoundTripper) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// Each request of an apply is lost, refused, doubled, or the last: never two holders, nothing lost,
// one command recovers.
//
// Shows: servers 3 | each request to the registry fails once (before or after it took effect,
// repeated, late, refused): an apply with a store, and through the wrapper
func TestFaultAtEachRequest(t *testing.T) {
	for _, q := range []struct {
		name   string
		quirks ocitest.Quirks
	}{{"delete", ocitest.Quirks{}}, {"no delete", ocitest.Quirks{NoDelete: true}}, {"tag by tag", ocitest.Quirks{TagDeleteOnly: true}}} {
		for _, f := range []struct {
			name string
			do   ocitest.Act
			dies bool
		}{
			{"lost before", ocitest.FailBefore, false},
			{"lost after", ocitest.FailAfter, false},
			{"500 after", ocitest.StatusAfter(500), false},
			{"429", ocitest.Status(429, 1), false},
			{"twice", ocitest.Twice, false},
			{"killed before", dead, true},
			{"killed after", ocitest.FailAfter, true},
		} {
			for _, takes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/take over %t", q.name, f.name, takes), func(t *testing.T) {
					n := 1
					for ; applyWithFault(t, ocitest.Handler(t, q.quirks), n, f.do, f.dies, takes); n++ {
						if t.Failed() {
							t.Fatalf("at request %d", n)
						}
					}
					if n <= 12 {
						t.Errorf("the apply had only %d requests", n-1)
					}
				})
			}
		}
	}
}

// applyWithFault runs an apply whose nth request fails, then another client's; false: it had fewer.
func applyWithFault(t *testing.T, h http.Handler, n int, do ocitest.Act, dies, takes bool) bool {
	hit := false
	synctest.Test(t, func(t *testing.T) {
		const host = "registry.test"
		warm := newStore(t, host, ocitest.Direct{Handler: h}, statebackend.Options{})
		l := mustLock(t, warm, "prod", "warm")
		mustPut(t, l, []byte("old"))
		if !takes {
			mustUnlock(t, l)
		}

		fault := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Nth: n, Do: do}
		var transport http.RoundTripper = fault
		if dies {
			transport = &ocitest.Fault{Base: fault, Nth: n + 1, Times: -1, Do: dead}
		}
		a := newStore(t, host, transport, statebackend.Options{})
		b := newStore(t, host, ocitest.Direct{Handler: h}, statebackend.Options{})
		acked := faultyApply(t, a, b, takes)
		hit = fault.Seen() >= n
		recoverApply(t, b, acked)
	})
	return hit
}

// faultyApply is one apply; it reports whether the state was acknowledged.
func faultyApply(t *testing.T, a, b *statebackend.Store, takes bool) bool {
	lock := a.Lock
	if takes {
		lock = a.TakeOver
	}
	l, err := lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
	if err != nil {
		return false
	}
	_, _, _ = l.Get(t.Context())
	_, perr := l.Put(t.Context(), []byte("new"))
	if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
		t.Errorf("second holder: %v", err)
	}
	if perr != nil && !errors.Is(perr, oci.ErrUnavailable) && !errors.Is(perr, oci.ErrRateLimited) {
		t.Errorf("put: %v", perr)
	}
	_ = l.Unlock(t.Context())
	return perr == nil
}

// recoverApply is the apply of another client, after one command if it finds a lock.
func recoverApply(t *testing.T, b *statebackend.Store, acked bool) {
	l, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
	if isLockedBy(err, "a") || isLockedBy(err, "warm") {
		l, err = b.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
	}
	if err != nil {
		t.Fatal(err)
	}
	got, _ := must.GetBoth(l.Get(t.Context()))(t)
	if s := string(got); s != "new" && (s != "old" || acked) {
		t.Errorf("state %q, acknowledged: %t", s, acked)
	}
	mustPut(t, l, []byte("next"))
	mustUnlock(t, l)
	must.Equal(t, "state after recovery", mustGet(t, b, "prod"), "next")
	if held, err := b.Locks(t.Context()); err != nil || len(held) > 0 {
		t.Errorf("locks left: %v, %v", held, err)
	}
}

// A holder stops in a Put, its lock is forced, another writes. Its Put then fails, names what keeps
// its bytes, and the successor's state stays.
func TestStoppedInPut(t *testing.T) {
	for _, q := range []ocitest.Quirks{{}, {NoDelete: true}} {
		for n := 1; n <= 3; n++ { // POST blob, PUT version, GET tags
			host := ocitest.New(t, q)
			other := newStore(t, host, nil, statebackend.Options{})
			mustStore(t, other, "prod", []byte("first"))
			stop := &ocitest.Fault{Match: func(*http.Request) bool { return false }, Nth: n, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				must.Succeed(t, other.ForceUnlock(t.Context(), "prod", "stopped"))
				mustStore(t, other, "prod", []byte("successor"))
				return next.RoundTrip(r)
			}}
			l := mustLock(t, newStore(t, host, stop, statebackend.Options{}), "prod", "stopped")
			must.GetBoth(l.Get(t.Context()))(t)
			stop.Match = nil
			v, err := l.Put(t.Context(), []byte("stopped"))
			before := v.N == 2 && err == nil // it was there before the end of the lock, and is in the copy
			if refused := errors.Is(err, statebackend.ErrLockLost) && strings.Contains(err.Error(), "saved as version 2, which is not current:"); !before && !refused {
				t.Errorf("stopped before request %d, no deletes %t: %v, %v", n, q.NoDelete, v, err)
			}
			must.Equal(t, "state", mustGet(t, other, "prod"), "successor")
			if kept, _, err := other.GetVersion(t.Context(), "prod", 2); err != nil || string(kept) != "stopped" {
				t.Errorf("version 2: %q, %v", kept, err)
			}
		}
	}
}

// A state of 64 MiB that hardly compresses is written and read.
func TestMemory(t *testing.T) {
	const size, most = 64 << 20, 256 << 20
	s := newStore(t, startRegistry(t, "127.0.0.1:0", t.TempDir()).Listener.Addr().String(), nil, statebackend.Options{})
	l := mustLock(t, s, "prod", "a")
	random := make([]byte, size/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	state := fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l-1","outputs":{"x":"%x"}}`, random)
	var before, put, get runtime.MemStats
	runtime.ReadMemStats(&before)
	mustPut(t, l, state)
	runtime.ReadMemStats(&put)
	got, _ := must.GetBoth(l.Get(t.Context()))(t)
	runtime.ReadMemStats(&get)
	if put.TotalAlloc-before.TotalAlloc > most || get.TotalAlloc-put.TotalAlloc > most || !bytes.Equal(got, state) {
		t.Errorf("allocated %d and then %d bytes for %d of %d", put.TotalAlloc-before.TotalAlloc, get.TotalAlloc-put.TotalAlloc, len(got), len(state))
	}
	mustUnlock(t, l)
}

// Contenders that appear and give up during a Put do not disturb it.
func TestContentionDuringPut(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	for n := 1; n <= 5; n++ { // POST, PUT blob, PUT version, LIST, PUT pointer
		synctest.Test(t, func(t *testing.T) {
			b := newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{})
			contend := func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
					t.Errorf("request %d: %v", n, err)
				}
				return next.RoundTrip(r)
			}
			f := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Do: contend, Match: func(*http.Request) bool { return false }}
			a := newStore(t, "registry.test", f, statebackend.Options{})
			l := mustLock(t, a, "prod", "a")
			_, _, _ = l.Get(t.Context())
			f.Match, f.Nth = nil, n
			mustPut(t, l, fmt.Append(nil, n))
			f.Match = func(*http.Request) bool { return false }
			mustUnlock(t, l)
		})
	}
}

// First locks push the same empty blob; distribution 2.8 then fails the others' manifests.
//
// Shows: mistakes 23 | only the first of several error codes was evaluated, so first locks failed
// on distribution 2.8 | all are evaluated; this pair of codes counts as temporary
func TestFirstLocksAtOnce(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{HalfLinks: 3})
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 16 {
			s := newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{})
			wg.Go(func() {
				ws := fmt.Sprint("ws", i)
				l, err := s.Lock(t.Context(), ws, statebackend.LockInfo{ID: ws})
				if err != nil {
					t.Errorf("%s: %v", ws, err)
					return
				}
				if _, err := l.Put(t.Context(), []byte(ws)); err != nil {
					t.Errorf("%s: %v", ws, err)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Errorf("%s: %v", ws, err)
				}
			})
		}
		wg.Wait()
	})
}
