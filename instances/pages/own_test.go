// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
)

// TestHomeInstances shows a user's own live instances.
func TestHomeInstances(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	home := func(who string) string {
		t.Helper()
		return d.Open(t, http.StatusOK, who, "", nil).Body
	}
	if strings.Contains(home("anna"), "Your instances") {
		t.Error("who has none has a list of them")
	}
	launched := d.Launch(t, "anna", `{"template":"lab/vpc","name":"<b>mine</b>","parameters":{"secret":"hunter2hunter2"}}`)
	d.Ready(t, launched)
	other := d.Launch(t, "ben", `{"template":"lab/vpc","name":"of ben","parameters":{"secret":"hunter2hunter2"}}`)
	before := d.Store.Commits()
	body := home("anna")
	for _, text := range []string{`Your instances <span class="count">1</span>`, `href="./instances/` + launched, "&lt;b&gt;mine&lt;/b&gt;", "ready", "8 h</time> left", "lab/vpc"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page of anna lacks %q", text)
		}
	}
	if strings.Contains(body, other) || strings.Contains(body, "of ben") || strings.Contains(body, "hunter2") {
		t.Error("the page of anna tells of another's, or a secret")
	}
	for _, who := range []string{"reader", "stranger"} { // may read all of them; may read none
		if body := d.Visit(t, who, "", nil).Body; strings.Contains(body, launched) || strings.Contains(body, "of ben") {
			t.Errorf("the page of %s has instances of others", who)
		}
	}
	d.Send(t, "anna", "instances/"+launched+"/destroy", "instances/"+launched+"/destroy", "typed", "<b>mine</b>")
	d.Store.Serve(t, lifecycle.Ended{Ref: d.Store.Start(t, launched), Result: lifecycle.Result{Outcome: lifecycle.Done}})
	if body := home("anna"); strings.Contains(body, launched) {
		t.Error("what was destroyed is still listed")
	}
	if n := d.Store.Commits(); n == before {
		t.Error("nothing was destroyed")
	}
}

// TestRejectedPlan: rejected by an approver is not cancelled.
func TestRejectedPlan(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	launched := d.Launch(t, "anna", `{"template":"lab/planned"}`)
	plan := "sha256:" + strings.Repeat("a1", 32)
	d.Store.Finish(t, launched, lifecycle.Result{Outcome: lifecycle.Done, Plan: plan, Counts: &lifecycle.Counts{Add: 2}})
	d.Send(t, "approver", "instances/"+launched+"/reject", "instances/"+launched+"/reject", "reason", "too many machines")
	body := d.Shows(t, "anna", "instances/"+launched, "too many machines", `<span class="mark plain">rejected</span>`)
	if strings.Contains(body, ">cancelled<") {
		t.Error("what was rejected is called cancelled")
	}
	var runs api.Runs
	d.Want(t, 200, &runs, d.Tokens["anna"], "GET", "instances/"+launched+"/runs", "")
	if len(runs.Runs) != 1 || runs.Runs[0].Result != "rejected" || runs.Runs[0].Error != "rejected: too many machines" {
		t.Errorf("the API says %+v", runs.Runs)
	}
}

// newShop has templates as a platform team would write them.
func newShop(t *testing.T) *portaltest.Pages {
	t.Helper()
	return portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Shop) })
}

// TestHomeApprovals counts what waits for the caller.
func TestHomeApprovals(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	const heading = `Needs your approval <span class="count">1</span>`
	of := func(who string) string {
		t.Helper()
		return d.Open(t, http.StatusOK, who, "", nil).Body
	}
	if strings.Contains(of("approver"), "Needs your approval") {
		t.Error("nothing waits, and the page says that something does")
	}
	launched := d.Launch(t, "anna", `{"template":"lab/asked","name":"render farm"}`)
	d.Launch(t, "approver", `{"template":"lab/asked","name":"own one"}`)
	body := of("approver")
	_, section, _ := strings.Cut(body, heading)
	section, _, _ = strings.Cut(section, "</section>")
	for _, text := range []string{"render farm", `href="./instances/` + launched + `/approve"`, `/reject"`, "<strong>Name of anna</strong> wants to launch", " · no end"} {
		if !strings.Contains(section, text) {
			t.Errorf("what waits lacks %q:\n%s", text, section)
		}
	}
	if strings.Contains(section, "own one") || !strings.Contains(body, `Approvals <span class="count">1</span>`) {
		t.Errorf("his own request waits for him, or the menu counts otherwise:\n%s", body)
	}
	if strings.Contains(of("anna"), "Needs your approval") {
		t.Error("who may approve nothing is asked to")
	}
}

