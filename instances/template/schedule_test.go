// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/template"
)

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
	if diff := cmp.Diff(want, got.Schedule); diff != "" {
		t.Error(diff)
	}
	b, err := got.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	again, err := template.ParseCanonical(b, template.Known{})
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Error(diff)
	}
	s, err := template.NewSchema(got, switchable())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CheckParameters(values("running", "true")); err == nil || !strings.Contains(err.Error(), "there is no such parameter") {
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
		{"parameter", night + "parameter \"running\" {\n}", ":6: schedule: running is a parameter as well, and who launches must not set it: take the parameter out"},
		{"input", night + "inputs = { running = true }", "schedule: inputs sets running as well"},
		{"approved plans", night + `approval = "plan"`, `schedule: with approval = "plan" each stop and each start would need an approval`},
		{"no variable", change(`"running"`, `""`), "is not a valid input name"},
		{"no value", change("started  = true", ""), "stopped and started are needed"},
		{"one value", change("started  = true", "started = false"), "true and false, or two short texts"},
		{"a number", change("started  = true", "started = 1"), "true and false, or two short texts"},
		{"two kinds", change("started  = true", `started = "on"`), "true and false, or two short texts"},
		{"a template", change("started  = true", `started = "$${x}"`) + "\n", "true and false, or two short texts"},
		{"cron", change("0  20", "20"), ":9: schedule: stop: want five fields of cron"},
		{"zone", change("Europe/Berlin", "Europe/Nowhere"), `:11: schedule: timezone: there is no time zone "Europe/Nowhere"`},
		{"too often", change("0 7 * * 1-5", "10 20 * * 1-5"), "less than 30 minutes after another switch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := template.Parse([]byte("template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  "+tt.body+"\n}\n"), "x.hcl", template.Known{})
			if err == nil || !strings.HasPrefix(err.Error(), "template a/b: x.hcl:") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	_, err := template.Parse([]byte("template \"a/b\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n  executor = \"flux-terraform\"\n  "+night+"\n}\n"), "x.hcl", template.Known{Executors: []string{"flux-terraform"}})
	if err == nil || !strings.Contains(err.Error(), "executor flux-terraform does not stop and start") {
		t.Errorf("an executor of a cluster: %v", err)
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
