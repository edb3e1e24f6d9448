// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/internal/addr"
)

// Lifetime is the block ttl of a template, or a server's default of it.
type Lifetime struct {
	Default  string   `hcl:"default"` // a duration, or "none": instances have no end
	Max      *string  `hcl:"max"`
	Extend   *string  `hcl:"extend"`
	Extends  *int     `hcl:"extends"`
	Failed   *string  `hcl:"failed"`
	OnExpire *string  `hcl:"on_expire"`
	Body     hcl.Body `hcl:",body"`
}

// TTL returns the described lifetime, nil without end, and reports each mistake.
func (l *Lifetime) TTL(report func(at hcl.Range, format string, args ...any)) *TTL {
	if l.Default == endless {
		extends := l.Extend != nil || l.Extends != nil
		if extends || l.Max != nil || l.Failed != nil || l.OnExpire != nil {
			report(l.At("default"), "ttl: with default %q there is no end, so it must be the only attribute", endless)
		}
		return nil
	}
	t := &TTL{Extends: valueOr(l.Extends, 0), OnExpire: valueOr(l.OnExpire, expireDestroy)}
	for _, f := range []struct {
		name string
		from *string
		to   *time.Duration
	}{{"default", &l.Default, &t.Default}, {"max", l.Max, &t.Max}, {"extend", l.Extend, &t.Extend}, {"failed", l.Failed, &t.Failed}} {
		if f.from == nil {
			continue
		}
		var ok bool
		if *f.to, ok = parseDuration(*f.from); !ok {
			report(l.At(f.name), "%s: %q is not a duration such as 30m or 72h", f.name, *f.from)
		}
	}
	l.check(t, report)
	return t
}

// At returns the position of an attribute, or of the block if it is missing.
func (l *Lifetime) At(attribute string) hcl.Range { return attributeRange(l.Body, attribute) }

func (l *Lifetime) check(t *TTL, report func(at hcl.Range, format string, args ...any)) {
	if t.OnExpire != expireDestroy && t.OnExpire != expireKeep {
		report(l.At("on_expire"), "on_expire %q must be %s or %s", t.OnExpire, expireDestroy, expireKeep)
	}
	if t.Extends < 0 || t.Extends > maxCount {
		report(l.At("extends"), "extends %d must be between 0 and %d", t.Extends, maxCount)
	}
	switch {
	case t.Default > 0 && t.Default < MinTTL:
		report(l.At("default"), "ttl: must be at least %dm", MinTTL/time.Minute)
	case t.Max > 0 && t.Default > t.Max:
		report(l.At("max"), "ttl: max %s is less than default %s", t.Max, t.Default)
	case t.Max > 0 && t.Extend > t.Max:
		report(l.At("extend"), "ttl: extend %s is more than max %s", t.Extend, t.Max)
	case t.Extends > 0 && t.Extend == 0:
		report(l.At("extends"), "ttl: extends requires extend, the duration")
	}
}

// parseDuration reads a duration of a template: more than zero, at most maxDuration.
func parseDuration(text string) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0 && d <= maxDuration
}

// attributeRange returns the position of an attribute, or of the body if it is missing.
func attributeRange(body hcl.Body, name string) hcl.Range {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	if content != nil {
		if a, ok := content.Attributes[name]; ok {
			return a.Range
		}
	}
	return body.MissingItemRange()
}

const maxOwner = 512 // bytes of an owner's ID

// Owner is the owner of an instance. Owners are compared by Kind, Issuer and ID.
type Owner struct {
	Kind   string `json:"kind"` // user, group or claim
	Issuer string `json:"issuer,omitempty"`
	ID     string `json:"id"`              // subject, name of a group, or value of a claim, unchanged
	Label  string `json:"label,omitempty"` // display name only
}

// Kinds of owners.
const (
	OwnerUser  = "user"
	OwnerGroup = "group"
	OwnerClaim = "claim"
)

// Same reports whether both are the same owner, regardless of labels.
func (o Owner) Same(other Owner) bool {
	return o.Kind == other.Kind && o.Issuer == other.Issuer && o.ID == other.ID
}

