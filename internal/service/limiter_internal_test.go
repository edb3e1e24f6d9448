// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestLimiter has clients that take all slots that they can get: many get equal shares.
//
// Shows: mistakes 12
// Shows: mistakes 18
func TestLimiter(t *testing.T) {
	client := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
	}
	for clients, want := range map[int]int{1: 50, 2: 33, 3: 25, 9: 10, 19: 5} {
		l := NewClientLimiter(100)
		held := make([][]func(), clients)
		acquire := func(i int) bool {
			release, ok := l.Acquire(client(i), 1)
			if ok {
				held[i] = append(held[i], release)
			}
			return ok
		}
		for i := range clients { // each as if it were alone at first
			for acquire(i) {
				continue
			}
		}
		for range 1000 { // a freed slot is open to every client
			for i := range clients {
				if n := len(held[i]); n > 0 {
					held[i][n-1]()
					held[i] = held[i][:n-1]
				}
				for j := range clients {
					acquire(j)
				}
			}
		}
		for i := range clients {
			if got := len(held[i]); got < want-1 || got > want+1 {
				t.Errorf("%d clients: one has %d slots, want %d", clients, got, want)
			}
		}
		if _, ok := l.Acquire(client(clients), 1); !ok {
			t.Errorf("%d clients: none is left for one more", clients)
		}
	}
	l := NewClientLimiter(2)
	l.Acquire(client(1), 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, ok := l.Wait(ended, client(1), 1); ok {
		t.Error("waiting took a slot that is another's")
	}
	synctest.Test(t, func(t *testing.T) {
		l := NewClientLimiter(2)
		first, _ := l.Acquire(client(1), 1)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if release, ok := l.Wait(t.Context(), client(1), 1); ok {
					release()
				}
			})
		}
		synctest.Wait()
		first()
		waiting.Wait()
		wantIdle(t, l)
	})
}

func wantIdle[C comparable](t *testing.T, l *Limiter[C]) {
	t.Helper()
	if l.used != 0 || len(l.by) != 0 {
		t.Errorf("%d are taken at the end, by %v", l.used, l.by)
	}
}

// TestLimiterShare: work of several sizes, half for each, or one that needs more.
func TestLimiterShare(t *testing.T) {
	l := NewLimiter[string](Limits{Total: 100, Share: 50, Count: 4})
	acquire := func(client string, weight int64) (release func()) {
		t.Helper()
		release, ok := l.Acquire(client, weight)
		if !ok {
			t.Fatalf("%s has no room for %d", client, weight)
		}
		return release
	}
	refused := func(client string, weight int64) {
		t.Helper()
		if _, ok := l.Acquire(client, weight); ok {
			t.Errorf("%s has room for %d more", client, weight)
		}
	}
	first := acquire("a", 60) // more than half, but alone
	refused("a", 1)
	other := acquire("b", 30)
	acquire("b", 10)()
	refused("c", 11)
	acquire("c", 10)()
	first()
	refused("c", 71)
	acquire("c", 70)()
	acquire("b", 20)()
	refused("b", 21) // more than half
	other()
	whole := acquire("a", 1000) // at most the whole limit
	refused("b", 1)
	whole()
	for range 4 {
		defer acquire("a", 1)()
	}
	refused("a", 1) // four are all
	acquire("b", 1)()
}

// TestLimiterTogether has clients that never hold more than the limit together.
func TestLimiterTogether(t *testing.T) {
	l := NewLimiter[int](Limits{Total: 10, Share: 5})
	var now, most, taken atomic.Int64
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			for range 200 {
				release, ok := l.Acquire(i, 3)
				if !ok {
					continue
				}
				taken.Add(1)
				if n := now.Add(3); n > most.Load() {
					most.Store(n)
				}
				now.Add(-3)
				release()
			}
		})
	}
	clients.Wait()
	if most.Load() > 10 || taken.Load() == 0 {
		t.Errorf("%d at most, %d times", most.Load(), taken.Load())
	}
	wantIdle(t, l)
}

// TestClientOf counts all addresses that one host can have as one client.
//
// Shows: mistakes 18
func TestClientOf(t *testing.T) {
	guard := must.Get(access.New(access.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))(t)
	k := New(Options{Guard: guard})
	for _, test := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:1", "", "192.0.2.1/32"},
		{"[::ffff:192.0.2.1]:1", "", "192.0.2.1/32"},
		{"[2001:db8:0:1:2:3:4:5]:1", "", "2001:db8:0:1::/64"},
		{"[fe80::1%eth0]:1", "", "fe80::/64"},
		{"192.0.2.1:1", "198.51.100.1", "192.0.2.1/32"}, // the header is not trusted without a proxy
		{"10.0.0.1:1", "203.0.113.9, 198.51.100.1", "198.51.100.1/32"},
		{"10.0.0.1:1", "198.51.100.1, 10.0.0.2", "198.51.100.1/32"},
		{"10.0.0.1:1", "198.51.100.1:4711", "198.51.100.1/32"},
		{"10.0.0.1:1", "[2001:db8::1]:4711", "2001:db8::/64"},
		{"10.0.0.1:1", "", "10.0.0.1/32"},
		{"10.0.0.1:1", "198.51.100.1, unknown", "invalid Prefix"},
		{"pipe", "", "invalid Prefix"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		if got := k.Client(r).String(); got != test.want {
			t.Errorf("%+v: client is %s", test, got)
		}
	}
}
