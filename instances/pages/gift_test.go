// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portaltest"
)

// TestOffer offers an instance by its form: the recipient sees on the pages only what is
// needed for a decision, and takes or declines it.
//
// Shows: platform 4
func TestOffer(t *testing.T) {
	d := portaltest.NewPages(t, nil)
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
