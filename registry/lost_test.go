// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestLostArchive: 404, logged once, not listed until it is back.
func TestLostArchive(t *testing.T) {
	now := time.Now()
	var log bytes.Buffer
	lost := ""
	gate := roundTripper(func(r *http.Request) (*http.Response, error) {
		if lost != "" && strings.HasSuffix(r.URL.Path, "/blobs/sha256:"+lost) {
			return ocitest.Status(http.StatusNotFound, -1)(r, nil)
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), gate, func(o *server.Options) {
		o.Now = func() time.Time { return now }
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	f.module(t, "net/vpc/aws", "0.9.0", map[string]string{"main.tf": ""})
	archive, link := f.moduleLink(t, 1000)
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	rel := f.provider(t, release{address: "acme/dns", version: "1.1.0"})
	versions := func(path string) string {
		resp, body := ask(t, http.MethodGet, f.url(t, path))
		must.Equal(t, path, resp.StatusCode, 200)
		return string(body)
	}
	two := f.provider(t, release{address: "acme/two", version: "1.0.0", platforms: []string{"linux_amd64", "darwin_arm64"}})
	f.provider(t, release{address: "acme/two", version: "0.9.0"})
	tests := []struct {
		list, one, sum, version string
		link                    string
	}{
		{"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download", hexSum(archive), `"1.0.0"`, link.Path},
		{"/v1/providers/acme/dns/versions", "/v1/providers/acme/dns/1.1.0/download/linux/amd64", hexSum(rel.zips["linux_amd64"]), `"1.1.0"`, ""},
		{"/v1/providers/acme/two/versions", "/v1/providers/acme/two/1.0.0/download/linux/amd64", hexSum(two.zips["linux_amd64"]), `"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux"`, ""},
	}
	for _, tt := range tests {
		if tt.link == "" {
			_, body := ask(t, http.MethodGet, f.url(t, tt.one))
			doc := decode[struct {
				URL string `json:"download_url"`
			}](t, body)
			tt.link = must.Fixed(f.url(t, tt.one).Parse(doc.URL)).Path
		}
		if got := versions(tt.list); !strings.Contains(got, tt.version) {
			t.Fatalf("%s before: %s", tt.list, got)
		}
		lost = tt.sum
		for range 2 {
			if resp, _ := ask(t, http.MethodGet, f.url(t, tt.link)); resp.StatusCode != http.StatusNotFound {
				t.Errorf("the archive: %d", resp.StatusCode)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), tt.sum) {
			t.Errorf("%d errors in the log:\n%s", n, log.String())
		}
		if strings.Contains(tt.list, "two") { // its other platform is offered
			if got := versions(tt.list); !strings.Contains(got, `"platforms":[{"os":"darwin","arch":"arm64"}]`) {
				t.Errorf("%s: %s", tt.list, got)
			}
			versions(strings.Replace(tt.one, "linux/amd64", "darwin/arm64", 1))
		}
		for range 2 {
			if got := versions(tt.list); strings.Contains(got, tt.version) || !strings.Contains(got, `.0"`) {
				t.Errorf("%s while it is lost: %s", tt.list, got)
			}
			now = now.Add(10 * time.Minute) // the list is read again
		}
		if resp, body := ask(t, http.MethodGet, f.url(t, tt.one)); resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "missing from the registry") {
			t.Errorf("%s: %d %s", tt.one, resp.StatusCode, body)
		}
		lost = ""
		log.Reset()
		now = now.Add(10 * time.Minute)
		if got := versions(tt.list); !strings.Contains(got, tt.version) {
			t.Errorf("%s when it is back: %s", tt.list, got)
		}
		if resp, _ := ask(t, http.MethodGet, f.url(t, tt.link)); resp.StatusCode != http.StatusOK {
			t.Errorf("the archive when it is back: %d", resp.StatusCode)
		}
	}
}

// TestLostForeign: requests for what never existed remove nothing.
func TestLostForeign(t *testing.T) {
	f := newFront(t, nil)
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	for _, token := range []string{"public", "auth"} {
		path := "/archives/" + token + "/acme/modules/net/vpc/aws/" + strings.Repeat("0", 64) + "/net-vpc-aws-1.0.0.zip"
		if resp, _ := ask(t, http.MethodGet, f.url(t, path)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	got, err := c.ModuleVersions(t.Context(), f.url(t, "/v1/modules/"), "net/vpc/aws")
	if err != nil || len(got) != 1 {
		t.Errorf("versions %v, %v", got, err)
	}
}
