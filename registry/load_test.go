// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/statebackend"
)

// flaky fails each tenth request: an error, a 500, a cut body.
type flaky struct {
	n      atomic.Int64
	failed atomic.Int64
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	n := f.n.Add(1)
	if n%10 != 0 {
		return http.DefaultTransport.RoundTrip(r)
	}
	f.failed.Add(1)
	switch n / 10 % 3 {
	case 0:
		return ocitest.FailBefore(r, http.DefaultTransport)
	case 1:
		return ocitest.Status(http.StatusInternalServerError, 0)(r, http.DefaultTransport)
	}
	return ocitest.CutBody(r, http.DefaultTransport)
}

// TestFlakyRegistry runs 500 clients at once while a tenth of the
// registry's answers fails, and no client gets an error or a wrong byte.
//
// Shows: registries 15 | 500 with ten concurrent clients | terrakube-io/terrakube#2539
func TestFlakyRegistry(t *testing.T) {
	if source := inits(t, nil); source.failed.Load() < 50 {
		t.Errorf("only %d failures in %d registry requests", source.failed.Load(), source.n.Load())
	}
}

// TestFlakyRegistryCached is that with cached archives.
func TestFlakyRegistryCached(t *testing.T) {
	dir := t.TempDir()
	source := inits(t, func(o *server.Options) { o.Blobs = cache.BlobOptions{Dir: dir, Bytes: 1 << 30} })
	if n := source.n.Load(); n > 100 {
		t.Errorf("%d registry requests, so fetches were not shared", n)
	}
	waitFor(t, func() bool { return len(must.Fixed(filepath.Glob(filepath.Join(dir, ".part-*")))) == 0 })
}

// inits runs 500 clients at once.
func inits(t *testing.T, change func(*server.Options)) *flaky {
	source := &flaky{}
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), source, change)
	noise := make([]byte, 100_000)
	rand.Read(noise) // never fails
	archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "", "noise": string(noise)})
	rel := f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	t.Cleanup(client.CloseIdleConnections)
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			c := &tofutest.Client{Tool: tofutest.OpenTofu(), HTTP: client}
			s, err := c.Discover(t.Context(), f.URL)
			if err != nil {
				t.Error(err)
				return
			}
			link, err := c.ModuleLocation(t.Context(), s.Modules, "net/vpc/aws", "1.0.0")
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Get(link.String())
			for err == nil && resp.StatusCode == http.StatusGatewayTimeout { // the machine is busy with the other clients
				resp.Body.Close()
				resp, err = client.Get(link.String())
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !bytes.Equal(body, archive) {
				t.Errorf("%d, %d bytes, %v", resp.StatusCode, len(body), err)
			}
			in, err := c.Provider(t.Context(), s.Providers, "example.com", "acme/dns", "1.0.0", "linux", "amd64")
			if err != nil || !bytes.Equal(in.Zip, rel.zips["linux_amd64"]) {
				t.Errorf("provider: %v", err)
			}
		})
	}
	wg.Wait()
	return source
}

// TestOutage checks what still works while the registry is down: everything
// that was known; readiness fails only if the registry has never answered.
//
// Shows: opendepot-defects 7 | it does not start without its store; no probes
func TestOutage(t *testing.T) {
	clock := newClock()
	var down atomic.Bool
	gate := roundTripper(func(r *http.Request) (*http.Response, error) {
		if down.Load() {
			return nil, errors.New("connection refused")
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	host := ocitest.New(t, ocitest.Quirks{})
	start := func() *front {
		return newFrontAt(t, host, gate, func(o *server.Options) { o.Now = clock.now })
	}
	f := start()
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	down.Store(true)
	cold := start()
	status := func(f *front, path string) int {
		resp, _ := ask(t, http.MethodGet, f.url(t, path))
		return resp.StatusCode
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/v1/modules/net/vpc/aws/versions": 502} {
		if got := status(cold, path); got != want {
			t.Errorf("down from the start, %s: %d, want %d", path, got, want)
		}
	}
	down.Store(false)
	known := []string{
		"/readyz", "/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download",
		"/v1/providers/acme/dns/versions", "/v1/providers/acme/dns/1.0.0/download/linux/amd64",
	}
	for _, path := range known {
		if got := status(f, path); got >= 300 {
			t.Fatalf("%s: %d", path, got)
		}
	}
	down.Store(true)
	clock.add(20 * time.Hour)
	for _, path := range known {
		if got := status(f, path); got >= 300 {
			t.Errorf("%s after 20 hours without the registry: %d", path, got)
		}
	}
	clock.add(10 * time.Hour)
	must.Equal(t, "a list of yesterday", status(f, known[1]), 502)
	down.Store(false)
	must.Equal(t, "readyz when the registry is back", status(cold, "/readyz"), 200)
	f.handler.Closing()
	must.Equal(t, "readyz at shutdown", status(f, "/readyz"), 503)
}

// TestPanic checks that a panic affects only one request.
func TestPanic(t *testing.T) {
	var broken atomic.Bool
	gate := roundTripper(func(r *http.Request) (*http.Response, error) {
		if broken.Load() {
			panic("broken")
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), gate, func(o *server.Options) {
		o.Stores = func(context.Context, string) (*statebackend.Store, error) { panic("state") }
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	broken.Store(true)
	for _, path := range []string{"/state/shop/default", "/v1/modules/net/vpc/aws/versions"} {
		resp, body := ask(t, http.MethodGet, f.url(t, path), "X-Request-Id", "id-7")
		if resp.StatusCode != 500 || !bytes.Contains(body, []byte("id-7")) || bytes.Contains(body, []byte("broken")) {
			t.Errorf("%s: %d %s, want 500 with the request's ID", path, resp.StatusCode, body)
		}
	}
	broken.Store(false)
	if resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions")); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

// TestDenied: the registry refuses the server's credentials.
func TestDenied(t *testing.T) {
	deny := &ocitest.Fault{Times: -1, Do: ocitest.Status(http.StatusForbidden, 0)}
	for hide, want := range map[bool]int{false: 502, true: 404} {
		f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), deny, func(o *server.Options) { o.DeniedMeansMissing = hide })
		resp, body := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"))
		if resp.StatusCode != want {
			t.Errorf("hidden %v: %d %s, want %d", hide, resp.StatusCode, body, want)
		}
		put := depottest.ZipOf(t, map[string]string{"main.tf": ""})
		if status, _ := f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", "", put); status != 502 {
			t.Errorf("hidden %v, publish: %d, want 502", hide, status)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// waitFor waits for background work; the deadline is only a safeguard.
func waitFor(t testing.TB, done func() bool) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.NewTimer(5*time.Minute)
	defer tick.Stop()
	defer end.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatal("it did not happen")
		}
	}
}
