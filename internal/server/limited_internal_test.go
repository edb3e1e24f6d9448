// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// TestLimited sends more requests to a registry than the limit allows.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		more := make(chan struct{})
		rt := newLimited(roundTrip(func(*http.Request) (*http.Response, error) {
			running.Add(1)
			<-more
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		}))
		ask := func(ctx context.Context, url string) error {
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
			resp, err := rt.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
				running.Add(-1)
			}
			return err
		}
		is := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := running.Load(); got != want {
				t.Errorf("%s: %d requests under way, want %d", when, got, want)
			}
		}
		var all sync.WaitGroup
		start := func(n int, url string) {
			for range n {
				all.Go(func() {
					if err := ask(t.Context(), url); err != nil {
						t.Error(err)
					}
				})
			}
		}
		start(maxRequests+10, "http://a.example/v2/x/manifests/1")
		is("manifests", maxRequests)
		start(7, "http://a.example/v2/x/blobs/sha256:0")
		is("blobs", maxRequests+7)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ask(ctx, "http://a.example/v2/x/manifests/1"); err == nil {
			t.Error("one that waits outlived its context")
		}
		close(more)
		all.Wait()
		is("at the end", 0)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBusy: a client that takes all places is refused, probes are not; others: package registry.
func TestBusy(t *testing.T) {
	client := must.Get(oci.New("registry.test", oci.Options{Transport: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, PlainHTTP: true}))(t)
	f := must.Get(New(Options{Options: registry.Options{Client: client}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}}))(t)
	for ok := true; ok; {
		_, ok = f.kit.Requests.Acquire(netip.MustParsePrefix("192.0.2.1/32"), 1) // where httptest's requests come from
	}
	for path, want := range map[string]int{"/.well-known/terraform.json": 503, "/healthz": 200, "/readyz": 200} {
		w := httptest.NewRecorder()
		if f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
}
