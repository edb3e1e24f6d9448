// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// lines is a log that tests read while a server writes to it.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// TestAudit: who did what by which rule, refusals too, without token or link, as logs and metrics.
//
// Shows: registries 6
// Shows: mistakes 39
func TestAudit(t *testing.T) {
	var audit, log lines
	metrics := server.NewMetrics()
	i := newIssuer(t)
	lost := false
	gate := &ocitest.Fault{Times: -1, Do: ocitest.Status(http.StatusNotFound, -1), Match: func(r *http.Request) bool {
		return lost && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/blobs/")
	}}
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), gate, func(o *server.Options) {
		private(t)(o)
		o.Access.Tokens = append(o.Access.Tokens, newToken(t, adminToken, "admin:*:**"))
		o.Access.Issuers = []access.Issuer{{URL: i.URL, Audiences: []string{"okara"}}}
		o.Access.Rules = []access.Rule{
			{Name: "others", Groups: []string{"ops"}, Allow: rights.AnonymousAll()},
			{Name: "team", Groups: []string{"platform"}, Allow: rights.AnonymousRead()},
		}
		o.Audit = slog.New(slog.NewJSONHandler(&audit, nil))
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Metrics = metrics
		o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	archive := depottest.ZipOf(t, map[string]string{"main.tf": ""})
	tests := []struct {
		name   string
		do     func()
		record map[string]any // of the last line
	}{
		{"allowed", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Authorization", "Bearer "+readerToken, "X-Forwarded-For", "192.0.2.7, 127.0.0.9")
		}, map[string]any{
			"msg": "decision", "action": "read", "kind": "module", "address": "net/vpc/aws", "decision": "allowed", "rule": "read:*:**",
			"mode": "static", "subject": "reader", "client_ip": "192.0.2.7",
		}},
		{"denied", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"), "Authorization", "Bearer "+publisherToken)
		}, map[string]any{"decision": "denied", "rule": "", "subject": "publisher", "kind": "provider"}},
		{"by a rule", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"), "Authorization", "Bearer "+i.sign(i.claims(time.Now())))
		}, map[string]any{"decision": "allowed", "rule": "team: read:provider:**", "mode": "oidc", "subject": "repo:acme/terraform-vpc", "issuer": i.URL}},
		{"anonymous", func() { ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions")) }, map[string]any{"decision": "denied", "mode": "anonymous"}},
		{"bad token", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"), "Authorization", "Bearer "+readerToken+"x")
		}, map[string]any{"decision": "denied", "mode": "refused", "subject": "reader"}}, // its id
		{"token of no id", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"), "Authorization", "Bearer oks_nobody_0123456789abcdefghijk")
		}, map[string]any{"decision": "denied", "mode": "refused", "subject": ""}},
		{"change", func() { f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", publisherToken, archive) }, map[string]any{
			"msg": "change", "action": "publish", "address": "net/vpc/aws", "version": "1.0.0", "status": 201.0, "subject": "publisher",
			"decision": "allowed", "rule": "publish:module:net/**",
		}},
		{"change that is there", func() { f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", publisherToken, archive) },
			map[string]any{"msg": "decision", "action": "publish", "decision": "allowed"}},
		{"change that restores", func() {
			lost = true
			f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", publisherToken, archive)
			lost = false
		}, map[string]any{"msg": "change", "action": "publish", "version": "1.0.0", "detail": "lost parts restored", "outcome": "done"}},
		{"other content", func() {
			f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", publisherToken, depottest.ZipOf(t, map[string]string{"main.tf": "# 2"}))
		}, map[string]any{"msg": "refused", "status": 409.0, "outcome": "refused"}},
		{"no module", func() {
			f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.1.0", publisherToken, depottest.ZipOf(t, map[string]string{"a.txt": ""}))
		}, map[string]any{"msg": "refused", "status": 422.0, "outcome": "refused"}},
		{"version", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/1.0.0/download"), "Authorization", "Bearer "+readerToken, "X-Request-Id", "proxy:1")
		}, map[string]any{"version": "1.0.0", "request_id": "proxy:1", "client_ip": "127.0.0.1"}},
		{"forwarded by others", func() {
			ask(t, http.MethodGet, f.url(t, "/v1/modules"), "Authorization", "Bearer "+readerToken, "X-Forwarded-For", "192.0.2.7, 192.0.2.8")
		}, map[string]any{"action": "list", "kind": "module", "address": "", "decision": "allowed", "client_ip": "192.0.2.8"}},
		{"list with a bad token", func() { ask(t, http.MethodGet, f.url(t, "/v1/modules"), "Authorization", "Bearer "+readerToken+"x") },
			map[string]any{"action": "list", "decision": "denied", "mode": "refused"}},
		{"long agent", func() { ask(t, http.MethodGet, f.url(t, "/v1/modules"), "User-Agent", strings.Repeat("x", 20_000)) },
			map[string]any{"user_agent": strings.Repeat("x", 253) + "…"}},
	}
	var seen strings.Builder
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.do()
			text := audit.take()
			seen.WriteString(text)
			line := strings.Split(strings.TrimSpace(text), "\n")
			var got map[string]any
			if err := json.Unmarshal([]byte(line[len(line)-1]), &got); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			fields := []string{
				"action", "address", "client_ip", "decision", "detail", "issuer", "kind", "level", "mode", "msg", "request_id", "rule", "subject", "time", "user_agent", "version",
			}
			if got["msg"] != "decision" {
				fields = append(fields, "digest", "from_version", "lock_id", "outcome", "run", "status")
			}
			must.Match(t, "fields", slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(fields)))
			for k, want := range tt.record {
				if got[k] != want {
					t.Errorf("%s: %v, want %v in %s", k, got[k], want, line[len(line)-1])
				}
			}
		})
	}
	c := &tofutest.Client{Tool: tofutest.OpenTofu(), Token: readerToken}
	link := must.Fixed(c.ModuleLocation(t.Context(), f.url(t, "/v1/modules/"), "net/vpc/aws", "1.0.0"))
	ask(t, http.MethodGet, link)
	bad := *link
	bad.Path += "x" // fails, and is recorded
	ask(t, http.MethodGet, &bad)
	_, exposed := ask(t, http.MethodGet, f.url(t, "/metrics"), "Authorization", "Bearer "+adminToken)
	for _, want := range []string{
		`okara_http_requests_total{code="200",method="GET",route="/archives/{token}/{rest...}"} 1`,
		`okara_downloads_total{address="net/vpc/aws",kind="module",version="1.0.0"} 1`,
		`okara_publish_total{kind="module",result="done"} 3`,
		`okara_publish_total{kind="module",result="Conflict"} 1`,
		`okara_publish_total{kind="module",result="Unprocessable Entity"} 1`,
		`okara_auth_total{decision="denied",mode="anonymous"} 1`,
		`okara_archive_streams 0`,
		`okara_cache_total{kind="list",result="miss"}`,
	} {
		if !strings.Contains(string(exposed), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	token := strings.Split(link.Path, "/")[2]
	for _, text := range []string{seen.String(), audit.take(), log.take(), string(exposed)} {
		for _, secret := range []string{readerToken, publisherToken, token, "0123456789abcdefghij"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", secret, text)
			}
		}
	}
}
