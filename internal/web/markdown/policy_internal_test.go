// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/microcosm-cc/bluemonday"
)

// theirs is the policy as a library for this has it.
func theirs(images ImageHosts) *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	for name, may := range newPolicy(images) {
		p.AllowElements(name)
		for key, pattern := range may {
			if pattern == nil {
				pattern = regexp.MustCompile(`(?s)^.*$`)
			}
			p.AllowAttrs(key).Matching(pattern).OnElements(name)
		}
	}
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(true)
	return p
}

// noImages takes away what checkSafe does not know.
var noImages = regexp.MustCompile(`<img [^>]*>|href="#md-x"`)

// soup is HTML as nobody should write it.
func soup(r *rand.Rand) string {
	pieces := []string{
		"text", "a < b & c", "&lt;script&gt;", "<p>", "</p>", "<div class=x>", "</div>", "<a href=\"https://example.com/?a=1&amp;b=2\" rel=\"nofollow noopener ugc\">",
		"<a href='javascript:alert(1)'>", "<a href=\" https://example.com\">", "<a href=\"#md-x\" onclick=alert(1)>", "<a>", "</a>", "<img src=x onerror=alert(1)>",
		"<img alt=\"a&quot;b\" width=10>", "<img src=\"https://img.example.com/a.png\" alt>", "<script>alert(1)</script>", "<script>", "<style>p{}</style>",
		"<iframe src=x>inner</iframe>", "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "<svg><style><img src=x onerror=1></style>", "<math>", "</svg>",
		"<textarea>", "</textarea>", "<title>x</title>", "<title>", "<!-- c -->", "<!doctype html>", "<![CDATA[x]]>", "<h2 id=md-a>", "<h2 id=a>", "</h2>", "<input type=checkbox checked disabled>",
		"<input type=text>", "<input>", "<code class=language-hcl>", "<code class=\"x y\">", "</code>", "<td align=left style=color:red>", "<br/>", "<br>", "<a/>", "<object data=x>",
		"<details open>", "<summary>", "<span class=kd>", "</span>", "<SPAN CLASS=kd>", "<p", ">", "<", "\"", "'", "=", "<xmp>", "</xmp>", "<plaintext>", "<template>", "</p >", "<ol start=3>", "\x00",
	}
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// TestPolicy holds the policy against a library of the same purpose: both let the same
// through, except that the library hides the rest of a text after an end without a
// start of what hides its own.
func TestPolicy(t *testing.T) {
	ours, lib := newPolicy(nil), theirs(nil)
	r := rand.New(rand.NewPCG(3, 4))
	const rounds = 20_000
	same := 0
	for range rounds {
		text := soup(r)
		got := string(ours.sanitize([]byte(text)))
		checkSafe(t, noImages.ReplaceAllString(got, ""))
		if want := lib.Sanitize(text); got == want {
			same++
		} else if !strings.HasPrefix(got, want) {
			t.Fatalf("%q\nours   %q\ntheirs %q", text, got, want)
		}
		if again := string(ours.sanitize([]byte(got))); again != got {
			t.Fatalf("%q becomes %q, and that %q", text, got, again)
		}
	}
	if same < rounds*95/100 {
		t.Errorf("only %d of %d texts are the same", same, rounds)
	}
}
