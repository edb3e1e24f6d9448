// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserParts fills lists, maps and objects with the keyboard, adding and removing rows.
func TestBrowserParts(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
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
}

// TestBrowserChange changes one value of an instance whose list differs from the default, on
// a wide screen and on a phone: the page says what is changed before it is sent, and the list
// stays as it is.
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
				tab.Wait("It is being changed.")
				if got := stored(t, d, id); string(got["count"]) != "3" || string(got["x"]) != `["eu-central-1","us-west-2"]` {
					t.Errorf("stored %s", got)
				}
				d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
			})
		}
	}
}
