// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

func newTestServer(t *testing.T, transport http.RoundTripper) *server {
	t.Helper()
	client, err := oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(Options{
		Client: client, Layout: addr.Layout{}, Access: access.Policy{Anonymous: access.AnonymousAll()},
		Archives: Archives{Keys: []access.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func answerTo(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestBusy has one client that takes all it can get: what is beyond that is
// refused with 503 and Retry-After, probes are not, another client is served,
// and what ends makes room.
func TestBusy(t *testing.T) {
	s := newTestServer(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	h := s.routes()
	b := blobName{Repository: "modules/net/vpc/aws", Hex: strings.Repeat("0", 64), File: "x.zip"}
	s.catalog.KeepSize(b.Repository, oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: 1})
	for _, test := range []struct {
		name, path string
		limit      *places
		then       int
	}{
		{"metadata", "/v1/modules/net/vpc/aws/versions", s.busy, 404},
		{"discovery", "/.well-known/terraform.json", s.busy, 200},
		{"archives", "/" + s.links.path(b, s.links.expiry()), s.slots, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			greedy, other := netip.MustParsePrefix("192.0.2.1/32"), "198.51.100.7:1"
			for test.limit.take(greedy) {
				continue
			}
			taken := test.limit.taken
			if w := answerTo(h, http.MethodGet, test.path); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("beyond the limit: %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			for _, probe := range []string{"/healthz", "/readyz"} {
				if w := answerTo(h, http.MethodGet, probe); w.Code != 200 {
					t.Errorf("%s: %d", probe, w.Code)
				}
			}
			r, w := httptest.NewRequest(http.MethodGet, test.path, nil), httptest.NewRecorder()
			r.RemoteAddr = other
			if h.ServeHTTP(w, r); w.Code != test.then {
				t.Errorf("another client: %d, want %d: %s", w.Code, test.then, w.Body)
			}
			test.limit.leave(greedy)
			if w := answerTo(h, http.MethodGet, test.path); w.Code != test.then {
				t.Errorf("with room for one: %d, want %d: %s", w.Code, test.then, w.Body)
			}
			if test.limit.taken != taken-1 || taken != test.limit.most/2 {
				t.Errorf("%d of %d are taken at the end, %d were", test.limit.taken, test.limit.most, taken)
			}
			for range taken - 1 {
				test.limit.leave(greedy)
			}
		})
	}
}

// TestPlaces has clients that take all they can get: many get equal shares.
func TestPlaces(t *testing.T) {
	client := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
	}
	for clients, want := range map[int]int{1: 50, 2: 33, 3: 25, 9: 10, 19: 5} {
		p := newPlaces(100)
		for i := range clients { // each as if it came first
			for p.take(client(i)) {
				continue
			}
		}
		for range 1000 { // what ends is open to all
			for i := range clients {
				if p.by[client(i)] > 0 {
					p.leave(client(i))
				}
				for j := range clients {
					p.take(client(j))
				}
			}
		}
		for i := range clients {
			if got := p.by[client(i)]; got < want-1 || got > want+1 {
				t.Errorf("%d clients: one has %d places, want %d", clients, got, want)
			}
		}
		if !p.take(client(clients)) {
			t.Errorf("%d clients: none is left for one more", clients)
		}
	}
	p := newPlaces(2)
	p.take(client(1))
	ended, end := context.WithCancel(t.Context())
	end()
	if p.wait(ended, client(1)) {
		t.Error("waiting took a place that is another's")
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2)
		p.take(client(1))
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if p.wait(t.Context(), client(1)) {
					p.leave(client(1))
				}
			})
		}
		synctest.Wait()
		p.leave(client(1))
		waiting.Wait()
		if p.taken != 0 || len(p.by) != 0 {
			t.Errorf("%d places taken at the end, by %v", p.taken, p.by)
		}
	})
}

// TestClientOf counts as one what one host can have.
func TestClientOf(t *testing.T) {
	s := newTestServer(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	var err error
	if s.access, err = access.New(access.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:1", "", "192.0.2.1/32"},
		{"[::ffff:192.0.2.1]:1", "", "192.0.2.1/32"},
		{"[2001:db8:0:1:2:3:4:5]:1", "", "2001:db8:0:1::/64"},
		{"[fe80::1%eth0]:1", "", "fe80::/64"},
		{"192.0.2.1:1", "198.51.100.1", "192.0.2.1/32"}, // no proxy
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
		if got := s.clientOf(r).String(); got != test.want {
			t.Errorf("%+v: client is %s", test, got)
		}
	}
}

// TestInTime answers before the clients give up, whatever the registry does.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, &ocitest.Fault{Times: -1, Do: ocitest.Hang}).routes()
		for _, path := range []string{
			"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download", "/v1/providers/acme/dns/versions",
			"/v1/providers/acme/dns/1.0.0/download/linux/amd64", "/mirror/h.example/a/b/index.json", "/mirror/h.example/a/b/1.0.0.json", "/v1/modules",
		} {
			start := time.Now()
			w := answerTo(h, http.MethodGet, path)
			if took := time.Since(start); w.Code != http.StatusGatewayTimeout || took > metadataTimeout {
				t.Errorf("%s: %d after %v", path, w.Code, took)
			}
		}
		time.Sleep(cache.LoadTimeout) // the loads that nobody waits for end
	})
}

// TestOpenInTime gives up on a registry that does not begin with a blob. A body
// may take as long as it likes.
func TestOpenInTime(t *testing.T) {
	slow := func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body := iotest.OneByteReader(reader(func(p []byte) (int, error) {
			time.Sleep(openTimeout)
			if r.Context().Err() != nil {
				return 0, r.Context().Err()
			}
			return copy(p, "x"), nil
		}))
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: 5, Body: io.NopCloser(io.LimitReader(body, 5)), Request: r}, nil
	}
	for _, test := range []struct {
		name string
		do   ocitest.Act
		want int
		body string
	}{{"hangs", ocitest.Hang, http.StatusGatewayTimeout, "in time"}, {"slow body", slow, http.StatusOK, "xxxxx"}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(t, &ocitest.Fault{Times: -1, Do: test.do})
				b := blobName{Repository: "modules/net/vpc/aws", Hex: fmt.Sprintf("%x", sha256.Sum256([]byte("xxxxx"))), File: "x.zip"}
				s.catalog.KeepSize(b.Repository, oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: 5})
				start := time.Now()
				w := answerTo(s.routes(), http.MethodGet, "/"+s.links.path(b, s.links.expiry()))
				if w.Code != test.want || !strings.Contains(w.Body.String(), test.body) {
					t.Errorf("%d %s after %v, want %d", w.Code, w.Body, time.Since(start), test.want)
				}
			})
		})
	}
}

type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

// TestLimited sends more requests to a registry than may be under way.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		more := make(chan struct{})
		rt := Limited(roundTrip(func(*http.Request) (*http.Response, error) {
			running.Add(1)
			<-more
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		}))
		ask := func(ctx context.Context, url string) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
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
