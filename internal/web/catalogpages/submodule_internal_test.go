// SPDX-License-Identifier: Apache-2.0

package catalogpages

import "testing"

// TestCalled rewrites the source in an example to the address that a copy needs.
func TestCalled(t *testing.T) {
	to := callable{"okara.example.com/net/vpc/aws", "~> 1.2"}
	for _, c := range []struct{ name, code, want string }{
		{"the module", "module \"x\" {\n  source = \"../..\"\n}\n", "module \"x\" {\n  source  = \"okara.example.com/net/vpc/aws\"\n  version = \"~> 1.2\"\n}\n"},
		{"a slash at its end", "  source = \"../../\"\n", "  source  = \"okara.example.com/net/vpc/aws\"\n  version = \"~> 1.2\"\n"},
		{"a submodule", "\tsource=\"../../modules/subnet\"", "\tsource  = \"okara.example.com/net/vpc/aws//modules/subnet\"\n\tversion = \"~> 1.2\""},
		{"a directory of the example", "source = \"./part\"", "source  = \"okara.example.com/net/vpc/aws//examples/simple/part\"\nversion = \"~> 1.2\""},
		{"a block of one line", "module \"x\" { source = \"../..\" }\n", "module \"x\" {\n  source  = \"okara.example.com/net/vpc/aws\"\n  version = \"~> 1.2\"\n}\n"},
		{"outside of the archive", "source = \"../../../other\"", "source = \"../../../other\""},
		{"elsewhere", "source = \"net/vpc/aws\"", "source = \"net/vpc/aws\""},
		{"a template", "source = \"../${var.x}\"", "source = \"../${var.x}\""},
		{"a comment", "# source = \"../..\"", "# source = \"../..\""},
		{"another argument", "data_source = \"../..\"", "data_source = \"../..\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := to.withAddress(c.code, "examples/simple"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
