// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/access"
)

// TestLimiter has clients that take all places that they can get: many get equal shares.
//
// Shows: mistakes 12
// Shows: mistakes 18
func TestLimiter(t *testing.T) {
	client := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
	}
	for clients, want := range map[int]int{1: 50, 2: 33, 3: 25, 9: 10, 19: 5} {
		p := NewLimiter(100)
		for i := range clients { // each as if it were alone at first
			for p.Acquire(client(i)) {
				continue
			}
		}
		for range 1000 { // a freed place is open to every client
			for i := range clients {
				if p.by[client(i)] > 0 {
					p.Release(client(i))
				}
				for j := range clients {
					p.Acquire(client(j))
				}
			}
		}
		for i := range clients {
			if got := p.by[client(i)]; got < want-1 || got > want+1 {
				t.Errorf("%d clients: one has %d places, want %d", clients, got, want)
			}
		}
		if !p.Acquire(client(clients)) {
			t.Errorf("%d clients: none is left for one more", clients)
		}
	}
	p := NewLimiter(2)
	p.Acquire(client(1))
	ended, end := context.WithCancel(t.Context())
	end()
	if p.Wait(ended, client(1)) {
		t.Error("waiting took a place that is another's")
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewLimiter(2)
		p.Acquire(client(1))
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if p.Wait(t.Context(), client(1)) {
					p.Release(client(1))
				}
			})
		}
		synctest.Wait()
		p.Release(client(1))
		waiting.Wait()
		if p.taken != 0 || len(p.by) != 0 {
			t.Errorf("%d places taken at the end, by %v", p.taken, p.by)
		}
	})
}

// TestClientOf counts all addresses that one host can have as one client.
//
// Shows: mistakes 18
func TestClientOf(t *testing.T) {
	guard, err := access.New(access.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
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
