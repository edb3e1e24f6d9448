// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/description"
)

// TestChangedMarkdown: bounded, and users' text stays code.
func TestChangedMarkdown(t *testing.T) {
	m := changedModule{Address: "net/vpc/aws", From: "1.0.0", To: "1.0.1", Changes: []string{"fix: ``` @here ` #1"}}
	if got, want := changedMarkdown([]changedModule{m}), "\n- commit: ```` fix: ``` @here ` #1 ````\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end in %q", got, want)
	}
	refused := changedModule{Address: "net/vpc/aws", From: "1.0.0", Error: "no history", Differences: []description.Difference{{Breaking: true}}}
	if got, want := changedMarkdown([]changedModule{refused}), "| **refused** |\n\n**net/vpc/aws**: `no history`\n"; !strings.HasSuffix(got, want) || refused.isUnannounced() {
		t.Errorf("%q does not end in %q, or the module breaks callers", got, want)
	}
	for range 1000 {
		m.Changes = append(m.Changes, strings.Repeat("x", 200))
	}
	got := changedMarkdown([]changedModule{m, m})
	if len(got) > 65536 || !strings.Contains(got, "Lines omitted: ") {
		t.Errorf("%d bytes, which end in %q", len(got), got[len(got)-100:])
	}
}
