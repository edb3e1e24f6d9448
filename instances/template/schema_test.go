// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// module describes a module with all kinds of inputs.
func module() template.Module {
	return template.Module{
		Inputs: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"required":["name"],"properties":{
			"name":{"type":"string","description":"What it is called.","x-okara-type":"string"},
			"size":{"type":["string","null"],"default":"small"},
			"count":{"type":["number","null"],"default":1,"minimum":0,"maximum":10},
			"secret":{"type":["string","null"],"default":null,"writeOnly":true},
			"tags":{"type":["object","null"],"additionalProperties":{"type":"string"},"default":{}},
			"zones":{"type":["array","null"],"uniqueItems":true,"items":{"type":"string"},"default":[]},
			"any":{"default":null}}}`),
		Outputs: map[string]bool{"url": false, "password": true},
	}
}

// open returns a template that exposes inputs of module, given their blocks.
func open(t *testing.T, body string) *template.Template {
	t.Helper()
	return mustParse(t, "template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n"+body+"\n}\n")
}

func mustSchema(t *testing.T, body string) *template.Schema {
	t.Helper()
	return must.Get(template.NewSchema(open(t, body), module()))(t)
}

func values(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

const opened = `
parameter "name" {
  title   = "Name"
  help    = "Yours."
  pattern = "^[a-z]+$"
}
parameter "size" {
  enum    = ["small", "large"]
  default = "large"
  update  = true
}
parameter "count" {
  minimum = 2
  maximum = 5
  default = 2
}
parameter "secret" {
  link = true
}
parameter "tags" {
}
parameter "zones" {
}
parameter "any" {
  update = true
  when   = { size = ["large"] }
}
`

func TestSchemaJSON(t *testing.T) {
	var got map[string]any
	must.Succeed(t, json.Unmarshal(mustSchema(t, opened).JSON(), &got))
	properties := got["properties"].(map[string]any)
	want := map[string]any{
		"name":   map[string]any{"type": "string", "description": "What it is called.", "x-okara-type": "string", "title": "Name", "x-okara-help": "Yours.", "pattern": "^[a-z]+$", "x-okara-link": true, "x-okara-update": false},
		"size":   map[string]any{"type": []any{"string", "null"}, "enum": []any{"small", "large"}, "default": "large", "x-okara-link": true, "x-okara-update": true},
		"count":  map[string]any{"type": []any{"number", "null"}, "minimum": 2.0, "maximum": 5.0, "default": 2.0, "x-okara-link": true, "x-okara-update": false},
		"secret": map[string]any{"type": []any{"string", "null"}, "writeOnly": true, "x-okara-link": false, "x-okara-update": false},
	}
	for _, name := range []string{"tags", "zones", "any"} {
		delete(properties, name)
	}
	must.Match(t, "value", properties, want)
	must.Match(t, "value", got["required"], []any{"name"})
	must.Match(t, "value", got["x-okara-order"], []any{"name", "size", "count", "secret", "tags", "zones", "any"})
}

// Shows: platform 12 | typed parameters; anonymous pools | the module's description, narrowed
func TestCheckParameters(t *testing.T) {
	s := mustSchema(t, opened)
	got := must.Get(s.CheckParameters(values("name", ` "abc" `, "tags", `{"b":"${file(\"x\")}","a":"<","a":"2"}`, "secret", `"s3cret"`)))(t)
	want := values("name", `"abc"`, "size", `"large"`, "count", "2", "secret", `"s3cret"`, "tags", `{"a":"2","b":"${file(\"x\")}"}`, "zones", "[]", "any", "null")
	must.Match(t, "value", got, want)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := s.CheckParameters(values("name", `"abc"`, "any", deep(15))); err != nil {
		t.Errorf("16 levels in all: %v", err)
	}
	tests := []struct {
		name  string
		given map[string]json.RawMessage
		want  map[string]string
	}{
		{"missing", values(), map[string]string{"/name": "is missing"}},
		{"unknown", values("name", `"a"`, "nmae", `1`, "x/y~z", `1`), map[string]string{"/nmae": "unknown parameter", "/x~1y~0z": "unknown parameter"}},
		{"type", values("name", "5"), map[string]string{"/name": "is number, not string"}},
		{"null", values("name", "null"), map[string]string{"/name": "is null, not string"}},
		{"pattern", values("name", `"A B"`), map[string]string{"/name": "does not match ^[a-z]+$"}},
		{"enum", values("name", `"a"`, "size", `"huge"`), map[string]string{"/size": `is not one of "small", "large"`}},
		{"enum without null", values("name", `"a"`, "size", "null"), map[string]string{"/size": `is not one of "small", "large"`}},
		{"bounds", values("name", `"a"`, "count", "6"), map[string]string{"/count": "is greater than 5"}},
		{"several", values("name", `"a"`, "count", "1", "zones", `["a","a"]`, "tags", `{"k":1}`), map[string]string{"/count": "is less than 2", "/zones": "has an element twice", "/tags/k": "is number, not string"}},
		{"secret", values("name", `"a"`, "secret", `{"p":"hunter2"}`), map[string]string{"/secret": "is object, not null or string"}},
		{"too deep", values("name", `"a"`, "any", deep(16)), map[string]string{"/any": "nested more than 15 deep: too complex"}},
		{"too large", values("name", `"`+strings.Repeat("a", 8<<10)+`"`), map[string]string{"": "8198 bytes of parameters, the limit is 8192"}},
		{"no JSON", values("name", `"a`), map[string]string{"/name": "not valid JSON: unexpected EOF"}},
		{"two values", values("name", `"a" "b"`), map[string]string{"/name": "not valid JSON: more than one value"}},
		{"empty", values("name", ""), map[string]string{"/name": "not valid JSON: EOF"}},
		{"huge number", values("name", `"a"`, "count", "1e999999999"), map[string]string{"/count": "a number of more than 400 digits or over 1e308: too complex"}},
		{"tiny number", values("name", `"a"`, "any", "[1e-999999999]"), map[string]string{"/any": "a number of more than 400 digits or over 1e308: too complex"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.CheckParameters(tt.given)
			must.Match(t, "value", fields(t, err), tt.want)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the value is shown: %v", err)
			}
			if !errors.Is(err, template.ErrInvalid) || strings.HasPrefix(err.Error(), ":") {
				t.Errorf("%v is not ErrInvalid, or of no field", err)
			}
		})
	}
}

