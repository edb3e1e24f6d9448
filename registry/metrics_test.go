// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestMetrics uses a server and looks for each metric family that operators
// rely on.
//
// Shows: opendepot 18 | metrics | always available, on a separate listener if wanted; OpenTelemetry
// spans; probes; a shutdown that lets downloads finish
func TestMetrics(t *testing.T) {
	metrics := server.NewMetrics()
	host := ocitest.New(t, ocitest.Quirks{})
	f := newFrontAt(t, host, nil, func(o *server.Options) {
		o.Metrics = metrics
		o.Client = newClient(t, host, oci.Options{Transport: metrics.Transport(nil), PlainHTTP: true})
	})
	_, link := f.moduleLink(t, 1000)
	key := servedKey(must.Fixed(testSigner().Public()))
	key.Expires = "2099-01-01T00:00:00Z"
	f.provider(t, release{address: "acme/dns", version: "1.0.0", keys: []artifact.SigningKey{key}})
	for range 2 {
		ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"))
	}
	ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/amd64"))
	ask(t, http.MethodGet, link)
	ask(t, "BREW", f.url(t, "/v1/modules"))
	f.send(t, http.MethodPut, "/v1/modules/net/dns/aws/1.0.0", "", depottest.ZipOf(t, map[string]string{"main.tf": ""}))
	ended, end := context.WithCancel(t.Context())
	end()
	f.handler.Run(ended)
	_, body := ask(t, http.MethodGet, f.url(t, "/metrics"))

	var families []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		families = append(families, m[1]+" "+m[2])
	}
	want := []string{
		"okara_archive_bytes_total counter", "okara_archive_streams gauge", "okara_auth_total counter", "okara_cache_total counter",
		"okara_coalesced_total counter", "okara_digest_mismatch_total counter", "okara_downloads_total counter", "okara_http_request_seconds histogram",
		"okara_http_requests_total counter", "okara_key_expiry_seconds gauge", "okara_oci_request_seconds histogram", "okara_oci_requests_total counter",
		"okara_publish_total counter", "okara_queue_jobs gauge", "okara_rules_errors_total counter", "okara_tag_moved_total counter",
	}
	slices.Sort(families)
	must.Match(t, "families", families, want)
	for _, line := range []string{
		`okara_http_requests_total{code="404",method="other",route="/"} 1`,
		`okara_http_requests_total{code="200",method="GET",route="/v1/providers/{namespace}/{type}/versions"} 2`,
		`okara_cache_total{kind="list",result="hit"} `,
		fmt.Sprintf(`okara_oci_requests_total{code="200",operation="GET tags",registry=%q} `, host),
		fmt.Sprintf(`okara_oci_requests_total{code="200",operation="GET blobs",registry=%q} `, host),
		`okara_downloads_total{address="net/vpc/aws",kind="module",version="1.0.0"} 1`,
		`okara_archive_bytes_total{mode="stream"} `,
		`okara_auth_total{decision="allowed",mode="anonymous"} `,
		`okara_publish_total{kind="module",result="done"} 1`,
		`okara_queue_jobs{state="failed"} 0`,
		`okara_key_expiry_seconds{address="acme/providers/acme/dns",key="` + key.KeyID + `"} 4.0709088e+09`,
	} {
		if !strings.Contains(string(body), "\n"+line) {
			t.Errorf("no %s in\n%s", line, body)
		}
	}
}

// TestMetricsAreForAdministrators checks that reading the metrics, whose labels
// contain names of private modules, requires a right on the whole server.
//
// Shows: mistakes 17 | `/metrics` showed names of private modules to any caller | it requires
// `admin:*:**`, or is on a separate listener
func TestMetricsAreForAdministrators(t *testing.T) {
	f := newFront(t, func(o *server.Options) {
		o.Metrics = server.NewMetrics()
		o.Access = access.Policy{Anonymous: rights.AnonymousRead(), Tokens: []statictoken.Token{
			newToken(t, readerToken, "read:*:**"), newToken(t, publisherToken, "publish:*:**", "write:state:**"),
			newToken(t, narrowToken, "admin:*:net/**", "admin:*:*", "admin:module:**"), newToken(t, adminToken, "admin:*:**"),
		}}
	})
	_, link := f.moduleLink(t, 100)
	ask(t, http.MethodGet, link)
	for token, want := range map[string]int{"": 401, readerToken: 403, publisherToken: 403, narrowToken: 403, adminToken: 200, adminToken + "x": 401} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			resp, body := ask(t, method, f.url(t, "/metrics"), header...)
			if named := strings.Contains(string(body), "net/vpc/aws"); resp.StatusCode != want || named != (want == 200 && method == http.MethodGet) {
				t.Errorf("%s with %q: %d, want %d, names a module: %v", method, token, resp.StatusCode, want, named)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("no nosniff")
			}
		}
	}
}
