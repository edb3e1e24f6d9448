// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"bytes"
	"context"
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
	"github.com/seed-141914ff/okara/oci"
)

// newRepo serves dir until the returned func is called.
func newRepo(t *testing.T, dir string, o embedded.Options) (*oci.Repo, func()) {
	t.Helper()
	h, err := embedded.New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	stop := func() {
		s.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	r, err := oci.OpenRepo(strings.TrimPrefix(s.URL, "http://")+"/test/repo", oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, stop
}

func mustPush(t *testing.T, r *oci.Repo, tag, text string) oci.Manifest {
	t.Helper()
	b := oci.BytesBlob("text/plain", []byte(text))
	m, err := oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{b.Descriptor}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), b}, Root: m}); err != nil {
		t.Fatal(err)
	}
	if err := r.PutTag(t.Context(), tag, m); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.New(file, embedded.Options{}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

// TestQuiet: the library would write a line for every error to stderr.
func TestQuiet(t *testing.T) {
	var log bytes.Buffer
	h, err := embedded.New("", embedded.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
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

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	if c, err := embedded.Collect(ctx, dir, false); err != nil || c != (embedded.Collected{}) {
		t.Fatalf("of nothing: %v, %v", c, err)
	}
	r, stop := newRepo(t, dir, embedded.Options{})
	kept := mustPush(t, r, "kept", "kept")
	pinned := mustPush(t, r, "pin", "pinned by its digest")
	if err := r.Untag(ctx, "pin"); err != nil {
		t.Fatal(err)
	}
	gone := mustPush(t, r, "gone", strings.Repeat("gone", 1000))
	if err := r.Delete(ctx, gone.Descriptor); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Collect(ctx, dir, false); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("while served: %v, want ErrInUse", err)
	}
	cut, err := http.Post("http://"+r.Host()+"/v2/test/repo/blobs/uploads/", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	cut.Body.Close()
	stop()

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := embedded.Collect(canceled, dir, false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v, want canceled", err)
	}
	dry, err := embedded.Collect(ctx, dir, true)
	if err != nil || dry.Blobs != 2 || dry.Bytes < 4000 {
		t.Errorf("dry: %+v, %v; want 2 blobs", dry, err)
	}
	real, err := embedded.Collect(ctx, dir, false)
	if err != nil || real.Blobs != 2 || real.Bytes < 4000 {
		t.Errorf("real: %+v, %v; want 2 blobs", real, err)
	}
	if again, err := embedded.Collect(ctx, dir, false); err != nil || again.Blobs != 0 || again.Bytes != 0 {
		t.Errorf("again: %+v, %v; want nothing", again, err)
	}

	if left, err := filepath.Glob(filepath.Join(dir, "docker/registry/v2/repositories/test/repo/_uploads/*")); err != nil || len(left) > 0 {
		t.Errorf("cut uploads left: %v, %v", left, err)
	}

	r, stop = newRepo(t, dir, embedded.Options{})
	defer stop()
	image, err := kept.Image()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := r.ReadBlob(ctx, image.Layers[0], 100); err != nil || string(b) != "kept" {
		t.Errorf("what was kept: %q, %v", b, err)
	}
	if _, err := r.Fetch(ctx, pinned.Digest.String()); err != nil {
		t.Errorf("a manifest without a tag: %v", err)
	}
	mustPush(t, r, "gone", strings.Repeat("gone", 1000)) // what was removed can be pushed again
}

// TestBlobs compares what this package serves itself with the library's answer
// to the same request on a registry in memory.
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
			req, err := http.NewRequestWithContext(t.Context(), q.method, "http://"+r.Host()+"/v2/"+q.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if q.rng != "" {
				req.Header.Set("Range", q.rng)
			}
			if q.match != "" {
				req.Header.Set("If-None-Match", q.match)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
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
