// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
)

// asked returns a ready instance of anna with a pending update.
func asked(t *testing.T, d *portaltest.Pages, update string) (id string) {
	t.Helper()
	id = d.Launch(t, "anna", `{"template":"lab/asked"}`)
	var instance api.Instance
	d.Want(t, 200, &instance, d.Tokens["approver"], "GET", "instances/"+id, "")
	d.Want(t, 200, nil, d.Tokens["approver"], "POST", "instances/"+id+"/approve", `{"plan":"`+instance.Plan+`"}`)
	d.Ready(t, id)
	d.Want(t, 202, nil, d.Tokens["anna"], "POST", "instances/"+id+"/update", update)
	return id
}

// TestApproveUncompared shows why two versions were not compared; a single version needs no
// comparison.
func TestApproveUncompared(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) {
		o.Catalog = struct{ portal.Catalog }{portaltest.NewCatalog(t, portaltest.Templates)}
	})
	d.Shows(t, "approver", "instances/"+asked(t, d, `{"version":"1.1.0"}`)+"/approve", "The two versions were not compared: modules are not read here.")
	if body := d.Shows(t, "approver", "instances/"+d.Launch(t, "anna", `{"template":"lab/asked"}`)+"/approve"); strings.Contains(body, "changes in the module") {
		t.Error("a launch changes a module")
	}
}
