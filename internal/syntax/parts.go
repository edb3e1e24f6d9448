// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// DecodeParts fills the structs of parts, each by its tags, a name in one alone. A name in none is
// an error with its line. Fields with a tag path become absolute, from the file's directory.
func DecodeParts(src []byte, name string, parts ...any) hcl.Diagnostics {
	file, diags := Parse(src, name)
	if diags.HasErrors() {
		return diags
	}
	if native, ok := file.Body.(*hclsyntax.Body); ok {
		if err := checkBody(native); err != nil {
			return errorDiagnostics(err, name)
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
		anchorPaths(name, reflect.ValueOf(part))
	}
	return diags
}

// shared is a body of which each part takes its own, all names checked before.
type shared struct{ hcl.Body }

// Content returns the content of a part.
func (s shared) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content, _, _ := s.PartialContent(schema)
	return content, nil
}
