// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The change of an address between two versions.
const (
	Add    = "add"
	Remove = "remove"
	Modify = "change"
)

// Change is one address that differs between two versions.
type Change struct {
	Address    string            `json:"address"`
	Action     string            `json:"action"`
	Attributes []AttributeChange `json:"attributes,omitempty"`
}

// AttributeChange is one value that differs. Sensitive values are omitted.
type AttributeChange struct {
	Path      string          `json:"path"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// String formats the change as lines for display: a sign and the address, then a line
// for each attribute.
func (c Change) String() string {
	sign := map[string]string{Add: "+", Remove: "-", Modify: "~"}[c.Action]
	lines := []string{sign + " " + c.Address}
	for _, at := range c.Attributes {
		lines = append(lines, fmt.Sprintf("    %s: %s -> %s", at.Path, at.text(at.Before), at.text(at.After)))
	}
	return strings.Join(lines, "\n")
}

// maxValueText bounds a value in such a line; the JSON has the whole value.
const maxValueText = 120

func (c AttributeChange) text(value []byte) string {
	switch {
	case c.Sensitive:
		return "(sensitive)"
	case value == nil:
		return "(none)"
	}
	runes := []rune(string(value))
	if len(runes) > maxValueText {
		return string(runes[:maxValueText]) + "…"
	}
	return string(runes)
}

// ErrEncrypted says that OpenTofu encrypted a state, so that its content cannot be
// compared here.
var ErrEncrypted = errors.New("the state is encrypted by OpenTofu; pull both versions and compare them with its key")

// Document holds the values of a state file by address and path.
type Document struct {
	leaves map[string]map[string]value
	things map[string]Resource
}

// document is the part of a state file that is needed for a comparison.
type document struct {
	Outputs map[string]struct {
		Value     json.RawMessage `json:"value"`
		Sensitive bool            `json:"sensitive"`
	} `json:"outputs"`
	Resources []struct {
		Module    string     `json:"module"`
		Mode      string     `json:"mode"`
		Type      string     `json:"type"`
		Name      string     `json:"name"`
		Provider  string     `json:"provider"`
		Instances []instance `json:"instances"`
	} `json:"resources"`
	Encrypted         json.RawMessage `json:"encrypted_data"`
	EncryptionVersion json.RawMessage `json:"encryption_version"`
}

type instance struct {
	IndexKey   json.RawMessage `json:"index_key"`
	Deposed    string          `json:"deposed"`
	Attributes json.RawMessage `json:"attributes"`
	Flat       json.RawMessage `json:"attributes_flat"` // by providers before protocol 5
	Sensitive  [][]pathStep    `json:"sensitive_attributes"`
}

// pathStep is one step of a path to a sensitive attribute: a name, or an index as an
// object that contains the value.
type pathStep struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// Parse reads a state file. If OpenTofu encrypted it, the error is [ErrEncrypted].
func Parse(state []byte) (*Document, error) {
	var d document
	if err := json.Unmarshal(state, &d); err != nil {
		return nil, fmt.Errorf("not a state file: %w", err)
	}
	if d.Encrypted != nil || d.EncryptionVersion != nil {
		return nil, ErrEncrypted
	}
	all := map[string]map[string]value{}
	things := map[string]Resource{}
	left := maxPaths
	for name, o := range d.Outputs {
		l := flattener{values: map[string]value{}, left: &left}
		if err := l.add(o.Value, "value", o.Sensitive || deniedName(name)); err != nil {
			return nil, fmt.Errorf("output %q: %w", name, err)
		}
		all["output."+name] = l.values
		things["output."+name] = Resource{Address: "output." + name, Mode: ModeOutput, Name: name}
	}
	for _, r := range d.Resources {
		address := r.Type + "." + r.Name
		if r.Mode == "data" {
			address = "data." + address
		}
		if r.Module != "" {
			address = r.Module + "." + address
		}
		for _, i := range r.Instances {
			l := flattener{values: map[string]value{}, marks: i.marks(), left: &left}
			if err := errors.Join(l.add(i.Attributes, "", false), l.add(i.Flat, "", false)); err != nil {
				return nil, fmt.Errorf("%s: %w", address, err)
			}
			all[address+i.suffix()] = l.values
			things[address+i.suffix()] = Resource{Address: address + i.suffix(), Mode: r.Mode, Type: r.Type, Name: r.Name, Module: r.Module, Provider: r.Provider}
		}
	}
	return &Document{all, things}, nil
}

func (i instance) suffix() string {
	s := ""
	if len(i.IndexKey) > 0 && !bytes.Equal(i.IndexKey, []byte("null")) {
		s = "[" + string(i.IndexKey) + "]"
	}
	if i.Deposed != "" {
		s += " (deposed " + i.Deposed + ")"
	}
	return s
}

// marks returns the paths that the state itself marks as sensitive.
func (i instance) marks() map[string]bool {
	marks := map[string]bool{}
	for _, steps := range i.Sensitive {
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

// Diff lists the differences, sorted by address and path.
func Diff(before, after *Document) []Change {
	old := before.leaves
	now := after.leaves
	changes := []Change{}
	for _, address := range sortedKeys(old, now) {
		o, hadIt := old[address]
		n, hasIt := now[address]
		c := Change{Address: address, Action: Modify}
		switch {
		case !hadIt:
			c.Action = Add
		case !hasIt:
			c.Action = Remove
		default:
			c.Attributes = diffValues(o, n)
		}
		if c.Action != Modify || len(c.Attributes) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

func diffValues(old, now map[string]value) []AttributeChange {
	var changes []AttributeChange
	for _, path := range sortedKeys(old, now) {
		o := old[path]
		n := now[path]
		if bytes.Equal(o.json, n.json) {
			continue
		}
		c := AttributeChange{Path: path, Sensitive: o.sensitive || n.sensitive}
		if !c.Sensitive {
			c.Before = o.json
			c.After = n.json
		}
		changes = append(changes, c)
	}
	return changes
}

// sortedKeys returns the sorted keys of both maps, each once.
func sortedKeys[V any](a, b map[string]V) []string {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
