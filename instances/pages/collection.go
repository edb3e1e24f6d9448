// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// A form shows a value part by part: a row for each element or key, a field for each attribute. A
// part's name is the whole's, a dot, and its row or attribute. The field named like the whole marks
// that the form has it; not empty, it is the whole as JSON, as in links.

const (
	maxNested = 3   // levels of nested values; deeper ones are JSON
	maxRows   = 60  // of a given value; a longer one is JSON
	maxSpread = 400 // fields of all given values; where there are more, values are JSON
	blankRow  = "#"
)

// Fields that only show the form again: a row more, a row less, or what would change.
const (
	moreField = "more"
	lessField = "less"
	lookField = "look"
)

// formRow is a row of a list or of a map.
type formRow struct {
	Name   string // of the button that removes it
	Label  string
	Fields []field
}

// decodePart decodes the schema of a part; false: it is absent or states no type.
func decodePart(raw json.RawMessage) (property, bool) {
	var p property
	return p, len(raw) > 0 && json.Unmarshal(raw, &p) == nil && p.Type != nil
}

// partKind returns the kind of a value with parts; "": it is not shown in parts.
func (p property) partKind() string {
	if p.Sensitive || len(p.Enum) > 0 {
		return ""
	}
	if _, ok := decodePart(p.Items); ok && p.acceptsType("array") {
		return kindList
	}
	if len(p.Properties) > 0 && p.acceptsType("object") {
		return kindObject
	}
	if _, ok := decodePart(p.Additional); ok && p.acceptsType("object") {
		return kindMap
	}
	return ""
}

// form shows a value: in parts if they say the same and are no more than limit.
func (p property) form(name string, value json.RawMessage, limit int) url.Values {
	form := url.Values{}
	switch {
	case len(value) == 0:
		return form
	case p.fieldKind() == kindCheck && !isNull(value):
		if string(value) == "true" {
			form.Set(name, "true")
		}
		return form
	case p.partKind() == "":
		form.Set(name, p.formText(value))
		return form
	}
	if p.spreadParts(name, value, form, 0) && len(form) <= limit {
		c := &collector{form: form}
		_, read := c.readField(p, field{Name: name}, "", 0)
		if isNull(read) && isNull(value) || !c.bad && reflect.DeepEqual(p.trim(decodeJSON(read)), p.trim(decodeJSON(value))) {
			return form
		}
	}
	return url.Values{name: {indentJSON(value)}}
}

// trim removes null attributes, which mean the same as absent ones.
func (p property) trim(v any) any {
	switch v := v.(type) {
	case []any:
		item, _ := decodePart(p.Items)
		for i := range v {
			v[i] = item.trim(v[i])
		}
	case map[string]any:
		item, _ := decodePart(p.Additional)
		for name := range v {
			of, attribute := p.Properties[name]
			if attribute && v[name] == nil && !slices.Contains(p.Required, name) {
				delete(v, name)
			} else if attribute {
				v[name] = of.trim(v[name])
			} else {
				v[name] = item.trim(v[name])
			}
		}
	}
	return v
}

// isSameForm compares two forms below a name, but for empty fields and line ends.
func isSameForm(a, b url.Values, name string) bool {
	below := func(form url.Values) map[string]string {
		out := map[string]string{}
		for key := range form {
			if content := plainLines(form.Get(key)); content != "" && (key == name || strings.HasPrefix(key, name+".")) {
				out[key] = content
			}
		}
		return out
	}
	return maps.Equal(below(a), below(b))
}

// plainLines ends lines with a line feed, as values do.
func plainLines(s string) string { return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s) }

// spreadParts puts the parts of a value into a form; false: it does not fit, or is too long.
func (p property) spreadParts(name string, raw json.RawMessage, form url.Values, deep int) bool {
	if string(raw) == "null" || len(raw) == 0 {
		return true
	}
	kind := p.partKind()
	if kind == "" || deep >= maxNested {
		form.Set(name, p.formText(raw))
		return true
	}
	form.Set(name, "")
	if kind == kindList {
		var all []json.RawMessage
		if json.Unmarshal(raw, &all) != nil || len(all) > maxRows {
			return false
		}
		item, _ := decodePart(p.Items)
		for i, element := range all {
			at := name + "." + strconv.Itoa(i)
			form.Set(at, "")
			if !item.spreadParts(at, element, form, deep+1) {
				return false
			}
		}
		return true
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) > maxRows {
		return false
	}
	for i, key := range slices.Sorted(maps.Keys(all)) {
		at := name + "." + key
		of := p.Properties[key]
		if kind == kindMap {
			at = name + "." + strconv.Itoa(i)
			form.Set(at+".key", key)
			at += ".value"
			of, _ = decodePart(p.Additional)
		}
		if !of.spreadParts(at, all[key], form, deep+1) {
			return false
		}
	}
	return true
}

