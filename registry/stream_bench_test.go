// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/oci"
)

const (
	streams    = 100
	streamSize = 200 << 20
)

// BenchmarkStreams lets 100 clients download 200 MB each at the same time,
// through the front-end and straight from the registry, which is on disk. It
// reports the throughput and by how much the memory of registry, front-end and
// clients together grew at most.
func BenchmarkStreams(b *testing.B) {
	h, err := embedded.New(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	inner := httptest.NewServer(h)
	b.Cleanup(inner.Close)
	f := newFrontAt(b, strings.TrimPrefix(inner.URL, "http://"), nil, nil)
	d := digest.SHA256.Digester()
	_, _ = io.Copy(d.Hash(), io.LimitReader(zeros{}, streamSize)) // neither fails
	blob := oci.Blob{
		Descriptor: oci.Descriptor{MediaType: oci.MediaZip, Digest: d.Digest(), Size: streamSize},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(zeros{}, streamSize)), nil },
	}
	const repository = "acme/modules/net/vpc/aws"
	if err := f.repo(b, repository).PushBlob(context.Background(), blob); err != nil {
		b.Fatal(err)
	}
	b.Run("okara", func(b *testing.B) {
		stream(b, f.URL+"/archives/public/"+repository+"/"+d.Digest().Encoded()+"/x.zip")
	})
	b.Run("registry", func(b *testing.B) {
		stream(b, inner.URL+"/v2/"+repository+"/blobs/"+d.Digest().String())
	})
}

func stream(b *testing.B, url string) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	b.SetBytes(streams * streamSize)
	for b.Loop() {
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		done := make(chan struct{})
		var peak uint64
		var sampler, wg sync.WaitGroup
		sampler.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
					runtime.ReadMemStats(&now)
					peak = max(peak, now.HeapInuse+now.StackInuse)
				}
			}
		})
		for range streams {
			wg.Go(func() {
				resp, err := client.Get(url)
				if err != nil {
					b.Error(err)
					return
				}
				defer resp.Body.Close()
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != streamSize {
					b.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		wg.Wait()
		close(done)
		sampler.Wait()
		b.ReportMetric(float64(int64(peak)-int64(before.HeapInuse+before.StackInuse))/(1<<20), "MiB-growth")
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
