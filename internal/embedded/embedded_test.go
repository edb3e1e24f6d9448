// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// newRepo serves dir until the returned func is called.
func newRepo(t *testing.T, dir string, o embedded.Options) (*oci.Repo, func()) {
	t.Helper()
	r, _, stop := start(t, dir, o)
	return r, stop
}

// serveRegistry serves dir until the end of the test.
func serveRegistry(t *testing.T, dir string, o embedded.Options) (*oci.Repo, *embedded.Registry) {
	t.Helper()
	r, h, stop := start(t, dir, o)
	t.Cleanup(stop)
	return r, h
}

func start(t *testing.T, dir string, o embedded.Options) (*oci.Repo, *embedded.Registry, func()) {
	t.Helper()
	h := must.Get(embedded.New(dir, o))(t)
	s := httptest.NewServer(h)
	stop := func() {
		s.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	r := must.Get(oci.OpenRepo(strings.TrimPrefix(s.URL, "http://")+"/test/repo", oci.Options{Retry: oci.Retry{MaxAttempts: 1}}))(t)
	return r, h, stop
}

func mustPush(t *testing.T, r *oci.Repo, tag, text string) oci.Manifest {
	t.Helper()
	b := oci.BytesBlob("text/plain", []byte(text))
	m := must.Get(oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{b.Descriptor}}))(t)
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), b}, Root: m}))(t)
	must.Succeed(t, r.PutTag(t.Context(), tag, m))
	return m
}

func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	r, stop := newRepo(t, dir, embedded.Options{})
	m := mustPush(t, r, "v1", "kept")
	stop()
	r, stop = newRepo(t, dir, embedded.Options{})
	defer stop()
	if got, err := r.Fetch(t.Context(), "v1"); err != nil || got.Digest != m.Digest {
		t.Errorf("after a restart: %s, %v", got.Digest, err)
	}
}

func TestDisableDelete(t *testing.T) {
	r, stop := newRepo(t, "", embedded.Options{DisableDelete: true})
	defer stop()
	m := mustPush(t, r, "v1", "stays")
	if err := r.Delete(t.Context(), m.Descriptor); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestBadDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	if _, err := embedded.New(file, embedded.Options{}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestQuiet: the library writes no line an error to stderr.
func TestQuiet(t *testing.T) {
	var log bytes.Buffer
	h := must.Get(embedded.New("", embedded.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))(t)
	read, write := must.GetBoth(os.Pipe())(t)
	stderr := os.Stderr
	os.Stderr = write
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v2/test/manifests/none", nil))
	os.Stderr = stderr
	write.Close()
	if out, err := io.ReadAll(read); err != nil || len(out) > 0 {
		t.Errorf("printed %q, %v", out, err)
	}
	if !strings.Contains(log.String(), "manifest unknown") {
		t.Errorf("log: %q", log.String())
	}
}

// TestBlobs compares answers with the library's own, in memory.
func TestBlobs(t *testing.T) {
	type answer struct {
		Status                            int
		Body, Digest, Length, Range, Type string
	}
	const text = "0123456789"
	sum := oci.BytesBlob("text/plain", []byte(text)).Digest.String()
	missing := oci.BytesBlob("text/plain", []byte("missing")).Digest.String()
	var answers [2][]answer
	for i, dir := range []string{t.TempDir(), ""} {
		r, stop := newRepo(t, dir, embedded.Options{})
		mustPush(t, r, "v1", text)
		for _, q := range []struct{ method, path, rng, match string }{
			{http.MethodGet, "test/repo/blobs/" + sum, "", ""},
			{http.MethodHead, "test/repo/blobs/" + sum, "", ""},
			{http.MethodGet, "test/repo/blobs/" + sum, "bytes=3-", ""},
			{http.MethodGet, "test/repo/blobs/" + sum, "bytes=2-4", ""},
			{http.MethodGet, "test/repo/blobs/" + sum, "bytes=99-", ""},
			{http.MethodGet, "test/repo/blobs/" + sum, "", `"` + sum + `"`},
			{http.MethodGet, "test/repo/blobs/" + missing, "", ""},
			{http.MethodHead, "test/repo/blobs/" + missing, "", ""},
			{http.MethodGet, "other/repo/blobs/" + sum, "", ""},
			{http.MethodGet, "test/repo/blobs/sha256:zz", "", ""},
			{http.MethodGet, "../test/repo/blobs/" + sum, "", ""},
			{http.MethodDelete, "test/repo/blobs/" + sum, "", ""},
			{http.MethodGet, "test/repo/blobs/" + sum, "", ""},
		} {
			req := must.Get(http.NewRequestWithContext(t.Context(), q.method, "http://"+r.Host()+"/v2/"+q.path, nil))(t)
			if q.rng != "" {
				req.Header.Set("Range", q.rng)
			}
			if q.match != "" {
				req.Header.Set("If-None-Match", q.match)
			}
			resp := must.Get(http.DefaultClient.Do(req))(t)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			h := resp.Header
			answers[i] = append(answers[i], answer{resp.StatusCode, string(body), h.Get("Docker-Content-Digest"), h.Get("Content-Length"), h.Get("Content-Range"), h.Get("Content-Type")})
		}
		stop()
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		t.Errorf("on a directory (-) and in memory (+):\n%s", diff)
	}
	if answers[0][0].Status != http.StatusOK || answers[0][12].Status != http.StatusNotFound {
		t.Errorf("before and after the DELETE: %d, %d", answers[0][0].Status, answers[0][12].Status)
	}
}
