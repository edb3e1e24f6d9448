// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
)

// TestSeveral destroys the chosen instances, as far as the caller may: instances of others are
// not named, protected ones stay, and reading the page destroys nothing.
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
		if body := d.Open(t, 422, who, "instances/several", form).Body; !strings.Contains(body, "Nothing that you can destroy was chosen") {
			t.Errorf("%s may destroy it", who)
		}
	}
	d.Open(t, 401, "", "instances/several", form)
	d.Open(t, 401, "", "instances/several", nil)
	d.Shows(t, "anna", "instances/several", "Nothing that you can destroy was chosen")
	many := url.Values{}
	for n := range 51 {
		many.Add("id", fmt.Sprint(n))
	}
	d.Open(t, 400, "anna", "instances/several?"+many.Encode(), nil)
}
