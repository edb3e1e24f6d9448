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

// needsName reports whether nobody knows what something is without a name.
func needsName(role string) bool {
	switch role {
	case "link", "button", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider", "spinbutton", "menuitem", "tab",
		"DisclosureTriangle", "progressbar", "image", "heading", "log":
		return true
	}
	return false
}

// landmark reports whether a page may have several of them, which names tell apart.
func landmark(role string) bool {
	return slices.Contains([]string{"navigation", "region", "search", "form", "complementary"}, role)
}

// single are the landmarks that each page has once.
func single() []string { return []string{"banner", "main", "contentinfo"} }

// heard is what is wrong with a page for who hears it: operable things without a name,
// headings that leave a level out, landmarks that are missing or sound alike.
func heard(tree []*accessibility.Node) []string {
	v := &hearing{nodes: map[accessibility.NodeID]*accessibility.Node{}, seen: map[string]int{}}
	for _, n := range tree {
		v.nodes[n.NodeID] = n
	}
	for _, n := range tree {
		if n.ParentID == "" {
			v.walk(n)
		}
	}
	for _, role := range single() {
		if n := v.seen[role]; n != 1 {
			v.say("%d landmarks %s", n, role)
		}
	}
	if v.tops != 1 {
		v.say("%d headings of level one", v.tops)
	}
	return v.problems
}

// hearing goes through a page in the order in which it is read.
type hearing struct {
	nodes    map[accessibility.NodeID]*accessibility.Node
	seen     map[string]int // landmarks by role and name
	level    int            // of the heading before
	tops     int            // headings of level one
	problems []string
}

func (v *hearing) say(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

func (v *hearing) walk(n *accessibility.Node) {
	if !n.Ignored {
		v.hear(n)
	}
	for _, id := range n.ChildIDs {
		if child := v.nodes[id]; child != nil {
			v.walk(child)
		}
	}
}

func (v *hearing) hear(n *accessibility.Node) {
	role := text(n.Role)
	name := strings.TrimSpace(text(n.Name))
	switch {
	case slices.Contains(single(), role):
		v.seen[role]++
	case role == "form" && name == "": // is no landmark
	case landmark(role):
		if v.seen[role+" "+name]++; v.seen[role+" "+name] == 2 {
			v.say("two landmarks %s are called %q", role, name)
		}
	case name == "" && needsName(role):
		v.say("nothing names a %s: %s", role, text(n.Value))
	}
	if role == "heading" {
		v.heading(n, name)
	}
}

func (v *hearing) heading(n *accessibility.Node, name string) {
	level := 0
	for _, p := range n.Properties {
		if p.Name == accessibility.PropertyNameLevel {
			_ = json.Unmarshal(p.Value.Value, &level) // 0: it has none, which is said below
		}
	}
	if level == 1 {
		v.tops++
	}
	if level == 0 || level > v.level+1 {
		v.say("heading %q of level %d below one of level %d", name, level, v.level)
	}
	v.level = level
}

// text is a value that is a string; "" if it is none.
func text(v *accessibility.Value) string {
	var s string
	if v != nil {
		_ = json.Unmarshal(v.Value, &s)
	}
	return s
}
