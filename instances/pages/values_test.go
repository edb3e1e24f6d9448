// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

// kept are types of inputs with defaults, and values that forms must keep.
func kept() []keptType {
	long := make([]string, 70)
	for i := range long {
		long[i] = fmt.Sprintf("%q", fmt.Sprint("e", i))
	}
	strings70 := "[" + strings.Join(long, ",") + "]"
	return []keptType{
		{`{"type":["string","null"],"default":"d"}`, []string{`"a b "`, `"x\ny"`, `"\nfirst"`, `"a\r\nb"`, `"<b>\"'&+"`, `""`, `null`}},
		{`{"type":["string","null"],"default":null}`, []string{`"a"`, `""`}},
		{`{"type":"string","default":"small","enum":["small","large",""]}`, []string{`"large"`, `""`}},
		{`{"type":["number","null"],"default":2}`, []string{`3`, `-0.5`, `12345678901234567890`, `null`}},
		{`{"type":["boolean","null"],"default":true}`, []string{`true`, `false`, `null`}},
		{`{"type":["boolean","null"],"default":null}`, []string{`true`, `false`}},
		{`{"default":{"a":1}}`, []string{`"text"`, `[1,"a"]`, `true`, `null`}},
		{`{"type":["array","null"],"items":{"type":"string"},"default":["us-east-1","us-west-2"]}`, []string{`["eu-central-1"]`, `["eu-central-1","us-west-2"]`, `["a","b","c"]`, `[]`, `[""]`, `["a","","b"]`, `null`, strings70}},
		{`{"type":"array","uniqueItems":true,"items":{"type":"number"},"default":[1,2,3]}`, []string{`[2]`, `[3,1]`}},
		{`{"type":"array","items":{"type":"array","items":{"type":"string"}},"default":[["a","b"],["c"]]}`, []string{`[["c"]]`, `[[],["a"]]`, `[[]]`}},
		{`{"type":["object","null"],"additionalProperties":{"type":"string"},"default":{"team":"a","env":"b"}}`, []string{`{"team":"b"}`, `{"env":""}`, `{" ":"x"}`, `{"a/b~c.0":"1"}`, `{}`, `null`}},
		{`{"type":"object","additionalProperties":{"type":["boolean","null"]},"default":{"a":true}}`, []string{`{"a":false}`, `{"a":null}`}},
		{`{"type":["object","null"],"default":{"zone":"a","rack":1},"required":["zone"],"properties":{"zone":{"type":"string"},"rack":{"type":["number","null"]},"on":{"type":["boolean","null"],"default":true}}}`, []string{`{"zone":"b"}`, `{"zone":"","rack":2}`, `{"zone":"b","on":false}`, `null`}},
		{`{"type":"array","default":[{"size":1,"tags":["x"]}],"items":{"type":"object","required":["size"],"properties":{"size":{"type":"number"},"tags":{"type":["array","null"],"items":{"type":"string"}},"labels":{"type":["object","null"],"additionalProperties":{"type":"string"}}}}}`, []string{`[{"size":2}]`, `[{"size":2,"tags":[],"labels":{"k":"v"}},{"size":3,"tags":["y","z"]}]`, `[]`}},
		{`{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}},"default":{"a":{"b":{"c":["d"]}}}}`, []string{`{"a":{"b":{"c":["e"]}}}`, `{"a":{}}`}},
		{`{"type":["object","null"],"default":null,"required":["b","tags"],"properties":{"b":{"type":"string"},"tags":{"type":"object","additionalProperties":{"type":"string"}},"zones":{"type":["array","null"],"items":{"type":"string"},"default":["z"]}}}`, []string{`{"b":"x","tags":{}}`, `{"b":"","tags":{"k":"v"},"zones":["y"]}`, `{"b":"x","tags":{},"zones":[]}`}},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"minItems":2,"maxItems":2,"default":["a",1]}`, []string{`["b",2]`}},
		{`{"type":"string","writeOnly":true,"default":"s"}`, []string{`"hunter2"`, `""`}},
		{`{"type":["array","null"],"items":{"type":"string"},"writeOnly":true,"default":["s"]}`, []string{`["hunter2"]`, `null`}},
	}
}

// keptType is the property of an input, with some of its values.
type keptType struct {
	property string
	values   []string
}

func regions() keptType {
	return keptType{`{"type":["array","null"],"items":{"type":"string"},"default":["us-east-1","us-west-2"]}`, nil}
}

func (k keptType) secret() bool { return strings.Contains(k.property, "writeOnly") }

func (k keptType) byDefault() string {
	var p struct{ Default json.RawMessage }
	_ = json.Unmarshal([]byte(k.property), &p)
	return string(p.Default)
}

const keptForm = "run/lab/kept"

// newKept serves a template whose parameter x has a type.
func newKept(t *testing.T, k keptType) *portaltest.Pages {
	t.Helper()
	catalog := portaltest.NewCatalog(t, `template "lab/kept" {
  module { address = "net/vpc/aws" }
  parameter "zone" {
    update = true
    link   = true
  }
  parameter "count" { update = true }
}`)
	catalog.Change("lab/kept", func(e *template.Entry) {
		e.Template.Parameters[0].Name = "x"
		inputs := `{"type":"object","properties":{"x":` + k.property + `,"count":{"type":"number","default":1}}}`
		var err error
		if e.Schema, err = template.NewSchema(e.Template, template.Module{Inputs: json.RawMessage(inputs)}); err != nil {
			t.Fatalf("%s: %v", k.property, err)
		}
	})
	return portaltest.NewPages(t, func(o *portal.Options, p *access.Policy) {
		o.Catalog = catalog
		p.Tokens = []statictoken.Token{annasToken(t)}
	})
}

// stored returns the parameters of an instance, or those of its pending run.
func stored(t *testing.T, d *portaltest.Pages, id string) map[string]json.RawMessage {
	t.Helper()
	r := d.Store.Record(t, id)
	if r.Run != nil && r.Run.Parameters != nil {
		return r.Run.Parameters
	}
	return r.Parameters
}

func sameValue(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// TestValuesSurvive fills forms in every way with values of every type, and sends them as a
// browser without script shows them: stored is what was chosen.
//
// Shows: pages 8
func TestValuesSurvive(t *testing.T) {
	for _, k := range kept() {
		checkKept(t, k)
	}
}

func checkKept(t *testing.T, k keptType) {
	t.Helper()
	d := newKept(t, k)
	send := func(page string, edit func(url.Values)) string {
		t.Helper()
		body := d.Open(t, 200, "anna", page, nil).Body
		form := formOf(t, body)
		edit(form)
		if form.Has("more") { // the form is shown again, with a row more
			form = formOf(t, d.Open(t, 200, "anna", page, form).Body)
		}
		return path.Base(d.Open(t, 303, "anna", page, form).Location)
	}
	launch := func(value string) string {
		return d.Launch(t, "anna", fmt.Sprintf(`{"template":"lab/kept","parameters":{"x":%s}}`, value))
	}
	check := func(way, id, want string) {
		t.Helper()
		if got := string(stored(t, d, id)["x"]); !sameValue(got, want) {
			t.Errorf("%s, %s: stored %.200s, want %.200s", k.property, way, got, want)
		}
		d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "no", Permanent: true})
	}
	nothing := func(url.Values) {}
	again := func(form url.Values) { form.Set("more", "p.none") }
	check("default", send(keptForm, nothing), k.byDefault())
	check("default, shown again", send(keptForm, again), k.byDefault())
	for _, value := range k.values {
		made := launch(value)
		want := value
		if k.secret() {
			want = k.byDefault() // another instance does not get it
		} else if value != "null" && (value != `""` || k.byDefault() != "null") {
			link := keptForm + "?p.x=" + url.QueryEscape(linkText(k, value))
			check("link", send(link, nothing), value)
		}
		check("like", send(keptForm+"?like="+made, nothing), want)
		check("like, shown again", send(keptForm+"?like="+made, again), want)
		check("launch", made, value)
		for _, edit := range []func(url.Values){nothing, again, func(form url.Values) { form.Set("p.count", "2") }} {
			send("instances/"+made+"/update", edit)
			check("edit and launch again", made, value)
		}
	}
}

// linkText writes a value as links do: a text as it is, anything else as JSON.
func linkText(k keptType, value string) string {
	var text string
	if strings.Contains(k.property, `"string"`) && json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// TestChangeSays shows above the button of a change what is sent, and sends nothing else.
func TestChangeSays(t *testing.T) {
	d := newKept(t, regions())
	made := d.Launch(t, "anna", `{"template":"lab/kept","parameters":{"x":["eu-central-1","us-west-2"]}}`)
	d.Ready(t, made)
	page := "instances/" + made + "/update"
	form := formOf(t, d.Shows(t, "anna", page, "You change nothing yet."))
	form.Set("p.count", "3")
	look := url.Values{"look": {"1"}}
	maps.Copy(look, form)
	body := d.Open(t, 200, "anna", page, look).Body
	if !strings.Contains(body, "<li>count 1 → 3</li>") || strings.Count(body, "→") != 1 {
		t.Errorf("it does not say what is changed:\n%s", body)
	}
	d.Open(t, 303, "anna", page, formOf(t, body))
	if got := stored(t, d, made); string(got["count"]) != "3" || string(got["x"]) != `["eu-central-1","us-west-2"]` {
		t.Errorf("stored %s", got)
	}
	d.Store.Finish(t, made, lifecycle.Result{Outcome: lifecycle.Done, State: true})
	for content, says := range map[string]string{"": "count 3 → 1", "many": "count must be a number, such as 12 or 0.5"} { // empty: the default
		form := formOf(t, d.Shows(t, "anna", page))
		form.Set("p.count", content)
		form.Set("look", "1")
		if content == "many" {
			form.Del("look")
		}
		if body := d.Visit(t, "anna", page, form).Body; !strings.Contains(body, says) {
			t.Errorf("%q: it does not say %q:\n%s", content, says, body[strings.Index(body, "<main"):])
		}
	}
}

// TestValidation: a module's message beside the field.
func TestValidation(t *testing.T) {
	d := newKept(t, keptType{`{"type":"number","x-okara-type":"number","default":1,"x-okara-validation":[{"condition":"var.x < 10 || var.count > 1","error_message":"\"x is below 10.\""}]}`, nil})
	form := formOf(t, d.Shows(t, "anna", keptForm))
	form.Set("p.x", "30")
	body := d.Open(t, 422, "anna", keptForm, form).Body
	if !strings.Contains(body, `<p class="error" id="p-x-error">It is rejected by the module: x is below 10.</p>`) || d.Store.Commits() != 0 {
		t.Errorf("the field does not say what is wrong:\n%s", body)
	}
	form = formOf(t, body)
	form.Set("p.count", "2")
	d.Open(t, 303, "anna", keptForm, form)
}
