// SPDX-License-Identifier: Apache-2.0

package plantext

import "strings"

// Max bounds the text of a plan, in bytes: what is approved is shown whole.
const Max = 1 << 20

// Effect returns what the sign of a plan's line says: add, change, remove, replace, or "" for none.
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
