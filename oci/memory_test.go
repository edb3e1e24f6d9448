// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

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
	must.Succeed(t, r.PushBlob(t.Context(), b))
	body := must.Get(r.Open(t.Context(), b.Descriptor))(t)
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
	return must.Get(digest.FromReader(io.LimitReader(zeros{}, size)))(t)
}
