// SPDX-License-Identifier: Apache-2.0

package plantext_test

import (
	"strings"
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

// TestSplit divides a plan into its resources, and trusts no text that contradicts its numbers.
func TestSplit(t *testing.T) {
	const plan = "\nOpenTofu will perform the following actions:\n\n" +
		"  # a.b[\"x will be created\"] will be destroyed\n  # (because a.b is not in configuration)\n  - resource \"a\" \"b\" {\n      - x = 1 -> null\n    }\n\n" +
		"  # a.c is tainted, so must be replaced\n-/+ resource \"a\" \"c\" {\n      + t = <<-EOT\n            x\n            \n              # a.no will be destroyed\n        EOT\n    }\n\n" +
		"  # data.a.d will be read during apply\n <= data \"a\" \"d\" {\n    }\n\n  # a.e has moved to a.f\n    resource \"a\" \"f\" {\n    }\n\n" +
		"  # a.g will be imported\n  # (imported from \"x\")\n    resource \"a\" \"g\" {\n    }\n\n" +
		"  # a.h will be removed from the OpenTofu state but will not be destroyed\n  . resource \"a\" \"h\" {\n}\n\n" +
		" # a.i will no longer be managed by Terraform, but will not be destroyed\n # (destroy = false is set in the configuration)\n . resource \"a\" \"i\" {\n    }\n\n" +
		"Plan: 1 to import, 1 to add, 0 to change, 2 to destroy.\n\nChanges to Outputs:\n  + o = 1\n\nWarning: Resource targeting is in effect\n"
	var got []string
	parts, counts := plantext.Split(plan)
	for _, p := range parts {
		got = append(got, p.Effect+"|"+p.Name+"|"+p.Note)
	}
	must.Equal(t, "parts", strings.Join(got, "\n"), "remove|a.b[\"x will be created\"]|will be destroyed\nreplace|a.c|is tainted, so must be replaced\n|data.a.d|will be read during apply\n|a.e|has moved to a.f\nimport|a.g|will be imported\nforget|a.h|will be removed from the OpenTofu state but will not be destroyed\nforget|a.i|will no longer be managed by Terraform, but will not be destroyed\n|outputs|change\n||other output of the tool")
	must.Equal(t, "numbers", counts.Words(false), "1 to add, 0 to change, 2 to destroy, 1 of them replaced, 1 to import, 2 to forget")
	if parts, counts := plantext.Split(strings.Replace(plan, "2 to destroy", "2 to destroy, 2 to forget", 1)); len(parts) != 9 || counts.Forget != 2 {
		t.Errorf("of OpenTofu: %d parts, %+v", len(parts), counts)
	}
	for _, other := range []string{"", "Plan: 1 to add\n", strings.Replace(plan, "2 to destroy", "1 to destroy", 1), strings.Replace(plan, "2 to destroy", "2 to destroy, 1 to forget", 1), strings.Replace(plan, "# a.e has moved to a.f\n    resource", "# a.e will be destroyed\n  - resource", 1), strings.Replace(plan, "Plan:", "plan:", 1), "\n  ~ v = x will perform the following actions:\n" + plan} {
		if parts, _ := plantext.Split(other); parts != nil {
			t.Errorf("%.40q has %d parts", other, len(parts))
		}
	}
}
