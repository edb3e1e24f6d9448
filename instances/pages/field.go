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
	"reflect"
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
	Again    bool   // a secret was sent, which the page does not repeat
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

// chooseValues returns the value that a form shows for each parameter: that of the first map which
// has it, else the default. A secret is never shown.
func (p parameters) chooseValues(given ...map[string]json.RawMessage) map[string]json.RawMessage {
	chosen := map[string]json.RawMessage{}
	for _, name := range p.Order {
		property := p.Properties[name]
		if property.Sensitive {
			continue
		}
		for _, values := range append(given, map[string]json.RawMessage{name: property.Default}) {
			if value := values[name]; len(value) > 0 {
				chosen[name] = value
				break
			}
		}
	}
	return chosen
}

func (p parameters) shownFields(chosen map[string]json.RawMessage) []field {
	fields, _, _ := p.readForm(p.shownForm(chosen), chosen)
	return fields
}

func (p parameters) shownForm(chosen map[string]json.RawMessage) url.Values {
	form := url.Values{}
	for _, name := range p.Order {
		maps.Copy(form, p.Properties[name].form(prefix+name, chosen[name], maxSpread-len(form)))
	}
	return form
}

func (p parameters) emptyField(name string, chosen json.RawMessage) field {
	property := p.Properties[name]
	f := field{
		Name: prefix + name, ID: "p-" + name, Label: property.label(name), Kind: property.fieldKind(), Required: slices.Contains(p.Required, name),
	}
	if f.Kind == kindCheck && isNull(chosen) {
		f.Kind = kindChoose // a box has no third state
	}
	f.Help = property.helpLines(f.Label)
	if isNull(chosen) && len(chosen) > 0 && !property.noDefault() && property.acceptsType("string") && f.Kind != kindChoose {
		f.Help = append(f.Help, "Null until you enter a value.")
	}
	p.describeDepends(&f, property)
	return f
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

func isSame(a, b json.RawMessage) bool { return reflect.DeepEqual(decodeJSON(a), decodeJSON(b)) }

// indentJSON returns a whole value as JSON for an area of text.
func indentJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) < 60 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// briefValue returns a value for a sentence: a text unquoted, anything else as JSON on one line.
func briefValue(raw json.RawMessage) string {
	var b bytes.Buffer
	written := string(raw)
	if err := json.Unmarshal(raw, &written); err != nil && json.Compact(&b, raw) == nil {
		written = b.String()
	}
	switch {
	case isNull(raw):
		return "none"
	case written == "":
		return `""`
	}
	return text.Clip(text.Block(written), 200)
}

func decodeJSON(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func (p property) label(name string) string {
	if p.Title != "" {
		return text.Block(p.Title)
	}
	return name
}

func (p property) acceptsType(name string) bool {
	if list, ok := p.Type.([]any); ok {
		return slices.Contains(list, any(name))
	}
	return p.Type == name
}

func (p property) fieldKind() string {
	switch {
	case p.Sensitive && p.acceptsType("string"):
		return kindSecret
	case len(p.Enum) > 0, p.acceptsType("boolean") && p.noDefault():
		return kindChoose
	case p.acceptsType("boolean"):
		return kindCheck
	case p.acceptsType("number"), p.acceptsType("integer"):
		return kindNumber
	case p.acceptsType("string") && bytes.Contains(p.Default, []byte(`\n`)):
		return kindArea
	case p.acceptsType("string"):
		return kindText
	case p.partKind() != "":
		return p.partKind()
	}
	return kindJSON
}

// valueHint describes in words which values are allowed.
func (p property) valueHint() string {
	var words []string
	switch p.fieldKind() {
	case kindJSON:
		words = append(words, "As JSON, such as "+p.sampleValue()+".")
		if p.Written != "" {
			words = append(words, "Its type is "+p.Written+".")
		}
	case kindSecret:
		words = append(words, "It is stored encrypted and never shown again.")
	}
	if kind := p.fieldKind(); (kind == kindNumber || kind == kindJSON) && !p.noDefault() {
		words = append(words, "Empty means "+briefValue(p.Default)+".")
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
		words = append(words, "Must match "+p.Pattern)
	}
	return strings.Join(words, " ")
}

func (p property) sampleValue() string {
	if p.acceptsType("object") {
		return `{"name": "value"}`
	}
	return `["a", "b"]`
}

func (p property) isWholeJSON() bool { return p.fieldKind() == kindJSON || p.partKind() != "" }

// choiceOptions returns the choices; blank adds one for a value that is not chosen yet.
func (p property) choiceOptions(blank bool) []site.Choice {
	var all []site.Choice
	if blank && !slices.ContainsFunc(p.Enum, func(v json.RawMessage) bool { return p.formText(v) == "" }) {
		all = append(all, site.Choice{Text: "Choose"})
	}
	if len(p.Enum) == 0 {
		return append(all, site.Choice{Value: "true", Text: "yes"}, site.Choice{Value: "false", Text: "no"})
	}
	for _, value := range p.Enum {
		all = append(all, site.Choice{Value: p.formText(value), Text: text.Block(p.formText(value))})
	}
	return all
}

// formText returns a value as shown: a text unquoted, else JSON; null empty where that means null.
func (p property) formText(value json.RawMessage) string {
	if isNull(value) && (p.noDefault() || p.fieldKind() == kindChoose || p.acceptsType("string")) {
		return ""
	}
	if p.isWholeJSON() {
		return indentJSON(value)
	}
	var text string
	if json.Unmarshal(value, &text) == nil && !isNull(value) {
		return text
	}
	return string(value)
}

func (f *field) setText(text string) {
	f.Value = text
	for i := range f.Options {
		f.Options[i].Chosen = f.Options[i].Value == text
	}
}

// value converts a field to JSON; nil: none. What does not fit is a string, which the API refuses.
func (p property) value(text string) (json.RawMessage, error) {
	for _, option := range p.Enum {
		if p.formText(option) == text {
			return option, nil
		}
	}
	if unset := p.noDefault() || string(p.Default) == `""`; text == "" && (len(p.Enum) > 0 || unset || !p.acceptsType("string")) {
		return nil, nil
	}
	switch kind := p.fieldKind(); {
	case p.isWholeJSON():
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("must be valid JSON, such as %s", p.sampleValue())
		}
		return json.RawMessage(text), nil
	case kind == kindNumber, p.acceptsType("boolean") || p.acceptsType("number") || p.acceptsType("integer"):
		if bare := strings.TrimSpace(text); json.Valid([]byte(bare)) && !strings.ContainsAny(bare, `"[{`) {
			return json.RawMessage(bare), nil
		}
		if kind == kindNumber && !p.acceptsType("string") {
			return nil, errors.New("must be a number, such as 12 or 0.5")
		}
	}
	return json.Marshal(text)
}

