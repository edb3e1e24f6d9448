// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// TestProxies checks that the variables are read as in net/http.
func TestProxies(t *testing.T) {
	env := map[string]string{
		"HTTPS_PROXY": "http://user:secret@proxy.internal:3128", "https_proxy": "https://proxy.internal", "HTTP_PROXY": "10.0.0.1:8080", "http_proxy": "%",
	}
	must.Match(t, "value", upstream.Proxies(func(k string) string { return env[k] }), []string{"proxy.internal:3128", "proxy.internal:443", "10.0.0.1:8080"})
	if got := upstream.Proxies(func(string) string { return "" }); len(got) != 0 {
		t.Errorf("no proxy: %v", got)
	}
}
