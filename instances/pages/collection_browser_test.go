// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"testing"

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
