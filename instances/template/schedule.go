// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
)

// scheduleBlock says which input stops an instance, and when.
type scheduleBlock struct {
	Variable string         `hcl:"variable"`
	Stopped  *hcl.Attribute `hcl:"stopped"`
	Started  *hcl.Attribute `hcl:"started"`
	Stop     string         `hcl:"stop,optional"`
	Start    string         `hcl:"start,optional"`
	Timezone *string        `hcl:"timezone"`
	Body     hcl.Body       `hcl:",body"`
}

// maxSwitchValue bounds a value of the variable, in bytes of JSON.
const maxSwitchValue = 200

func (r *templateReader) schedule(b *scheduleBlock) *timetable.Schedule {
	if b == nil {
		return nil
	}
	s := &timetable.Schedule{
		Variable: b.Variable, Stop: strings.Join(strings.Fields(b.Stop), " "), Start: strings.Join(strings.Fields(b.Start), " "), Timezone: or(b.Timezone, "UTC"),
	}
	if b.Stopped == nil || b.Started == nil {
		r.fail(b.Body.MissingItemRange(), "schedule: stopped and started are needed: the two values of the variable")
		return s
	}
	s.Stopped = r.constant(b.Stopped)
	s.Started = r.constant(b.Started)
	return s
}

// checkSchedule refuses a schedule whose variable is also set elsewhere, and one whose
// stops and starts would wait for approval.
func (r *templateReader) checkSchedule(t *Template, b *scheduleBlock) {
	s := t.Schedule
	if s == nil || b.Stopped == nil || b.Started == nil {
		return
	}
	here := func(name string) hcl.Range { return attributeRange(b.Body, name) }
	if !hclsyntax.ValidIdentifier(s.Variable) || len(s.Variable) > maxTitle {
		r.fail(here("variable"), "schedule: variable %.40q is not a valid input name", s.Variable)
	}
	stopped := switchKind(s.Stopped)
	started := switchKind(s.Started)
	if stopped == "" || stopped != started || string(s.Stopped) == string(s.Started) {
		r.fail(here("stopped"), "schedule: stopped and started are true and false, or two short texts")
	}
	switch inputs, err := t.inputs(); {
	case slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return p.Name == s.Variable }):
		r.fail(here("variable"), "schedule: %s is a parameter as well, and who launches must not set it: take the parameter out", s.Variable)
	case err == nil && inputs[s.Variable] != nil:
		r.fail(here("variable"), "schedule: inputs sets %s as well: take it out there", s.Variable)
	}
	if t.Approval == ApprovalPlan {
		r.fail(b.Body.MissingItemRange(), `schedule: with approval = "plan" each stop and each start would need an approval: use none or request`)
	}
	if t.Executor != ExecutorLocal {
		r.fail(b.Body.MissingItemRange(), "schedule: executor %s does not stop and start instances, only %s does", t.Executor, ExecutorLocal)
	}
	checkTimes(r, s, here)
}

func checkTimes(r *templateReader, s *timetable.Schedule, here func(string) hcl.Range) {
	table, err := s.Read()
	if part, ok := errors.AsType[*timetable.Part](err); ok {
		r.fail(here(part.Name), "schedule: %v", err)
		return
	}
	if err := table.Check(); err != nil {
		r.fail(here("stop"), "schedule: %v", err)
	}
}

// switchKind returns bool or text; "" for what the variable of a schedule cannot have. A
// text with template syntax would not be the same in both syntaxes.
func switchKind(value []byte) string {
	switch text := string(value); {
	case text == "true" || text == "false":
		return "bool"
	case strings.HasPrefix(text, `"`) && len(text) <= maxSwitchValue && !strings.Contains(text, "${") && !strings.Contains(text, "%{"):
		return "text"
	}
	return ""
}

// scheduleBody returns the block as [Template.Canonical] writes it.
func scheduleBody(s *timetable.Schedule) object {
	o := object{"variable": s.Variable, "stopped": s.Stopped, "started": s.Started, "timezone": s.Timezone}
	o.text("stop", s.Stop)
	o.text("start", s.Start)
	return o
}

// checkSchedule requires the variable to be an input of the module that takes both
// values.
func (b *schemaBuilder) checkSchedule() error {
	s := b.template.Schedule
	if s == nil {
		return nil
	}
	if _, ok := b.properties[s.Variable]; !ok {
		return fmt.Errorf("schedule: the module has no input %s", s.Variable)
	}
	for _, stopped := range []bool{true, false} {
		if err := b.allows(s.Variable, s.Value(stopped)); err != nil {
			return fmt.Errorf("schedule: %s is never %s: %w", s.Variable, s.Value(stopped), err)
		}
	}
	return nil
}
