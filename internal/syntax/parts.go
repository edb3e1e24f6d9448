// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// DecodeParts parses a file as Parse does and fills the structs that parts
// point to, each with the attributes and blocks for which it has tags. No name
// may have a tag in two parts. A name without a tag in any part is an error
// with its line, as if all parts were one struct. Fields with a tag path are
// made absolute, relative to the directory of the file.
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

// shared is a body from which each part takes only its own content. Unknown and
// missing names were reported before.
type shared struct{ hcl.Body }

// Content returns the content of a part.
func (s shared) Content(schema *hcl.BodySchema) (*hcl.BodyContent, hcl.Diagnostics) {
	content, _, _ := s.PartialContent(schema)
	return content, nil
}
