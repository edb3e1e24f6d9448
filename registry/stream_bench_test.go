// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// streams is the load of a download benchmark.
type streams struct {
	clients, pairs int
	size           int64
}

func newStreams() streams {
	if testing.Short() {
		return streams{clients: 8, pairs: 1, size: 8 << 20}
	}
	return streams{clients: 100, pairs: 3, size: 200 << 20}
}

// BenchmarkStreams lets 100 clients download the same 200 MB at the same time,
// alternating between a registry on disk and a front-end. It reports the
// throughput of both, the median of their ratios, and the maximum growth of the
// memory of registry, front-end and clients together. The front-end caches
// blobs on disk and starts with none; has the registry's files; or has neither,
// so that every byte passes through it and is hashed.
//
// Shows: registries 28
func BenchmarkStreams(b *testing.B) {
	load := newStreams()
	dir := b.TempDir()
	h, err := embedded.New(dir, embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	inner := httptest.NewServer(h)
	b.Cleanup(inner.Close)
	host := strings.TrimPrefix(inner.URL, "http://")
	d := digest.SHA256.Digester()
	_, _ = io.Copy(d.Hash(), io.LimitReader(zeros{}, load.size)) // cannot fail
	blob := oci.Blob{
		Descriptor: oci.Descriptor{MediaType: artifact.MediaZip, Digest: d.Digest(), Size: load.size},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(io.LimitReader(zeros{}, load.size)), nil },
	}
	const repository = "acme/modules/net/vpc/aws"
	newFrontAt(b, host, nil, nil).moduleOf(b, "net/vpc/aws", "1.0.0", blob)
	direct := inner.URL + "/v2/" + repository + "/blobs/" + d.Digest().String()
	for _, way := range []struct {
		name string
		set  func(*server.Options)
	}{
		{"cache", func(o *server.Options) { o.Blobs = cache.BlobOptions{Dir: b.TempDir(), Bytes: 1 << 30} }},
		{"files", func(o *server.Options) { o.Files = h.OpenBlob }},
		{"stream", func(*server.Options) {}},
	} {
		b.Run(way.name, func(b *testing.B) {
			var base, own, ratio, growth []float64
			for b.Loop() {
				for range load.pairs {
					alone, _ := load.run(b, direct)
					front := newFrontAt(b, host, nil, way.set)
					through, grown := load.run(b, front.URL+"/archives/public/"+repository+"/"+d.Digest().Encoded()+"/net-vpc-aws-1.0.0.zip")
					front.Close()
					base, own = append(base, alone), append(own, through)
					ratio, growth = append(ratio, through/alone), append(growth, grown)
				}
			}
			b.ReportMetric(0, "ns/op") // not meaningful for pairs
			b.ReportMetric(median(base), "registry-MB/s")
			b.ReportMetric(median(own), "okara-MB/s")
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(slices.Max(growth), "MiB-growth")
		})
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// run returns megabytes per second and the growth of memory in MiB.
func (s streams) run(b *testing.B, url string) (rate, growth float64) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	var peak uint64
	var sampler, wg sync.WaitGroup
	sampler.Go(func() { peak = watchMemory(done) })
	start := time.Now()
	for range s.clients {
		wg.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != s.size {
				b.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	close(done)
	sampler.Wait()
	return float64(s.clients) * float64(s.size) / 1e6 / took.Seconds(), float64(int64(peak)-int64(before.HeapInuse+before.StackInuse)) / (1 << 20)
}

// watchMemory returns the maximum memory in use until done.
func watchMemory(done <-chan struct{}) (peak uint64) {
	var now runtime.MemStats
	for {
		select {
		case <-done:
			return peak
		case <-time.After(20 * time.Millisecond):
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse+now.StackInuse)
		}
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
