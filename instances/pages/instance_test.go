// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestLaunch goes from templates to a destroyed instance by links and forms.
func TestLaunch(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Shows(t, "anna", "templates", `href="./run/lab/vpc"`, "A network", "lives 8 h", "0.50 EUR an hour", "you have 0 of 3")
	d.Shows(t, "anna", "templates/lab/vpc", "Launch", "small", "sensitive", "p.size=")
	form := d.Fill(t, "anna", "run/lab/vpc", "p.size", "large", "p.secret", "hunter2hunter2", "name", "my network", "ttl", "10h")
	to := d.Open(t, 303, "anna", "run/lab/vpc", form).Location
	if again := d.Open(t, 303, "anna", "run/lab/vpc", form).Location; again != to {
		t.Errorf("sent twice: %s and %s", to, again)
	}
	path := strings.TrimPrefix(to, "./../../")
	id := strings.TrimPrefix(path, "instances/")
	r := d.Store.Record(t, id)
	if string(r.Parameters["size"]) != `"large"` || r.Name != "my network" || r.TTL.Hours() != 10 {
		t.Errorf("%+v", r)
	}
	d.Shows(t, "anna", path, "my network", "being created", "Position 1 in the queue", "Log of run 1", "No output yet", `http-equiv="refresh"`)
	d.Store.Start(t, id)
	d.Results.Append("Plan: 2 to add, 0 to change, 0 to destroy.\naws_vpc.a: Creation complete after 1s\n")
	d.Shows(t, "anna", path, "1 of 2 done", "Creation complete", "has been running since", "Cancel")
	d.Ready(t, id)
	body := d.Shows(t, "anna", path, "ready", `href="https://vpc.example.com"`, "10 h", "0.00 EUR so far, 0.50 EUR an hour", "Extend by 2 h (2 of 2 left)", "Destroy …", "large", "<summary>More</summary>")
	if strings.Contains(body, "hunter2") || strings.Contains(body, `http-equiv="refresh"`) {
		t.Error("the page shows a secret, or goes on loading itself")
	}
	d.Send(t, "anna", path, path+"/extend")
	d.Send(t, "anna", path, path+"/protect")
	d.Shows(t, "anna", path, "(1 of 2 left)", "protected", "Remove protection", "12 h")
	d.Send(t, "anna", path, path+"/unprotect")
	d.Send(t, "anna", path+"/rename", path+"/rename", "name", "another")
	d.Shows(t, "anna", "instances", "another", "Extend", path+"/destroy", "12 h")
	d.Shows(t, "anna", path+"/runs/1", "Run 1 of another", `/log" download="Log of run 1.txt"`, "done", "2 added", "Creation complete")

	d.Send(t, "anna", path+"/update", path+"/update", "p.size", "small")
	d.Shows(t, "anna", path, "being updated")
	d.Ready(t, id)
	must.Equal(t, "size", string(d.Store.Record(t, id).Parameters["size"]), `"small"`)
	wrong := d.Open(t, 422, "anna", path+"/destroy", d.Fill(t, "anna", path+"/destroy", "typed", id)).Body
	if !strings.Contains(wrong, `id="errors"`) || !strings.Contains(wrong, `href="#typed"`) {
		t.Error("no summary of what is wrong")
	}
	d.Send(t, "anna", path+"/destroy", path+"/destroy", "typed", "another")
	d.Shows(t, "anna", path, "being destroyed")
	d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
	d.Shows(t, "anna", path, "destroyed", "Its record is removed at")
}

// TestFormErrors beside fields and in a summary, without secrets.
func TestFormErrors(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	for _, c := range []struct {
		name  string
		form  []string
		field string // with the error
		text  string
	}{
		{"no such size", []string{"p.size", "huge"}, "p-size", "is not one of"},
		{"span", []string{"ttl", "soon"}, "ttl", "must be a duration"},
		{"too long", []string{"ttl", "900h"}, "ttl", "at most"},
		{"name", []string{"name", strings.Repeat("x", 65)}, "name", "64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			form := d.Fill(t, "anna", "run/lab/vpc", append([]string{"p.secret", "hunter2hunter2"}, c.form...)...)
			body := d.Open(t, 422, "anna", "run/lab/vpc", form).Body
			for _, text := range []string{"Enter it again", `id="errors"`, "autofocus", `href="#` + c.field + `"`, `id="` + c.field + `-error"`, `aria-invalid="true"`, c.text} {
				if !strings.Contains(body, text) {
					t.Errorf("%q is not in it:\n%s", text, body)
				}
			}
			if strings.Contains(body, "hunter2") {
				t.Error("a secret came back")
			}
			if key := portaltest.KeyOf(body); key == "" || key == form.Get("key") {
				t.Error("a form that is another one has the same key")
			}
		})
	}
	if d.Store.Commits() != 0 {
		t.Error("something was made")
	}
	if body := d.Open(t, 400, "anna", "run/lab/vpc", url.Values{"p.size": {"small"}}).Body; !strings.Contains(body, "no key") {
		t.Error(body)
	}
}

