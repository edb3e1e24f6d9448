// SPDX-License-Identifier: Apache-2.0

package description

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/seed-141914ff/okara/internal/text"
)

// reserved are the names that no variable may have, since they mean something else in a module
// block: moduleBlockSchema of OpenTofu 1.12.6 and Terraform.
var reserved = []string{"source", "version", "count", "for_each", "depends_on", "providers", "lifecycle", "locals", "provider"}

// constraint is one part of what both tools take for version constraints, and a little more.
var constraint = text.Pattern(`^\s*(=|!=|>=?|<=?|~>)?\s*v?[0-9]+(\.[0-9]+)*([-+~A-Za-z][0-9A-Za-z.+~-]*)?\s*$`)

// checkArguments finds what fails at every init in the arguments of a block.
func (c *configuration) checkArguments(b *hcl.Block, source []byte) {
	has := attributesOf(b)
	switch b.Type {
	case "variable":
		if slices.Contains(reserved, b.Labels[0]) {
			c.addFailing(b.DefRange, "Invalid variable name", "%q means something else in module blocks.", b.Labels[0])
		}
		c.checkDefault(has["type"], has["default"], source)
	case "terraform":
		c.checkConstraint(has["required_version"])
		content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "required_providers"}}})
		for _, providers := range content.Blocks {
			all, _ := providers.Body.JustAttributes()
			for _, p := range all {
				pairs, _ := hcl.ExprMap(p.Expr)
				for _, pair := range pairs {
					if hcl.ExprAsKeyword(pair.Key) == "version" {
						c.checkConstraint(&hcl.Attribute{Expr: pair.Value})
					}
				}
			}
		}
	case "module", "resource", "data", "ephemeral":
		if b.Type == "module" {
			c.checkConstraint(has["version"])
		}
		if b.Type == "module" && has["source"] == nil && !c.merges {
			c.addFailing(b.DefRange, "Module without source", "The argument source is required.")
		}
		if has["count"] != nil && has["for_each"] != nil {
			c.addFailing(has["for_each"].Range, "Invalid combination of count and for_each", "A block can have only one of them.")
		}
	}
}

func (c *configuration) checkConstraint(a *hcl.Attribute) {
	if a == nil {
		return
	}
	constraints, ok := evaluateText(a.Expr, nil)
	for part := range strings.SplitSeq(constraints, ",") {
		if ok && !constraint().MatchString(part) {
			c.addFailing(a.Expr.Range(), "Invalid version constraint", "%q is not a version constraint such as >= 1.2.0.", constraints)
			return
		}
	}
}

// checkDefault converts a default to the type as the tools do.
func (c *configuration) checkDefault(constraint, initial *hcl.Attribute, source []byte) {
	if constraint == nil || initial == nil {
		return
	}
	written := fmt.Sprintf("%T %s", constraint.Expr, constraint.Expr.Range().SliceBytes(source)) // in JSON, quotes mean nothing
	want, seen := c.types[written]
	if !seen { // many variables have the same
		if known, _, diags := typeexpr.TypeConstraintWithDefaults(constraint.Expr); !diags.HasErrors() {
			want = known
		}
		c.types[written] = want
	}
	value, wrong := initial.Expr.Value(nil)
	if want == cty.NilType || wrong.HasErrors() {
		return
	}
	if _, err := convert.Convert(value, want); err != nil {
		c.addFailing(initial.Expr.Range(), "Invalid default value for variable", "It does not have the type of the variable: %s.", err)
	}
}
