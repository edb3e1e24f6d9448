// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

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

// TestBrowserSwitch stops and starts an instance by the buttons of its page. Lists show until
// when it is stopped, and its address is not linked meanwhile.
func TestBrowserSwitch(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
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
			tab.Wait("It is being stopped.")
			d.Ready(t, id)
			tab.Go(d.Pages.URL + at)
			tab.Wait("It was stopped to save what it costs.")
			shows(t, d, "instances/"+id, []string{"stopped until Mon 07:00", ">Start</button>"}, []string{">Open it<", ">Stop</button>"})
			shows(t, d, "instances?owner=", []string{"stopped until Mon 07:00"}, []string{">Open it<"})
			tab.To("Start")
			tab.Enter()
			tab.Wait("It is being started.")
			d.Ready(t, id)
			tab.Go(d.Pages.URL + at)
			tab.Wait("Open it")
			shows(t, d, "instances/"+id, []string{">Stop</button>", ">Open it<"}, []string{">Start</button>", "stopped until"})
		})
	}
}
