// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestGzip requests both encodings, and what is too small.
func TestGzip(t *testing.T) {
	f := newFront(t, nil)
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	large := f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/amd64")
	get := func(accept string) (*http.Response, []byte) {
		return ask(t, http.MethodGet, large, "Accept-Encoding", accept)
	}
	plain, want := get("identity")
	for accept, zipped := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "deflate, gzip": true, "gzip;q=0": false, "identity, gzip;q=0.0": false, "br": false,
	} {
		resp, body := get(accept)
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("%s: gzip %v, want %v", accept, got, zipped)
			continue
		}
		if same := resp.Header.Get("Etag") == plain.Header.Get("Etag"); same == zipped {
			t.Errorf("%s: ETag %s, without it %s", accept, resp.Header.Get("Etag"), plain.Header.Get("Etag"))
		}
		if resp.ContentLength != int64(len(body)) {
			t.Errorf("%s: %d bytes, announced %d", accept, len(body), resp.ContentLength)
		}
		if zipped {
			body = must.Fixed(io.ReadAll(must.Fixed(gzip.NewReader(bytes.NewReader(body)))))
		}
		if !bytes.Equal(body, want) {
			t.Errorf("%s: other bytes: %s", accept, body)
		}
		known, body := ask(t, http.MethodGet, large, "Accept-Encoding", accept, "If-None-Match", resp.Header.Get("Etag"))
		if known.StatusCode != http.StatusNotModified || len(body) != 0 {
			t.Errorf("%s, known: %d with %d bytes", accept, known.StatusCode, len(body))
		}
	}
	if resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a small answer was compressed")
	}
}
