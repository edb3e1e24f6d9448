// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestPullThroughCrowd has one client that asks for as many packages as come
// from origins at once, from an origin that is slow: it gets half of them, and
// another client is served.
func TestPullThroughCrowd(t *testing.T) {
	const most = 32
	platforms := []string{"linux_amd64"} // one that is looked for
	for i := range most {
		platforms = append(platforms, fmt.Sprintf("linux_cpu%d", i))
	}
	far := newOffline(t, ocitest.Handler(t, ocitest.Quirks{}), nil)
	far.provider(t, release{address: "acme/dns", version: "1.2.0", bare: true, platforms: platforms})
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		rest := make(chan struct{})
		from := &origin{base: direct{far.handler}, change: func(r *http.Request, resp *http.Response) {
			if strings.HasSuffix(r.URL.Path, ".zip") && !strings.HasSuffix(r.URL.Path, "linux_amd64.zip") {
				resp.Body = &halfway{body: resp.Body, at: make(chan struct{}), until: rest}
			}
		}}
		f := newOffline(t, storage, pullFrom(from))
		var mu sync.Mutex
		got := map[string]int{}
		links := map[string]string{}
		for _, platform := range platforms {
			links[platform] = f.archive(t, platform)
		}
		ask := func(client, platform string) {
			r, w := httptest.NewRequest(http.MethodGet, "http://okara.test"+links[platform], nil), httptest.NewRecorder()
			r.RemoteAddr = client + ":1234"
			f.handler.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint(client, " ", w.Code)]++
		}
		var clients sync.WaitGroup
		for _, platform := range platforms[1:] {
			clients.Go(func() { ask("192.0.2.1", platform) })
		}
		synctest.Wait()
		ask("192.0.2.2", platforms[0])
		close(rest)
		clients.Wait()
		synctest.Wait() // the packages are in the registry
		if got["192.0.2.1 200"] != most/2 || got["192.0.2.1 503"] != most/2 || got["192.0.2.2 200"] != 1 {
			t.Errorf("answers by client: %v", got)
		}
		ask("192.0.2.1", platforms[most])
		if got["192.0.2.1 200"] != most/2+1 {
			t.Errorf("places were not given back: %v", got)
		}
	})
}
