// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-141914ff/okara/internal/webtest"
)

// TestBrowserConditional chooses with the keyboard: with script fields come and go and keep
// what was typed, without script they are shown with their conditions.
func TestBrowserConditional(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
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
}
