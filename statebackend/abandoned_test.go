// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	abandonedHost  = "registry.test"
	abandonedX     = "0123456789abcdef"
	abandonedClaim = "locked-prod-000000000001-" + abandonedX
)

// dated answers with a Date that the test chooses; "" omits it.
type dated struct {
	http.RoundTripper
	date func() string
}

func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Date")
		if date := d.date(); date != "" {
			resp.Header.Set("Date", date)
		}
	}
	return resp, err
}

func httpDate(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// isUnreadable reports whether an error names an unreadable claim's tag, and the command for it.
func isUnreadable(err error, tag string) bool {
	e, ok := errors.AsType[*statebackend.LockedError](err)
	return ok && e.Unreadable && strings.Contains(err.Error(), tag) && strings.Contains(states.Remedy(err), "--id "+abandonedX)
}

// A claim is listed and unreadable, its registry dead: within a minute attempts end it, fence its
// owner, and say so.
//
// Shows: mistakes 25
func TestAbandonedClaim(t *testing.T) {
	for _, tc := range []struct {
		name  string
		date  func(begin time.Time) string
		stays bool // the clocks do not agree that a minute has passed: the claim stays
	}{
		{"right date", func(time.Time) string { return httpDate(time.Now()) }, false},
		{"no date", func(time.Time) string { return "" }, false},
		{"date hours wrong", func(time.Time) string { return httpDate(time.Now().Add(-7 * time.Hour)) }, false},
		{"date stands", httpDate, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var log bytes.Buffer
				s := newStore(t, abandonedHost, dated{ocitest.Direct{Handler: g}, func() string { return tc.date(begin) }},
					statebackend.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				g.Add("infra/state", abandonedClaim)
				for time.Since(begin) < 55*time.Second {
					if _, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"}); !isUnreadable(err, abandonedClaim) {
						t.Fatalf("after %v: %v", time.Since(begin), err)
					}
					time.Sleep(9 * time.Second)
				}
				time.Sleep(10 * time.Second)
				l, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
				if tc.stays {
					if !isUnreadable(err, abandonedClaim) {
						t.Errorf("the registry's clock stands: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(log.String(), abandonedClaim) || !strings.Contains(log.String(), "never acknowledged") {
					t.Errorf("the log does not name tag and reason: %s", log.String())
				}
				if v := mustPut(t, l, []byte("a")); v.N != 100_002 {
					t.Errorf("version %d, want the one after a jump and a seal", v.N)
				}
				mustUnlock(t, l)
				checkTombstone(t, g)
			})
		})
	}
}

func checkTombstone(t *testing.T, h http.Handler) {
	t.Helper()
	r := must.Get(oci.OpenRepo(abandonedHost+"/infra/state", oci.Options{Transport: ocitest.Direct{Handler: h}, PlainHTTP: true}))(t)
	m := must.Get(r.Fetch(t.Context(), strings.Replace(abandonedClaim, "locked", "unlocked", 1)+"-f"))(t)
	if l, err := format.ParseLock(m); err != nil || l.Reason != format.ReasonAbandoned {
		t.Errorf("tombstone %+v, %v", l, err)
	}
}

// A registry's Date that jumps ahead, or comes from another node, ends no lock.
func TestAbandonedClaimDateJumps(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := newStore(t, abandonedHost, dated{ocitest.Direct{Handler: g}, func() string {
			n++
			return httpDate(time.Now().Add(time.Duration(n%3-1) * 5 * time.Hour))
		}}, statebackend.Options{})
		g.Add("infra/state", abandonedClaim)
		for range 10 {
			if _, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"}); !isUnreadable(err, abandonedClaim) {
				t.Fatal(err)
			}
		}
	})
}

// A claim that becomes readable was only slow: it holds.
func TestSlowClaimIsNotAbandoned(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		b := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		slow := &ocitest.Fault{Base: ocitest.Direct{Handler: g}, Match: isClaimPut, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			tag := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			g.Add("infra/state", tag)
			for range 5 {
				_, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
				if e, ok := errors.AsType[*statebackend.LockedError](err); !ok || !e.Unreadable {
					t.Errorf("while the claim is written: %v", err)
				}
				time.Sleep(4 * time.Second)
			}
			return next.RoundTrip(r)
		}}
		a := newStore(t, abandonedHost, slow, statebackend.Options{})
		l := mustLock(t, a, "prod", "a")
		time.Sleep(time.Hour)
		if _, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"}); !isLockedBy(err, "a") {
			t.Errorf("lock of the slow one: %v", err)
		}
		mustPut(t, l, []byte("a"))
		mustUnlock(t, l)
	})
}

func isClaimPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/locked-prod-")
}

