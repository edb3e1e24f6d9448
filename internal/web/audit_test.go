// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// changes records an admin's acts, and hostile records.
func (s *stateSite) changes() {
	for _, c := range [][]any{
		{"action", "publish", "kind", "module", "address", "net/vpc/aws", "version", "1.0.0", "digest", "sha256:" + strings.Repeat("a1", 32), "rule", "publish:module:net/**"},
		{"action", "yank", "kind", "module", "address", "net/vpn/aws", "version", "1.0.0", "rule", "publish:module:net/**"},
		{"action", "reveal", "kind", "state", "address", "<b>\u202e\x1b[31m", "detail", `"><script>alert(1)</script>` + strings.Repeat("long", 100), "rule", "read:state:shop"},
	} {
		s.records.Info("change", append(c, "decision", "allowed", "mode", "oidc", "subject", "anna@example.com", "issuer", "https://issuer.example.com", "client_ip", "192.0.2.7", "status", 201)...)
	}
}

// TestAuditPage: newest first, filters, downloads, no markup of records.
func TestAuditPage(t *testing.T) {
	s := newStateSite(t)
	says := func(path string, want ...string) string {
		t.Helper()
		resp, body := s.ask(t, admin, http.MethodGet, path, nil)
		last := -1
		for _, text := range want {
			at := strings.Index(body, text)
			if resp.StatusCode != http.StatusOK || at <= last {
				t.Errorf("%s: status %d, %q is at %d, after %d, in\n%s", path, resp.StatusCode, text, at, last, body)
			}
			last = at
		}
		return body
	}
	says("audit", "Not protected.", "No changes in the last 90 days.", "audit_log", "okara admin audit")
	s.changes()
	body := says("audit", "3 changes of this replica not yet in the registry", "1 to 3 of 3", "../api/v1/audit?format=csv", "../api/v1/audit?format=jsonl",
		"anna@example.com (issuer.example.com)<", "reveal state", "&lt;b&gt;", "&lt;script&gt;", "Login: oidc https://issuer.example.com", "Address: 192.0.2.7", "yank module", "net/vpn/aws", "net/vpc/aws 1.0.0", "a1a1a1a1a1a1")
	for _, text := range []string{"<b>", "<script>alert", "\u202e", "\x1b"} {
		if strings.Contains(body, text) {
			t.Errorf("%q is in\n%s", text, body)
		}
	}
	if body = says("audit?action=yank", "1 to 1 of 1", "../api/v1/audit?action=yank&amp;format=csv", "net/vpn/aws"); strings.Contains(body, "net/vpc/aws") {
		t.Error("the filter lets through what does not fit")
	}
	s.records.Info("change", "action", "run-destroy", "kind", "instance", "address", "lab/vpc/abc", "outcome", "failed", "mode", "server", "subject", "anna", "detail", "run 2: failed")
	s.records.Info("change", "action", "expired", "kind", "instance", "address", "lab/vpc/abc", "outcome", "done", "mode", "server")
	if body = says("audit?actor=server", "1 to 2 of 2", "the server<", "expired instance", `<span class="mark good">done</span>`, "the server for anna", "run-destroy instance", "run 2: failed", `<span class="mark bad">failed</span>`); strings.Contains(body, "yank") {
		t.Error("what people did is among the acts of the server")
	}
	if body = says("audit?actor=server&outcome=failed&kind=instance&since=2020-01-01", "1 to 1 of 1", "run-destroy"); strings.Contains(body, "expired instance") {
		t.Error("the filter lets through what went well")
	}
	says("audit?actor=otto", "No records match.", `<a href="./audit">Clear`)
	says("audit?what=decisions&kind=state", "No records match.")
	if _, body := s.ask(t, wrong, http.MethodGet, "audit", nil); strings.Contains(body, "anna") {
		t.Error("who may not is told of somebody")
	}
	says("audit?what=decisions&decision=denied", "wrong", `<span class="mark bad">denied</span>`)
	for i := range 250 {
		s.records.Info("change", "action", "publish", "address", fmt.Sprint("many/", i))
	}
	says("audit?page=2", "101 to 200 of 255", "many/149<", `<a rel="prev"`, "page=1", `<a rel="next"`, "page=3")
	for _, path := range []string{"audit?since=yesterday", "audit?page=0", "audit?what=x", "audit?actor=" + strings.Repeat("x", 300)} {
		if resp, body := s.ask(t, admin, http.MethodGet, path, nil); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d\n%s", path, resp.StatusCode, body)
		}
	}
}

// TestAuditUnreadable says at the top that the record is not complete.
//
// Shows: pages 10 | the audit page says that records cannot be read
func TestAuditUnreadable(t *testing.T) {
	s := newStateSite(t)
	queue := s.queue(t)
	tag := auditlog.AuditTag{Day: s.now, ID: "0123456789abcdef", Part: 1}
	must.Succeed(t, auditlog.PutAudit(t.Context(), queue, nil, tag, []byte("{\"format\":9,\"tag\":\"<i>\"}\n")))
	if err := s.auditLog.Read(t.Context()); err != nil { // a page waits only a short time for that
		t.Fatal(err)
	}
	_, body := s.ask(t, admin, http.MethodGet, "audit", nil)
	if !strings.Contains(body, "Cannot read 1 part of the audit log") {
		t.Errorf("nothing is said of it:\n%s", body)
	}
}

func (s *stateSite) queue(t *testing.T) *oci.Repo {
	t.Helper()
	return must.Get(s.client.Repo(s.layout.QueueRepo()))(t)
}
