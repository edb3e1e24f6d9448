// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"strings"
	"testing"
)

// TestLanguages highlights typical code of each language, and keeps every byte.
func TestLanguages(t *testing.T) {
	for _, c := range []struct {
		language, code string
		has            []string
	}{
		{"hcl", "resource \"a\" \"b\" { # why\n  n = \"x-${upper(var.y)}\" == null ? 12 : { a = 1 }\n  t = <<-EOT\n    text\n    EOT\n}\n/* not */\nmodule \"m\" {}\n", []string{
			`<span class="kd">resource</span>`, `<span class="c1"># why</span>`, `<span class="na">n</span>`, `</span>${<span class="nb">upper</span>`, `<span class="nb">upper</span>`,
			`<span class="kc">null</span>`, `<span class="m">12</span>`, `<span class="sh">&lt;&lt;-EOT`, `<span class="cm">/* not */</span>`, `<span class="kd">module</span>`,
		}},
		{"json", `{"a": [1, true, "x\"y"]}`, []string{`<span class="nt">&#34;a&#34;</span>`, `<span class="m">1</span>`, `<span class="kc">true</span>`, `<span class="s">&#34;x\&#34;y&#34;</span>`}},
		{"yaml", "# c\nname: \"x\"\nlist:\n- 1\n- yes\n", []string{`<span class="c"># c</span>`, `<span class="nt">name</span>`, `<span class="s">&#34;x&#34;</span>`, `<span class="m">1</span>`, `<span class="kc">yes</span>`}},
		{"diff", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n", []string{`<span class="gd">-x`, `<span class="gi">+y`, `<code>--- a`}},
		{"sh", "export A=\"$B\" # c\nif test -f x; then echo $A; fi\n", []string{`<span class="nb">export</span>`, `<span class="c"># c</span>`, `<span class="k">if</span>`, `</span> $A; <span class="k">fi</span>`}},
	} {
		got := string(colorCode(c.code, c.language).HTML)
		for _, want := range c.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in\n%s", c.language, want, got)
			}
		}
	}
}

// FuzzLanguages checks that highlighting keeps each byte of a text, once.
func FuzzLanguages(f *testing.F) {
	for _, seed := range []string{"a = \"${{\"", "}}}", "<<EOT\nx\nEOT\n/* ", "{\"a\\", "'", "${", "@@\n-", "\r\n\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		code = strings.ToValidUTF8(strings.ReplaceAll(code, "\r", ""), "")
		for _, name := range []string{"", "hcl", "json", "yaml", "diff", "sh"} {
			tokens, err := newLexer(name).Tokenise(nil, code)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			var b strings.Builder
			for _, token := range tokens.Tokens() {
				b.WriteString(token.Value)
			}
			if b.String() != code {
				t.Errorf("%q: %q became %q", name, code, b.String())
			}
		}
	})
}
