// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
)

// A field that is needed only when other fields have certain values is always in the form:
// a script hides and shows it, and without script its condition is stated in words. If the
// condition does not hold, the form keeps its content but does not send it as a value.

// depends describes on which other fields a field depends, for the script and in words.
func (p parameters) depends(f *field, part property) {
	when := map[string][]string{}
	words := []string{}
	for _, name := range slices.Sorted(maps.Keys(part.When)) {
		other := p.Properties[name]
		if !slices.Contains(p.Order, name) {
			continue // its value is fixed and fits, or this field would not be here
		}
		var texts []string
		for _, value := range part.When[name] {
			texts = append(texts, other.shown(value))
		}
		words = append(words, text.Block(other.label(name)+" is "+strings.Join(texts, " or ")))
		if empty, err := other.value(""); empty == nil && err == nil && among(other.Default, part.When[name]) {
			texts = append(texts, "") // an empty field has its default
		}
		when[prefix+name] = texts
	}
	if len(when) == 0 {
		return
	}
	f.Help = append(f.Help, "Only used when "+strings.Join(words, ", and ")+".")
	b, err := json.Marshal(when)
	if err == nil {
		f.When = string(b)
	}
}

// among reports whether a value is one of several.
func among(value json.RawMessage, all []json.RawMessage) bool {
	return slices.ContainsFunc(all, func(part json.RawMessage) bool { return isSame(part, value) })
}

// never reports whether a parameter cannot apply in this form: it depends on one that the
// form does not show, whose value is a different one.
func (p parameters) never(name string) bool {
	unasked, err := template.Unasked(p.raw, p.have)
	for other, values := range p.Properties[name].When {
		if !slices.Contains(p.Order, other) && (err != nil || unasked[other] || !among(p.have[other], values)) {
			return true
		}
	}
	return false
}

// drop removes the values of fields that do not apply, and their errors.
func (p parameters) drop(fields []field, values map[string]json.RawMessage, bad map[string]bool) {
	all := maps.Clone(p.have)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, values)
	unasked, err := template.Unasked(p.raw, all)
	if err != nil {
		return // the API reports errors in the schema
	}
	for i := range fields {
		if name := strings.TrimPrefix(fields[i].Name, prefix); unasked[name] {
			delete(values, name)
			delete(bad, name)
			forgive(&fields[i])
		}
	}
}

// forgive removes the errors of a field and its parts.
func forgive(f *field) {
	f.Error = ""
	for i := range f.Fields {
		forgive(&f.Fields[i])
	}
	for _, row := range f.Rows {
		for i := range row.Fields {
			forgive(&row.Fields[i])
		}
	}
}
