// SPDX-License-Identifier: Apache-2.0

package kindspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Bounds of an example, and of a line of a description, in bytes.
const (
	maxExample     = 16 << 10
	maxExampleLine = 100
)

// Example is an object to begin with, in YAML: required fields, optional ones commented.
func (k *Kind) Example() string {
	var b strings.Builder
	spec := k.check.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	fmt.Fprintf(&b, "apiVersion: %s/%s\nkind: %s\nmetadata:\n  name: example\nspec:\n", Group, Version, k.Definition.Spec.Names.Kind)
	field := func(begin, name string) bool {
		p := spec.Properties[name]
		text := ""
		if p.Description != "" {
			text = "  # " + shortenText(strings.Join(strings.Fields(p.Description), " "), maxExampleLine) + "\n"
		}
		text += begin + name + ": " + exampleOf(&p, 0) + "\n"
		if b.Len()+len(text) > maxExample {
			return false
		}
		b.WriteString(text)
		return true
	}
	for _, name := range slices.Sorted(slices.Values(spec.Required)) {
		if !field("  ", name) {
			return b.String()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Properties)) {
		if !slices.Contains(spec.Required, name) && !field("  # ", name) {
			break
		}
	}
	return b.String()
}

// maxExampleDepth bounds how deep the value of an example goes.
const maxExampleDepth = 4

// exampleOf is the default, the first allowed, or the least value, as JSON.
func exampleOf(p *apiextensions.JSONSchemaProps, depth int) string {
	switch {
	case p.Default != nil:
		return string(p.Default.Raw)
	case len(p.Enum) > 0:
		return string(p.Enum[0].Raw)
	}
	switch p.Type {
	case "string":
		return `""`
	case "integer", "number":
		if p.Minimum != nil {
			return fmt.Sprintf("%g", *p.Minimum)
		}
		return "0"
	case "boolean":
		return "false"
	case "array":
		return "[]"
	case "object":
		if depth == maxExampleDepth {
			break
		}
		var parts []string
		for _, name := range slices.Sorted(slices.Values(p.Required)) {
			inner := p.Properties[name]
			quoted, _ := json.Marshal(name) // a string never fails
			parts = append(parts, string(quoted)+": "+exampleOf(&inner, depth+1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}
