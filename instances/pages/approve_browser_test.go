// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

const approving = "oks_boss_cccccccccccccccccccccccc"

func newApproval(t *testing.T) *portaltest.Pages {
	t.Helper()
	return portaltest.NewPages(t, func(_ *portal.Options, p *access.Policy) {
		boss := statictoken.Token{ID: "boss", Hash: sha256.Sum256([]byte(approving)), Scopes: webtest.Rule(t, "approve", "approve:instance:lab/*").Allow}
		p.Tokens = []statictoken.Token{annasToken(t), boss}
	})
}

// TestBrowserApproveVersion: the module's changes, the worst first.
func TestBrowserApproveVersion(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := newApproval(t)
		id := asked(t, d, `{"version":"1.1.0","reason":"more load"}`)
		tab := loggedAs(t, b, d, approving, script, "instances/"+id+"/approve")
		tab.Wait("What changes in the module")
		tab.Wait("2 of these break callers.")
		text := tab.Text()
		for _, want := range []string{"region", "string, required", "breaks", "host", "removed", "backup", "bool, default false", "Compare version 1.0.0 with 1.1.0", "more load"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q:\n%s", want, text)
			}
		}
		if strings.Index(text, "host") > strings.Index(text, "backup") {
			t.Error("what breaks nothing stands first")
		}
		tab.To("Approve")
		tab.Enter()
		tab.Wait("Approved.")
	})
}

// TestBrowserPlan reads a plan by resource, what is destroyed first, and as text.
func TestBrowserPlan(t *testing.T) {
	b := webtest.New(t)
	for _, width := range []int{1440, 375} {
		for _, script := range []bool{true, false} {
			d := newApproval(t)
			id := d.Launch(t, "anna", `{"template":"lab/planned"}`)
			d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:" + strings.Repeat("a1", 32), Counts: &lifecycle.Counts{Add: 1, Change: 1, Remove: 2, Replace: 1, Import: 1, Forget: 1}, Notes: portaltest.Noted()})
			tab := b.Tab(t, d.Pages.URL+"/ui/instances/"+id+"/approve", webtest.Look{Width: width, Theme: "light", Script: script})
			tab.Wait("A token of this server")
			tab.To("Token")
			tab.Press(approving)
			tab.Enter()
			tab.Wait("+1~1−21 imported1 forgotten")
			tab.Wait("the site answers 503")
			at := -1
			for _, want := range []string{"aws_db_instance.main", `module.web.aws_instance.this["a"]`, ". aws_kms_key.main", "aws_security_group.web", "← aws_s3_bucket.logs", "data.aws_region.here", "outputs"} {
				if i := strings.Index(tab.Text(), want); i < at {
					t.Errorf("%s comes too early, or is not there:\n%s", want, tab.Text())
				} else {
					at = i
				}
			}
			if script {
				tab.To("Show only")
				tab.Press("destroyed")
				tab.Wait("2 of 8")
				if text := tab.Text(); strings.Contains(text, "aws_security_group.web") || strings.Contains(text, "forces replacement") {
					t.Errorf("it is shown and not asked for, or not folded:\n%s", text)
				}
			}
			tab.To("Text")
			tab.Enter()
			tab.Wait("OpenTofu will perform the following actions")
			tab.To("Approve")
			tab.Enter()
			tab.Wait("Approved.")
		}
	}
}

// TestBrowserStays: what somebody copies keeps its button and the focus while the rest changes.
func TestBrowserStays(t *testing.T) {
	d, tab, id := launch(t, webtest.New(t), true)
	d.Ready(t, id)
	tab.Wait("20:00 UTC")
	d.Want(t, 200, nil, personal, "POST", "instances/"+id+"/update", `{"version":"1.1.0"}`)
	tab.Go(d.Pages.URL + tab.Path())
	tab.Wait("being updated")
	copied := tab.Clipboard()
	tab.To("Copy ")
	tab.Enter()
	if text := copied(); text == "" {
		t.Error("nothing was copied")
	}
	d.Ready(t, id)
	tab.Wait("ready: run 2, requested by anna")
	tab.Focused("Copy ")
	must.Equal(t, "the focused element", tab.Element(), "button")
}

// TestBrowserComments: comment and reason reach the requester, and back.
func TestBrowserComments(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := newApproval(t)
		id := asked(t, d, `{"version":"1.1.0","reason":"more load"}`)
		at := "instances/" + id
		boss := loggedAs(t, b, d, approving, script, at+"/approve")
		boss.Wait("more load")
		boss.To("Comment")
		boss.Press("until")
		boss.Enter()
		boss.Press("Friday")
		boss.To("Approve")
		boss.Enter()
		boss.Wait("Approved.")
		boss.Wait("commented by boss: until\nFriday")
		d.Shows(t, "anna", at, "commented by boss: until\nFriday")
		d.Ready(t, id)
		d.Want(t, 202, nil, d.Tokens["anna"], "POST", at+"/update", `{"version":"1.0.0","reason":"it is slow"}`)
		boss.Go(d.Pages.URL + "/ui/" + at + "/reject")
		boss.Wait("The requester can read the reason")
		boss.To("Reason")
		boss.Press("go on with the new one")
		boss.To("Reject")
		boss.Enter()
		boss.Wait("Rejected.")
		d.Shows(t, "anna", at, "rejected by boss: go on with the new one", "rejected: go on with the new one")
	})
}