// TestLaunchVersion chooses one, if there are several and no pool.
func TestLaunchVersion(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Shows(t, "anna", "run/lab/vpc", `<option value="" selected>the newest that the template allows</option><option value="1.1.0">1.1.0</option><option value="1.0.0">1.0.0</option>`)
	at := d.Send(t, "anna", "run/lab/vpc", "run/lab/vpc", "version", "1.1.0").Location
	d.Shows(t, "anna", strings.TrimPrefix(at, "./../../"), "net/vpc/aws 1.1.0")
	body := d.Open(t, 422, "anna", "run/lab/vpc", d.Fill(t, "anna", "run/lab/vpc", "version", "7.0.0")).Body
	if !strings.Contains(body, `id="errors"`) {
		t.Error(body)
	}
	if body := d.Shows(t, "anna", "run/lab/pool"); strings.Contains(body, `name="version"`) {
		t.Error("the version of a member of a pool can be chosen")
	}
}

// TestTemplateBehind tells administrators what does not fit, and users why.
func TestTemplateBehind(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Catalog.Change("lab/vpc", func(e *template.Entry) {
		e.Behind = "it stays at version 1.0.0 of the module, since version 1.2.0 is not compatible with the template"
	})
	d.Shows(t, "admin", "templates/lab/vpc", "Its module has a newer version that is not compatible", "stays at version 1.0.0")
	if body := d.Shows(t, "anna", "templates/lab/vpc", `href="./../../run/lab/vpc"`); strings.Contains(body, "1.2.0") {
		t.Error("anna is told what she cannot mend")
	}
	d.Catalog.Change("lab/vpc", func(e *template.Entry) { e.Problem = "module net/vpc/aws: no version matches" })
	d.Shows(t, "anna", "templates/lab/vpc", "It cannot be launched", "no version matches")
	d.Shows(t, "anna", "run/lab/vpc", "no version matches")
	d.Catalog.Change("lab/vpc", func(e *template.Entry) {
		e.Problem, e.Cause = "module net/vpc/aws cannot be read now", "GET http://registry.internal:5000/v2/: no route to host"
	})
	d.Shows(t, "admin", "templates/lab/vpc", "registry.internal:5000")
	for _, path := range []string{"templates/lab/vpc", "run/lab/vpc"} {
		if body := d.Shows(t, "anna", path, "cannot be read now"); strings.Contains(body, "registry.internal") {
			t.Errorf("%s tells anna where the registry is", path)
		}
	}
}

// TestLaunchForced lets an admin exceed limits, and offers that to no other user.
func TestLaunchForced(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Store.Machine.Limits.Quotas = []lifecycle.Quota{{User: 1}}
	d.Tokens["boss"] = d.Issuer.Token(t, "boss", "use", "admin")
	forced := d.Fill(t, "anna", "run/lab/vpc", "force", "true")
	for _, who := range []string{"anna", "boss"} {
		open := d.Fill(t, who, "run/lab/vpc", "name", "typed before")
		d.Send(t, who, "run/lab/vpc", "run/lab/vpc")
		if body := d.Open(t, 403, who, "run/lab/vpc", open).Body; !strings.Contains(body, "1 of 1") || !strings.Contains(body, `value="typed before"`) {
			t.Errorf("%s beyond a limit: %s", who, body)
		}
	}
	if body := d.Shows(t, "anna", "run/lab/vpc", "You have 1 of 1"); strings.Contains(body, `name="force"`) {
		t.Error("anna is offered to go beyond limits")
	}
	d.Open(t, 403, "anna", "run/lab/vpc", forced)
	at := d.Send(t, "boss", "run/lab/vpc", "run/lab/vpc", "force", "true").Location
	if id := path.Base(at); !d.Store.Record(t, id).Forced {
		t.Errorf("%s is none that was forced", id)
	}
}

// TestOwner asks for the owner of an instance if several are possible.
func TestOwner(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	body := d.Open(t, 422, "anna", "run/lab/team", d.Fill(t, "anna", "run/lab/team")).Body
	if !strings.Contains(body, `href="#owner"`) || !strings.Contains(body, "group team-b") {
		t.Error(body)
	}
	at := d.Send(t, "anna", "run/lab/team", "run/lab/team", "owner", "group:team-b").Location
	d.Shows(t, "ben", strings.TrimPrefix(at, "./../../"), "group team-b")
	d.Shows(t, "ben", "run/lab/team", "name=\"name\"") // in one group only: nothing to choose
}

