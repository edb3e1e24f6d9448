// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
)

// TestHomeInstances shows each his own instances that live on the first page, by what
// this replica knows, and nobody those of others.
func TestHomeInstances(t *testing.T) {
	d := portaltest.NewDesk(t, nil)
	home := func(who string) string {
		t.Helper()
		return d.Open(t, http.StatusOK, who, "", nil).Body
	}
	if strings.Contains(home("anna"), "Your instances") {
		t.Error("who has none has a list of them")
	}
	one := d.Launch(t, "anna", `{"template":"lab/vpc","name":"<b>mine</b>","parameters":{"secret":"hunter2hunter2"}}`)
	d.Ready(t, one)
	other := d.Launch(t, "ben", `{"template":"lab/vpc","name":"of ben","parameters":{"secret":"hunter2hunter2"}}`)
	before := d.Store.Commits()
	body := home("anna")
	for _, text := range []string{`Your instances <span class="count">1</span>`, `href="./instances/` + one, "&lt;b&gt;mine&lt;/b&gt;", "ready", "8 h</time> left", "lab/vpc"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page of anna lacks %q", text)
		}
	}
	if strings.Contains(body, other) || strings.Contains(body, "of ben") || strings.Contains(body, "hunter2") {
		t.Error("the page of anna tells of another's, or a secret")
	}
	for _, who := range []string{"reader", "stranger"} { // may read them all, and none
		if body := d.Visit(t, who, "", nil).Body; strings.Contains(body, one) || strings.Contains(body, "of ben") {
			t.Errorf("the page of %s has instances of others", who)
		}
	}
	d.Send(t, "anna", "instances/"+one+"/destroy", "instances/"+one+"/destroy", "typed", "<b>mine</b>")
	d.Store.Serve(t, lifecycle.Ended{Ref: d.Store.Start(t, one), Result: lifecycle.Result{Outcome: lifecycle.Done}})
	if body := home("anna"); strings.Contains(body, one) {
		t.Error("what was destroyed is still listed")
	}
	if n := d.Store.Commits(); n == before {
		t.Error("nothing was destroyed")
	}
}

// TestLifetimeInWords says how long an instance lives, which begins when it is ready: not
// the latest end that is possible before that, and nothing of an end once it is over.
func TestLifetimeInWords(t *testing.T) {
	d := portaltest.NewDesk(t, nil)
	one := d.Launch(t, "anna", `{"template":"lab/vpc","name":"mine","parameters":{"secret":"hunter2hunter2"}}`)
	pages := func() (list, page string) {
		t.Helper()
		return d.Visit(t, "anna", "instances?phase=", nil).Body, d.Visit(t, "anna", "instances/"+one, nil).Body
	}
	if list, page := pages(); !strings.Contains(list, ">8 h once it is ready<") || !strings.Contains(page, "Lives 8 h once it is ready") || strings.Contains(page, "Ends in") {
		t.Errorf("before it is ready: %s\n%s", list, page)
	}
	d.Ready(t, one)
	if list, page := pages(); !strings.Contains(list, ">8 h</time>") || !strings.Contains(page, "Ends in <time") {
		t.Errorf("once it is ready: %s\n%s", list, page)
	}
	d.Send(t, "anna", "instances/"+one+"/destroy", "instances/"+one+"/destroy", "typed", "mine")
	d.Store.Serve(t, lifecycle.Ended{Ref: d.Store.Start(t, one), Result: lifecycle.Result{Outcome: lifecycle.Done}})
	if list, page := pages(); !strings.Contains(list, one) || strings.Contains(list, "no end") || strings.Contains(page, "Ends in") {
		t.Errorf("once it is over: %s\n%s", list, page)
	}
}

// TestApprovalsCounted shows who may approve how many instances wait, on every page, and
// nobody else.
func TestApprovalsCounted(t *testing.T) {
	d := portaltest.NewDesk(t, nil)
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
