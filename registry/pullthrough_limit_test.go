// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestPullThroughCrowd: a client with the most packages of a slow origin gets half, others are
// served.
//
// Shows: mistakes 21
func TestPullThroughCrowd(t *testing.T) {
	const most = 32
	platforms := []string{"linux_amd64"} // a platform that is searched for
	for i := range most {
		platforms = append(platforms, fmt.Sprintf("linux_cpu%d", i))
	}
	far := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	far.provider(t, release{address: "acme/dns", version: "1.2.0", bare: true, platforms: platforms})
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		rest := make(chan struct{})
		from := &origin{base: ocitest.Direct{Handler: far.handler}, change: func(r *http.Request, resp *http.Response) {
			if strings.HasSuffix(r.URL.Path, ".zip") && !strings.HasSuffix(r.URL.Path, "linux_amd64.zip") {
				resp.Body = &halfway{body: resp.Body, at: make(chan struct{}), until: rest}
			}
		}}
		f := newOffline(t, storage, pullFrom(from))
		var mu sync.Mutex
		got := map[string]int{}
		links := map[string]string{}
		for _, platform := range platforms {
			links[platform] = f.archive(t, platform)
		}
		ask := func(client, platform string) {
			r, w := httptest.NewRequest(http.MethodGet, "http://okara.test"+links[platform], nil), httptest.NewRecorder()
			r.RemoteAddr = client + ":1234"
			f.handler.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(client, " ", w.Code)]++
		}
		var clients sync.WaitGroup
		for _, platform := range platforms[1:] {
			clients.Go(func() { ask("192.0.2.1", platform) })
		}
		synctest.Wait()
		ask("192.0.2.2", platforms[0])
		close(rest)
		clients.Wait()
		synctest.Wait() // the packages are in the registry
		if got["192.0.2.1 200"] != most/2 || got["192.0.2.1 503"] != most/2 || got["192.0.2.2 200"] != 1 {
			t.Errorf("answers by client: %v", got)
		}
		ask("192.0.2.1", platforms[most])
		if got["192.0.2.1 200"] != most/2+1 {
			t.Errorf("places were not given back: %v", got)
		}
		time.Sleep(time.Minute) // a request that the registry refuses at first is repeated
	})
}

// dripping is a body that is sent in small pieces at intervals.
type dripping struct {
	ctx    context.Context // of the request, which also ends the body
	piece  int
	pieces atomic.Int64 // pieces that remain
	every  time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.pieces.Load() == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(d.every):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	d.pieces.Add(-1)
	n := min(len(p), d.piece)
	clear(p[:n])
	return n, nil
}

func (d *dripping) Close() error { return nil }

// TestPullThroughDrippingOrigin has an origin that sends almost nothing of a
// package, and one that is only slow. Only the first is given up.
//
// Shows: mistakes 21
func TestPullThroughDrippingOrigin(t *testing.T) {
	for name, test := range map[string]struct {
		piece, pieces int
		every         time.Duration
		sized, whole  bool
	}{
		"a byte every half minute":               {1, 20, 30 * time.Second, true, false},
		"a byte every half minute, size unknown": {1, 20, 30 * time.Second, false, false},
		"64 KiB every 20 seconds":                {64 << 10, 20, 20 * time.Second, true, false},
		"256 KiB every 50 seconds":               {256 << 10, 5, 50 * time.Second, true, true},
		"64 KiB every 14 seconds, size unknown":  {64 << 10, 40, 14 * time.Second, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			from, _ := newOrigin(t)
			storage := ocitest.Handler(t, ocitest.Quirks{})
			bubble(t, func(t *testing.T) {
				body := &dripping{piece: test.piece, every: test.every}
				body.pieces.Store(int64(test.pieces))
				from.change = func(r *http.Request, resp *http.Response) {
					if strings.HasSuffix(r.URL.Path, ".zip") {
						body.ctx = r.Context()
						resp.Body, resp.ContentLength = body, -1
						if test.sized {
							resp.ContentLength = int64(test.piece * test.pieces)
						}
					}
				}
				f := newOffline(t, storage, pullFrom(from))
				f.ask(f.archive(t, "linux_amd64"))
				synctest.Wait()
				if left := body.pieces.Load(); (left == 0) != test.whole {
					t.Errorf("%d of %d pieces were not read, whole is %t", left, test.pieces, test.whole)
				}
			})
		})
	}
}

// TestPullThroughDisk: without disk space packages are given up; ended ones free it.
//
// Shows: mistakes 21
func TestPullThroughDisk(t *testing.T) {
	for name, sized := range map[string]bool{"sized": true, "size unknown": false} {
		t.Run(name, func(t *testing.T) {
			from, zips := newOrigin(t)
			from.change = func(r *http.Request, resp *http.Response) {
				if !sized && strings.HasSuffix(r.URL.Path, ".zip") {
					resp.ContentLength = -1
				}
			}
			want := zips["linux_amd64"]
			storage := ocitest.Handler(t, ocitest.Quirks{})
			bubble(t, func(t *testing.T) {
				f := newOffline(t, storage, pullFrom(from))
				link := f.archive(t, "linux_amd64")
				free := f.handler.Protocols.FillPulls(t, int64(len(want)-1))
				resp := f.ask(link)
				body := must.Fixed(io.ReadAll(resp.Body))
				if !sized && resp.StatusCode != http.StatusServiceUnavailable || resp.StatusCode == http.StatusOK && len(body) == len(want) {
					t.Errorf("no room for all of it: %s, %d of %d bytes", resp.Status, len(body), len(want))
				}
				synctest.Wait()
				free()
				if got := f.get(t, link); !bytes.Equal(got, want) {
					t.Error("the archive has other bytes")
				}
				synctest.Wait()
				f.handler.Protocols.FillPulls(t, 0)() // all of the space is free again
			})
		})
	}
}
