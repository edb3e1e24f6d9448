// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// shifted is a registry whose clock has a changing offset.
type shifted struct {
	ocitest.Direct
	off *atomic.Int64
}

func (s shifted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.Direct.RoundTrip(r)
	if err == nil {
		resp.Header.Set("Date", time.Now().Add(time.Duration(s.off.Load())).UTC().Format(http.TimeFormat))
	}
	return resp, err
}

// held waits for the next heartbeats, and checks why expiry is held.
func held(t *testing.T, r *replica, want string) lifecycle.View {
	t.Helper()
	time.Sleep(25 * time.Second)
	v := must.Get(r.View(t.Context()))(t)
	if got := v.Document.Clock.Held; got != want && (want == "" || !strings.Contains(got, want)) {
		t.Errorf("held because of %q, want %q", got, want)
	}
	return v
}

func accept(t *testing.T, r *replica) {
	t.Helper()
	if _, err := r.Do(t.Context(), lifecycle.Command{Event: lifecycle.AcceptClock{}, Actor: lifecycle.Actor{Admin: true}}); err != nil {
		t.Error(err)
	}
}

// Time is the registry's. While it is not trusted, time continues from the last trusted
// time, and expiry waits until the clocks agree or an admin accepts the clock.
//
// Shows: crash K16 | the clock is wrong
// Shows: platform-attacks 6 | a wrong clock
// Shows: instances 12
func TestClock(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, h http.Handler){
		"a little off": func(t *testing.T, h http.Handler) {
			reg := shifted{ocitest.Direct{Handler: h}, new(atomic.Int64)}
			reg.off.Store(int64(3 * time.Minute))
			r := start(t, reg, ledger.Options{})
			leads(t, r)
			if got := time.Until(held(t, r, "").AsOf); (got - 3*time.Minute).Abs() > 2*time.Second {
				t.Errorf("time is %v ahead, want 3m", got)
			}
			r.end()
		},
		"apart": func(t *testing.T, h http.Handler) {
			reg := shifted{ocitest.Direct{Handler: h}, new(atomic.Int64)}
			r := start(t, reg, ledger.Options{})
			leads(t, r)
			held(t, r, "")
			reg.off.Store(int64(400 * 24 * time.Hour))
			if got := time.Until(held(t, r, "apart").AsOf).Abs(); got > 2*time.Second {
				t.Errorf("time follows a clock that jumped: %v", got)
			}
			mustDo(t, r, "one", 201)
			if _, err := r.Do(t.Context(), lifecycle.Command{Event: lifecycle.AcceptClock{}}); err == nil {
				t.Error("anybody accepts the clock")
			}
			held(t, r, "apart")
			reg.off.Store(0)
			held(t, r, "") // they agree again
			reg.off.Store(int64(time.Hour))
			held(t, r, "apart")
			accept(t, r)
			if got := time.Until(held(t, r, "").AsOf); (got - time.Hour).Abs() > 2*time.Second {
				t.Errorf("time is %v ahead after the clock was accepted, want 1h", got)
			}
			reg.off.Store(int64(2 * time.Hour))
			held(t, r, "apart") // the difference is larger than the accepted one
			r.end()
		},
		"both jump": func(t *testing.T, h http.Handler) {
			reg := shifted{ocitest.Direct{Handler: h}, new(atomic.Int64)}
			begin := time.Now()
			r := start(t, reg, ledger.Options{
				BuiltIn: true, Uptime: func() time.Duration { return time.Since(begin) },
				Now: func() time.Time { return time.Now().Add(time.Duration(reg.off.Load())) },
			})
			leads(t, r)
			held(t, r, "")
			reg.off.Store(int64(365 * 24 * time.Hour))
			held(t, r, "jumped")
			mustDo(t, r, "one", 201)
			if at := held(t, r, "jumped").Document.Records; len(at) != 1 {
				t.Error("nothing is made while expiry is held")
			}
			r.end()
			r = start(t, reg, ledger.Options{BuiltIn: true, Now: func() time.Time { return time.Now().Add(time.Duration(reg.off.Load())) }})
			leads(t, r)
			held(t, r, "7 days") // restarting does not help
			reg.off.Store(0)
			held(t, r, "7 days")
			accept(t, r)
			held(t, r, "")
			r.end()
		},
		"away": func(t *testing.T, h http.Handler) {
			folder := t.TempDir()
			r := start(t, ocitest.Direct{Handler: h}, ledger.Options{BuiltIn: true, Folder: folder})
			leads(t, r)
			mustDo(t, r, "one", 201)
			time.Sleep(time.Hour) // it sends heartbeats, and commits nothing
			r.end()
			time.Sleep(7*24*time.Hour - 30*time.Minute)
			r = start(t, ocitest.Direct{Handler: h}, ledger.Options{BuiltIn: true, Folder: folder})
			leads(t, r)
			held(t, r, "")
			r.end()
			time.Sleep(8 * 24 * time.Hour)
			r = start(t, ocitest.Direct{Handler: h}, ledger.Options{BuiltIn: true, Folder: folder})
			leads(t, r)
			held(t, r, "7 days")
			accept(t, r)
			held(t, r, "")
			r.end()
		},
		"last commit ahead": func(t *testing.T, h http.Handler) {
			reg := shifted{ocitest.Direct{Handler: h}, new(atomic.Int64)}
			reg.off.Store(int64(90 * 24 * time.Hour))
			now := func() time.Time { return time.Now().Add(time.Duration(reg.off.Load())) }
			r := start(t, reg, ledger.Options{Now: now}) // both clocks are wrong
			leads(t, r)
			mustDo(t, r, "one", 201)
			r.end()
			reg.off.Store(0)
			r = start(t, reg, ledger.Options{Now: now})
			leads(t, r)
			held(t, r, "last commit")
			accept(t, r)
			if got := time.Until(held(t, r, "").AsOf).Abs(); got > 2*time.Second {
				t.Errorf("time is still off by %v", got)
			}
			r.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) { play(t, h) })
		})
	}
}

// A portal's caller that disconnects affects no other; callers share a read.
func TestManyAskPortal(t *testing.T) {
	keys := [][]byte{[]byte("a key of the replicas")}
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{Address: "https://a.example.com", AddressKeys: keys})
		leads(t, a)
		seen := &counted{next: ocitest.Direct{Handler: h}}
		portal := start(t, seen, ledger.Options{Portal: true, AddressKeys: keys})
		gone, leave := context.WithCancel(t.Context())
		leave()
		_, _ = portal.Leader(gone) // the caller is gone
		if address, _ := portal.Leader(t.Context()); address != "https://a.example.com" {
			t.Errorf("after one who went away, the portal knows %q", address)
		}
		time.Sleep(time.Minute)
		before := seen.n.Load()
		_, _ = portal.Leader(t.Context()) // answered above
		asked := seen.n.Load() - before
		time.Sleep(time.Minute)
		before = seen.n.Load()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if address, _ := portal.Leader(t.Context()); address != "https://a.example.com" {
					t.Errorf("one of many is told %q", address)
				}
			})
		}
		all.Wait()
		if got := seen.n.Load() - before; asked == 0 || got != asked {
			t.Errorf("20 who ask at once make %d requests, one makes %d", got, asked)
		}
		a.end()
		portal.end()
	})
}

// counted counts requests.
type counted struct {
	next http.RoundTripper
	n    atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	time.Sleep(100 * time.Millisecond) // so that others ask meanwhile
	return c.next.RoundTrip(r)
}