// TestBrowserOffer offers an instance as one user and takes it as another.
//
// Shows: platform 4
func TestBrowserOffer(t *testing.T) {
	const bens = "oks_ben_bbbbbbbbbbbbbbbbbbbbbbbb"
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := portaltest.NewPages(t, func(_ *portal.Options, p *access.Policy) {
			ben := statictoken.Token{ID: "ben", Hash: sha256.Sum256([]byte(bens)), Scopes: annasToken(t).Scopes}
			p.Tokens = []statictoken.Token{annasToken(t), ben}
		})
		tab := logged(t, b, d, script, "run/lab/vpc?p.size=large")
		tab.Wait("The link that you followed")
		tab.To("Name")
		tab.Press("net one")
		tab.To("Launch")
		tab.Enter()
		tab.Wait("Log of run 1")
		id := strings.TrimPrefix(tab.Path(), "/ui/instances/")
		d.Ready(t, id)
		tab.Wait("20:00 UTC")
		tab.To("More")
		tab.Enter()
		tab.To("Transfer …")
		tab.Enter()
		tab.Wait("Somebody else has a week to take it")
		tab.To("Someone else")
		tab.Press("ben")
		tab.To("Transfer")
		tab.Enter()
		tab.Wait("not used this portal since")
		his := loggedAs(t, webtest.New(t), d, bens, script, "instances")
		his.Wait("You have none.")
		tab.To("Transfer")
		tab.Enter()
		tab.Wait("It is offered to ben")
		if o := d.Store.Record(t, id).Owner; o.ID != "anna" {
			t.Errorf("it is %+v's before he took it", o)
		}
		his.Go(d.Pages.URL + "/ui/instances")
		his.Wait("offered by anna until")
		his.To("net one")
		his.Enter()
		his.Wait("anna offers it to ben")
		if text := his.Text(); strings.Contains(text, "large") || strings.Contains(text, "vpc.example.com") {
			t.Errorf("he sees values before he takes it:\n%s", text)
		}
		his.To("Take it")
		his.Enter()
		his.Wait("Open it")
		his.Wait("taken by ben: user ben")
		if o := d.Store.Record(t, id).Owner; o.ID != "ben" {
			t.Errorf("it is %+v's", o)
		}
	})
}

const nightly = `
template "lab/night" {
  module { address = "net/vpc/aws" }
  ttl { default = "720h" }
  schedule {
    variable = "enabled"
    stopped  = false
    started  = true
    stop     = "0 20 * * 1-5"
    start    = "0 7 * * 1-5"
    timezone = "Europe/Berlin"
  }
}
`

// shows checks what a page shows to an admin, and what it does not show.
func shows(t *testing.T, d *portaltest.Pages, path string, has, lacks []string) {
	t.Helper()
	body := d.Shows(t, "admin", path, has...)
	for _, text := range lacks {
		if strings.Contains(body, text) {
			t.Errorf("%s says %q", path, text)
		}
	}
}

// TestBrowserSwitch stops and starts by buttons; lists show until when.
func TestBrowserSwitch(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := portaltest.NewPages(t, func(o *portal.Options, p *access.Policy) {
			o.Catalog = portaltest.NewCatalog(t, nightly)
			p.Tokens = []statictoken.Token{annasToken(t)}
		})
		tab := logged(t, b, d, script, "run/lab/night")
		tab.Wait("Launch lab/night")
		tab.To("Name") // past the menu, which also has a "Launch"
		tab.To("Launch")
		tab.Enter()
		tab.Wait("Log of run 1")
		at := tab.Path()
		id := at[len("/ui/instances/"):]
		d.Ready(t, id)
		tab.Go(d.Pages.URL + at)
		tab.Wait("Open it")
		tab.To("Stop")
		tab.Enter()
		tab.Wait("The instance is being stopped.")
		d.Ready(t, id)
		tab.Go(d.Pages.URL + at)
		tab.Wait("It was stopped to save what it costs.")
		shows(t, d, "instances/"+id, []string{"stopped until Mon 07:00", ">Start</button>"}, []string{">Open it<", ">Stop</button>"})
		shows(t, d, "instances?owner=", []string{"stopped until Mon 07:00"}, []string{">Open it<"})
		tab.To("Start")
		tab.Enter()
		tab.Wait("The instance is being started.")
		d.Ready(t, id)
		tab.Go(d.Pages.URL + at)
		tab.Wait("Open it")
		shows(t, d, "instances/"+id, []string{">Stop</button>", ">Open it<"}, []string{">Start</button>", "stopped until"})
	})
}

