// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// conditional needs nodes for large clusters, a zone where an option is off.
const conditional = `

template "lab/when" {
  module { address = "net/vpc/aws" }
  ttl { default = "8h" }
  parameter "size" {
    title  = "Size"
    enum   = ["small", "large"]
    update = true
  }
  parameter "count" {
    title  = "Nodes"
    when   = { size = ["large"] }
    update = true
  }
  parameter "tags" {
    title  = "Tags"
    when   = { size = ["large"], count = [2, 3] }
    update = true
  }
  parameter "enabled" { title = "Managed" }
  parameter "zone" {
    title  = "Zone"
    when   = { enabled = [false] }
    update = true
  }
}

`

func newConditional(t *testing.T) *portaltest.Pages {
	t.Helper()
	return portaltest.NewPages(t, func(o *portal.Options, p *access.Policy) {
		o.Catalog = portaltest.NewCatalog(t, conditional)
		p.Tokens = []statictoken.Token{annasToken(t)}
	})
}

func holds(t *testing.T, have map[string]json.RawMessage, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if string(have[name]) != value {
			t.Errorf("%s is %s, want %s", name, have[name], value)
		}
	}
}

// TestConditional: values that do not apply are left out, and stay in the form.
func TestConditional(t *testing.T) {
	d := newConditional(t)
	d.Shows(t, "anna", "run/lab/when", "Only used when Size is large.", "Only used when Nodes is 2 or 3, and Size is large.", "Only used when Managed is false.",
		`data-when="{&#34;p.count&#34;:[&#34;2&#34;,&#34;3&#34;],&#34;p.size&#34;:[&#34;large&#34;]}"`)
	form := d.Fill(t, "anna", "run/lab/when", "p.size", "small", "p.count", "many", "p.tags", "", "p.tags.0", "kept", "p.enabled", "true", "p.zone", "west", "ttl", "soon")
	body := d.Open(t, 422, "anna", "run/lab/when", form).Body
	for _, want := range []string{`name="p.count" value="many"`, `name="p.tags.0" value="kept"`, `name="p.zone" value="west"`, `href="#ttl"`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s:\n%s", want, body)
		}
	}
	if strings.Contains(body, `href="#p-count"`) {
		t.Error("what does not count is wrong")
	}
	form.Set("ttl", "")
	form.Set("key", portaltest.KeyOf(body))
	id := path.Base(d.Open(t, 303, "anna", "run/lab/when", form).Location)
	holds(t, d.Store.Record(t, id).Parameters, map[string]string{"size": `"small"`, "count": "1", "tags": "[]", "zone": `"a"`})

	d.Ready(t, id)
	change := "instances/" + id + "/update"
	if body := d.Shows(t, "anna", change, "Nodes"); strings.Contains(body, "Zone") {
		t.Error("the form has a field that can never count")
	}
	d.Send(t, "anna", change, change, "p.size", "large", "p.count", "3", "p.tags", "", "p.tags.0", "kept")
	d.Ready(t, id)
	holds(t, d.Store.Record(t, id).Parameters, map[string]string{"size": `"large"`, "count": "3", "tags": `["kept"]`})
	d.Send(t, "anna", change, change, "p.size", "small", "p.count", "3", "p.tags", "", "p.tags.0", "kept")
	d.Ready(t, id)
	holds(t, d.Store.Record(t, id).Parameters, map[string]string{"size": `"small"`, "count": "1", "tags": "[]"})

	var no struct{ Fields map[string]string }
	d.Want(t, 422, &no, d.Tokens["anna"], "POST", "instances", `{"template":"lab/when","parameters":{"size":"small","count":2}}`)
	if no.Fields["/parameters/count"] != `applies only when size is "large"; omit it` {
		t.Errorf("the API says %v", no.Fields)
	}
}

// TestSeveral destroys what the caller may, of those chosen.
func TestSeveral(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	launch := func(who, name string) string {
		id := d.Launch(t, who, `{"template":"lab/vpc","name":"`+name+`"}`)
		d.Ready(t, id)
		return id
	}
	first, second, kept, bens := launch("anna", "one"), launch("anna", "two"), launch("anna", "kept"), launch("ben", "secret")
	d.Send(t, "anna", "instances/"+kept, "instances/"+kept+"/protect")
	at := "instances/several?" + url.Values{"id": {first, second, first, kept, bens, "none", "../templates"}}.Encode()
	before := d.Store.Commits()
	body := d.Shows(t, "anna", at, ">one</a>", ">two</a>", "These stay", ">kept</a>", "destroy 2")
	if strings.Contains(body, "secret") || strings.Contains(body, bens) || d.Store.Commits() != before {
		t.Error("the page names what is not the caller's, or changed something")
	}
	form := url.Values{"key": {portaltest.KeyOf(body)}, "id": {first, second, kept, bens}, "typed": {"destroy 3"}}
	if body := d.Open(t, 422, "anna", "instances/several", form).Body; !strings.Contains(body, `href="#typed"`) || d.Store.Commits() != before {
		t.Error("something was destroyed, or the page does not say what was wrong")
	}
	form.Set("typed", "destroy 2")
	d.Open(t, 303, "anna", "instances/several", form)
	for id, want := range map[string]lifecycle.Phase{first: lifecycle.Destroying, second: lifecycle.Destroying, kept: lifecycle.Ready, bens: lifecycle.Ready} {
		if r := d.Store.Record(t, id); r.Phase != want {
			t.Errorf("%s is %s, want %s", r.Name, r.Phase, want)
		}
	}
	for _, who := range []string{"ben", "reader", "stranger"} {
		form.Set("id", first)
		if body := d.Open(t, 422, who, "instances/several", form).Body; !strings.Contains(body, "No instances that you can destroy were selected") {
			t.Errorf("%s may destroy it", who)
		}
	}
	d.Open(t, 401, "", "instances/several", form)
	d.Open(t, 401, "", "instances/several", nil)
	d.Shows(t, "anna", "instances/several", "No instances that you can destroy were selected")
	many := url.Values{}
	for n := range 51 {
		many.Add("id", fmt.Sprint(n))
	}
	d.Open(t, 400, "anna", "instances/several?"+many.Encode(), nil)
}

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

// TestApproveUncompared says why, or nothing.
func TestApproveUncompared(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) {
		o.Catalog = struct{ portal.Catalog }{portaltest.NewCatalog(t, portaltest.Templates)}
	})
	d.Shows(t, "approver", "instances/"+asked(t, d, `{"version":"1.1.0"}`)+"/approve", "The two versions were not compared: modules cannot be read here.")
	if body := d.Shows(t, "approver", "instances/"+d.Launch(t, "anna", `{"template":"lab/asked"}`)+"/approve"); strings.Contains(body, "changes in the module") {
		t.Error("a launch changes a module")
	}
}
