// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestRules checks values as tofu 1.12 does, as far as it can.
func TestRules(t *testing.T) {
	const generic = "does not meet a validation rule of the module"
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for _, tt := range []struct{ kind, value, condition, message, want string }{
		{"number", `3`, `var.x > 1 && var.x <= var.other`, `"no"`, ""},
		{"number", `30`, `var.x > 1 && var.x <= var.other`, `"x is at most ${var.other}."`, "is rejected by the module: x is at most 9"},
		{"string", `"ab"`, `can(regex("^[a-z]{3,}$", var.x))`, `"three letters"`, "is rejected by the module: three letters"},
		{"string", `"abc"`, `can(regex("^[a-z]{3,}$", var.x))`, `"no"`, ""},
		{"string", `null`, `var.x == null || length(var.x) > 3`, `"no"`, ""},
		{"list(string)", `["a","eu-1"]`, `alltrue([for z in var.x : startswith(z, "eu-")])`, `"only in ${join(", ", ["eu"])}"`, generic},
		{"list(string)", `["eu-1"]`, `alltrue([for z in var.x : startswith(z, "eu-")])`, `"no"`, ""},
		{"object({ size = optional(number, 5) })", `{}`, `var.x.size == 5`, `"no"`, ""},
		{"set(string)", `["a","b"]`, `contains(var.x, "c")`, "<<EOT\nc is\nmissing.\nEOT", "is rejected by the module: c is\nmissing"},
		{"string", `"a"`, `can(cidrhost(var.x, 0))`, `"no"`, ""},
		{"string", `"a"`, `var.x == local.y`, `"no"`, ""},
		{"string", `"a"`, `var.x == var.set`, `"no"`, ""},
		{"string", `"a"`, `var.x ==`, `"no"`, ""},
		{"string", `"a"`, `var.x != var.secret`, `"no"`, ""},
		{"string", `"hunter2"`, `var.x != var.secret`, `"it is ${var.secret}"`, generic},
		{"list(number)", list(2000), `length([for a in var.x : [for b in var.x : [for c in var.x : c]]]) == 0`, `"no"`, ""},
	} {
		rule := must.Get(json.Marshal([]any{map[string]string{"condition": tt.condition, "error_message": tt.message}}))(t)
		inputs := fmt.Sprintf(`{"type":"object","properties":{
			"x":{"x-okara-type":%q,"default":null,"x-okara-validation":%s},"other":{"type":"number","x-okara-type":"number","default":9},"set":{"default":"a"},
			"secret":{"type":"string","x-okara-type":"string","default":"hunter2","writeOnly":true}}}`, tt.kind, rule)
		s, err := template.NewSchema(open(t, "parameter \"x\" {}\nparameter \"secret\" {}\ninputs = { set = \"${owner.id}\" }\n"), template.Module{Inputs: json.RawMessage(inputs)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(s.JSON()), "validation") {
			t.Errorf("the form gets the rules: %s", s.JSON())
		}
		_, err = s.CheckParameters(values("x", tt.value))
		if got := strings.TrimPrefix(fmt.Sprint(err), "/x: "); got != tt.want && (tt.want != "" || err != nil) {
			t.Errorf("%s of %.50s: %q, want %q", tt.condition, tt.value, got, tt.want)
		}
	}
}

const night = `schedule {
    variable = "running"
    stopped  = false
    started  = true
    stop     = "0  20 * * 1-5"
    start    = "0 7 * * 1-5"
    timezone = "Europe/Berlin"
  }
`

func switchable() template.Module {
	return template.Module{Inputs: json.RawMessage(`{"type":"object","required":["running"],"properties":{
		"running":{"type":"boolean"},"power":{"type":["string","null"],"enum":["on","off"]},"size":{"type":"string","default":"small"}}}`)}
}

func TestScheduleBlock(t *testing.T) {
	got := open(t, night)
	want := &timetable.Schedule{
		Variable: "running", Stopped: json.RawMessage("false"), Started: json.RawMessage("true"), Stop: "0 20 * * 1-5", Start: "0 7 * * 1-5", Timezone: "Europe/Berlin",
	}
	must.Match(t, "value", got.Schedule, want)
	b := must.Get(got.Canonical())(t)
	again, err := template.ParseCanonical(b, template.Known{})
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	must.Match(t, "value", got, again)
	s := must.Get(template.NewSchema(got, switchable()))(t)
	if _, err := s.CheckParameters(values("running", "true")); err == nil || !strings.Contains(err.Error(), "unknown parameter") {
		t.Errorf("a launcher sets the variable: %v", err)
	}
	for _, stopped := range []bool{true, false} {
		variables, err := template.Render(got, template.Scope{Stopped: stopped, Parameters: values("running", `"mine"`)})
		if err != nil || string(variables["running"]) != string(want.Value(stopped)) {
			t.Errorf("stopped %v: got %s, %v", stopped, variables["running"], err)
		}
	}
}

// A schedule without times has the time zone UTC.
func TestScheduleByHand(t *testing.T) {
	got := open(t, "schedule {\n variable = \"power\"\n stopped = \"off\"\n started = \"on\"\n}\ninputs = { running = true }").Schedule
	if got.Stop != "" || got.Start != "" || got.Timezone != "UTC" || string(got.Stopped) != `"off"` {
		t.Errorf("got %+v", got)
	}
}

func TestScheduleRefuses(t *testing.T) {
	change := func(old, now string) string { return strings.Replace(night, old, now, 1) }
	for _, tt := range []struct{ name, body, want string }{
		{"parameter", night + "parameter \"running\" {\n}", ":6: schedule: running must not be a parameter as well: remove the parameter"},
		{"input", night + "inputs = { running = true }", "schedule: inputs sets running as well"},
		{"approved plans", night + `approval = "plan"`, `schedule: with approval = "plan" each stop and each start would need an approval`},
		{"no variable", change(`"running"`, `""`), "is not a valid input name"},
		{"no value", change("started  = true", ""), "stopped and started, the two values of the variable, are required"},
		{"one value", change("started  = true", "started = false"), "true and false, or two short strings"},
		{"a number", change("started  = true", "started = 1"), "true and false, or two short strings"},
		{"two kinds", change("started  = true", `started = "on"`), "true and false, or two short strings"},
		{"a template", change("started  = true", `started = "$${x}"`) + "\n", "true and false, or two short strings"},
		{"cron", change("0  20", "20"), ":9: schedule: stop: must be five cron fields"},
		{"zone", change("Europe/Berlin", "Europe/Nowhere"), `:11: schedule: timezone: time zone "Europe/Nowhere" not found`},
		{"too often", change("0 7 * * 1-5", "10 20 * * 1-5"), "less than 30 minutes after another switch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := template.Parse([]byte("template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  "+tt.body+"\n}\n"), "x.hcl", template.Known{})
			if err == nil || !strings.HasPrefix(err.Error(), "template a/b: x.hcl:") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	for body, want := range map[string]string{night: "executor flux-terraform does not stop and start", "require_module_lock = true": "executor flux-terraform does not read the module lock"} {
		_, err := template.Parse([]byte("template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  executor = \"flux-terraform\"\n  "+body+"\n}\n"), "x.hcl", template.Known{Executors: []string{"flux-terraform"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an executor of a cluster: %v", err)
		}
	}
	for _, tt := range []struct{ name, body, want string }{
		{"no input", change(`"running"`, `"off"`), "template a/b: schedule: the module has no input off"},
		{"another type", "inputs = { running = true }\n" + change(`"running"`, `"size"`), "template a/b: schedule: size is never false"},
		{"another value", "inputs = { running = true }\nschedule {\n variable = \"power\"\n stopped = \"off\"\n started = \"up\"\n}", `template a/b: schedule: power is never "up"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := template.NewSchema(open(t, tt.body), switchable()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// onCluster holds the executors of an operator.
var onCluster = template.Known{Executors: []string{"flux-terraform", template.ExecutorHelm}}

const webChart = `"chart":{"oci":{"url":"oci://r.example.com/web","version":"1.x"}}`

func chartTemplate(more string) string {
	return `{"template":{"lab/web":{"executor":"flux-helm",` + more + `}}}`
}

// TestChart keeps the chart object, there and back.
func TestChart(t *testing.T) {
	first := must.Get(template.ParseCanonical([]byte(chartTemplate(webChart+`,"drift":{"every":"1h","remediate":true},"credentials":["web"]`)), onCluster))(t)
	if got := string(first.Chart); got != `{"oci":{"url":"oci://r.example.com/web","version":"1.x"}}` || first.Module != (template.ModuleRef{}) {
		t.Errorf("chart %s, module %+v", got, first.Module)
	}
	b := must.Get(first.Canonical())(t)
	second, err := template.ParseCanonical(b, onCluster)
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	must.Match(t, "value", second, first)
}

// TestChartRefuses refuses what only modules have.
func TestChartRefuses(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`"title":"x"`, "installs a chart: set chart"},
		{webChart + `,"module":{"address":"a/b/c"}`, "installs a chart: set chart, and remove the module block"},
		{`"chart":"oci://r.example.com/web"`, "chart must be an object"},
		{webChart + `,"outputs":["url"]`, "outputs: not supported by charts"},
		{webChart + `,"approval":"plan"`, "approval: a chart has no plan"},
		{webChart + `,"update":"auto"`, "update: a chart has no plan"},
	} {
		if _, err := template.ParseCanonical([]byte(chartTemplate(c.body)), onCluster); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.body, err)
		}
	}
	here := `{"template":{"lab/web":{"executor":"flux-terraform",` + webChart + `}}}`
	if _, err := template.ParseCanonical([]byte(here), onCluster); err == nil || !strings.Contains(err.Error(), "executor flux-terraform runs a module") {
		t.Error(err)
	}
}

// TestChartValues sets a parameter only where inputs refer to it.
func TestChartValues(t *testing.T) {
	tmpl := must.Get(template.ParseCanonical([]byte(chartTemplate(webChart+`,
		"inputs":{"service":{"type":"${parameters.type}","host":"${id}.${config.domain}"}},
		"parameter":[{"type":{}},{"replicas":{"default":1}}]`)), onCluster))(t)
	s := scope("x")
	s.Parameters = map[string]json.RawMessage{"type": []byte(`"NodePort"`), "replicas": []byte(`2`)}
	got := must.Get(template.Render(tmpl, s))(t)
	want := `{"replicas":2,"service":{"host":"k7m2p9x4tq.example.com","type":"NodePort"}}`
	if b, err := json.Marshal(got); err != nil || string(b) != want {
		t.Errorf("values %s, %v, want %s", b, err, want)
	}
}
