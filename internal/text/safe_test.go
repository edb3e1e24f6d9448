// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

// Shows: platform-attacks 18 | a log or a name that tries to control the terminal; endless lists
// and streams
func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"grün  日本 \U0001f600":        "grün  日本 \U0001f600",
		"a\nb\tc\r\nd\u2028e\u0085f": "a b c  d e f",
		"\x1b[31mred\x07\x00\x7f":    "\ufffd[31mred\ufffd\ufffd\ufffd",
		"\u009b31m":                  "\ufffd31m",                 // C1
		"\u202egpj.exe\u2066\u200f":  "\ufffdgpj.exe\ufffd\ufffd", // direction characters
		"pro\u200bd\ufeff\u2060":     "pro\ufffdd\ufffd\ufffd",    // no width
		"\u3164\u115f":               "\ufffd\ufffd",              // invisible letters
		"a\U000e0041":                "a\ufffd",                   // tags
		"a\xff\xc3":                  "a\ufffd\ufffd",
	} {
		must.Equal(t, in, text.Line(in), want)
	}
}

// Shows: platform-attacks 18
func TestBlock(t *testing.T) {
	const in = "a\r\n\tb\u202e\u200b\n\x1b[0m\u0085\u2028می\u200cخواهم \U0001f469\u200d\U0001f4bb\xff\n"
	const want = "a\n\tb\ufffd\ufffd\n\ufffd[0m\ufffd\ufffdمی\u200cخواهم \U0001f469\u200d\U0001f4bb\ufffd\n"
	must.Equal(t, "value", text.Block(in), want)
}

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		" a\n\t b ":               "a b",
		"\n\x1b ":                 "\ufffd",
		strings.Repeat("ä", 1000): strings.Repeat("ä", 254) + "…",
	} {
		must.Equal(t, in, text.Excerpt(in), want)
	}
}

// TestHead checks the first lines of a tool's output.
func TestHead(t *testing.T) {
	must.Equal(t, "value", text.Head("\n\nError: no\r\n\n  on main.tf\n\u202eword\n"), "Error: no\n  on main.tf\n\ufffdword")
	must.Equal(t, "value", text.Head(strings.Repeat("x\n", 100)), "x\nx\nx\nx\nx\nx\nx\nx")
	if got := text.Head(strings.Repeat("x", 1<<20)); len(got) > 1<<10 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestWriter writes characters in pieces.
//
// Shows: platform-attacks 18
func TestWriter(t *testing.T) {
	const in = "grün\n\ttab \x1b[31mred \u202e \u009b \r\u2713 \xff!\n"
	const want = "grün\n\ttab \ufffd[31mred \ufffd \ufffd \u2713 \ufffd!\n"
	for size := 1; size <= len(in); size++ {
		var out bytes.Buffer
		w := text.Writer(&out)
		for rest := []byte(in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		if out.String() != want {
			t.Errorf("in pieces of %d bytes: %q, want %q", size, out.String(), want)
		}
	}
}

// FuzzSafe checks that no character that affects the display remains, and that
// safe text stays unchanged.
//
// Shows: platform-attacks 18
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"a\xc2", "\x9bb", "\xf0\x9f", "\x98\x80", "\u202ea\u2066", "\u200b\u200d", "\x1b[2J\r\n", "\ufeff\u2028\u0085"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, cut int) {
		for form, safe := range map[string]func(string) string{"line": text.Line, "block": text.Block, "excerpt": text.Excerpt} {
			got := safe(s)
			if again := safe(got); again != got {
				t.Errorf("%s: %q is %q, and that %q", form, s, got, again)
			}
			for _, r := range got {
				lines := form == "block" && strings.ContainsRune("\n\t\u200c\u200d", r)
				if !lines && r != utf8.RuneError && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) || unicode.In(r, unicode.Zl, unicode.Zp)) {
					t.Errorf("%s: %q has %U", form, got, r)
				}
			}
		}
		var pieces bytes.Buffer
		w, at := text.Writer(&pieces), min(max(cut, 0), len(s))
		_, _ = w.Write([]byte(s[:at]))
		_, _ = w.Write([]byte(s[at:]))
		if whole := text.Block(s); !strings.HasPrefix(whole, pieces.String()) || utf8.ValidString(s) && whole != pieces.String() {
			t.Errorf("%q in pieces is %q", s, pieces.String())
		}
	})
}
