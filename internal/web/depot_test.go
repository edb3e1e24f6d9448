// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/statebackend"
)

type depotDouble struct {
	view     web.DepotView
	synced   int
	approved []web.Approval
	result   web.Approved
	err      error
}

func (d *depotDouble) Depot(context.Context) (web.DepotView, error) { return d.view, nil }

func (d *depotDouble) Sync() bool {
	if d.view.Runs {
		d.synced++
	}
	return d.view.Runs
}

func (d *depotDouble) Approve(_ context.Context, a web.Approval) (web.Approved, error) {
	if d.err == nil {
		d.approved = append(d.approved, a)
	}
	return d.result, d.err
}

const waitingDigest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// fill sets one of each kind, hostile data included.
func (d *depotDouble) fill(now time.Time) {
	const evil = "\"'></td><script>alert(1)</script>\u202e\x1b[31m"
	d.view = web.DepotView{
		Runs: true, Next: now.Add(42 * time.Minute), Lock: "acme/queue",
		Last: web.DepotRun{Ended: now.Add(-18 * time.Minute), Failures: []web.DepotFailure{{Entry: "module net/gone/aws", Reason: "no such repository " + evil}}, More: 7},
		Held: &statebackend.Held{Workspace: "depot", Info: statebackend.LockInfo{ID: "build-7-1-x", Who: "okara serve on build-7", Created: now.Add(-2 * time.Minute)}},
		Entries: []web.DepotEntry{
			{Name: "module net/vpc/aws", Constraint: ">= 1.2.0, < 3.0.0", Origin: "https://github.com/acme/terraform-aws-vpc", Declared: true, Newest: "1.3.0", Published: 4, Waiting: 1},
			{Name: "mirror registry.example.com/acme/dns", Origin: "registry.opentofu.org", Declared: true, Newest: "0.14.0", Published: 9, Blocked: 1, Drifted: 1},
			{Name: "module net/old/aws", Newest: "0.1.0", Published: 1},
			{Name: "module " + evil, Constraint: evil, Origin: evil, Declared: true},
		},
		Versions: []web.DepotVersion{
			{Approval: web.Approval{Entry: "module net/vpc/aws", Version: "1.4.0", Digest: waitingDigest}, State: "waiting", Reason: "waiting for approval", Since: now.Add(-50 * time.Hour)},
			{Approval: web.Approval{Entry: "mirror registry.example.com/acme/dns", Version: "0.14.1", Digest: waitingDigest}, State: "blocked", Reason: "trivy found 1 critical"},
			{Approval: web.Approval{Entry: "mirror registry.example.com/acme/dns", Version: "0.13.0", Digest: waitingDigest}, State: "drift", Reason: "tag v0.13.0 of the origin moved", Since: now.Add(-3 * time.Hour)},
			{Approval: web.Approval{Entry: "module " + evil, Version: evil, Digest: evil}, State: "waiting", Reason: evil},
		},
	}
}

// TestDepotCallers shows the depot to administrators, and lets no other caller run it or
// approve.
//
// Shows: pages 4
func TestDepotCallers(t *testing.T) {
	s := newStateSite(t)
	s.depots.fill(s.now)
	_, body := s.ask(t, admin, http.MethodGet, "depot", nil)
	key := formKey(t, body)
	approval := url.Values{"key": {key}, "entry": {"module net/vpc/aws"}, "version": {"1.4.0"}, "digest": {waitingDigest}}
	for caller, want := range map[string]int{nobody: http.StatusSeeOther, reader: http.StatusForbidden, publisher: http.StatusForbidden, wrong: http.StatusForbidden, admin: http.StatusOK} {
		resp, body := s.ask(t, caller, http.MethodGet, "depot", nil)
		if resp.StatusCode != want || strings.Contains(body, "terraform-aws-vpc") != (want == http.StatusOK) {
			t.Errorf("as %q: status %d, want %d\n%s", caller, resp.StatusCode, want, body)
		}
		if _, body = s.ask(t, caller, http.MethodGet, "me", nil); strings.Contains(body, `href="./depot"`) != (caller == admin) {
			t.Errorf("the menu of %q is\n%s", caller, body)
		}
		if caller == admin {
			continue
		}
		for path, form := range map[string]url.Values{"depot/sync": {"key": {key}}, "depot/approve": approval} {
			if resp, _ := s.ask(t, caller, http.MethodPost, path, form); resp.StatusCode != want {
				t.Errorf("%s as %q: status %d, want %d", path, caller, resp.StatusCode, want)
			}
		}
	}
	if s.depots.synced != 0 || len(s.depots.approved) != 0 {
		t.Errorf("%d runs and %v without the right", s.depots.synced, s.depots.approved)
	}
	if n := s.count.Take(); len(n) != 0 {
		t.Errorf("the page asks the registry beside its depot: %v", n)
	}
}

