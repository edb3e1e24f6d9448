// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth bounds an attribute's nesting; providers' have about ten levels.
	maxDepth = 1000
	// maxPaths bounds a file's paths together: each repeats the names above it.
	maxPaths = 256 << 20
)

var (
	errDepth = fmt.Errorf("nested more than %d deep", maxDepth)
	errPaths = errors.New("too many values under long names")
)

// value is a leaf of a resource or output.
type value struct {
	json      []byte
	sensitive bool
}

// checkFlattened refuses a file whose values cannot be flattened within the bounds.
func (d *Document) checkFlattened() error {
	left := maxPaths
	for _, e := range d.entries {
		depth, paths := weighJSON(e.json)
		left -= paths
		switch {
		case depth > maxDepth+2: // the object itself, and its attributes
			return fmt.Errorf("%s: %w", e.address, errDepth)
		case left < 0:
			return fmt.Errorf("%s: %w", e.address, errPaths)
		}
	}
	return nil
}

// weighJSON returns a JSON text's depth, and the bytes of its paths, in one pass.
func weighJSON(text []byte) (deepest, total int) {
	type level struct{ above, n int } // length of the path of the value; n counts the elements of a list, -1: an object
	var levels []level
	here := 0 // length of the path of the next value
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			total += here
			l := level{above: here}
			if text[i] == '{' {
				l.n = -1
			} else {
				here += len("[0]")
			}
			levels = append(levels, l)
			deepest = max(deepest, len(levels))
		case '}', ']':
			here = levels[len(levels)-1].above
			levels = levels[:len(levels)-1]
		case ',':
			if l := &levels[len(levels)-1]; l.n >= 0 {
				l.n++
				here = l.above + len("[]") + len(strconv.Itoa(l.n))
			}
		case '"':
			start := i
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if n := len(levels); n > 0 && levels[n-1].n < 0 && isName(text[i+1:]) {
				here = levels[n-1].above + i - start
			} else {
				total += here
			}
		case ':', ' ', '\t', '\r', '\n':
		default: // a number or a word
			total += here
			for i+1 < len(text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(text[i+1])) {
				i++
			}
		}
	}
	return deepest, total
}

// isName reports whether a string that is followed by text is the name of a member.
func isName(text []byte) bool {
	for _, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == ':'
	}
	return false
}

// flattener collects the leaves below a JSON value.
type flattener struct {
	values map[string]value
	marks  map[string]bool
	dec    *jsontext.Decoder
}

// flatten returns the leaves of an entry: its values by path, and by "(NAME)" what else the
// tools act on, such as "(status)" or "(provider)". left has the members that are neither.
func (e entry) flatten() (leaves map[string]value, left members) {
	f := flattener{values: map[string]value{}}
	if e.of.Mode == ModeOutput && (len(e.json) == 0 || e.json[0] != '{') { // until version 2
		f.addLeaves(e.json, "value", deniedName(e.of.Name))
		return f.values, nil
	}
	m, _ := membersOf(newDecoder(orNull(e.json))) // it was read before, so that it is an object
	switch e.of.Mode {
	case ModeOutput:
		f.addLeaves(m["value"], "value", string(m["sensitive"]) == "true" || deniedName(e.of.Name))
		delete(m, "value")
	case modeCheck:
		f.addLeaves(m["objects"], "objects", false)
		delete(m, "objects")
	default:
		f.marks = marksOf(m["sensitive_attributes"])
		m["sensitive_attributes"], _ = json.Marshal(slices.Sorted(maps.Keys(f.marks))) // strings
		f.addLeaves(m["id"], "id", false)                                              // until version 3, beside the attributes
		f.addLeaves(m["attributes"], "", false)
		f.addLeaves(m["attributes_flat"], "", false) // by providers before protocol 5
		f.marks = nil
		f.addLeaves(m["identity"], "(identity)", false)
		left = members{}
		for _, name := range []string{"private", "schema_version", "identity_schema_version", "meta"} {
			left[name] = m[name]
			delete(m, name)
		}
		for _, name := range []string{"id", "attributes", "attributes_flat", "identity", "index_key", "deposed"} {
			delete(m, name)
		}
	}
	for _, all := range []members{m, e.of.facts} {
		for name, v := range all {
			if !isNothing(v) {
				f.values["("+name+")"] = value{json: inOrder(v), sensitive: deniedName(name)}
			}
		}
	}
	return f.values, left
}