// TestLink fills a form by a link, which may be malicious.
//
// Shows: pages 7
func TestLink(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	body := d.Shows(t, "anna", "run/lab/vpc?p.size=large&p.secret=planted&name=planted&owner=group:planted&ttl=1000h&p.none=planted",
		`<option value="large" selected>`, "from the link", "The link that you followed", "filled in:</strong> size", "is not valid: secret")
	if strings.Contains(body, "planted") || strings.Contains(body, "1000h") {
		t.Error("the link filled what it may not")
	}
	for _, bad := range []string{"p.size=huge", "p.size=%3Cscript%3E", "p.size="} {
		if body := d.Shows(t, "anna", "run/lab/vpc?"+bad); strings.Contains(body, "The link that you followed") || strings.Contains(body, "<script>") {
			t.Errorf("%s was taken", bad)
		}
	}
	form := d.Fill(t, "anna", "run/lab/vpc?p.size=large", "p.size", "large", "ttl", "soon")
	if again := d.Open(t, 422, "anna", "run/lab/vpc?p.size=large", form).Body; !strings.Contains(again, "The link that you followed") {
		t.Error("after an error nobody says what came from the link")
	}
	form.Set("p.size", "small")
	if again := d.Open(t, 422, "anna", "run/lab/vpc?p.size=large", form).Body; strings.Contains(again, "The link that you followed") {
		t.Error("what was changed does not come from the link")
	}
	if d.Store.Commits() != 0 {
		t.Error("opening a link made something")
	}
}

// TestLinkKeys shows that a link cannot fill in an SSH key, unless the template allows it.
//
// Shows: pages 7
func TestLinkKeys(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) { o.Catalog = portaltest.NewCatalog(t, portaltest.Keyed) })
	body := d.Shows(t, "anna", "run/lab/keys?p.ssh_key=ssh-ed25519+AAAAplanted&p.zone=b&p.count=7&p.tags=%5B%22x%22%5D&p.enabled=false&p.open_key=mine", "is not valid: ssh_key, Number")
	if strings.Contains(body, "planted") || !strings.Contains(body, `value="b"`) || !strings.Contains(body, `name="p.tags.0" value="x"`) || strings.Contains(body, `value="7"`) {
		t.Error(body)
	}
	if !strings.Contains(body, `name="p.open_key" value="mine"`) || strings.Contains(body, `name="p.enabled" value="true" checked`) {
		t.Error(body)
	}
	form := d.Fill(t, "anna", "run/lab/keys", "p.count", "3", "p.tags", `["a","ü"]`, "p.maybe", "false", "p.zone", "", "p.ssh_key", "k\r\nl")
	d.Open(t, 303, "anna", "run/lab/keys", form)
	var got map[string]json.RawMessage
	v, _ := d.Store.View(t.Context())
	for _, r := range v.Document.Records {
		got = r.Parameters
	}
	for name, want := range map[string]string{"count": "3", "tags": `["a","ü"]`, "maybe": "false", "enabled": "false", "ssh_key": `"k\nl"`, "zone": `""`} {
		if string(got[name]) != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	for field, text := range map[string]string{"p.tags": "[", "p.count": "many"} {
		form := d.Fill(t, "anna", "run/lab/keys", field, text)
		if body := d.Open(t, 422, "anna", "run/lab/keys", form).Body; !strings.Contains(body, fmt.Sprintf(`href="#%s"`, strings.Replace(field, ".", "-", 1))) {
			t.Errorf("%s=%s: %s", field, text, body)
		}
	}
}

// TestEditAgain: no form has a secret; it is kept by an empty field, even if it is no longer
// sensitive.
func TestEditAgain(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	id := d.Launch(t, "anna", `{"template":"lab/vpc","parameters":{"size":"large","secret":"hunter2hunter2"}}`)
	d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "Invalid value for variable", Permanent: true})
	path := "instances/" + id + "/update"
	takes := func(secret string) {
		d.Catalog.Change("lab/vpc", func(e *template.Entry) {
			inputs := `{"type":"object","properties":{"size":{"type":"string"},"secret":` + secret + `}}`
			e.Schema = must.Get(template.NewSchema(e.Template, template.Module{Inputs: json.RawMessage(inputs), Outputs: map[string]bool{"url": false, "password": true}}))(t)
		})
	}
	for _, secret := range []string{`{"type":"array","writeOnly":true,"default":["unset"]}`, `{"type":"array","default":["unset"]}`} {
		takes(secret)
		form := d.Fill(t, "anna", path, "p.size", "huge", "p.secret", "[hunter3")
		for _, body := range []string{d.Open(t, 200, "anna", path, nil).Body, d.Open(t, 422, "anna", path, form).Body} {
			if strings.Contains(body, "hunter") || strings.Contains(body, "unset") {
				t.Errorf("%s: the form has the secret:\n%s", secret, body)
			}
		}
	}
	takes(`{"type":"string","default":"unset"}`)
	d.Send(t, "anna", path, path, "p.size", "small", "p.secret", "")
	d.Ready(t, id)
	if p := d.Store.Record(t, id).Parameters; string(p["size"]) != `"small"` || string(p["secret"]) != `"hunter2hunter2"` {
		t.Errorf("launched again with %s", p)
	}
	if body := d.Shows(t, "anna", "instances/"+id, `plain">sensitive`); strings.Contains(body, "hunter") {
		t.Error("the page has the secret")
	}
}