// TestBrowserConditional by keyboard: fields come and go with script, conditions show without.
func TestBrowserConditional(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := newConditional(t)
		tab := logged(t, b, d, script, "run/lab/when")
		tab.Wait("Launch lab/when")
		shown := func(when string, yes bool, labels ...string) {
			t.Helper()
			for _, label := range labels {
				if got := strings.Contains(tab.Text(), label); got != (yes || !script) {
					t.Errorf("%s: %s is there: %t", when, label, got)
				}
			}
		}
		shown("small", false, "Nodes", "Tags", "Where it is.")
		tab.To("Size")
		tab.Press(kb.ArrowDown)
		shown("large", true, "Nodes")
		shown("of one node", false, "Tags")
		tab.To("Nodes")
		tab.Press("3.0")
		shown("of three nodes", true, "Tags")
		tab.To("Add to Tags")
		tab.Enter()
		tab.Wait("Remove")
		tab.To("Tags 1")
		tab.Press("kept")
		tab.To("Managed")
		tab.Press(" ")
		shown("not managed", true, "Where it is.")
		tab.To("Zone")
		tab.Press("west")
		tab.To("Size")
		tab.Press(kb.ArrowUp)
		shown("small again", false, "Nodes", "Tags")
		tab.Press(kb.ArrowDown)
		tab.To("Launch")
		tab.Enter()
		tab.Wait("Log of run 1")
		holds(t, parameters(t, d), map[string]string{"size": `"large"`, "count": "3.0", "tags": `["kept"]`, "enabled": "false", "zone": `"west"`})
	})
}

// TestBrowserParts fills lists, maps and objects with the keyboard, adding and removing rows.
func TestBrowserParts(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d := newKeys(t)
		tab := logged(t, b, d, script, keysForm)
		tab.Wait("Launch lab/keys")
		for _, tag := range []string{"one", "two"} {
			tab.To("Add to tags")
			tab.Enter()
			tab.Wait("Remove")
			tab.To("tags " + map[string]string{"one": "1", "two": "2"}[tag])
			tab.Press(tag)
		}
		tab.To("Remove tags 1")
		tab.Enter()
		tab.Gone("Remove tags 2")
		tab.To("Add to Disks")
		tab.Enter()
		tab.Wait("size")
		tab.To("Disks 1 size")
		tab.Press("10")
		tab.To("Add to Disks 1 tags")
		tab.Enter()
		tab.To("Disks 1 tags 1")
		tab.Press("hot")
		tab.To("Place zone")
		tab.Press("west")
		tab.Enter()
		tab.Wait("Log of run 1")
		got := parameters(t, d)
		for name, want := range map[string]string{"tags": `["two"]`, "labels": `{"team":"a"}`, "disks": `[{"size":10,"tags":["hot"]}]`, "place": `{"zone":"west"}`} {
			if string(got[name]) != want {
				t.Errorf("%s is %s, want %s", name, got[name], want)
			}
		}
	})
}

// TestBrowserChange changes one value beside a list, wide and on a phone: the page says what, the
// list stays.
func TestBrowserChange(t *testing.T) {
	b := webtest.New(t)
	for _, width := range []int{1440, 375} {
		for _, script := range []bool{true, false} {
			t.Run(fmt.Sprintf("width %d, script %t", width, script), func(t *testing.T) {
				d := newKept(t, regions())
				d.Tokens["anna"] = personal
				id := d.Launch(t, "anna", `{"template":"lab/kept","parameters":{"x":["eu-central-1","us-west-2"]}}`)
				d.Ready(t, id)
				tab := b.Tab(t, d.Pages.URL+"/ui/instances/"+id+"/update", webtest.Look{Width: width, Theme: "light", Script: script})
				tab.Wait("A token of this server")
				tab.To("Token")
				tab.Press(personal)
				tab.Enter()
				tab.Wait("You change nothing yet.")
				tab.To("count")
				tab.Press("3")
				if !script {
					tab.To("Show what changes")
					tab.Enter()
				}
				tab.Wait("count 1 → 3")
				if script {
					tab.To("Remove x 2")
					tab.Enter()
					tab.Wait(`x ["eu-central-1","us-west-2"] → ["eu-central-1"]`)
					tab.To("Add to x")
					tab.Enter()
					tab.To("x 2")
					tab.Press("us-west-2")
				}
				tab.To("Change")
				tab.Enter()
				tab.Wait("The instance is being changed.")
				if got := stored(t, d, id); string(got["count"]) != "3" || string(got["x"]) != `["eu-central-1","us-west-2"]` {
					t.Errorf("stored %s", got)
				}
				d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
			})
		}
	}
}
