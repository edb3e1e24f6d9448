// SPDX-License-Identifier: Apache-2.0

package site

import (
	"fmt"
	"slices"
	"strconv"
)

// Changes is what a plan does, or how two versions of a state differ.
type Changes struct {
	Counts []Mark
	Words  string // the counts
	Rows   []Change
}

// Change is what happens to one resource.
type Change struct {
	Effect string // add, change, remove, replace, import or forget; "": it stays as it is
	Name   string
	Note   string // what happens to it
	Pieces []Piece
	Values []ValueChange
	More   int // values that are not shown
}

// Piece is a sequence of lines of a plan with the same effect.
type Piece struct{ Kind, Text string }

// ValueChange is a value before and after a change.
type ValueChange struct {
	Name     string
	Old, New string
	None     [2]bool // there is no old or new value
	Masked   bool
	Changed  bool
}

// CompareEffects sorts changes: what is destroyed comes first.
func CompareEffects(a, b string) int {
	order := []string{"remove", "replace", "forget", "change", "import", "add"}
	rank := func(effect string) int { return (slices.Index(order, effect) + len(order) + 1) % (len(order) + 1) }
	return rank(a) - rank(b)
}

// Sign returns the sign of the tools for the change.
func (c Change) Sign() string {
	return map[string]string{"add": "+", "change": "~", "remove": "−", "replace": "−/+", "forget": ".", "import": "←"}[c.Effect]
}

// CountChanges returns the marks of numbers of changes, and the same in words.
func CountChanges(add, change, remove int) (all []Mark, words string) {
	for i, mark := range []Mark{{"+", "good"}, {"~", "warn"}, {"−", "bad"}} {
		n := []int{add, change, remove}[i]
		if n == 0 {
			mark.Kind = "plain"
		}
		mark.Text += strconv.Itoa(n)
		all = append(all, mark)
	}
	return all, fmt.Sprintf("%d added, %d changed, %d removed", add, change, remove)
}
