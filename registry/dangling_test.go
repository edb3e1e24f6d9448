// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const danglingEvent = "okara-status-1700000000000-0123456789abcdef"

// TestDanglingInLists lets a registry crash while it writes tags: of versions,
// of status events and of the catalog. Each is listed, and its GET returns 404.
// The lists omit them, log this once, and include them as soon as they exist.
//
// Shows: mistakes 25
func TestDanglingInLists(t *testing.T) {
	now := time.Now()
	var log bytes.Buffer
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	store := httptest.NewServer(g)
	t.Cleanup(store.Close)
	f := newFrontAt(t, strings.TrimPrefix(store.URL, "http://"), nil, func(o *server.Options) {
		o.Now = func() time.Time { return now }
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	module, provider := "acme/modules/net/vpc/aws", "acme/providers/acme/dns"
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	entry := artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: module}
	if err := artifact.AddCatalogEntry(t.Context(), f.repo(t, f.layout.CatalogRepo()), entry); err != nil {
		t.Fatal(err)
	}
	g.Add(module, "2.0.0")
	g.Add(module, danglingEvent)
	g.Add(provider, "2.0.0")
	g.Add(provider, danglingEvent)
	g.Add(f.layout.CatalogRepo(), artifact.CatalogTag("acme/modules/net/dns/aws"))
	get := func(path string, status int) string {
		t.Helper()
		resp, body := ask(t, http.MethodGet, f.url(t, path))
		if resp.StatusCode != status {
			t.Errorf("%s: %d, want %d: %s", path, resp.StatusCode, status, body)
		}
		return string(body)
	}
	if got := get("/v1/modules", 200); !strings.Contains(got, `"net/vpc/aws/1.0.0"`) {
		t.Errorf("the modules: %s", got)
	}
	if got := get("/v1/modules/net/vpc/aws", 200); !strings.Contains(got, `"net/vpc/aws/1.0.0"`) {
		t.Errorf("the latest: %s", got)
	}
	lists := []string{"/v1/modules/net/vpc/aws/versions", "/v1/providers/acme/dns/versions"}
	get("/v1/providers/acme/dns/2.0.0/download/linux/amd64", 404)
	for range 3 {
		for _, list := range lists {
			if got := get(list, 200); !strings.Contains(got, `"1.0.0"`) || strings.Contains(got, "2.0.0") {
				t.Errorf("%s: %s", list, got)
			}
		}
		before := f.count.Total()
		for _, list := range lists {
			get(list, 200)
		}
		if n := f.count.Total() - before; n != 0 {
			t.Errorf("%d requests for lists that are known", n)
		}
		now = now.Add(10 * time.Minute) // the lists are read again
		get("/v1/modules", 200)
	}
	if n := strings.Count(log.String(), "the tag is skipped"); n != 5 {
		t.Errorf("%d lines in the log, want one for each of 5 tags:\n%s", n, log.String())
	}
	f.module(t, "net/vpc/aws", "2.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "2.0.0"})
	now = now.Add(10 * time.Minute)
	for _, list := range lists {
		if got := get(list, 200); !strings.Contains(got, `"2.0.0"`) {
			t.Errorf("%s when it is there: %s", list, got)
		}
	}
}
