// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"strings"
	"testing"
)

// TestPlanPieces groups lines of one kind, and loses and copies none: a plan of thousands of
// lines takes no more memory than its size.
func TestPlanPieces(t *testing.T) {
	text := strings.Repeat("aws_vpc.a: Refreshing state...\n", 3) + "  + resource \"x\" \"y\" {\n      + id = 1\n    }\n  - b\n\n\n"
	var whole strings.Builder
	pieces := planPieces(text)
	for i, p := range pieces {
		whole.WriteString(p.Text)
		if i > 0 && p.Kind == pieces[i-1].Kind {
			t.Errorf("two pieces of kind %q beside each other", p.Kind)
		}
	}
	if got, want := whole.String(), strings.TrimRight(text, "\n"); got != want {
		t.Errorf("the pieces are %q, want %q", got, want)
	}
	long := strings.Repeat("aws_vpc.a: Refreshing state...\n", 10_000)
	if n := testing.AllocsPerRun(1, func() { planPieces(long) }); n > 10 {
		t.Errorf("10,000 lines of one kind take %v allocations", n)
	}
}
