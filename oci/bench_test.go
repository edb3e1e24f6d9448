// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

const benchSize = 64 << 20

// newBenchRepo returns a repository of a registry on a directory, as in okara
// serve.
func newBenchRepo(b *testing.B) *oci.Repo {
	b.Helper()
	h, err := embedded.New(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	r, err := oci.OpenRepo(strings.TrimPrefix(s.URL, "http://")+"/bench/repo", oci.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func newBenchFile(b *testing.B) (string, []byte) {
	b.Helper()
	content := make([]byte, benchSize)
	_, _ = rand.Read(content)
	file := filepath.Join(b.TempDir(), "blob")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		b.Fatal(err)
	}
	return file, content
}

func BenchmarkOpen(b *testing.B) {
	r := newBenchRepo(b)
	file, _ := newBenchFile(b)
	blob, err := oci.FileBlob("application/zip", file)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.PushBlob(b.Context(), blob); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchSize)
	for b.Loop() {
		body, err := r.Open(b.Context(), blob.Descriptor)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			b.Fatal(err)
		}
		body.Close()
	}
}

// BenchmarkOpenPlain reads the same bytes from a plain file server, unverified.
func BenchmarkOpenPlain(b *testing.B) {
	file, _ := newBenchFile(b)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
	b.Cleanup(s.Close)
	b.SetBytes(benchSize)
	for b.Loop() {
		resp, err := http.Get(s.URL)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

func BenchmarkPushBlob(b *testing.B) {
	r := newBenchRepo(b)
	file, _ := newBenchFile(b)
	blob, err := oci.FileBlob("application/zip", file)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchSize)
	for b.Loop() {
		if err := r.PushBlob(b.Context(), blob); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot lists tags of the length of lock tags.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newBenchRepo(b)
			a := newBenchArtifact(b)
			if _, err := r.Push(b.Context(), a); err != nil {
				b.Fatal(err)
			}
			for i := range n {
				if err := r.PutTag(b.Context(), fmt.Sprintf("lock-%064d", i), a.Root); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if l, err := r.Snapshot(b.Context()); err != nil || len(l.Tags) != n {
					b.Fatal(len(l.Tags), err)
				}
			}
		})
	}
}

func BenchmarkPutTag(b *testing.B) {
	r := newBenchRepo(b)
	a := newBenchArtifact(b)
	if _, err := r.Push(b.Context(), a); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := r.PutTag(b.Context(), "state", a.Root); err != nil {
			b.Fatal(err)
		}
	}
}

func newBenchArtifact(b *testing.B) oci.Artifact {
	b.Helper()
	a := oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}}
	var err error
	a.Root, err = oci.NewManifest(ocispec.Manifest{ArtifactType: "a/b", Config: oci.EmptyBlob().Descriptor, Layers: []oci.Descriptor{oci.EmptyBlob().Descriptor}})
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// TestConstantMemory streams far more bytes than it may keep in memory.
//
// Shows: registries 28
func TestConstantMemory(t *testing.T) {
	const size, most = 96 << 20, 24 << 20
	storage := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			w.Header().Set("Location", r.URL.Path+"x")
			w.WriteHeader(http.StatusAccepted)
		case http.MethodPut:
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
		default:
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = io.Copy(w, io.LimitReader(zeros{}, size))
		}
	})
	s := httptest.NewServer(storage)
	t.Cleanup(s.Close)
	r := newRepo(t, s.Listener.Addr().String(), oci.Options{Transport: &ocitest.Count{}})
	b := oci.Blob{Descriptor: oci.Descriptor{Digest: zeroDigest(t, size), Size: size}, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, size)), nil
	}}
	before := allocated()
	if err := r.PushBlob(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	body, err := r.Open(t.Context(), b.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); err != nil || n != size {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	if used := allocated() - before; used > most {
		t.Errorf("%d MiB allocated for %d MiB each way", used>>20, size>>20)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func zeroDigest(t *testing.T, size int64) digest.Digest {
	t.Helper()
	d, err := digest.FromReader(io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
