// SPDX-License-Identifier: Apache-2.0

package api

import "strings"

// MaxPlan bounds the plan of a run as text, in bytes: one that somebody approves is shown
// whole.
const MaxPlan = 1 << 20

// PlanLine tells what a line of a plan as text does, by the sign that it begins with:
// add, change, remove or replace; "": it only explains.
func PlanLine(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, c := range []struct{ sign, does string }{
		{"-/+ ", "replace"}, {"+/- ", "replace"}, {"+ ", "add"}, {"- ", "remove"}, {"~ ", "change"}, {"<= ", "change"},
	} {
		if strings.HasPrefix(line, c.sign) {
			return c.does
		}
	}
	return ""
}
