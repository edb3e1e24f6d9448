// SPDX-License-Identifier: Apache-2.0

package description

import (
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ConstraintFor returns the constraint with which examples require a version.
func ConstraintFor(v addr.Version) string {
	if v.Prerelease() || v.Edition() {
		return v.String()
	}
	text := v.String()
	return "~> " + text[:strings.LastIndexByte(text, '.')]
}

// ModuleBlock returns a module block with the required ones of the variables.
func ModuleBlock(name, source, version string, variables []artifact.DescribedVariable) string {
	width := len("source")
	if version != "" {
		width = len("version")
	}
	required := slices.DeleteFunc(slices.Clone(variables), func(v artifact.DescribedVariable) bool { return !v.Required })
	for _, in := range required {
		width = max(width, len(in.Name))
	}
	var b strings.Builder
	line := func(name, value string) {
		b.WriteString("  " + name + strings.Repeat(" ", width-len(name)) + " = " + value + "\n")
	}
	b.WriteString("module \"" + name + "\" {\n")
	line("source", text.HCL(source))
	if version != "" {
		line("version", text.HCL(version))
	}
	if len(required) > 0 {
		b.WriteString("\n")
	}
	for _, in := range required {
		line(in.Name, "null # "+strings.Join(strings.Fields(text.Clip(in.Type, 60)), " "))
	}
	b.WriteString("}\n")
	return b.String()
}
