// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/registry"
)

// connections is how many clients a warm benchmark has.
const connections = 16

// BenchmarkWarm measures each metadata answer, once it is known, beside a bare
// net/http handler that sends the same bytes. Client and server share the
// machine. It reports requests per second and the 99th percentile.
func BenchmarkWarm(b *testing.B) {
	f := newFront(b, nil)
	platforms := []string{
		"linux_amd64", "linux_arm64", "linux_arm", "linux_386", "darwin_amd64", "darwin_arm64",
		"windows_amd64", "windows_386", "windows_arm64", "freebsd_amd64", "freebsd_386", "freebsd_arm",
	}
	for i := range 50 {
		v := fmt.Sprintf("1.%d.0", i)
		f.module(b, "net/vpc/aws", v, map[string]string{"main.tf": ""})
		f.provider(b, release{address: "acme/dns", version: v, platforms: platforms})
		f.provider(b, release{address: "registry.opentofu.org/hashicorp/time", version: v, platforms: platforms})
	}
	for i := range 50 { // as after an install of each version
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
		resp, body := fetch(b, http.DefaultClient, f.URL+route.path)
		f.count.Take()
		b.Run(route.name+"/okara", func(b *testing.B) { load(b, f.URL+route.path) })
		if n := f.count.Take(); len(n) != 0 && b.N > 0 {
			b.Logf("%s: registry requests %v", route.name, n)
		}
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), resp.Header)
			w.WriteHeader(resp.StatusCode)
			_, _ = w.Write(body) // 204 has none
		}))
		b.Run(route.name+"/bare", func(b *testing.B) { load(b, bare.URL+route.path) })
		bare.Close()
	}
}

// load sends b.N requests over a fixed number of connections.
func load(b *testing.B, url string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	fetch(b, client, url)
	times := make([][]time.Duration, connections)
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			for range (b.N + connections - 1) / connections {
				at := time.Now()
				fetch(b, client, url)
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/time.Since(start).Seconds(), "req/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
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
	for i := range 10_000 {
		if err := r.PutTag(context.Background(), fmt.Sprintf("1.%d.%d", i/100, i%100), m); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("okara", func(b *testing.B) {
		for b.Loop() {
			cold := newFrontAt(b, host, nil, func(o *registry.Options) {})
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
