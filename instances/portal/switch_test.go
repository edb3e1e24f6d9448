// SPDX-License-Identifier: Apache-2.0

package portal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
)

const nights = `
template "lab/night" {
  module { address = "net/vpc/aws" }
  ttl { default = "720h" }
  parameter "size" {
    update = true
  }
  outputs = ["url"]
  connection { url = outputs.url }
  schedule {
    variable = "enabled"
    stopped  = false
    started  = true
    stop     = "0 20 * * *"
    start    = "0 7 * * *"
    timezone = "Asia/Kathmandu"
  }
}
`

// TestSwitch lets only the owner and admins stop and start, and lists possible actions.
func TestSwitch(t *testing.T) {
	s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, nights) })
	who := tokens(t, s)
	instance := ready(t, s, who["anna"], `{"template":"lab/night"}`)
	at := "instances/" + instance.ID
	var seen api.Instance
	s.Want(t, 200, &seen, who["anna"], "GET", at, "")
	if seen.Stopped || seen.StoppedUntil != "" || seen.StopsAt.IsZero() || seen.StartsAt.IsZero() || !slices.Contains(seen.Actions, api.ActStop) || slices.Contains(seen.Actions, api.ActStart) {
		t.Errorf("started: %+v", seen)
	}
	s.Want(t, 403, nil, who["reader"], "POST", at+"/stop", "")
	s.Want(t, 404, nil, who["ben"], "POST", at+"/stop", "")
	s.Want(t, 202, &seen, who["anna"], "POST", at+"/stop", "")
	if seen.Run == nil || seen.Run.Switch != api.ActStop || seen.Run.By.Subject != "anna" {
		t.Errorf("it runs %+v", seen.Run)
	}
	s.Store.Finish(t, instance.ID, done())
	s.Want(t, 200, &seen, who["anna"], "GET", at, "")
	if !seen.Stopped || !strings.HasSuffix(seen.StoppedUntil, " 07:00") || seen.Phase != "ready" || !slices.Contains(seen.Actions, api.ActStart) || slices.Contains(seen.Actions, api.ActStop) {
		t.Errorf("stopped: %+v", seen)
	}
	s.Want(t, 200, nil, who["anna"], "POST", at+"/stop", "")
	s.Want(t, 202, &seen, who["admin"], "POST", at+"/start", "")
	s.Store.Finish(t, instance.ID, done())
	var again api.Instance
	s.Want(t, 200, &again, who["anna"], "GET", at, "")
	if again.Stopped || again.StoppedUntil != "" {
		t.Errorf("started again: %+v", again)
	}
	var tpl api.Template
	s.Want(t, 200, &tpl, who["anna"], "GET", "templates/lab/night", "")
	if !strings.Contains(tpl.Hours, "stops ") || !strings.Contains(tpl.Hours, " 20:00") || !strings.Contains(tpl.Hours, "(Asia/Kathmandu)") {
		t.Errorf("hours %q", tpl.Hours)
	}
}

// TestSwitchIsNoParameter shows that no caller can set the variable of a schedule.
func TestSwitchIsNoParameter(t *testing.T) {
	s := portaltest.NewServer(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, nights) })
	anna := tokens(t, s)["anna"]
	instance := ready(t, s, anna, `{"template":"lab/night","parameters":{"size":"a"}}`)
	for path, body := range map[string]string{
		"instances":                              `{"template":"lab/night","parameters":{"enabled":false}}`,
		"instances/" + instance.ID + "/update":   `{"parameters":{"enabled":false}}`,
		"run/lab/night":                          `{"parameters":{"enabled":false}}`,
		"instances/" + instance.ID + "/update?x": `{"parameters":{"size":"b","enabled":true}}`,
	} {
		if status, _, b := s.Ask(t, anna, "POST", path, body); status != 422 || !strings.Contains(string(b), `"/parameters/enabled":"there is no such parameter"`) {
			t.Errorf("%s %s: %d %s", path, body, status, b)
		}
	}
}