// rowsIn returns the numbers of a value's rows in a form, in order.
func rowsIn(name string, form url.Values) []int {
	var all []int
	for key := range form {
		rest, ok := strings.CutPrefix(key, name+".")
		if !ok {
			continue
		}
		first, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(first); err == nil && n >= 0 && strconv.Itoa(n) == first {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// collector reads a value from a form, part by part, and makes the fields that show it.
type collector struct {
	form url.Values
	bad  bool // some part is not a value of its type
}

// readField makes the field of a value and reads the value; nil: there is no value.
func (c *collector) readField(p property, f field, at string, deep int) (field, json.RawMessage) {
	f.at = at
	f.Kind = cmp.Or(f.Kind, p.fieldKind())
	kind := p.partKind()
	if kind == "" || deep >= maxNested || strings.TrimSpace(c.form.Get(f.Name)) != "" {
		return c.readSingle(p, f)
	}
	switch kind {
	case kindList:
		return c.readArray(p, f, at, deep)
	case kindMap:
		return c.readMap(p, f, at, deep)
	}
	return c.object(p, f, at, deep)
}

func (c *collector) readSingle(p property, f field) (field, json.RawMessage) {
	written := plainLines(c.form.Get(f.Name))
	switch {
	case p.partKind() != "":
		f.Kind = kindJSON
	case f.Kind == kindCheck && f.within:
		f.Kind = kindChoose
	case f.Kind == kindCheck:
		written = strconv.FormatBool(written != "")
	case f.Kind == kindText && strings.Contains(written, "\n"):
		f.Kind = kindArea // a single line would lose them
	}
	if f.Kind == kindChoose {
		f.Options = p.choiceOptions(f.within || written == "" || p.noDefault() && !f.Required)
		if !slices.ContainsFunc(f.Options, func(o site.Choice) bool { return o.Value == written }) {
			f.Options = append(f.Options, site.Choice{Value: written, Text: text.Block(written) + " (no longer allowed)"})
		}
	}
	if f.setText(written); p.Sensitive {
		f.setText("")
		f.Again = written != ""
		f.Required = f.Required || f.Again
	}
	if f.within && written == "" {
		return f, nil
	}
	value, err := p.value(written)
	if err != nil {
		f.Error = err.Error()
		c.bad = true
	}
	return f, value
}

// readArray handles an array, with a row for each element. Empty rows are not in the value.
func (c *collector) readArray(p property, f field, at string, deep int) (field, json.RawMessage) {
	item, _ := decodePart(p.Items)
	all := []json.RawMessage{}
	for n, i := range rowsIn(f.Name, c.form) {
		name := f.Name + "." + strconv.Itoa(i)
		part, value := c.readField(item, elementField(f, name, n), at+"/"+strconv.Itoa(len(all)), deep+1)
		f.Rows = append(f.Rows, formRow{Name: name, Label: part.Label, Fields: []field{part}})
		if value != nil {
			all = append(all, value)
		}
	}
	f.Blank = &formRow{Name: f.Name + "." + blankRow, Label: f.Label}
	blank, _ := (&collector{form: url.Values{}}).readField(item, elementField(f, f.Blank.Name, -1), "", deep+1)
	f.Blank.Label = blank.Label
	f.Blank.Fields = []field{blank}
	return f, encodeParts(all, len(all) == 0 && f.mayLack(p))
}

func elementField(f field, name string, n int) field {
	return field{Name: name, ID: name, Label: rowLabel(f, n), Quiet: true, within: true}
}

// rowLabel names a row by its index from 0; -1 is the blank row, which has no number.
func rowLabel(f field, n int) string {
	label := strings.TrimSpace(f.Of+" "+f.Label) + " "
	if n < 0 {
		return label + blankRow
	}
	return label + strconv.Itoa(n+1)
}

// readMap handles a map, with a row for each key.
func (c *collector) readMap(p property, f field, at string, deep int) (field, json.RawMessage) {
	item, _ := decodePart(p.Additional)
	values := map[string]json.RawMessage{}
	for n, i := range rowsIn(f.Name, c.form) {
		row, key, value := c.readPair(item, f, f.Name+"."+strconv.Itoa(i), n, at, deep)
		if _, twice := values[key]; twice && value != nil {
			row.Fields[0].Error = "appears twice"
			c.bad = true
		}
		f.Rows = append(f.Rows, row)
		if value != nil {
			values[key] = value
		}
	}
	blank, _, _ := (&collector{form: url.Values{}}).readPair(item, f, f.Name+"."+blankRow, -1, "", deep)
	f.Blank = &blank
	return f, encodeParts(values, len(values) == 0 && f.mayLack(p))
}

// readPair handles a row of a map. A key without a value gets an empty one if that is allowed.
func (c *collector) readPair(item property, f field, name string, n int, at string, deep int) (row formRow, key string, value json.RawMessage) {
	label := rowLabel(f, n)
	id := name + ".key"
	key = strings.TrimSpace(c.form.Get(id))
	word := field{Name: id, ID: id, Label: "Key", Of: label, Kind: kindText, within: true}
	word.setText(key)
	at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	part, value := c.readField(item, field{Name: name + ".value", ID: name + ".value", Label: "Value", Of: label, within: true}, at, deep+1)
	switch {
	case key == "" && value != nil:
		word.Error = "is required"
		c.bad = true
	case key != "" && value == nil && part.Error == "":
		if _, value = c.readField(item, field{Name: name + ".value", within: true, Required: true}, at, deep+1); value == nil {
			value = item.emptyValue()
		}
		if value == nil {
			part.Error = "is required"
			c.bad = true
		}
	}
	return formRow{Name: name, Label: label, Fields: []field{word, part}}, key, value
}

// emptyValue returns the value in which nothing is written; nil: there is none.
func (p property) emptyValue() json.RawMessage {
	for _, kind := range [][2]string{{"string", `""`}, {"array", "[]"}, {"object", "{}"}, {"null", "null"}} {
		if p.acceptsType(kind[0]) {
			return json.RawMessage(kind[1])
		}
	}
	return nil
}

func (c *collector) object(p property, f field, at string, deep int) (field, json.RawMessage) {
	values := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		id := f.Name + "." + name
		part := field{Name: id, ID: id, Label: p.Properties[name].label(name), Of: strings.TrimSpace(f.Of + " " + f.Label), Required: slices.Contains(p.Required, name), within: true}
		of := p.Properties[name]
		part.Help = of.helpLines(part.Label)
		if kind := of.fieldKind(); kind != kindNumber && kind != kindJSON && !of.noDefault() {
			part.Help = append(part.Help, "Empty means "+briefValue(of.Default)+".")
		}
		part, value := c.readField(of, part, at+"/"+name, deep+1)
		f.Fields = append(f.Fields, part)
		if value != nil {
			values[name] = value
		}
	}
	return f, encodeParts(values, !c.isFilled(f.Name) && f.mayLack(p))
}

// mayLack reports whether a value without parts is left out; inside of another one it has its default.
func (f field) mayLack(p property) bool { return !f.Required && (f.within || p.noDefault()) }

// isFilled reports whether something is written in a part of a value.
func (c *collector) isFilled(name string) bool {
	for key := range c.form {
		if strings.HasPrefix(key, name+".") && c.form.Get(key) != "" {
			return true
		}
	}
	return false
}

func (p property) noDefault() bool { return len(p.Default) == 0 || string(p.Default) == "null" }

// encodeParts joins the parts of a value; nil: they are left out.
func encodeParts(parts any, left bool) json.RawMessage {
	b, err := json.Marshal(parts)
	if left || err != nil { // each part is valid JSON
		return nil
	}
	return b
}

// reshapeForm adds or removes a row if asked, and reports whether the form is shown again.
func reshapeForm(form url.Values) bool {
	if name := form.Get(moreField); name != "" {
		next := 0
		if rows := rowsIn(name, form); len(rows) > 0 {
			next = rows[len(rows)-1] + 1
		}
		form.Set(name+"."+strconv.Itoa(next), "")
		return true
	}
	name := form.Get(lessField)
	if name == "" {
		return form.Has(lookField)
	}
	maps.DeleteFunc(form, func(key string, _ []string) bool { return key == name || strings.HasPrefix(key, name+".") })
	return true
}

// helpLines returns the help texts of a form field, in lines.
func (p property) helpLines(label string) (lines []string) {
	for _, written := range []string{p.Description, p.Help, p.valueHint()} {
		if written = text.Block(written); written != "" && written != label && !slices.Contains(lines, written) {
			lines = append(lines, written)
		}
	}
	return lines
}
