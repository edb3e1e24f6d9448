// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserSeveral destroys several instances chosen on the list, with the keyboard.
func TestBrowserSeveral(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d, tab, first := launch(t, b, script)
			d.Ready(t, first)
			ids := map[string]string{"net one": first}
			for _, name := range []string{"net two", "net three"} {
				tab.Go(d.Pages.URL + "/ui/run/lab/vpc")
				tab.Wait("Launch A network")
				tab.To("Name")
				tab.Press(name)
				tab.To("Launch")
				tab.Enter()
				tab.Wait("Log of run 1")
				ids[name] = path.Base(tab.Path())
				d.Ready(t, ids[name])
			}
			tab.Go(d.Pages.URL + "/ui/instances")
			tab.Wait("net three")
			for _, name := range []string{"net three", "net one"} {
				tab.To("Choose " + name)
				tab.Press(" ")
			}
			tab.To("Destroy selected")
			tab.Enter()
			tab.Wait("Everything that these created is destroyed")
			if text := tab.Text(); strings.Contains(text, "net two") || !strings.Contains(text, "net three") {
				t.Errorf("the page does not name what was chosen:\n%s", text)
			}
			tab.To("Type destroy 2")
			tab.Press("destroy 2")
			tab.Enter()
			tab.Wait("2 instances are being destroyed.")
			for name, want := range map[string]lifecycle.Phase{"net one": lifecycle.Destroying, "net two": lifecycle.Ready, "net three": lifecycle.Destroying} {
				if r := d.Store.Record(t, ids[name]); r.Phase != want {
					t.Errorf("%s is %s", name, r.Phase)
				}
			}
		})
	}
}
