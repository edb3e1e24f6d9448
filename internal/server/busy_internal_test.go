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
