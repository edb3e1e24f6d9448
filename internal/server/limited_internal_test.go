// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
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
		start(maxPerHost+10, "http://a.example/v2/x/manifests/1")
		is("manifests", maxPerHost)
		start(5, "http://b.example/v2/x/tags/list")
		is("another host", maxPerHost+5)
		start(7, "http://a.example/v2/x/blobs/sha256:0")
		is("blobs", maxPerHost+5+7)
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
