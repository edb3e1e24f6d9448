// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/statebackend"
)

// What happened to an address between two versions.
const (
	actionAdd    = "add"
	actionRemove = "remove"
	actionChange = "change"
)

// stateChange is one address that differs between two versions.
type stateChange struct {
	Address    string            `json:"address"`
	Action     string            `json:"action"`
	Attributes []attributeChange `json:"attributes,omitempty"`
}

// attributeChange is one value that differs. Sensitive ones have no values.
type attributeChange struct {
	Path      string          `json:"path"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// stateDocument is the part of a state file that a comparison needs.
type stateDocument struct {
	Outputs map[string]struct {
		Value     json.RawMessage `json:"value"`
		Sensitive bool            `json:"sensitive"`
	} `json:"outputs"`
	Resources []struct {
		Module    string          `json:"module"`
		Mode      string          `json:"mode"`
		Type      string          `json:"type"`
		Name      string          `json:"name"`
		Instances []stateInstance `json:"instances"`
	} `json:"resources"`
}

type stateInstance struct {
	IndexKey   json.RawMessage `json:"index_key"`
	Deposed    string          `json:"deposed"`
	Attributes json.RawMessage `json:"attributes"`
	Flat       json.RawMessage `json:"attributes_flat"` // of providers before protocol 5
	Sensitive  [][]pathStep    `json:"sensitive_attributes"`
}

// pathStep is one step to a sensitive attribute: a name, or an index whose
// value is an object with the value inside.
type pathStep struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

func parseStateDocument(state []byte) (*stateDocument, error) {
	if statebackend.EncryptedByTool(state) {
		return nil, errors.New("the state is encrypted by OpenTofu; pull both versions and compare them with its key")
	}
	var d stateDocument
	if err := json.Unmarshal(state, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", statebackend.ErrNotState, err)
	}
	return &d, nil
}

// value is a leaf of a resource or output.
type value struct {
	json      json.RawMessage
	sensitive bool
}

// leaves maps an address to its attributes, flattened to paths.
func (d *stateDocument) leaves() map[string]map[string]value {
	all := map[string]map[string]value{}
	for name, o := range d.Outputs {
		l := flattener{values: map[string]value{}}
		l.add("value", o.Value, o.Sensitive || deniedName(name))
		all["output."+name] = l.values
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
			l := flattener{values: map[string]value{}, marks: i.marks()}
			l.add("", i.Attributes, false)
			l.add("", i.Flat, false)
			all[address+i.suffix()] = l.values
		}
	}
	return all
}

func (i stateInstance) suffix() string {
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
func (i stateInstance) marks() map[string]bool {
	marks := map[string]bool{}
	for _, steps := range i.Sensitive {
		path := ""
		for _, s := range steps {
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

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// flattener collects the leaves below a JSON value.
type flattener struct {
	values map[string]value
	marks  map[string]bool
}

func (f flattener) add(path string, raw json.RawMessage, sensitive bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return
	}
	sensitive = sensitive || f.marks[path]
	switch raw[0] {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil && len(object) > 0 {
			for name, v := range object {
				f.add(joinPath(path, name), v, sensitive || deniedName(name))
			}
			return
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			for i, v := range list {
				f.add(fmt.Sprintf("%s[%d]", path, i), v, sensitive)
			}
			return
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		raw = compact.Bytes()
	}
	f.values[path] = value{json: raw, sensitive: sensitive}
}

// deniedName reports whether an attribute's name says that its value is secret.
func deniedName(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, part := range [...]string{
		"password", "passwd", "passphrase", "secret", "token", "private_key", "privatekey", "api_key", "apikey",
		"access_key", "client_key", "signing_key", "credential", "connection_string", "kubeconfig", "kube_config",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// diffStates lists what differs, ordered by address and path.
func diffStates(before, after *stateDocument) []stateChange {
	old, now := before.leaves(), after.leaves()
	changes := []stateChange{}
	for _, address := range sortedKeys(old, now) {
		o, hadIt := old[address]
		n, hasIt := now[address]
		c := stateChange{Address: address, Action: actionChange}
		switch {
		case !hadIt:
			c.Action = actionAdd
		case !hasIt:
			c.Action = actionRemove
		default:
			c.Attributes = diffValues(o, n)
		}
		if c.Action != actionChange || len(c.Attributes) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

func diffValues(old, now map[string]value) []attributeChange {
	var changes []attributeChange
	for _, path := range sortedKeys(old, now) {
		o, n := old[path], now[path]
		if bytes.Equal(o.json, n.json) {
			continue
		}
		c := attributeChange{Path: path, Sensitive: o.sensitive || n.sensitive}
		if !c.Sensitive {
			c.Before, c.After = o.json, n.json
		}
		changes = append(changes, c)
	}
	return changes
}

// sortedKeys returns the keys of both maps, each once.
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
