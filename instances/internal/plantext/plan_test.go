// SPDX-License-Identifier: Apache-2.0

package plantext_test

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/internal/must"
)

func TestPlanLine(t *testing.T) {
	for line, want := range map[string]string{
		"  + resource \"a\" \"b\" {": "add", "-/+ resource": "replace", "+/- resource": "replace", "      - x = 1 -> null": "remove",
		"  ~ resource": "change", " <= data": "change", "  # a.b will be created": "", "": "", "Plan: 1 to add, 0 to change, 0 to destroy.": "", "+": "",
	} {
		must.Equal(t, line, plantext.Effect(line), want)
	}
}
