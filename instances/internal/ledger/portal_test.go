// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// A caller of a portal that disconnects does not affect the others, and concurrent
// callers share one read of the registry.
func TestManyAskPortal(t *testing.T) {
	keys := [][]byte{[]byte("a key of the replicas")}
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, direct{h}, ledger.Options{Address: "https://a.example.com", AddressKeys: keys})
		leads(t, a)
		seen := &counted{next: direct{h}}
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
