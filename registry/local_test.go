// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/server"
)

// TestLocalNames sends requests to a listener without tokens on loopback, as
// from a page whose host name suddenly resolves to this machine.
func TestLocalNames(t *testing.T) {
	web := httptest.NewServer(access.Local(server.NewMetrics().Handler(), "okara.example.com", "", "https://modules.example.com/x"))
	t.Cleanup(web.Close)
	for host, want := range map[string]int{
		"": 200, "localhost:9090": 200, "[::1]:1": 200, "okara.example.com": 200, "modules.example.com:443": 200,
		"page.example.net": 421, "127.0.0.1.example.net:9090": 421, "192.0.2.1": 421,
	} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil))
		r.Host = host
		resp := must(web.Client().Do(r))
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, resp.StatusCode, want)
		}
	}
}
