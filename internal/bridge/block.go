// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/backendblock"
)

// Setting is a KEY=VALUE of -backend-config, nested by dots: versioning.max_versions.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"-"` // for messages: the flag, or file and line
}

// applySetting gives the argument its value, unless it has one.
func (s Setting) applySetting(a *backendblock.Arguments) error {
	if err := a.Setting(s.Name, s.Value); err != nil {
		return fmt.Errorf("%s: %w", s.Source, err)
	}
	return nil
}

// readBlock reads the block; values has what only the tool evaluates, by source range.
func readBlock(a *backendblock.Arguments, body hcl.Body, values map[string]cty.Value) error {
	content, diags := body.Content(blockSchema(""))
	if err := oracleArguments(content.Attributes); err != nil {
		return err
	}
	if err := diagnosticsError(diags); err != nil {
		return err
	}
	if err := readAttributes(a, "", content.Attributes, values); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, b := range content.Blocks {
		if b.Type == "encryption" {
			if !a.BeginEncryption() {
				continue
			}
		} else if seen[b.Type] {
			return atPosition(b.DefRange, fmt.Errorf("duplicate %s block", b.Type))
		}
		seen[b.Type] = true
		inner, diags := b.Body.Content(blockSchema(b.Type))
		if err := diagnosticsError(diags); err != nil {
			return err
		}
		if err := readAttributes(a, b.Type+".", inner.Attributes, values); err != nil {
			return err
		}
	}
	return nil
}

// blockSchema returns the schema of the block itself, or of one of its nested blocks.
func blockSchema(of string) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, o := range backendblock.Options() {
		if block, name := o.Block(); block == of {
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
		}
	}
	if of != "" {
		return s
	}
	for _, n := range oracleNames() {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: n})
	}
	for _, n := range backendblock.Blocks() {
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: n})
	}
	return s
}

// readAttributes reads a block's arguments in order; prefix is its name and a dot.
func readAttributes(a *backendblock.Arguments, prefix string, attrs hcl.Attributes, values map[string]cty.Value) error {
	sorted := make([]*hcl.Attribute, 0, len(attrs))
	for _, attr := range attrs {
		sorted = append(sorted, attr)
	}
	slices.SortFunc(sorted, func(x, y *hcl.Attribute) int { return x.Range.Start.Byte - y.Range.Start.Byte })
	for _, attr := range sorted {
		v, evaluated := values[attr.Range.String()]
		if !evaluated {
			var diags hcl.Diagnostics
			v, diags = attr.Expr.Value(nil)
			if err := diagnosticsError(diags); err != nil {
				return err
			}
		}
		if err := a.Set(prefix+attr.Name, v); err != nil {
			return atPosition(attr.NameRange, err)
		}
	}
	return nil
}

// reference is an argument that refers to variables or local values.
type reference struct {
	name string // prefixed with that of its block and a dot
	attr *hcl.Attribute
}

// errorAt adds the position to an error, and a hint.
func (r reference) errorAt(err error) error {
	variable := backendblock.Option{Name: r.name}.Variable()
	return atPosition(r.attr.Range, fmt.Errorf("argument %q %w\nhint: write the value, or leave the argument out and set %s", r.attr.Name, err, variable))
}

// findReferences returns the references in a backend block, in source order.
func findReferences(body hcl.Body) (found []reference) {
	add := func(prefix string, attrs hcl.Attributes) {
		for _, attr := range attrs {
			if len(attr.Expr.Variables()) > 0 {
				found = append(found, reference{prefix + attr.Name, attr})
			}
		}
	}
	content, _ := body.Content(blockSchema("")) // the reader reports its errors
	add("", content.Attributes)
	for _, b := range content.Blocks {
		inner, _ := b.Body.Content(blockSchema(b.Type))
		add(b.Type+".", inner.Attributes)
	}
	slices.SortFunc(found, func(a, b reference) int { return a.attr.Range.Start.Byte - b.attr.Range.Start.Byte })
	return found
}

// oracleNames are arguments that only Oracle's backend of the same name has.
func oracleNames() []string {
	return []string{"bucket", "namespace", "key", "tenancy_ocid", "user_ocid", "workspace_key_prefix"}
}

func oracleArguments(attrs hcl.Attributes) error {
	for _, n := range oracleNames() {
		if attr := attrs[n]; attr != nil {
			return atPosition(attr.NameRange, fmt.Errorf("argument %q belongs to Oracle Cloud's backend, which Terraform 1.12 and later call \"oci\" too; okara's keeps state in an OCI registry\nhint: for Oracle Object Storage run terraform without okara; for a registry write repository = \"HOST/PATH\" instead", n))
		}
	}
	return nil
}
