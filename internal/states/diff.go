// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"cmp"
	"encoding/json"
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

// String formats a change: sign and address, then a line an attribute.
func (c Change) String() string {
	sign := map[string]string{Add: "+", Remove: "-", Modify: "~"}[c.Action]
	lines := []string{sign + " " + c.Address}
	for _, at := range c.Attributes {
		lines = append(lines, fmt.Sprintf("    %s: %s -> %s", at.Path, at.valueText(at.Before), at.valueText(at.After)))
	}
	return strings.Join(lines, "\n")
}

// maxValueText bounds a value in such a line; the JSON has the whole value.
const maxValueText = 120

func (c AttributeChange) valueText(value []byte) string {
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

// Diff lists the differences, sorted by address and path. leftOut names what differs and
// is not compared: members of the instances or of the file that the tools do not act on.
func Diff(before, after *Document) (changes []Change, leftOut []string) {
	changes = []Change{}
	left := map[string]bool{}
	old := before.entries
	now := after.entries
	for len(old) > 0 || len(now) > 0 {
		order := cmp.Compare(len(now), 0) - cmp.Compare(len(old), 0)
		if len(old) > 0 && len(now) > 0 {
			order = strings.Compare(old[0].address, now[0].address)
		}
		switch {
		case order < 0:
			changes = append(changes, Change{Address: old[0].address, Action: Remove})
			old = old[1:]
		case order > 0:
			changes = append(changes, Change{Address: now[0].address, Action: Add})
			now = now[1:]
		default:
			if a := diffEntries(old[0], now[0], left); len(a) > 0 {
				changes = append(changes, Change{old[0].address, Modify, a})
			}
			old = old[1:]
			now = now[1:]
		}
	}
	if before.rest != nil && after.rest != nil {
		noteDifferences(left, before.rest, after.rest)
	}
	delete(left, "serial") // of every version
	return changes, slices.Sorted(maps.Keys(left))
}

// diffEntries compares one address, and adds to left what differs and is not compared.
func diffEntries(old, now entry, left map[string]bool) []AttributeChange {
	sameFacts := maps.EqualFunc(old.of.facts, now.of.facts, func(a, b []byte) bool { return bytes.Equal(a, b) })
	if bytes.Equal(old.json, now.json) && sameFacts {
		return nil
	}
	o, oldLeft := old.flatten()
	n, nowLeft := now.flatten()
	noteDifferences(left, oldLeft, nowLeft)
	return diffValues(o, n)
}

func noteDifferences(left map[string]bool, a, b members) {
	for _, name := range sortedKeys(a, b) {
		if x, y := a[name], b[name]; !bytes.Equal(x, y) && !(isNothing(x) && isNothing(y)) {
			left[name] = true
		}
	}
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
