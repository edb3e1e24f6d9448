// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// field is one value that a form asks for.
type field struct {
	Name, ID string
	Label    string
	Help     []string
	Kind     string // text, number, secret, check, choose, area, json, list, map or object
	Value    string
	Options  []site.Choice
	Required bool
	Linked   bool   // the value came from a link
	Error    string // "": no error
	When     string // JSON: the values that other fields need for this one to apply; "": it always applies

	Rows   []formRow // of a list or a map
	Blank  *formRow  // template of a further row, with blankRow for its number
	Fields []field   // of an object
	Of     string    // label of the value that it is a part of
	Quiet  bool      // its label is only for screen readers
	at     string    // JSON Pointer (RFC 6901) to the value within the parameters
	within bool      // it is a part of a value
}

// Kinds of fields.
const (
	kindText   = "text"
	kindNumber = "number"
	kindSecret = "secret"
	kindCheck  = "check"
	kindChoose = "choose"
	kindArea   = "area"
	kindJSON   = "json"
	kindList   = "list"
	kindMap    = "map"
	kindObject = "object"
)

// property is the schema of one parameter of a template.
type property struct {
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Help        string            `json:"x-okara-help"`
	Written     string            `json:"x-okara-type"`
	Type        any               `json:"type"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Minimum     *json.Number      `json:"minimum"`
	Maximum     *json.Number      `json:"maximum"`
	Pattern     string            `json:"pattern"`
	Sensitive   bool              `json:"writeOnly"`
	Link        bool              `json:"x-okara-link"`
	Update      bool              `json:"x-okara-update"`

	When map[string][]json.RawMessage `json:"x-okara-when"`

	Items      json.RawMessage     `json:"items"`
	Additional json.RawMessage     `json:"additionalProperties"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

// parameters is the schema of a template, from which its form is made.
type parameters struct {
	raw        json.RawMessage
	have       map[string]json.RawMessage // values of parameters that the form may leave out
	Properties map[string]property        `json:"properties"`
	Required   []string                   `json:"required"`
	Order      []string                   `json:"x-okara-order"`
}

func readParameters(schema json.RawMessage) (parameters, error) {
	p := parameters{raw: schema}
	if len(schema) == 0 {
		return p, nil
	}
	err := json.Unmarshal(schema, &p)
	return p, err
}

// prefix precedes the name of a parameter in a form and in a link that fills one.
const prefix = "p."

// fields returns the fields of a form, with the defaults of the template.
func (p parameters) fields() []field {
	fields := []field{}
	for _, name := range p.Order {
		fields = append(fields, p.field(name))
	}
	return fields
}

func (p parameters) field(name string) field {
	property := p.Properties[name]
	f := field{
		Name: prefix + name, ID: "p-" + name, Label: property.label(name), Kind: property.kind(), Required: slices.Contains(p.Required, name),
	}
	f.Help = property.help(f.Label)
	p.depends(&f, property)
	if len(property.Default) > 0 && string(property.Default) != "null" {
		f.Value = property.shown(property.Default)
	}
	if f.Kind == kindChoose {
		f.Options = property.options(f.Value == "")
	}
	p.give(&f, property.Default)
	return f
}

// give fills the field of a parameter with a value.
func (p parameters) give(f *field, raw json.RawMessage) {
	property := p.Properties[strings.TrimPrefix(f.Name, prefix)]
	form := url.Values{}
	if property.partKind() == "" {
		if len(raw) == 0 || string(raw) == "null" {
			f.set("")
		} else {
			f.set(property.shown(raw))
		}
		return
	}
	if !property.spread(f.Name, raw, form, 0) {
		form = url.Values{f.Name: {property.shown(raw)}}
	}
	*f, _ = (&collector{form: form}).field(property, *f, "/"+strings.TrimPrefix(f.Name, prefix), 0)
}

func (p property) label(name string) string {
	if p.Title != "" {
		return text.Block(p.Title)
	}
	return name
}

// is reports whether the schema accepts a type.
func (p property) is(name string) bool {
	if list, ok := p.Type.([]any); ok {
		return slices.Contains(list, any(name))
	}
	return p.Type == name
}

// kind returns the kind of field for a value.
func (p property) kind() string {
	null := len(p.Default) == 0 || string(p.Default) == "null"
	switch {
	case p.Sensitive && p.is("string"):
		return kindSecret
	case len(p.Enum) > 0, p.is("boolean") && null:
		return kindChoose
	case p.is("boolean"):
		return kindCheck
	case p.is("number"), p.is("integer"):
		return kindNumber
	case p.is("string") && bytes.Contains(p.Default, []byte(`\n`)):
		return kindArea
	case p.is("string"):
		return kindText
	case p.partKind() != "":
		return p.partKind()
	}
	return kindJSON
}

// hint describes in words which values are allowed.
func (p property) hint() string {
	var words []string
	switch p.kind() {
	case kindJSON:
		words = append(words, "As JSON, such as "+p.sample()+".")
		if p.Written != "" {
			words = append(words, "Its type is "+p.Written+".")
		}
	case kindSecret:
		words = append(words, "It is kept sealed and never shown again.")
	}
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		words = append(words, fmt.Sprintf("From %s to %s.", *p.Minimum, *p.Maximum))
	case p.Minimum != nil:
		words = append(words, fmt.Sprintf("At least %s.", *p.Minimum))
	case p.Maximum != nil:
		words = append(words, fmt.Sprintf("At most %s.", *p.Maximum))
	}
	if p.Pattern != "" {
		words = append(words, "It matches "+p.Pattern)
	}
	return strings.Join(words, " ")
}