// readForm reads the fields of a form that showed the chosen values; false: one cannot be read. An
// unchanged field keeps its value exactly, a secret is not sent back, what does not apply is left
// out, an emptied one gets its default.
func (p parameters) readForm(form url.Values, chosen map[string]json.RawMessage) ([]field, map[string]json.RawMessage, bool) {
	fields := []field{}
	values := map[string]json.RawMessage{}
	bad := map[string]bool{}
	for _, name := range p.Order {
		property := p.Properties[name]
		c := &collector{form: form}
		f, value := c.readField(property, p.emptyField(name, chosen[name]), "/"+name, 0)
		left := !c.bad && isSameForm(form, property.form(f.Name, chosen[name], maxSpread), f.Name)
		if left && !(isNull(chosen[name]) && property.noDefault()) {
			value = chosen[name]
		}
		if value == nil && p.have != nil && !property.Sensitive && !left && !c.bad {
			if value = property.Default; f.Required {
				f.Error = "is required"
				c.bad = true
			} else if len(value) == 0 {
				value = json.RawMessage("null")
			}
		}
		if value != nil {
			values[name] = value
		}
		bad[name] = c.bad
		fields = append(fields, f)
	}
	p.dropUnasked(fields, values, bad)
	return fields, values, !slices.Contains(slices.Collect(maps.Values(bad)), true)
}

// judgeValues checks values against the schema where there is no error yet, to report all at once.
func (p parameters) judgeValues(fields []field, values map[string]json.RawMessage) {
	for i := range fields {
		f := &fields[i]
		name, ok := strings.CutPrefix(f.Name, prefix)
		value := values[name]
		switch {
		case !ok || f.Error != "":
		case value == nil && f.Required:
			f.Error = "is required"
		case value != nil:
			problems := map[string]string{}
			gatherErrors(problems, "/parameters/"+name, template.CheckProperty(p.raw, name, value))
			placeErrors(fields[i:i+1], problems)
		}
	}
}

// gatherErrors collects field errors from an error tree, with their paths below a prefix.
func gatherErrors(into map[string]string, below string, err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // only joined errors have this method
		for _, inner := range all.Unwrap() {
			gatherErrors(into, below, inner)
		}
		return
	}
	if e, ok := errors.AsType[*template.FieldError](err); ok {
		into[below+e.Path] = e.Text
	}
}

// linkedValues returns the values that a link gives, except sensitive ones, those of parameters
// that the template does not allow in links, and invalid ones; left is the labels of these.
func (p parameters) linkedValues(query url.Values) (given map[string]json.RawMessage, left []string) {
	given = map[string]json.RawMessage{}
	for _, name := range p.Order {
		if !query.Has(prefix + name) {
			continue
		}
		property := p.Properties[name]
		value, err := property.value(query.Get(prefix + name))
		linkable := property.Link && !property.Sensitive
		if !linkable || err != nil || value == nil || template.CheckProperty(p.raw, name, value) != nil {
			left = append(left, property.label(name))
			continue
		}
		given[name] = value
	}
	return given, left
}

// fieldAt returns the field of a part of a parameter, by its JSON Pointer; nil: none.
func fieldAt(fields []field, at string) *field {
	for i := range fields {
		f := &fields[i]
		if f.within && f.at == at {
			return f
		}
		if inner := fieldAt(f.Fields, at); inner != nil {
			return inner
		}
		for _, row := range f.Rows {
			if inner := fieldAt(row.Fields, at); inner != nil {
				return inner
			}
		}
	}
	return nil
}

// placeErrors puts the errors that the API reports beside their fields, and returns those that
// belong to no field. The paths are JSON Pointers (RFC 6901).
func placeErrors(fields []field, problems map[string]string) []string {
	var rest []string
	for _, path := range slices.Sorted(maps.Keys(problems)) {
		top, below, deep := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/parameters"), "/"), "/")
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(top)
		if strings.HasPrefix(path, "/parameters/") {
			name = prefix + name
		}
		written := text.Block(problems[path])
		if deep {
			written = "(at " + text.Block(below) + ") " + written
		}
		if inner := fieldAt(fields, strings.TrimPrefix(path, "/parameters")); deep && inner != nil {
			inner.Error = cmp.Or(inner.Error, text.Block(problems[path]))
			continue
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.Name == name })
		if i < 0 {
			rest = append(rest, strings.TrimPrefix(text.Block(path), "/")+" "+written)
			continue
		}
		fields[i].Error = cmp.Or(fields[i].Error, written)
	}
	return rest
}