// Admits reports whether instances of a template may belong to an owner.
func (t *Template) Admits(o Owner) bool {
	if o.ID == "" || len(o.ID) > maxOwner || len(o.Issuer) > maxOwner {
		return false
	}
	if o.Kind == OwnerGroup && !t.AdmitsGroup(o.ID) {
		return false
	}
	kind, _, _ := strings.Cut(t.Owner, ":")
	return o.Kind == kind
}

// AdmitsGroup reports whether a group may own an instance.
func (t *Template) AdmitsGroup(name string) bool {
	return t.Owner == OwnerGroup && Matches(t.Groups, name)
}

// Matches reports whether a list is empty or one of its globs matches.
func Matches(globs []string, s string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		return addr.Match(glob, s)
	})
}

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

func (r *templateReader) readSchedule(b *scheduleBlock) *timetable.Schedule {
	if b == nil {
		return nil
	}
	s := &timetable.Schedule{
		Variable: b.Variable, Stop: strings.Join(strings.Fields(b.Stop), " "), Start: strings.Join(strings.Fields(b.Start), " "), Timezone: valueOr(b.Timezone, "UTC"),
	}
	if b.Stopped == nil || b.Started == nil {
		r.failAt(b.Body.MissingItemRange(), "schedule: stopped and started, the two values of the variable, are required")
		return s
	}
	s.Stopped = r.readConstant(b.Stopped)
	s.Started = r.readConstant(b.Started)
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
		r.failAt(here("variable"), "schedule: variable %.40q is not a valid input name", s.Variable)
	}
	stopped := switchKind(s.Stopped)
	started := switchKind(s.Started)
	if stopped == "" || stopped != started || string(s.Stopped) == string(s.Started) {
		r.failAt(here("stopped"), "schedule: stopped and started must be true and false, or two short strings")
	}
	switch inputs, err := t.decodedInputs(); {
	case slices.ContainsFunc(t.Parameters, func(p Parameter) bool { return p.Name == s.Variable }):
		r.failAt(here("variable"), "schedule: %s must not be a parameter as well: remove the parameter", s.Variable)
	case err == nil && inputs[s.Variable] != nil:
		r.failAt(here("variable"), "schedule: inputs sets %s as well: remove it there", s.Variable)
	}
	if t.Approval == ApprovalPlan {
		r.failAt(b.Body.MissingItemRange(), `schedule: with approval = "plan" each stop and each start would need an approval: use none or request`)
	}
	if t.Executor != ExecutorLocal {
		r.failAt(b.Body.MissingItemRange(), "schedule: executor %s does not stop and start instances, only %s does", t.Executor, ExecutorLocal)
	}
	table, err := s.Read()
	if part, ok := errors.AsType[*timetable.Part](err); ok {
		r.failAt(here(part.Name), "schedule: %v", err)
	} else if err := table.Check(); err != nil {
		r.failAt(here("stop"), "schedule: %v", err)
	}
}

// switchKind returns bool or text; "": no value for a schedule, as a text with template syntax.
func switchKind(value []byte) string {
	switch text := string(value); {
	case text == "true" || text == "false":
		return "bool"
	case strings.HasPrefix(text, `"`) && len(text) <= maxSwitchValue && !strings.Contains(text, "${") && !strings.Contains(text, "%{"):
		return "text"
	}
	return ""
}

// checkSchedule requires the variable to be an input that takes both values.
func (b *schemaBuilder) checkSchedule() error {
	s := b.template.Schedule
	if s == nil {
		return nil
	}
	if _, ok := b.properties[s.Variable]; !ok {
		return fmt.Errorf("schedule: the module has no input %s", s.Variable)
	}
	for _, stopped := range []bool{true, false} {
		if err := b.checkAllowed(s.Variable, s.Value(stopped)); err != nil {
			return fmt.Errorf("schedule: %s is never %s: %w", s.Variable, s.Value(stopped), err)
		}
	}
	return nil
}
