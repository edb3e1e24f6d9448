// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestInstanceRights: no name without the right, no hint by a refusal, no change by reading.
//
// Shows: pages 4
func TestInstanceRights(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) {
		o.Catalog = portaltest.NewCatalog(t, portaltest.Shop+hidden)
	})
	id := d.Full(t)
	before := d.Store.Commits()
	for _, c := range []struct {
		who    string
		status int    // of the pages of anna's instance
		sees   string // names of instances that the lists may have
		admin  int
	}{
		{"anna", 200, "payments reports shared load orders", 403},
		{"ben", 404, "shared", 403},
		{"reader", 200, "payments reports shared load orders", 403},
		{"approver", 200, "payments reports shared load orders", 403},
		{"admin", 200, "payments reports shared load orders", 200},
		{"stranger", 404, "", 403},
		{"", 401, "", 401},
	} {
		t.Run("as "+c.who, func(t *testing.T) {
			at := "instances/" + id["ready"]
			pages := []string{at, at + "/runs/1", at + "/destroy", at + "/extend", at + "/approve", at + "/reveal?name=password"}
			if c.who == "reader" || c.who == "approver" { // cannot see outputs, so cannot reveal one
				pages = pages[:5]
			}
			for _, path := range pages {
				got := d.Visit(t, c.who, path, nil)
				must.Equal(t, path, got.Status, c.status)
				if c.status != 200 {
					none := d.Visit(t, c.who, strings.Replace(path, id["ready"], "aaaaaaaaaa", 1), nil)
					if a, b := plainBody(got.Body, id["ready"]), plainBody(none.Body, "aaaaaaaaaa"); a != b || none.Status != got.Status {
						t.Errorf("%s tells that it is there:\n%s\n%s", path, a, b)
					}
				}
			}
			for _, path := range []string{"admin/instances", "admin/templates"} {
				if got := d.Visit(t, c.who, path, nil); got.Status != c.admin {
					t.Errorf("%s: %d, want %d", path, got.Status, c.admin)
				}
			}
			for _, path := range []string{"", "templates", "instances", "instances?owner=", "instances?owner=me", "approvals", "me", "templates/shut/vault", "run/shut/vault", "search?q=vault"} {
				body := d.Visit(t, c.who, path, nil).Body
				if path != "templates/shut/vault" && path != "run/shut/vault" && strings.Contains(body, "vault") && c.who != "admin" && !strings.HasPrefix(path, "search") {
					t.Errorf("%s names a template that is not the caller's to see", path)
				}
				for _, name := range []string{"payments", "reports", "shared", "load test", "orders"} {
					if strings.Contains(body, name+" ") && !strings.Contains(c.sees, strings.Fields(name)[0]) {
						t.Errorf("%s names %s", path, name)
					}
				}
			}
		})
	}
	for _, path := range []string{"templates/shut/vault", "run/shut/vault"} {
		none := strings.Replace(path, "vault", "none0", 1)
		if a, b := d.Open(t, 404, "anna", path, nil), d.Open(t, 404, "anna", none, nil); plainBody(a.Body, "vault") != plainBody(b.Body, "none0") {
			t.Errorf("%s tells that it is there", path)
		}
	}
	if d.Store.Commits() != before {
		t.Error("looking changed something")
	}
}

// hidden is a template that only the admin may see.
const hidden = `
template "shut/vault" {
  title = "The vault"
  module { address = "net/vpc/aws" }
}
`

// plainBody returns the text of a page, without the name that was requested.
func plainBody(body, name string) string {
	_, main, _ := strings.Cut(body, "<main")
	main, _, _ = strings.Cut(main, `<p class="note">Request`)
	return strings.ReplaceAll(main, name, "ID")
}

// TestReaders shows no values, logs or plans to callers that may only read.
func TestReaders(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Shop) })
	id := d.Full(t)
	for _, path := range []string{"instances/" + id["ready"], "instances/" + id["working"], "instances/" + id["working"] + "/runs/1", "instances/" + id["planned"] + "/runs/1", "instances/" + id["failed"]} {
		body := d.Shows(t, "reader", path)
		for _, secret := range []string{"vpc.example.com", "Creation complete", "large", "too short", "<button>", "Destroy", "aws_db_instance", "hunter2"} {
			if strings.Contains(body[strings.Index(body, "<main"):], secret) {
				t.Errorf("%s shows %q to a reader", path, secret)
			}
		}
	}
	form := d.Fill(t, "anna", "instances/"+id["ready"]+"/extend")
	if got := d.Visit(t, "reader", "instances/"+id["ready"]+"/extend", form); got.Status != 303 || got.Location != "./../../instances/"+id["ready"] {
		t.Errorf("a reader extends: %d %s", got.Status, got.Location)
	}
	if n := d.Store.Record(t, id["ready"]).Extends; n != 0 {
		t.Errorf("extended %d times", n)
	}
}

// TestShowSensitive shows a sensitive output once, to the owner, and records it.
func TestShowSensitive(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Shop) })
	at := "instances/" + d.Full(t)["ready"]
	page := at + "/reveal?name=password"
	if body := d.Shows(t, "anna", page, "is sensitive", "audit log"); strings.Contains(body, "correct horse") {
		t.Error("shown before it was asked for")
	}
	if strings.Contains(d.Audit.String(), `"action":"reveal"`) {
		t.Error("looking at the form was recorded as a reveal")
	}
	got := d.Open(t, 200, "anna", at+"/reveal", d.Fill(t, "anna", page, "name", "password"))
	if !strings.Contains(got.Body, "correct horse") || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", got.Header, got.Body)
	}
	if audit := d.Audit.String(); !strings.Contains(audit, `"action":"reveal"`) || strings.Contains(audit, "correct horse") {
		t.Error("the audit log has no reveal, or the value")
	}
	d.Open(t, 403, "admin", at+"/reveal", d.Fill(t, "anna", page, "name", "password"))
	d.Open(t, 404, "anna", at+"/reveal?name=none", nil)
}

