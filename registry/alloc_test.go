// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
)

// discard is a ResponseWriter that drops the answer.
type discard struct {
	h      http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// warmAllocations is the most of a warm answer, with its audit record; it may only fall.
const warmAllocations = 42

// TestWarmAllocations checks that a warm answer is copied, not created: its
// cost does not grow with the number of versions and rights.
//
// Shows: opendepot-defects 5
func TestWarmAllocations(t *testing.T) {
	cost := func(versions, scopes int) map[string]float64 {
		f := newFront(t, func(o *server.Options) {
			o.Audit = slog.New(auditlog.New(auditlog.Options{}).Handler(nil))
			o.Access.Tokens = append(o.Access.Tokens, newToken(t, readerToken))
			for range scopes {
				o.Access.Tokens[0].Scopes = append(o.Access.Tokens[0].Scopes, must.Fixed(rights.ParseScope("read:*:none/**")))
			}
			o.Access.Tokens[0].Scopes = append(o.Access.Tokens[0].Scopes, must.Fixed(rights.ParseScope("read:*:**")))
		})
		for i := range versions {
			v := fmt.Sprintf("1.%d.0", i)
			f.module(t, "net/vpc/aws", v, map[string]string{"main.tf": ""})
			f.provider(t, release{address: "acme/dns", version: v, platforms: []string{"linux_amd64"}})
		}
		got := map[string]float64{}
		for path, status := range map[string]int{
			"/v1/modules/net/vpc/aws/versions": 200, "/v1/modules/net/vpc/aws/1.0.0/download": 204, "/v1/providers/acme/dns/versions": 200,
			"/v1/providers/acme/dns/1.0.0/download/linux/amd64": 200, "/mirror/registry.example.com/acme/none/index.json": 404,
		} {
			r := must.Fixed(http.NewRequest(http.MethodGet, "http://example.com"+path, nil))
			r.Header.Set("Authorization", "Bearer "+readerToken)
			got[path] = testing.AllocsPerRun(100, func() {
				w := &discard{h: http.Header{}}
				if f.handler.ServeHTTP(w, r); w.status != status {
					t.Fatalf("%s: %d, want %d", path, w.status, status)
				}
			})
		}
		return got
	}
	few, many := cost(1, 0), cost(30, 100)
	for path, n := range many {
		if n > warmAllocations {
			t.Errorf("%s: %.0f allocations, at most %d", path, n, warmAllocations)
		}
		if n > few[path]+10 { // pools are occasionally emptied
			t.Errorf("%s: %.0f allocations with 30 versions and 100 rights, %.0f with one", path, n, few[path])
		}
	}
}

// calls counts reads and writes of the connections of a server.
type calls struct {
	net.Listener
	n atomic.Int64
}

func (c *calls) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return countedConn{conn, c}, err
}

type countedConn struct {
	net.Conn
	of *calls
}

func (c countedConn) Read(p []byte) (int, error) {
	c.of.n.Add(1)
	return c.Conn.Read(p)
}

func (c countedConn) Write(p []byte) (int, error) {
	c.of.n.Add(1)
	return c.Conn.Write(p)
}

// TestWarmCalls: a warm list, which is recorded, takes as many system calls as a bare handler that
// sends the same bytes, and a bounded number of allocations more.
func TestWarmCalls(t *testing.T) {
	f := newFront(t, func(o *server.Options) { o.Audit = slog.New(auditlog.New(auditlog.Options{}).Handler(nil)) })
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	const path = "/v1/modules/net/vpc/aws/versions"
	warm, body := ask(t, http.MethodGet, f.url(t, path))
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), warm.Header)
		_, _ = w.Write(body) // an error means that the client is gone
	})
	cost := func(h http.Handler) (system int64, allocations float64) {
		web := httptest.NewUnstartedServer(h)
		count := &calls{Listener: web.Listener}
		web.Listener = count
		web.Start()
		defer web.Close()
		u := must.Fixed(url.Parse(web.URL + path))
		allocations = testing.AllocsPerRun(100, func() { ask(t, http.MethodGet, u) })
		return count.n.Load(), allocations
	}
	system, own := cost(f.handler)
	bareSystem, least := cost(bare)
	if system > bareSystem+10 || own-least > warmAllocations {
		t.Errorf("%d reads and writes and %.0f allocations of 101 requests, bare %d and %.0f", system, own, bareSystem, least)
	}
}
