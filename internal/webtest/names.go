// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
)

// Roles of the accessibility tree are named as Chromium names them.

// needsName reports whether an element with this role is unusable without a name.
func needsName(role string) bool {
	switch role {
	case "link", "button", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider", "spinbutton", "menuitem", "tab",
		"DisclosureTriangle", "progressbar", "image", "heading", "log":
		return true
	}
	return false
}

// singleLandmarks returns the landmarks that each page has once.
func singleLandmarks() []string { return []string{"banner", "main", "contentinfo"} }

// readerProblems returns the problems of a page for a user of a screen reader: controls without a
// name, skipped heading levels, landmarks that are missing or have the same name.
func readerProblems(tree []*accessibility.Node) []string {
	v := &hearing{nodes: map[accessibility.NodeID]*accessibility.Node{}, seen: map[string]int{}}
	for _, n := range tree {
		v.nodes[n.NodeID] = n
	}
	for _, n := range tree {
		if n.ParentID == "" {
			v.walkNodes(n)
		}
	}
	for _, role := range singleLandmarks() {
		if n := v.seen[role]; n != 1 {
			v.addProblem("%d landmarks %s", n, role)
		}
	}
	if v.tops != 1 {
		v.addProblem("%d headings of level one", v.tops)
	}
	return v.problems
}

// hearing walks through a page in reading order.
type hearing struct {
	nodes    map[accessibility.NodeID]*accessibility.Node
	seen     map[string]int // landmarks by role and name
	level    int            // of the previous heading
	tops     int            // headings of level one
	problems []string
}

func (v *hearing) addProblem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *hearing) walkNodes(n *accessibility.Node) {
	if !n.Ignored {
		v.checkNode(n)
	}
	for _, id := range n.ChildIDs {
		if child := v.nodes[id]; child != nil {
			v.walkNodes(child)
		}
	}
}

func (v *hearing) checkNode(n *accessibility.Node) {
	role := textOf(n.Role)
	name := strings.TrimSpace(textOf(n.Name))
	switch {
	case slices.Contains(singleLandmarks(), role):
		v.seen[role]++
	case role == "form" && name == "": // not a landmark
	// A page may have several of these landmarks, which need different names.
	case slices.Contains([]string{"navigation", "region", "search", "form", "complementary"}, role):
		if v.seen[role+" "+name]++; v.seen[role+" "+name] == 2 {
			v.addProblem("two landmarks %s are called %q", role, name)
		}
	case name == "" && needsName(role):
		v.addProblem("nothing names a %s: %s", role, textOf(n.Value))
	}
	if role == "heading" {
		v.checkHeading(n, name)
	}
}

func (v *hearing) checkHeading(n *accessibility.Node, name string) {
	level := 0
	for _, p := range n.Properties {
		if p.Name == accessibility.PropertyNameLevel {
			_ = json.Unmarshal(p.Value.Value, &level) // 0: the heading has no level, which is reported below
		}
	}
	if level == 1 {
		v.tops++
	}
	if level == 0 || level > v.level+1 {
		v.addProblem("heading %q of level %d below one of level %d", name, level, v.level)
	}
	v.level = level
}

// textOf returns the string in a value; "" if it has another type.
func textOf(v *accessibility.Value) string {
	var s string
	if v != nil {
		_ = json.Unmarshal(v.Value, &s)
	}
	return s
}
