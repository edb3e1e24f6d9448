// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

const keysForm = "run/lab/keys"

func newKeys(t *testing.T) *portaltest.Pages {
	t.Helper()
	return portaltest.NewPages(t, func(o *portal.Options, p *access.Policy) {
		o.Catalog = portaltest.NewCatalog(t, portaltest.Keyed)
		p.Tokens = []statictoken.Token{annasToken(t)}
	})
}

// parameters returns the parameters of the only instance.
func parameters(t *testing.T, d *portaltest.Pages) map[string]json.RawMessage {
	t.Helper()
	v, _ := d.Store.View(t.Context())
	if len(v.Document.Records) != 1 {
		t.Fatalf("%d instances", len(v.Document.Records))
	}
	for _, r := range v.Document.Records {
		return r.Parameters
	}
	return nil
}

// TestParts: empty rows go, errors show at once, what was typed stays.
func TestParts(t *testing.T) {
	d := newKeys(t)
	form := d.Fill(t, "anna", keysForm, "name", "typed name", "ttl", "",
		"p.tags", "", "p.tags.0", "first", "p.tags.4", "", "p.tags.10", "<b>second</b>",
		"p.labels", "", "p.labels.0.key", "a/b~c", "p.labels.0.value", "1", "p.labels.1.key", "empty", "p.labels.1.value", "",
		"p.place", "", "p.place.zone", "", "p.place.rack", "",
		"p.disks", "", "p.disks.0.size", "10", "p.disks.0.fast", "true", "p.disks.0.tags", "", "p.disks.0.tags.0", "x", "p.disks.3.size", "20", "p.disks.3.fast", "", "p.disks.3.tags", "")
	wrong := url.Values{}
	maps.Copy(wrong, form)
	wrong.Set("p.disks.3.size", "many")
	wrong.Set("p.labels.1.key", "a/b~c")
	wrong.Set("p.count", "9")
	body := d.Open(t, 422, "anna", keysForm, wrong).Body
	for _, text := range []string{
		`href="#p.labels.1.key"`, `href="#p.disks.3.size"`, `href="#p-count"`, `value="typed name"`, `value="first"`, `value="&lt;b&gt;second&lt;/b&gt;"`, `name="p.disks.3.size" value="many"`, `name="p.labels.0.key" value="a/b~c"`,
	} {
		if !strings.Contains(body, text) {
			t.Errorf("after mistakes there is no %q:\n%s", text, body[strings.Index(body, "<main"):])
		}
	}
	if d.Store.Commits() != 0 {
		t.Error("something was made of a wrong form")
	}
	d.Open(t, 303, "anna", keysForm, form)
	got := parameters(t, d)
	for name, want := range map[string]string{
		"tags": `["first","<b>second</b>"]`, "labels": `{"a/b~c":"1","empty":""}`, "place": "", "disks": `[{"fast":true,"size":10,"tags":["x"]},{"size":20}]`,
	} {
		var is, should any
		if want != "" && (json.Unmarshal(got[name], &is) != nil || json.Unmarshal([]byte(want), &should) != nil) || fmt.Sprint(is) != fmt.Sprint(should) {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}

// TestPartsReshape adds and removes rows without script or launch.
func TestPartsReshape(t *testing.T) {
	d := newKeys(t)
	form := d.Fill(t, "anna", keysForm, "name", "typed name", "p.tags", "", "p.tags.0", "one", "p.tags.1", "two", "p.count", "many", "more", "p.tags")
	body := d.Open(t, 200, "anna", keysForm, form).Body
	for _, text := range []string{`value="typed name"`, `name="p.tags.0" value="one"`, `name="p.tags.1" value="two"`, `name="p.tags.2" value=""`, `name="p.count" value="many"`} {
		if !strings.Contains(body, text) {
			t.Errorf("one more row lacks %q", text)
		}
	}
	form.Del("more")
	form.Set("less", "p.tags.0")
	form.Set("key", portaltest.KeyOf(body))
	body = d.Open(t, 200, "anna", keysForm, form).Body
	if strings.Contains(body, `value="one"`) || !strings.Contains(body, `value="two"`) || !strings.Contains(body, `value="typed name"`) {
		t.Errorf("one row less:\n%s", body)
	}
	for _, name := range []string{"p.none", "key", "p.tags.99999999999999999999", strings.Repeat("p.", 200)} {
		form.Set("key", portaltest.KeyOf(body))
		form.Set("more", name)
		body = d.Open(t, 200, "anna", keysForm, form).Body
	}
	if d.Store.Commits() != 0 {
		t.Error("a row made an instance")
	}
}

// TestOneName: an input called name names the instance.
func TestOneName(t *testing.T) {
	d := portaltest.NewPages(t, func(o *portal.Options, _ *access.Policy) {
		o.Catalog = portaltest.NewCatalog(t, `
template "lab/named" {
  module { address = "net/vpc/aws" }
  parameter "name" { title = "Name" }
}

`)
	})
	if body := d.Shows(t, "anna", "run/lab/named"); strings.Count(body, ">Name</label>") != 1 {
		t.Errorf("it asks for a name %d times", strings.Count(body, ">Name</label>"))
	}
	at := d.Send(t, "anna", "run/lab/named", "run/lab/named", "p.name", "shop").Location
	if r := d.Store.Record(t, path.Base(at)); r.Name != "shop" || string(r.Parameters["name"]) != `"shop"` {
		t.Errorf("it is called %q, with %s", r.Name, r.Parameters["name"])
	}
	at = d.Send(t, "anna", "run/lab/named", "run/lab/named", "p.name", "n").Location // the default
	if r := d.Store.Record(t, path.Base(at)); r.Name != "" {
		t.Errorf("it is called %q, as all that nobody named", r.Name)
	}
}

// TestLaunchLike starts with an instance's values, for those who see them.
func TestLaunchLike(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	launched := d.Launch(t, "anna", `{"template":"lab/vpc","parameters":{"size":"large","secret":"hunter2hunter2"}}`)
	form := "run/lab/vpc?like=" + launched
	d.Shows(t, "anna", "instances/"+launched, `href="./../`+form+`"`, "Launch another with these values")
	if body := d.Shows(t, "anna", form, `<option value="large" selected>`); strings.Contains(body, "hunter2") || strings.Contains(body, "from the link") {
		t.Error("the form has a secret, or says that a link filled it in")
	}
	at := d.Send(t, "anna", form, form, "p.size", "large").Location
	if r := d.Store.Record(t, path.Base(at)); string(r.Parameters["size"]) != `"large"` || r.ID == launched {
		t.Errorf("%s has the size %s", r.ID, r.Parameters["size"])
	}
	for _, page := range []string{form, "run/lab/vpc?like=../templates", "run/lab/vpc?like=none"} {
		if body := d.Shows(t, "ben", page, `name="p.size"`); strings.Contains(body, `<option value="large" selected>`) {
			t.Errorf("%s: ben's form has the values of anna", page)
		}
	}
}

// TestPartsLink fills a list by a link, and marks it until the user changes it.
func TestPartsLink(t *testing.T) {
	d := newKeys(t)
	const link = keysForm + "?p.tags=%5B%22x%22%5D"
	for tag, says := range map[string]bool{"x": true, "y": false} {
		form := d.Fill(t, "anna", link, "p.tags", "", "p.tags.0", tag, "p.count", "many")
		if body := d.Open(t, 422, "anna", link, form).Body; strings.Contains(body, "The link that you followed") != says {
			t.Errorf("after %q the form says that it came from the link: %t", tag, !says)
		}
	}
}