// The owner of a claim whose PUT took longer than all waits finds itself overtaken.
func TestAbandonedClaimArrivesAfterAll(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		b := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		var lb *statebackend.Lock
		slow := &ocitest.Fault{Base: ocitest.Direct{Handler: g}, Match: isClaimPut, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			g.Add("infra/state", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
			for lb == nil {
				time.Sleep(10 * time.Second)
				lb, _ = b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "b"})
			}
			return next.RoundTrip(r)
		}}
		a := newStore(t, abandonedHost, slow, statebackend.Options{})
		if l, err := a.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"}); err == nil {
			t.Errorf("a got %v, which b has", l.Info())
		}
		mustPut(t, lb, []byte("b"))
		mustUnlock(t, lb)
	})
}

// The commands show an abandoned claim with an id, and end it by that id at once.
func TestAbandonedClaimByCommand(t *testing.T) {
	for _, ws := range []string{"prod", "a name that is no tag"} {
		g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
			mustStore(t, s, ws, []byte("a"))
			tag := format.StateTag{Kind: format.LockClaim, Fragment: format.StateFragment(ws), N: 2, X: abandonedX}.String()
			g.Add("infra/state", tag)
			g.Add("infra/state", "locked-other") // a marker that cannot be read does not lock
			held, err := s.Locks(t.Context())
			if err != nil || len(held) != 1 || !held[0].Unreadable || held[0].Workspace != ws || held[0].Info.ID != abandonedX {
				t.Fatalf("locks: %+v, %v", held, err)
			}
			must.Succeed(t, s.ForceUnlock(t.Context(), ws, held[0].Info.ID))
			mustStore(t, s, ws, []byte("b"))
		})
	}
}

// A version is listed and unreadable, its writer dead: it is neither no state nor the one before; a
// takeover goes on from it.
//
// Shows: mistakes 25
func TestDanglingVersion(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{StrictReads: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		mustPut(t, mustLock(t, s, "prod", "killed"), []byte("one"))
		g.Add("infra/state", "state-prod-v2")
		must.Succeed(t, s.ForceUnlock(t.Context(), "prod", "killed"))
		_, _, gerr := s.Get(t.Context(), "prod")
		_, lerr := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
		for _, err := range []error{gerr, lerr} {
			if !errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrNotFound) || !strings.Contains(states.Remedy(err), "state unlock "+abandonedHost+"/infra/state -w prod --take-over") {
				t.Errorf("a version that cannot be read: %v", err)
			}
		}
		l := must.Get(s.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
		if !strings.Contains(log.String(), "state-prod-v2") {
			t.Errorf("the log does not name the version: %s", log.String())
		}
		mustUnlock(t, l)
		must.Equal(t, "state, the last one that was acknowledged", mustGet(t, s, "prod"), "one")
		mustStore(t, s, "prod", []byte("three"))
	})
}

// A version that is being written is listed before it can be read: a reader waits.
func TestVersionBeingWritten(t *testing.T) {
	for _, strict := range []bool{true, false} {
		g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
			l := mustLock(t, s, "prod", "writer")
			g.Add("infra/state", "state-prod-v1")
			var writing sync.WaitGroup
			writing.Go(func() {
				time.Sleep(200 * time.Millisecond)
				mustPut(t, l, []byte("one"))
			})
			reader := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{StrictReads: strict})
			list := must.Get(reader.List(t.Context()))(t)
			writing.Go(func() {
				if v, err := reader.Current(t.Context(), "prod"); err != nil || v.N != 1 {
					t.Errorf("strict %t: current %+v, %v", strict, v, err)
				}
			})
			writing.Go(func() {
				if v, err := list.View(t.Context(), "prod", func([]byte, statebackend.Version) error { return nil }); err != nil || v.N != 1 {
					t.Errorf("strict %t: by the list %+v, %v", strict, v, err)
				}
			})
			if got := mustGet(t, reader, "prod"); got != "one" {
				t.Errorf("strict %t: state %q, want what is being written", strict, got)
			}
			writing.Wait()
			mustUnlock(t, l)
		})
	}
}

// A tombstone that is listed but cannot be read would vanish at the next start of
// its registry, and its claim would be live again: the next holder writes it.
//
// Shows: mistakes 25
func TestDanglingTombstone(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		killed := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		mustLock(t, killed, "prod", "killed")
		held, err := s.Locks(t.Context())
		if err != nil || len(held) != 1 {
			t.Fatal(held, err)
		}
		tombstone := "un" + held[0].Tag + "-f"
		g.Add("infra/state", tombstone)
		mustStore(t, s, "prod", []byte("a"))
		if _, err := s.Repo().Fetch(t.Context(), tombstone); err != nil {
			t.Errorf("the tombstone is still a ghost: %v", err)
		}
	})
}

// The first version ever is dangling: an explicit takeover starts without a state.
func TestDanglingFirstVersion(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		mustLock(t, s, "prod", "killed")
		g.Add("infra/state", "state-prod-v1")
		var names []string
		for name, err := range s.Workspaces().All(t.Context()) {
			if names = append(names, name); err != nil {
				t.Fatal(err)
			}
		}
		if len(names) != 1 || names[0] != "prod" {
			t.Errorf("workspaces %q, want the one that cannot be read, too", names)
		}
		l := must.Get(s.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
		mustPut(t, l, []byte("one"))
		mustUnlock(t, l)
	})
}
