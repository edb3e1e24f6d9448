// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestSinglePost sends blobs with POST; a wrong digest and an invalid name are refused.
func TestSinglePost(t *testing.T) {
	dir := t.TempDir()
	r, _ := serveRegistry(t, dir, embedded.Options{})
	blob := oci.BytesBlob("text/plain", []byte("in one request"))
	post := func(name, digest, body string) (int, http.Header) {
		t.Helper()
		at := "http://" + r.Host() + "/v2/" + name + "/blobs/uploads/?" + url.Values{"digest": {digest}}.Encode()
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/octet-stream")
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Clone()
	}
	d := blob.Digest.String()
	for _, tt := range []struct {
		name, digest, body string
		want               int
	}{
		{r.Name(), "sha256:x", "in one request", http.StatusAccepted}, // a PUT follows
		{r.Name(), d, "another text", http.StatusBadRequest},
		{strings.Repeat("a", 256), d, "in one request", http.StatusBadRequest},
		{"test/UPPER", d, "in one request", http.StatusNotFound},
	} {
		if status, _ := post(tt.name, tt.digest, tt.body); status != tt.want {
			t.Errorf("%s, %s, %q: %d, want %d", tt.name, tt.digest, tt.body, status, tt.want)
		}
	}
	if has, err := r.HasBlob(t.Context(), blob.Descriptor); has || err != nil {
		t.Fatalf("before it was sent: %v, %v", has, err)
	}
	status, header := post(r.Name(), d, "in one request")
	if status != http.StatusCreated || header.Get("Docker-Content-Digest") != d || header.Get("Location") != "/v2/"+r.Name()+"/blobs/"+d {
		t.Errorf("%d %v", status, header)
	}
	if got, err := r.ReadBlob(t.Context(), blob.Descriptor, 100); err != nil || string(got) != "in one request" {
		t.Errorf("read back %q, %v", got, err)
	}
	// After a loss of power a file may have a part of its bytes, or none.
	for _, left := range []int64{0, 5} {
		must.Succeed(t, os.Truncate(blobFile(dir, blob.Digest.Encoded()), left))
		if status, _ := post(r.Name(), d, "in one request"); status != http.StatusCreated {
			t.Errorf("sent again: %d", status)
		}
		if got, err := r.ReadBlob(t.Context(), blob.Descriptor, 100); err != nil || string(got) != "in one request" {
			t.Errorf("after %d bytes: read back %q, %v", left, got, err)
		}
	}
	m := pushImage(t, r, "v1", nil, "in one request")
	must.Succeed(t, os.Truncate(blobFile(dir, m.Digest.Encoded()), 0))
	must.Succeed(t, r.PutTag(t.Context(), "v1", m))
	if got, err := r.Fetch(t.Context(), "v1"); err != nil || got.Digest != m.Digest {
		t.Errorf("manifest %v, %v", got, err)
	}
}

// TestChunkRange refuses a chunk whose range has another form, and the upload continues.
func TestChunkRange(t *testing.T) {
	r, _ := serveRegistry(t, t.TempDir(), embedded.Options{})
	host, at := "http://"+r.Host(), "/v2/"+r.Name()+"/blobs/uploads/"
	for _, step := range []struct {
		method, query, chunk, body string
		want                       int
	}{
		{http.MethodPost, "", "", "", http.StatusAccepted},
		{http.MethodPatch, "", "0-3", "in t", http.StatusAccepted},
		{http.MethodPatch, "", "bytes 4-8/9", "wo ch", http.StatusRequestedRangeNotSatisfiable},
		{http.MethodPatch, "", "4-8", "wo ch", http.StatusAccepted},
		{http.MethodPut, "&digest=" + oci.BytesBlob("text/plain", []byte("in two ch")).Digest.String(), "", "", http.StatusCreated},
	} {
		req := must.Get(http.NewRequestWithContext(t.Context(), step.method, host+at+step.query, strings.NewReader(step.body)))(t)
		if step.chunk != "" {
			req.Header.Set("Content-Range", step.chunk)
		}
		resp := must.Get(http.DefaultClient.Do(req))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != step.want {
			t.Fatalf("%s %s: %d, want %d", step.method, step.chunk, resp.StatusCode, step.want)
		}
		if to := must.Get(url.Parse(resp.Header.Get("Location")))(t); to.Path != "" {
			at = to.RequestURI()
		}
	}
}
