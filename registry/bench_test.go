// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
)

// connections is the number of clients in a warm benchmark.
const connections = 16

// warmRounds is how often the two sides of a warm benchmark alternate.
const warmRounds = 4

// warmRequests is how many requests each side sends per round: enough for a
// percentile, or in a short run for a basic check.
func warmRequests() int {
	if testing.Short() {
		return 10 * connections
	}
	return 5_000
}

// many returns n, or a small number in a short run.
func many(n int) int {
	if testing.Short() {
		return min(n, 10)
	}
	return n
}

// BenchmarkWarm measures each metadata answer, once it is known, alternating
// with a bare net/http handler that sends the same bytes. Client and server
// share the machine; the audit log goes to a file. It reports requests per
// second, the 99th percentile and the ratio of the rates.
func BenchmarkWarm(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "audit"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	audit := auditlog.NewWriter(file, func(err error) { b.Error(err) })
	defer audit.Close()
	now := time.Now()
	f := newFront(b, func(o *server.Options) {
		o.Audit = slog.New(slog.NewJSONHandler(audit, nil))
		o.Now = func() time.Time { return now } // nothing expires
	})
	platforms := []string{
		"linux_amd64", "linux_arm64", "linux_arm", "linux_386", "darwin_amd64", "darwin_arm64",
		"windows_amd64", "windows_386", "windows_arm64", "freebsd_amd64", "freebsd_386", "freebsd_arm",
	}
	for i := range many(50) {
		v := fmt.Sprintf("1.%d.0", i)
		f.module(b, "net/vpc/aws", v, map[string]string{"main.tf": ""})
		f.provider(b, release{address: "acme/dns", version: v, platforms: platforms})
		f.provider(b, release{address: "registry.opentofu.org/hashicorp/time", version: v, platforms: platforms})
	}
	for i := range many(50) { // as after an install of each version
		fetch(b, http.DefaultClient, f.URL+fmt.Sprintf("/v1/providers/acme/dns/1.%d.0/download/linux/amd64", i))
	}
	for _, route := range []struct{ name, path string }{
		{"versions-module", "/v1/modules/net/vpc/aws/versions"},
		{"download", "/v1/modules/net/vpc/aws/1.7.0/download"},
		{"versions-provider", "/v1/providers/acme/dns/versions"},
		{"package", "/v1/providers/acme/dns/1.7.0/download/linux/amd64"},
		{"index.json", "/mirror/registry.opentofu.org/hashicorp/time/index.json"},
		{"version.json", "/mirror/registry.opentofu.org/hashicorp/time/1.7.0.json"},
	} {
		b.Run(route.name, func(b *testing.B) { warm(b, f, route.path) })
	}
}

func warm(b *testing.B, f *front, path string) {
	var body bytes.Buffer
	resp := get(b, http.DefaultTransport, f.URL+path, &body)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body.Bytes()) // 204 has no body
	}))
	defer bare.Close()
	var own, base []time.Duration
	var ownRate, baseRate, ratio []float64
	f.count.Take()
	for b.Loop() {
		for range warmRounds {
			rate, times := load(b, f.URL+path)
			ownRate, own = append(ownRate, rate), append(own, times...)
			rate, times = load(b, bare.URL)
			baseRate, base = append(baseRate, rate), append(base, times...)
			ratio = append(ratio, ownRate[len(ownRate)-1]/rate)
		}
	}
	if n := f.count.Take(); len(n) != 0 {
		b.Errorf("%s: registry requests %v", path, n)
	}
	b.ReportMetric(0, "ns/op") // not meaningful for pairs
	b.ReportMetric(median(ownRate), "okara-req/s")
	b.ReportMetric(p99(own), "okara-p99-ms")
	b.ReportMetric(median(baseRate), "bare-req/s")
	b.ReportMetric(p99(base), "bare-p99-ms")
	b.ReportMetric(median(ratio), "ratio")
	b.ReportMetric(float64(body.Len()), "body-B")
}

func p99(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)*99/100].Microseconds()) / 1000
}

// load sends requests over a fixed number of connections and returns the rate
// per second and the duration of each request.
func load(b *testing.B, url string) (rate float64, all []time.Duration) {
	wire := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	defer wire.CloseIdleConnections()
	get(b, wire, url, io.Discard)
	times := make([][]time.Duration, connections)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			for range warmRequests() / connections {
				at := time.Now()
				get(b, wire, url, io.Discard)
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	all = slices.Concat(times...)
	return float64(len(all)) / took.Seconds(), all
}

// get sends a request that accepts gzip, as the tools do, and copies the body
// unchanged.
func get(b *testing.B, wire http.RoundTripper, url string, to io.Writer) *http.Response {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return nil
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := wire.RoundTrip(r)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil || resp.StatusCode >= 400 {
		b.Errorf("%s: %d %v", url, resp.StatusCode, err)
	}
	return resp
}

func fetch(b testing.TB, client *http.Client, url string) (*http.Response, []byte) {
	resp, err := client.Get(url)
	if err != nil {
		b.Error(err)
		return nil, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 400 {
		b.Errorf("%s: %d %v", url, resp.StatusCode, err)
	}
	return resp, body
}

// BenchmarkCold10000 measures the first answer about a repository with 10,000
// versions, and reports it beside the bare tag list of the registry.
func BenchmarkCold10000(b *testing.B) {
	host := ocitest.New(b, ocitest.Quirks{})
	f := newFrontAt(b, host, nil, nil)
	f.module(b, "net/vpc/aws", "0.0.1", map[string]string{"main.tf": ""})
	r := f.repo(b, "acme/modules/net/vpc/aws")
	m := must(r.Fetch(context.Background(), "0.0.1"))
	for i := range many(10_000) {
		if err := r.PutTag(context.Background(), fmt.Sprintf("1.%d.%d", i/100, i%100), m); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("okara", func(b *testing.B) {
		for b.Loop() {
			cold := newFrontAt(b, host, nil, func(o *server.Options) {})
			fetch(b, http.DefaultClient, cold.URL+"/v1/modules/net/vpc/aws/versions")
		}
	})
	b.Run("registry", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.Snapshot(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
