// SPDX-License-Identifier: Apache-2.0

package plantext

import "strings"

// Max bounds the plan of a run as text, in bytes: a plan that is approved has to be
// shown completely.
const Max = 1 << 20

// Effect tells the effect of a line of a plan in text form, by the sign at its start:
// add, change, remove or replace; "": it has none.
func Effect(line string) string {
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