// isNothing reports whether a value is what the tools also write by leaving it out.
func isNothing(v []byte) bool {
	switch string(bytes.Join(bytes.Fields(v), nil)) {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// inOrder returns a value in compact form, and a list sorted: dependencies are a set.
func inOrder(v []byte) []byte {
	if list := []json.RawMessage(nil); json.Unmarshal(v, &list) == nil {
		slices.SortFunc(list, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
		v, _ = json.Marshal(list) // they were just read
	}
	out := jsontext.Value(bytes.Clone(v))
	_ = out.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // it is valid
	return out
}

// orNull returns a member, or null where there is none.
func orNull(v []byte) []byte {
	if len(v) == 0 {
		return []byte("null")
	}
	return v
}

// addLeaves adds the leaves of a value that is valid and within the bounds.
func (f *flattener) addLeaves(src []byte, path string, sensitive bool) {
	if len(src) == 0 || string(src) == "null" && path == "" {
		return
	}
	f.dec = newDecoder(src)
	f.readValue(path, sensitive)
}

func (f *flattener) readValue(path string, sensitive bool) {
	sensitive = sensitive || f.marks[path]
	empty := true
	deeper := func(path string, sensitive bool) error {
		empty = false
		f.readValue(path, sensitive)
		return nil
	}
	var raw []byte
	switch f.dec.PeekKind() {
	case '{':
		_ = eachMember(f.dec, func(name string) error { return deeper(joinPath(path, name), sensitive || deniedName(name)) })
		raw = []byte("{}")
	case '[':
		_ = eachElement(f.dec, func(i int) error { return deeper(path+"["+strconv.Itoa(i)+"]", sensitive) })
		raw = []byte("[]")
	default:
		v, _ := f.dec.ReadValue()
		raw = shortString(v)
	}
	if empty {
		f.values[path] = value{json: raw, sensitive: sensitive}
	}
}

// shortString returns a string without the escapes that it does not need: the tools write &
// as \u0026, and jq does not. Other values are returned as they are.
func shortString(v []byte) []byte {
	if !bytes.ContainsRune(v, '\\') {
		return v
	}
	short := jsontext.Value(bytes.Clone(v))
	_ = short.Format(jsontext.AllowInvalidUTF8(true)) // it is valid
	return short
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// pathStep is a step to a sensitive attribute: a name, or an index object with the value.
type pathStep struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// marksOf returns the paths that the state itself marks as sensitive.
func marksOf(attributes []byte) map[string]bool {
	var paths [][]pathStep
	marks := map[string]bool{}
	if json.Unmarshal(orNull(attributes), &paths) != nil {
		marks[""] = true // not understood: everything is masked
	}
	for _, steps := range paths {
		path := ""
		for _, s := range steps[:min(len(steps), maxDepth)] { // values below a mark are masked, too
			path = s.extend(path)
		}
		marks[path] = true
	}
	return marks
}

func (s pathStep) extend(path string) string {
	var name string
	if s.Type == "get_attr" && json.Unmarshal(s.Value, &name) == nil {
		return joinPath(path, name)
	}
	var index struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(s.Value, &index) != nil {
		return path // an unknown step: everything below the known part is masked
	}
	if json.Unmarshal(index.Value, &name) == nil {
		return joinPath(path, name)
	}
	return path + "[" + string(index.Value) + "]"
}

// deniedName reports whether an attribute's name suggests that its value is secret.
func deniedName(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	return slices.ContainsFunc([]string{
		"password", "passwd", "passphrase", "secret", "token", "private_key", "privatekey", "api_key", "apikey",
		"access_key", "client_key", "signing_key", "credential", "connection_string", "kubeconfig", "kube_config",
	}, func(part string) bool { return strings.Contains(name, part) })
}