// TestHomeOffers shows what can be launched, or why it cannot, everywhere.
func TestHomeOffers(t *testing.T) {
	d := newShop(t)
	before := d.Store.Commits()
	d.Shows(t, "anna", "", `Launch <span class="count">`, `<a href="./templates/lab/cluster">Kubernetes cluster</a>`, `href="./run/lab/cluster"`, `<span class="icon" aria-hidden="true"><svg`)
	d.Shows(t, "anna", "search?q=kubernetes+Clusters", "1 found", `<a href="./templates/lab/cluster">Kubernetes cluster</a> <span class="mark plain">template</span>`)
	if n := d.Store.Commits(); n != before {
		t.Error("looking changed something")
	}
	if body := d.Visit(t, "reader", "", nil).Body; strings.Contains(body, `href="./run/`) {
		t.Error("who may launch nothing is offered a launch")
	}
	for range 3 {
		d.Launch(t, "anna", `{"template":"lab/vpc","parameters":{"secret":"hunter2hunter2"}}`)
	}
	offered := regexp.MustCompile(`href="[./]*run/lab/vpc"`)
	const full = "You have 3 of 3 instances of lab/vpc: "
	for _, page := range []string{"templates", "templates/lab/vpc", "run/lab/vpc"} {
		if body := d.Shows(t, "anna", page, full); offered.MatchString(body) || strings.Contains(body, `name="p.size"`) {
			t.Errorf("%q offers what is full", page)
		}
	}
	d.Shows(t, "admin", "run/lab/vpc", `name="p.size"`) // an admin may exceed limits
	d.Want(t, http.StatusOK, nil, d.Tokens["admin"], "POST", "templates/lab/team/pause", `{"reason":"the account is full"}`)
	d.Shows(t, "anna", "templates?q=scratch", "Paused: the account is full", "1 found")
	if body := d.Open(t, http.StatusOK, "anna", "", nil).Body; strings.Contains(body, "Shared scratch account") {
		t.Error("what is paused is offered")
	}
}

// TestTemplateFilter by words, module, and whether one may launch.
func TestTemplateFilter(t *testing.T) {
	d := newShop(t)
	for query, want := range map[string][]string{
		"q=Network+subnets": {"lab/vpc"}, "q=net/vpc+lab/": {"lab/vpc", "lab/team", "lab/asked", "lab/pool"}, "q=nothing-of-it": nil,
		"module=net/vpc/aws&q=notebook": {"lab/pool"}, "module=net/vpc": nil,
	} {
		body := d.Shows(t, "anna", "templates?"+query, "Show all")
		for _, name := range []string{"lab/vpc", "lab/team", "lab/asked", "lab/pool"} {
			if got := strings.Contains(body, `templates/`+name+`"`); got != slices.Contains(want, name) {
				t.Errorf("%s: %s is listed: %t", query, name, got)
			}
		}
	}
	if body := d.Shows(t, "reader", "templates?use=yes", "0 found"); strings.Contains(body, "lab/vpc") {
		t.Error("who may launch nothing finds something to launch")
	}
}

// TestLifetimeInWords begins when ready, and ends.
func TestLifetimeInWords(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	launched := d.Launch(t, "anna", `{"template":"lab/vpc","name":"mine","parameters":{"secret":"hunter2hunter2"}}`)
	pages := func() (list, page string) {
		t.Helper()
		return d.Visit(t, "anna", "instances?phase=", nil).Body, d.Visit(t, "anna", "instances/"+launched, nil).Body
	}
	if list, page := pages(); !strings.Contains(list, ">8 h once it is ready<") || !strings.Contains(page, "Lives 8 h once it is ready") || strings.Contains(page, "Ends in") {
		t.Errorf("before it is ready: %s\n%s", list, page)
	}
	d.Ready(t, launched)
	if list, page := pages(); !strings.Contains(list, ">8 h</time>") || !strings.Contains(page, "Ends in <time") {
		t.Errorf("once it is ready: %s\n%s", list, page)
	}
	d.Send(t, "anna", "instances/"+launched+"/destroy", "instances/"+launched+"/destroy", "typed", "mine")
	d.Store.Serve(t, lifecycle.Ended{Ref: d.Store.Start(t, launched), Result: lifecycle.Result{Outcome: lifecycle.Done}})
	if list, page := pages(); !strings.Contains(list, launched) || strings.Contains(list, "no end") || strings.Contains(page, "Ends in") {
		t.Errorf("once it is over: %s\n%s", list, page)
	}
}

// TestApprovalsCounted on every page, for approvers.
func TestApprovalsCounted(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	menu := func(who string) string {
		t.Helper()
		return d.Visit(t, who, "", nil).Body
	}
	const counted = `>Approvals <span class="count">1</span></a>`
	if body := menu("approver"); !strings.Contains(body, ">Approvals</a>") {
		t.Errorf("nothing waits, and the menu is %s", body)
	}
	d.Launch(t, "anna", `{"template":"lab/asked"}`)
	if body := menu("approver"); !strings.Contains(body, counted) {
		t.Errorf("one waits, and the menu is %s", body)
	}
	if body := menu("anna"); strings.Contains(body, "Approvals") {
		t.Error("who may not approve has a menu of approvals")
	}
}
