// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
)

func newTestServer(t *testing.T, transport http.RoundTripper) *server {
	t.Helper()
	client := must.Get(oci.New("registry.test", oci.Options{Transport: transport, PlainHTTP: true}))(t)
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	guard := must.Get(access.New(access.Options{Policy: access.Policy{Anonymous: rights.AnonymousAll()}, Keyring: keys}))(t)
	return must.Get(newServer(Options{Client: client, Kit: service.New(service.Options{Guard: guard}), Keys: keys}))(t)
}

func answerTo(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestBusy: a greedy client gets 503 and Retry-After, others are served, ended requests free slots.
//
// Shows: mistakes 18 | one client could occupy every slot for downloads | a client may use at most
// as many slots as remain free: half of them if it is alone, an equal share among many
func TestBusy(t *testing.T) {
	s := newTestServer(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	h := s.addRoutes(s.kit.Mux())
	b := blobName{Repository: "modules/net/vpc/aws", Hex: strings.Repeat("0", 64), File: "x.zip"}
	s.views.own.catalog.Blobs.KeepSize(b.Repository, oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: 1})
	for _, test := range []struct {
		name, path string
		limit      *service.ClientLimiter
		most, then int
	}{
		{"metadata", "/v1/modules/net/vpc/aws/versions", s.kit.Requests, 4096, 404},
		{"archives", "/" + s.views.own.links.signedPath(b, s.views.own.links.linkExpiry()), s.archives.limiter, maxStreams, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			greedy, other := netip.MustParsePrefix("192.0.2.1/32"), "198.51.100.7:1"
			var held []func()
			acquire := func() bool {
				release, ok := test.limit.Acquire(greedy, 1)
				if ok {
					held = append(held, release)
				}
				return ok
			}
			for acquire() {
				continue
			}
			taken := len(held)
			if w := answerTo(h, http.MethodGet, test.path); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("beyond the limit: %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			r, w := httptest.NewRequest(http.MethodGet, test.path, nil), httptest.NewRecorder()
			r.RemoteAddr = other
			if h.ServeHTTP(w, r); w.Code != test.then {
				t.Errorf("another client: %d, want %d: %s", w.Code, test.then, w.Body)
			}
			held[0]()
			if w := answerTo(h, http.MethodGet, test.path); w.Code != test.then {
				t.Errorf("with room for one: %d, want %d: %s", w.Code, test.then, w.Body)
			}
			if !acquire() || acquire() || taken != test.most/2 {
				t.Errorf("not one of %d places is free at the end, %d were taken", test.most, taken)
			}
			for _, release := range held[1:] {
				release()
			}
		})
	}
}

// TestInTime: answers come before clients give up.
func TestInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, &ocitest.Fault{Times: -1, Do: ocitest.Hang})
		h := s.addRoutes(s.kit.Mux())
		for _, path := range []string{
			"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download", "/v1/providers/acme/dns/versions",
			"/v1/providers/acme/dns/1.0.0/download/linux/amd64", "/mirror/h.example/a/b/index.json", "/mirror/h.example/a/b/1.0.0.json", "/v1/modules",
		} {
			start := time.Now()
			w := answerTo(h, http.MethodGet, path)
			if took := time.Since(start); w.Code != http.StatusGatewayTimeout || took > service.Timeout {
				t.Errorf("%s: %d after %v", path, w.Code, took)
			}
		}
		time.Sleep(cache.LoadTimeout) // the background loads end
	})
}

// TestOpenInTime: a blob must start in time; a body may take any.
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
				s.views.own.catalog.Blobs.KeepSize(b.Repository, oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, b.Hex), Size: 5})
				start := time.Now()
				w := answerTo(s.addRoutes(s.kit.Mux()), http.MethodGet, "/"+s.views.own.links.signedPath(b, s.views.own.links.linkExpiry()))
				if w.Code != test.want || !strings.Contains(w.Body.String(), test.body) {
					t.Errorf("%d %s after %v, want %d", w.Code, w.Body, time.Since(start), test.want)
				}
			})
		})
	}
}

type reader func([]byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }
