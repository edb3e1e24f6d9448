// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// personal is the token of who launches.
const personal = "oks_anna_bbbbbbbbbbbbbbbbbbbbbbbb"

// TestBrowserLaunch opens a link that fills a form, logs in, launches, watches the log
// to its end, extends and destroys: by keyboard alone, with script and without.
func TestBrowserLaunch(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d := portaltest.NewDesk(t, func(_ *portal.Options, p *access.Policy) {
				p.Tokens = []access.Token{{ID: "anna", Hash: sha256.Sum256([]byte(personal)), Scopes: webtest.Rule(t, "use", "use:instance:lab/*").Allow}}
			})
			tab := b.Tab(t, d.Pages.URL+"/ui/run/lab/vpc?p.size=large", webtest.Look{Width: 1280, Theme: "light", Script: script})
			tab.Wait("A token of this server")
			tab.To("Token")
			tab.Press(personal)
			tab.Enter()
			tab.Wait("The link that you followed")
			tab.To("Name")
			tab.Press("net one")
			tab.To("Lifetime")
			tab.To("Launch")
			tab.Enter()
			tab.Wait("Log of run 1")
			tab.Wait("It is being created.") // what the form says, once
			id := strings.TrimPrefix(tab.Path(), "/ui/instances/")
			tab.Wait("number 1 in the queue")
			d.Store.Start(t, id)
			d.Results.Append("Plan: 2 to add, 0 to change, 0 to destroy.\r\naws_vpc.a: Creation complete after 1s\n\x1b[31mred\x1b[0m \u202eevent: end\n\n<b>bold</b>\n")
			tab.Wait("1 of 2 done")
			tab.Wait("<b>bold</b>")
			d.Results.Append("aws_vpc.b: Creation complete after 2s\n")
			tab.Wait("2 of 2 done")
			d.Ready(t, id)
			tab.Wait("Ends in 8 h")
			tab.To("Extend by 2 h")
			tab.Enter()
			tab.Wait("Ends in 10 h")
			tab.To("Destroy …")
			tab.Enter()
			tab.Wait("This cannot be undone")
			tab.To("Destroy")
			tab.Enter()
			tab.Wait("The name does not match")
			tab.Focused("Not done")
			tab.To("Type its name")
			tab.Press("net one")
			tab.To("Destroy")
			tab.Enter()
			tab.Wait("being destroyed")
			d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
			tab.Wait("Its record is removed at")
		})
	}
}