func (p property) sample() string {
	if p.is("object") {
		return `{"name": "value"}`
	}
	return `["a", "b"]`
}

// whole reports whether a value is written as JSON if it is in one field.
func (p property) whole() bool { return p.kind() == kindJSON || p.partKind() != "" && len(p.Enum) == 0 }

// options returns the choices; blank adds one for a value that is not chosen yet.
func (p property) options(blank bool) []site.Choice {
	var all []site.Choice
	if blank {
		all = append(all, site.Choice{Text: "Choose"})
	}
	if len(p.Enum) == 0 {
		return append(all, site.Choice{Value: "true", Text: "yes"}, site.Choice{Value: "false", Text: "no"})
	}
	for _, value := range p.Enum {
		all = append(all, site.Choice{Value: p.shown(value), Text: text.Block(p.shown(value))})
	}
	return all
}

// shown returns a value as a form shows it: a string unquoted, anything else as JSON.
func (p property) shown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	if p.whole() {
		return site.Indented(value)
	}
	return string(value)
}

// set fills a field.
func (f *field) set(text string) {
	f.Value = text
	for i := range f.Options {
		f.Options[i].Chosen = f.Options[i].Value == text
	}
}

// value converts the text of a field to JSON; nil: no value. A text that is not a value
// of the type is passed on as a string: the API reports what it expected.
func (p property) value(text string) (json.RawMessage, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, option := range p.Enum {
		if p.shown(option) == text {
			return option, nil
		}
	}
	if unset := p.noDefault() || string(p.Default) == `""`; text == "" && (len(p.Enum) > 0 || unset || !p.is("string")) {
		return nil, nil
	}
	switch kind := p.kind(); {
	case p.whole():
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("must be valid JSON, such as %s", p.sample())
		}
		return json.RawMessage(text), nil
	case kind == kindNumber, p.is("boolean") || p.is("number") || p.is("integer"):
		if bare := strings.TrimSpace(text); json.Valid([]byte(bare)) && !strings.ContainsAny(bare, `"[{`) {
			return json.RawMessage(bare), nil
		}
	}
	return json.Marshal(text)
}

