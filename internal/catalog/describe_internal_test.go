// SPDX-License-Identifier: Apache-2.0

package catalog

import "testing"

// TestFirstWords checks that the description of a readme is a useful sentence.
func TestFirstWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a paragraph", "# VPC\n\nA network\nof **its** own, see [docs](https://example.com).\n\nMore.\n", "A network of its own, see docs."},
		{"footnotes and pictures", "A fast[^1] network :rocket: at 10:20:30.\n", "A fast network at 10:20:30."},
		{"badges", "[![ci](x.svg)](https://ci)\n![logo](logo.png)\nA network.\n", "A network."},
		{"a link with brackets", "[one](https://example.com/a_(b)) and ![two](x(1).png)three\n", "one and three"},
		{"code first", "```hcl\nmodule \"x\" {}\n```\n\nA network.\n", "A network."},
		{"nothing", "# VPC\n", ""},
	} {
		if got := FirstWords(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
