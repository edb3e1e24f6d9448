// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// DecodeParts parses a file as Parse does and fills the structs that parts point to,
// each with the attributes and blocks that it has tags for. No two of them have a tag
// of one name. What none of them has is an error with its line, as it would be if all
// were one struct. Paths, the fields with a tag path, are made absolute, from where the file
// is.
func DecodeParts(src []byte, name string, parts ...any) hcl.Diagnostics {
	file, diags := Parse(src, name)
	if diags.HasErrors() {
		return diags
	}
	if native, ok := file.Body.(*hclsyntax.Body); ok {
		if err := checkBody(native); err != nil {
			return diagnostics(err, name)
		}
	}
	all := &hcl.BodySchema{}
	for _, part := range parts {
		schema, _ := gohcl.ImpliedBodySchema(part)
		all.Attributes = append(all.Attributes, schema.Attributes...)
		all.Blocks = append(all.Blocks, schema.Blocks...)
	}
	_, diags = file.Body.Content(all)
	for _, part := range parts {
		diags = append(diags, gohcl.DecodeBody(shared{file.Body}, nil, part)...)
		anchor(name, reflect.ValueOf(part))
	}
	return diags
}

// shared is a body of which each part takes its own, and says nothing about the rest:
// what is there that no part has, or is missing, was said before.
type shared struct{ hcl.Body }

// Content returns what a part takes.
func (s shared) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content, _, _ := s.PartialContent(schema)
	return content, nil
}
