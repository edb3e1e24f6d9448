// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestOffer offers an instance by its form: who it is for sees on the pages what he needs
// to decide and nothing else, and takes it or declines it.
//
// Shows: platform 4
func TestOffer(t *testing.T) {
	d := portaltest.NewDesk(t, nil)
	d.Results.Append("what the tool said\n")
	id := d.Launch(t, "anna", `{"template":"lab/vpc","name":"hers","parameters":{"size":"large","secret":"hunter2hunter2"}}`)
	d.Ready(t, id)
	at := "instances/" + id
	give := func(fields ...string) portaltest.Reply {
		t.Helper()
		return d.Send(t, "anna", at+"/transfer", at+"/transfer", fields...)
	}
	if body := d.Open(t, 422, "anna", at+"/transfer", d.Fill(t, "anna", at+"/transfer", "other", "ben")).Body; !strings.Contains(body, "user:SUBJECT or group:NAME") {
		t.Error("it is not said how one names somebody")
	}
	if to := give("other", "user:ben").Location; to != "./../../"+at {
		t.Errorf("an offer leads to %s", to)
	}
	d.Shows(t, "anna", at, "It is offered to ben, who can take it until 8 May 2026, 12:00 UTC", "offered by Name of anna: user ben")
	for page, texts := range map[string][]string{
		"":          {`Offered to you <span class="count">1</span>`, `href="./` + at + `"`, "hers"},
		"instances": {`Offered to you <span class="count">1</span>`, `href="./` + at + `"`, "lab/vpc · offered by Name of anna until 8 May 2026", "8 h</time> left", "You have none."},
		at:          {"Name of anna offers it to ben", "Take it", "Decline", "net/vpc/aws 1.", "0.50 EUR an hour", "Ends in", `templates/lab/vpc"`},
	} {
		body := d.Shows(t, "ben", page, texts...)
		for _, secret := range []string{"hunter2", "large", "vpc.example.com", "what the tool", "Made by", "Runs", "Give away"} {
			if strings.Contains(body[strings.Index(body, "<main"):], secret) {
				t.Errorf("%q shows %q to whom it is offered", page, secret)
			}
		}
	}
	if body := d.Shows(t, "approver", "instances"); strings.Contains(body, "Offered to you") {
		t.Error("others are offered it")
	}
	if to := d.Send(t, "ben", at, at+"/decline").Location; to != "./../../instances" {
		t.Errorf("who declined is led to %s", to)
	}
	d.Open(t, 404, "ben", at, nil)
	give("other", "user:ben")
	give("to", "user:anna")
	d.Shows(t, "anna", at, "offer withdrawn by Name of anna")
	d.Open(t, 404, "ben", at, nil)
	give("other", "user:ben")
	for range 3 {
		d.Launch(t, "ben", `{"template":"lab/vpc"}`)
	}
	if body := d.Shows(t, "ben", at, "It cannot be taken now: you have 3 of 3 instances of lab/vpc", "Decline"); strings.Contains(body, "Take it<") {
		t.Error("what he cannot take has a button")
	}
}

// TestBrowserOffer has one person offer an instance and another one take it.
//
// Shows: platform 4
func TestBrowserOffer(t *testing.T) {
	const bens = "oks_ben_bbbbbbbbbbbbbbbbbbbbbbbb"
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d := portaltest.NewDesk(t, func(_ *portal.Options, p *access.Policy) {
				ben := access.Token{ID: "ben", Hash: sha256.Sum256([]byte(bens)), Scopes: annasToken(t).Scopes}
				p.Tokens = []access.Token{annasToken(t), ben}
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
			tab.To("Give away …")
			tab.Enter()
			tab.Wait("Somebody else has a week to take it")
			tab.To("Somebody else")
			tab.Press("user:ben")
			tab.To("Give away")
			tab.Enter()
			tab.Wait("It is offered to ben")
			if o := d.Store.Record(t, id).Owner; o.ID != "anna" {
				t.Errorf("it is %+v's before he took it", o)
			}
			his := loggedAs(t, webtest.New(t), d, bens, script, "instances")
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
}
