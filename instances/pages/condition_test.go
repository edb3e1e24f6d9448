// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// conditional needs the number of nodes only for large clusters, tags only for two of them,
// and a zone only where an option is off.
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

// TestConditional sends forms with values that do not apply: these are left out, even if
// invalid, and stay in the form after another error. The API refuses values that do not apply.
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
	if no.Fields["/parameters/count"] != `counts only when size is "large"; leave it out` {
		t.Errorf("the API says %v", no.Fields)
	}
}