// read reads the values of a form, and puts them into its fields as well. A secret is not
// sent back, and the value of a field that does not apply is left out.
func (p parameters) read(fields []field, form url.Values) (map[string]json.RawMessage, bool) {
	values := map[string]json.RawMessage{}
	bad := map[string]bool{}
	for i := range fields {
		f := &fields[i]
		name := strings.TrimPrefix(f.Name, prefix)
		if property := p.Properties[name]; property.partKind() != "" && len(property.Enum) == 0 {
			c := &collector{form: form}
			f.Rows = nil
			f.Fields = nil
			var value json.RawMessage
			if *f, value = c.field(property, *f, "/"+name, 0); value != nil {
				values[name] = value
			}
			bad[name] = c.bad
			continue
		}
		text := form.Get(f.Name)
		if f.Kind == kindCheck {
			text = fmt.Sprint(text != "")
		}
		value, err := p.Properties[name].value(text)
		if err != nil {
			f.Error = err.Error()
			bad[name] = true
		}
		if value != nil {
			values[name] = value
		}
		if f.set(text); p.Properties[name].Sensitive {
			f.set("")
		}
	}
	p.drop(fields, values, bad)
	return values, !slices.Contains(slices.Collect(maps.Values(bad)), true)
}

// judge checks each value against the schema, where its field has no error yet: so the API
// gets no value of the wrong kind, and all errors are reported at once.
func (p parameters) judge(fields []field, values map[string]json.RawMessage) {
	for i := range fields {
		f := &fields[i]
		name, ok := strings.CutPrefix(f.Name, prefix)
		value := values[name]
		switch {
		case !ok || f.Error != "":
		case value == nil && f.Required:
			f.Error = "must be filled in"
		case value != nil:
			problems := map[string]string{}
			gather(problems, "/parameters/"+name, template.CheckProperty(p.raw, name, value))
			blame(fields[i:i+1], problems)
		}
	}
}

// gather collects field errors from an error tree, with their paths below a prefix.
func gather(into map[string]string, below string, err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // only joined errors have this method
		for _, inner := range all.Unwrap() {
			gather(into, below, inner)
		}
		return
	}
	if e, ok := errors.AsType[*template.FieldError](err); ok {
		into[below+e.Path] = e.Text
	}
}

// linked fills a form with the values of a link, except sensitive ones, parameters that the
// template does not allow in links, and invalid values. It returns the labels of the fields
// that were filled, and of those that the link may not fill.
func (p parameters) linked(fields []field, query url.Values) (took, left []string) {
	for i := range fields {
		f := &fields[i]
		if !query.Has(f.Name) {
			continue
		}
		name := strings.TrimPrefix(f.Name, prefix)
		property := p.Properties[name]
		text := query.Get(f.Name)
		value, err := property.value(text)
		linkable := property.Link && !property.Sensitive
		if !linkable || err != nil || value == nil || template.CheckProperty(p.raw, name, value) != nil {
			left = append(left, f.Label)
			continue
		}
		if f.set(text); property.partKind() != "" {
			p.give(f, value)
		}
		f.Linked = true
		took = append(took, f.Label)
	}
	return took, left
}

// within returns the field of a part of a parameter, by its JSON Pointer; nil: none.
func within(fields []field, at string) *field {
	for i := range fields {
		f := &fields[i]
		if f.within && f.at == at {
			return f
		}
		if inner := within(f.Fields, at); inner != nil {
			return inner
		}
		for _, row := range f.Rows {
			if inner := within(row.Fields, at); inner != nil {
				return inner
			}
		}
	}
	return nil
}

// blame puts the errors that the API reports beside their fields, and returns those that
// belong to no field. The paths are JSON Pointers (RFC 6901).
func blame(fields []field, problems map[string]string) []string {
	var rest []string
	for _, path := range slices.Sorted(maps.Keys(problems)) {
		top, below, deep := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/parameters"), "/"), "/")
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(top)
		if strings.HasPrefix(path, "/parameters/") {
			name = prefix + name
		}
		written := text.Block(problems[path])
		if deep {
			written = "at " + text.Block(below) + ": " + written
		}
		if inner := within(fields, strings.TrimPrefix(path, "/parameters")); deep && inner != nil {
			inner.Error = cmp.Or(inner.Error, text.Block(problems[path]))
			continue
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.Name == name })
		if i < 0 {
			rest = append(rest, strings.TrimPrefix(text.Block(path), "/")+" "+written)
			continue
		}
		if fields[i].Error == "" {
			fields[i].Error = written
		}
	}
	return rest
}