func fields(t *testing.T, err error) map[string]string {
	t.Helper()
	out := map[string]string{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			maps.Copy(out, fields(t, e))
		}
		return out
	}
	if f, ok := errors.AsType[*template.FieldError](err); ok {
		out[f.Path] = f.Text
	}
	return out
}

func TestCheckUpdate(t *testing.T) {
	s := mustSchema(t, opened)
	have := must.Get(s.CheckParameters(values("name", `"abc"`)))(t)
	have["dropped"] = json.RawMessage("1") // dropped by a newer version of the module
	got := must.Get(s.CheckUpdate(have, have, values("size", `"small"`, "name", ` "abc"`), true))(t)
	if string(got["size"]) != `"small"` || string(got["name"]) != `"abc"` || got["dropped"] != nil {
		t.Errorf("got %s", got)
	}
	for want, change := range map[string]map[string]json.RawMessage{
		"/name: cannot be changed later":            values("name", `"other"`),
		"/size: is not one of \"small\", \"large\"": values("size", `"huge"`),
		"/colour: unknown parameter":                values("colour", `"red"`),
		"/count: cannot be changed later":           values("count", "3"),
		"/secret: cannot be changed later":          values("secret", `"x"`),
		"/tags: cannot be changed later":            values("tags", "{"),
		"/any: not valid JSON":                      values("any", "{"),
		"/zones: cannot be changed later":           values("zones", `["a"]`),
		"/name: cannot be changed later\n/tags: c":  values("name", `"x"`, "tags", `{"a":"b"}`),
	} {
		if _, err := s.CheckUpdate(have, have, change, true); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	tried := maps.Clone(have) // with a newer version, which has another parameter, and failed
	delete(have, "count")
	if got, err := s.CheckUpdate(have, tried, values("count", "3"), true); err != nil || string(got["count"]) != "3" {
		t.Errorf("a value that was only tried: %s, %v", got["count"], err)
	}
}

func TestSensitive(t *testing.T) {
	s := mustSchema(t, "parameter \"secret\" {\n default = \"x\"\n}\nparameter \"size\" {\n}\ninputs = {\n name = \"n-${parameters.secret}\"\n zones = [upper(parameters.size)]\n}")
	if !s.Sensitive("secret") || s.Sensitive("size") {
		t.Error("the wrong parameter is sensitive")
	}
	must.Match(t, "value", s.SensitiveVariables(), []string{"name", "secret"})
	if strings.Contains(string(s.JSON()), `"default":"x"`) {
		t.Errorf("the default is shown: %s", s.JSON())
	}
}

// TestSchemaRefuses checks templates that do not fit their module.
func TestSchemaRefuses(t *testing.T) {
	name := "inputs = { name = \"x\" }\n"
	tests := []struct{ name, body, want string }{
		{"hidden required", "", "the module requires the input name"},
		{"unknown parameter", name + "parameter \"colour\" {\n}", "parameter colour: the module has no such input"},
		{"unknown input", "inputs = {\n name = \"x\"\n colour = \"red\"\n}", "the module has no input colour"},
		{"enum", name + "parameter \"size\" {\n enum = [\"small\", 5]\n}", "enum: 5: not accepted by the module"},
		{"enum null", "parameter \"name\" {\n enum = [null]\n}", "enum: null: not accepted by the module"},
		{"wider minimum", name + "parameter \"count\" {\n minimum = -1\n}", "minimum -1 is wider"},
		{"wider maximum", name + "parameter \"count\" {\n maximum = 11\n}", "maximum 11 is wider"},
		{"pattern of a number", name + "parameter \"count\" {\n pattern = \"x\"\n}", "is not a string"},
		{"minimum of a text", name + "parameter \"size\" {\n minimum = 1\n}", "is not a number"},
		{"default of another type", name + "parameter \"count\" {\n default = \"x\"\n}", "default: is string"},
		{"default beyond the bounds", name + "parameter \"count\" {\n maximum = 5\n default = 6\n}", "default: is greater than 5"},
		{"default of the module beyond the bounds", name + "parameter \"count\" {\n minimum = 5\n}", "the default of the module; set one for the parameter"},
		{"constant input", "inputs = { name = [1] }", "inputs.name: is array, not string"},
		{"constant of another type", "inputs = { name = \"${1 + 1}\" }", "inputs.name: is number, not string"},
		{"growing constant", "inputs = { name = replace(\"" + strings.Repeat("x", 1000) + "\", \"x\", \"yyyyy\") }", "the limit is 4096"},
		{"output", name + `outputs = ["nope"]`, "the module has no output nope"},
		{"sensitive output", name + "outputs = [\"password\"]\nconnection {\n message = outputs.password\n}", "the output password is sensitive"},
		{"when of a value that is never", name + "parameter \"size\" {\n enum = [\"small\"]\n}\nparameter \"zones\" {\n when = { size = [\"smal\"] }\n}", "parameter zones: when: size is never \"smal\""},
		{"when of a secret", name + "parameter \"secret\" {\n}\nparameter \"zones\" {\n when = { secret = [\"x\"] }\n}", "when: secret is sensitive"},
		{"when of a list", name + "parameter \"zones\" {\n}\nparameter \"size\" {\n when = { zones = [\"x\"] }\n}", "when: zones is not a string, a number or a boolean"},
		{"when without a default", "parameter \"size\" {\n}\nparameter \"name\" {\n when = { size = [\"x\"] }\n}", "parameter name: when: requires a default"},
		{"sensitive parameter", name + "parameter \"secret\" {\n}\nconnection {\n message = parameters.secret\n}", "the parameter secret is sensitive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := template.NewSchema(open(t, tt.body), module())
			if err == nil || !strings.HasPrefix(err.Error(), "template a/b: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestModuleDefault converts the default of a module to its type, as the tools do.
func TestModuleDefault(t *testing.T) {
	const inputs = `{"type":"object","properties":{"x":{"type":["array","null"],"items":{"type":"object","additionalProperties":{"type":"string"}},"x-okara-type":"list(map(string))","default":[{"port":22,"open":true,"name":"a"}]}}}`
	s := must.Get(template.NewSchema(open(t, "parameter \"x\" {\n}"), template.Module{Inputs: json.RawMessage(inputs)}))(t)
	must.Equal(t, "default", string(must.Get(s.CheckParameters(nil))(t)["x"]), `[{"name":"a","open":"true","port":"22"}]`)
}

// TestForeignSchema refuses schemas that read elsewhere or never end.
func TestForeignSchema(t *testing.T) {
	for _, property := range []string{
		`{"$ref":"file:///etc/passwd"}`, `{"$ref":"#"}`, `{"items":{"$ref":"https://example.com/"}}`, `{"allOf":[{"$dynamicRef":"#x"}]}`, `{"$id":"https://example.com/"}`,
		`{"type":"colour"}`, `{"pattern":"("}`, `{"minimum":1e999999999}`, `[]`, strings.Repeat(`{"items":`, 100) + "{}" + strings.Repeat("}", 100),
	} {
		m := template.Module{Inputs: json.RawMessage(`{"properties":{"p":` + property + `}}`)}
		if _, err := template.NewSchema(open(t, "parameter \"p\" {\n default = 1\n}"), m); err == nil {
			t.Errorf("%.60s was accepted", property)
		}
	}
	if _, err := template.NewSchema(open(t, ""), template.Module{}); err == nil || !strings.Contains(err.Error(), "no description") {
		t.Errorf("got %v", err)
	}
}

// TestNarrowed keeps refusing what the module refuses.
//
// Shows: platform 12
func TestNarrowed(t *testing.T) {
	m := template.Module{Inputs: json.RawMessage(`{"properties":{"p":{"type":"string","pattern":"^a","minLength":2}}}`)}
	s := must.Get(template.NewSchema(open(t, "parameter \"p\" {\n pattern = \"z$\"\n}"), m))(t)
	got := map[string]bool{}
	for _, v := range []string{`"abz"`, `"bz"`, `"ab"`, `"z"`} {
		_, err := s.CheckParameters(values("p", v))
		got[v] = err == nil
	}
	must.Match(t, "value", got, map[string]bool{`"abz"`: true, `"bz"`: false, `"ab"`: false, `"z"`: false})
}

// TestWhen: a parameter that is not asked for has its default.
func TestWhen(t *testing.T) {
	s := mustSchema(t, `
inputs = { name = "x" }
parameter "size" {
  enum   = ["small", "large", "huge"]
  update = true
}
parameter "count" {
  when    = { size = ["large", "huge"] }
  default = 2
  update  = true
}
parameter "zones" {
  when   = { count = [2, 3], size = ["large"] }
  update = true
}
`)
	for name, tt := range map[string]struct{ given, want map[string]json.RawMessage }{
		"nothing":             {values(), values("size", `"small"`, "count", "2", "zones", "[]")},
		"not asked, the same": {values("count", "2", "zones", "[ ]"), values("size", `"small"`, "count", "2", "zones", "[]")},
		"asked":               {values("size", `"large"`, "count", "3.0", "zones", `["a"]`), values("size", `"large"`, "count", "3.0", "zones", `["a"]`)},
		"asked by a default":  {values("size", `"large"`, "zones", `["a"]`), values("size", `"large"`, "count", "2", "zones", `["a"]`)},
		"one of both":         {values("size", `"huge"`, "count", "5"), values("size", `"huge"`, "count", "5", "zones", "[]")},
	} {
		got, err := s.CheckParameters(tt.given)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		unasked, err := template.Unasked(s.JSON(), tt.given)
		if want := name != "asked" && name != "asked by a default"; unasked["zones"] != want || err != nil {
			t.Errorf("%s: a form does not ask for zones: %t, %v", name, unasked["zones"], err)
		}
	}
	for _, tt := range []struct {
		given map[string]json.RawMessage
		at    string
		want  string
	}{
		{values("count", "3"), "/count", `applies only when size is "large" or "huge"; omit it`},
		{values("size", `"small"`, "zones", `["a"]`), "/zones", `applies only when count is 2 or 3, and size is "large"; omit it`},
		{values("size", `"huge"`, "zones", `["a"]`), "/zones", "only when"},
		{values("size", `"large"`, "count", "4", "zones", `["a"]`), "/zones", "only when"},
	} {
		_, err := s.CheckParameters(tt.given)
		f, ok := errors.AsType[*template.FieldError](err)
		if !ok || f.Path != tt.at || !strings.Contains(f.Text, tt.want) {
			t.Errorf("%s: %v, want %s %s", tt.given, err, tt.at, tt.want)
		}
	}
	have := values("size", `"large"`, "count", "3", "zones", `["a"]`)
	for _, change := range []map[string]json.RawMessage{values("size", `"small"`), values("size", `"small"`, "count", " 3", "zones", `["a"]`)} {
		got, err := s.CheckUpdate(have, have, change, true)
		if diff := cmp.Diff(values("size", `"small"`, "count", "2", "zones", "[]"), got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", change, err, diff)
		}
	}
	if _, err := s.CheckUpdate(have, have, values("size", `"small"`, "count", "4"), true); err == nil || !strings.HasPrefix(err.Error(), "/count: applies only when") {
		t.Errorf("a value that does not count: %v", err)
	}
	if got, err := s.CheckUpdate(have, have, values("count", "2"), true); err != nil || string(got["zones"]) != `["a"]` {
		t.Errorf("%v: %s", err, got)
	}
}

// FuzzParameters: accepted values are stable JSON.
func FuzzParameters(f *testing.F) {
	f.Add("name", `"abc"`)
	f.Add("any", `[1e5,{"a":"\u0000"}]`)
	f.Add("tags", `{"a":"b","a":"c"}`)
	list := must.Get(template.Parse([]byte("template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n"+opened+"\n}\n"), "a.hcl", template.Known{}))(f)
	s, err := template.NewSchema(list[0], module())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		got, err := s.CheckParameters(values("name", `"abc"`, name, value))
		if err != nil {
			if !errors.Is(err, template.ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		again, err := s.CheckParameters(got)
		if err != nil || !maps.EqualFunc(got, again, func(a, b json.RawMessage) bool { return slices.Equal(a, b) }) {
			t.Fatalf("%v\n%s\n%s", err, got, again)
		}
	})
}