// TestNoLeader sends a form again after its answer was lost: it is applied only once.
func TestNoLeader(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	form := d.Fill(t, "anna", "run/lab/vpc", "p.size", "small")
	d.Store.Break(nil, true) // it is done, but the answer is lost
	got := d.Open(t, 503, "anna", "run/lab/vpc", form)
	if !strings.Contains(got.Body, "it is applied only once") || portaltest.KeyOf(got.Body) != form.Get("key") {
		t.Error(got.Body)
	}
	d.Store.Break(nil, false)
	d.Open(t, 303, "anna", "run/lab/vpc", form)
	v, err := d.Store.View(t.Context())
	if err != nil || len(v.Document.Records) != 1 {
		t.Errorf("%d instances, %v", len(v.Document.Records), err)
	}
	form.Set("p.size", "large") // the user went back and changed it
	body := d.Open(t, 422, "anna", "run/lab/vpc", form).Body
	if !strings.Contains(body, "already sent") || portaltest.KeyOf(body) == form.Get("key") {
		t.Error(body)
	}
	d.Store.Break(fmt.Errorf("the store: %w", errors.ErrUnsupported), false)
	d.Open(t, 501, "anna", "run/lab/vpc", d.Fill(t, "anna", "run/lab/vpc"))
}

// TestPauseByPage stops and allows new instances of a template.
func TestPauseByPage(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Send(t, "admin", "admin/templates", "templates/lab/vpc/pause")
	d.Shows(t, "admin", "admin/templates", "paused", "Resume")
	if body := d.Shows(t, "anna", "run/lab/vpc", "Paused"); strings.Contains(body, "<button class=\"primary\">") {
		t.Error("a paused template has a form")
	}
	d.Send(t, "admin", "admin/templates", "templates/lab/vpc/resume")
	d.Shows(t, "anna", "run/lab/vpc", "<button class=\"primary\">Launch")
	d.Open(t, 403, "anna", "templates/lab/vpc/pause", d.Fill(t, "admin", "admin/templates"))
}

// TestHostilePages shows user-written text as plain text.
func TestHostilePages(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Shop) })
	id := d.Full(t)
	d.Store.Serve(t, lifecycle.ExpireCheck{ID: id["evil"]})
	for _, path := range []string{"templates", "templates/lab/evil", "run/lab/evil", "run/lab/evil?p.zone=" + url.QueryEscape(`"><script>alert(1)</script>`), "instances", "instances/" + id["evil"], "instances/" + id["evil"] + "/destroy", "instances/" + id["working"], "instances?template=" + url.QueryEscape(`"><script>`)} {
		body := d.Open(t, 200, "anna", path, nil).Body
		for _, bad := range []string{"<script>alert", "<b>bold", "<img", "<i>zone", "<u>help", "\x1b", "\u202e", `"><script>`} {
			if strings.Contains(strings.Replace(body, "<img src=\"./", "", 1), bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
}

// TestApproveChange shows the approver of a change the new values, the module and its digest,
// the requester and the reason, and the whole plan with its lines marked by effect.
//
// Shows: platform 9
func TestApproveChange(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Catalog.Change("lab/vpc", func(e *template.Entry) {
		changed := *e.Template
		changed.Approval = template.ApprovalRequest
		digest := must.Get(changed.Digest())(t)
		e.Template, e.Digest = &changed, digest
	})
	var instance api.Instance
	d.Want(t, 202, &instance, d.Tokens["anna"], "POST", "instances", `{"template":"lab/vpc","parameters":{"size":"small"},"reason":"for the course"}`)
	at := "instances/" + instance.ID
	d.Shows(t, "approver", at+"/approve", "for the course", `<th scope="col">Value</th>`, "small", "sha256:1", "8 h", "Reject …")
	d.Send(t, "approver", at+"/approve", at+"/approve", "plan", lifecycle.Awaits(d.Store.Record(t, instance.ID)))
	d.Store.Finish(t, instance.ID, lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true})
	d.Send(t, "anna", at+"/update", at+"/update", "p.size", "large", "version", "newest", "reason", "<b>more load</b>")
	d.Shows(t, "anna", at, "change waiting for approval", "an update")
	list := d.Shows(t, "approver", "approvals", "<strong>Name of anna</strong> wants to change", "&lt;b&gt;more load&lt;/b&gt;", "<code>small</code> → <code>large</code>", at+"/approve", at+"/reject", "0.50 EUR an hour")
	if strings.Contains(list, "secret") {
		t.Error("the list shows what does not change")
	}
	body := d.Shows(t, "approver", at+"/approve", "&lt;b&gt;more load&lt;/b&gt;", "small", "large", "changes", "Then</th>", "Reject …")
	if strings.Contains(body, "<b>more load") {
		t.Error("a reason is HTML")
	}
	if r := d.Store.Record(t, instance.ID); r.Run != nil || r.Pending == nil {
		t.Fatalf("it runs before anybody agreed: %+v", r.Run)
	}
	d.Send(t, "approver", at+"/approve", at+"/approve", "plan", lifecycle.Awaits(d.Store.Record(t, instance.ID)))
	if r := d.Store.Record(t, instance.ID); r.Phase != lifecycle.Updating || string(r.Run.Parameters["size"]) != `"large"` {
		t.Errorf("%s %+v", r.Phase, r.Run)
	}
}
