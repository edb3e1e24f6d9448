// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/text"
)

// FuzzLog reads plan output of a tool, or any other text: nothing in it acts in the browser
// of a reader, and the progress bar stays within bounds.
//
// Shows: platform-attacks 18
func FuzzLog(f *testing.F) {
	for _, s := range []string{
		"Plan: 2 to add, 0 to change, 0 to destroy.\naws_vpc.a: Creation complete after 1s\n",
		"Plan: 1 to import, 99999999999999999999 to add, 1 to change, 1 to destroy.", "\x1b[31mred\x1b[0m \u202eevent\r\n\x1b[2J", "\x1b[\x1b[0m1m\xff\u200b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		var p Progress
		for line := range bytes.Lines(log) {
			p.line(line)
			if p.Done < 0 || p.Total < 0 || p.Total > 3<<20 {
				t.Fatalf("%q makes %+v", line, p)
			}
		}
		shown := plainLog(log)
		if strings.ContainsFunc(shown, func(r rune) bool { return text.Hidden(r) && !strings.ContainsRune("\n\t\u200c\u200d\ufffd", r) }) {
			t.Errorf("%q is shown as %q", log, shown)
		}
	})
}
