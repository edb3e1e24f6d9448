// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/internal/text"
)

// FuzzHCL parses the result with HCL's own parser.
func FuzzHCL(f *testing.F) {
	for _, s := range []string{"", "a", `"${x}"`, "%{if a}$${", "a\nb\r\t\a\v\b\f\x00", "\\u0041\u200b\U0001F600\u0600\"", "\xff", "$$${${"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, diags := hclsyntax.ParseExpression([]byte(text.HCL(s)), "text", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatalf("%q as %s: %v", s, text.HCL(s), diags)
		}
		v, diags := e.Value(nil)
		if diags.HasErrors() {
			t.Fatalf("%q as %s: %v", s, text.HCL(s), diags)
		}
		// The parser normalises to NFC.
		if got, want := v.AsString(), cty.StringVal(string([]rune(s))).AsString(); got != want {
			t.Errorf("%q became %q", want, got)
		}
	})
}
