// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// TestBusy has one client that takes all the places it can get: its further requests are
// refused with 503 and Retry-After, but probes are not, another client is served, and a
// request that ends frees its place.
func TestBusy(t *testing.T) {
	client := must.Get(oci.New("registry.test", oci.Options{Transport: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, PlainHTTP: true}))(t)
	f := must.Get(New(Options{Options: registry.Options{Client: client}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}}))(t)
	get := func(path, from string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.RemoteAddr = from + ":1"
		f.ServeHTTP(w, r)
		return w
	}
	const discovery, greedy, other = "/.well-known/terraform.json", "192.0.2.1", "198.51.100.7"
	all := netip.MustParsePrefix(greedy + "/32")
	var release func()
	for {
		r, ok := f.kit.Requests.Acquire(all, 1)
		if !ok {
			break
		}
		release = r
	}
	if w := get(discovery, greedy); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beyond the limit: %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if w := get(probe, greedy); w.Code != 200 {
			t.Errorf("%s: %d", probe, w.Code)
		}
	}
	if w := get(discovery, other); w.Code != 200 {
		t.Errorf("another client: %d: %s", w.Code, w.Body)
	}
	release()
	if w := get(discovery, greedy); w.Code != 200 {
		t.Errorf("with room for one: %d: %s", w.Code, w.Body)
	}
	_, one := f.kit.Requests.Acquire(all, 1)
	_, two := f.kit.Requests.Acquire(all, 1)
	if !one || two {
		t.Error("not one place is free at the end")
	}
}