// TestDepotPage shows each part once, and no text is markup.
func TestDepotPage(t *testing.T) {
	s := newStateSite(t)
	s.depots.fill(s.now)
	_, body := s.ask(t, admin, http.MethodGet, "depot", nil)
	for _, text := range []string{
		"okara serve on build-7 runs now", "okara state unlock", "in 42 min", "18 minutes ago", "7 more are in the log", "&gt;= 1.2.0, &lt; 3.0.0",
		"https://github.com/acme/terraform-aws-vpc", "every release", "1 waiting", "1 blocked", "1 drifted", "not in the file", "2 days ago", "trivy found 1 critical",
		"okara depot approve registry.example.com/acme/dns@0.14.1", "tag v0.13.0 of the origin moved", "okara depot status --registry okara.example.com",
		`name="digest" value="` + waitingDigest + `"`, `href="./modules/net/vpc/aws"`, `href="./mirror/registry.example.com/acme/dns"`, "&lt;script&gt;alert(1)",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("%q is missing", text)
		}
	}
	must.Equal(t, "versions can be approved", strings.Count(body, `action="./depot/approve"`), 1)
	for _, text := range []string{"<script>alert", "\u202e", "\x1b"} {
		if strings.Contains(body, text) {
			t.Errorf("%q is in the page", text)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

// TestDepotForms requests a run and approves, each once per click, and records both.
func TestDepotForms(t *testing.T) {
	s := newStateSite(t)
	s.depots.fill(s.now)
	_, body := s.ask(t, admin, http.MethodGet, "depot", nil)
	form := func(fields ...string) url.Values {
		all := url.Values{"key": {formKey(t, body)}, "entry": {"module net/vpc/aws"}, "version": {"1.4.0"}, "digest": {waitingDigest}}
		for i := 0; i < len(fields); i += 2 {
			all.Set(fields[i], fields[i+1])
		}
		return all
	}
	send := func(path string, form url.Values, want int, says string) {
		t.Helper()
		resp, body := s.ask(t, admin, http.MethodPost, path, form)
		if resp.StatusCode != want || !strings.Contains(body, says) || want == http.StatusSeeOther && !strings.HasSuffix(resp.Header.Get("Location"), "/depot") {
			t.Errorf("%s: status %d to %q, want %d and %q\n%s", path, resp.StatusCode, resp.Header.Get("Location"), want, says, body)
		}
	}
	s.audit.Reset()
	send("depot/sync", form(), http.StatusSeeOther, "")
	send("depot/sync", form("key", "x"), http.StatusBadRequest, "")
	send("depot/approve", form(), http.StatusSeeOther, "")
	if s.depots.synced != 1 || len(s.depots.approved) != 1 || s.depots.approved[0] != (web.Approval{Entry: "module net/vpc/aws", Version: "1.4.0", Digest: waitingDigest}) {
		t.Errorf("%d runs, approved %v", s.depots.synced, s.depots.approved)
	}
	if got := strings.Count(s.audit.String(), `"msg":"change"`); got != 2 || !strings.Contains(s.audit.String(), `"action":"sync"`) || !strings.Contains(s.audit.String(), `"version":"1.4.0","from_version":"","digest":"`+waitingDigest+`","lock_id":"","run":0,"detail":"module"`) {
		t.Errorf("%d changes are recorded: %s", got, s.audit)
	}
	for _, wrong := range []url.Values{form("entry", "net/vpc/aws"), form("entry", "module ../x"), form("version", "v1.4.0"), form("version", "")} {
		send("depot/approve", wrong, http.StatusBadRequest, "the form has no version")
	}
	s.depots.err = &service.Error{Status: http.StatusConflict, Text: "it is not what was shown"}
	send("depot/approve", form(), http.StatusConflict, "it is not what was shown")
	s.depots.err, s.depots.result = nil, web.Approved{Before: true}
	s.audit.Reset()
	send("depot/approve", form(), http.StatusSeeOther, "")
	if strings.Contains(s.audit.String(), `"msg":"change"`) {
		t.Errorf("what changed nothing is recorded as a change: %s", s.audit)
	}
	s.depots.view.Runs = false
	send("depot/sync", form(), http.StatusSeeOther, "")
	if s.depots.synced != 1 {
		t.Error("a replica without a depot was asked to run")
	}
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/ui/depot/sync", strings.NewReader(form().Encode())))(t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+callerToken(admin))
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	resp.Body.Close()
	must.Equal(t, "a form of another site: status", resp.StatusCode, http.StatusForbidden)
}

// TestDepotEnds shows an empty depot, and one with more than a page can show.
func TestDepotEnds(t *testing.T) {
	s := newStateSite(t)
	says := func(path string, want ...string) {
		t.Helper()
		resp, body := s.ask(t, admin, http.MethodGet, path, nil)
		for _, text := range want {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: status %d, no %q in\n%s", path, resp.StatusCode, text, body)
			}
		}
	}
	says("depot", "No depot has filled this registry yet, and this replica runs no depot file", "okara serve --depot depot.hcl")
	s.depots.view.Runs = true
	says("depot", "names no module and no provider yet", "No version is waiting", "No run is active", "It has not finished a run", "Run now")
	s.depots.view.Problem = "depot.hcl:3: Unsupported argument"
	says("depot", "The depot file cannot be used", "depot.hcl:3")
	for i := range 250 {
		name := fmt.Sprintf("module net/m%03d/aws", i)
		s.depots.view.Entries = append(s.depots.view.Entries, web.DepotEntry{Name: name, Declared: true, Waiting: 1})
		s.depots.view.Versions = append(s.depots.view.Versions, web.DepotVersion{Approval: web.Approval{Entry: name, Version: "1.0.0", Digest: waitingDigest}, State: "waiting"})
	}
	says("depot", "1 to 100 of 250", "?held=2", "?page=2")
	says("depot?held=3&page=2", "201 to 250 of 250", "101 to 200 of 250", "?held=2&amp;page=2", "?held=3&amp;page=3")
	s.depots.view.Runs, s.depots.view.Problem = false, ""
	says("depot", "runs no depot file", "net/m007/aws", "not known here")
}
