// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// safeElements is what may be left of a text of others.
var safeElements = strings.Fields("html head body h2 h3 h4 h5 h6 p br hr blockquote pre code ul ol li em strong b i del kbd sub sup details summary table thead tbody tr th td dl dt dd span div input a")

// checkSafe reports whatever of a page could act, load or look like a part of okara.
func checkSafe(t *testing.T, text string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			if n.Type == html.CommentNode {
				t.Errorf("a comment is left: %q", n.Data)
			}
			continue
		}
		if !slices.Contains(safeElements, n.Data) {
			t.Errorf("<%s> is left", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case slices.Contains(strings.Fields("align class open start type checked disabled rel tabindex"), a.Key):
			case a.Key == "id" && strings.HasPrefix(a.Val, "md-"):
			case a.Key == "href" && (strings.HasPrefix(a.Val, "http://") || strings.HasPrefix(a.Val, "https://") || strings.HasPrefix(a.Val, "mailto:")):
			default:
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, source, has, not string }{
		{"script", "<script>alert(1)</script>text", "text", "alert"},
		{"handler", `<p onclick="alert(1)">text</p>`, "<p>text</p>", "onclick"},
		{"javascript", "[text](javascript:alert(1))", "text", "javascript"},
		{"javascript with a tab", "[text](java\tscript:alert(1))", "text", `href="java`},
		{"data", "[text](data:text/html,x)", "text", "href"},
		{"style", `<div style="position:fixed">text</div>`, "text", "style"},
		{"own class", `<div class="notice">text</div>`, "text", "notice"},
		{"own id", `<h2 id="main">text</h2>`, "text", `"main"`},
		{"form", `<form action="https://example.com"><button>text</button></form>`, "text", "form"},
		{"password", `<input type="password" name="token">`, "", "password"},
		{"svg", `<svg><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>`, "", "svg"},
		{"frame", `<iframe src="https://example.com"></iframe>text`, "text", "iframe"},
		{"base", `<base href="https://example.com">text`, "text", "base"},
		{"meta", `<meta http-equiv="refresh" content="0;url=https://example.com">text`, "text", "meta"},
		{"comment", "<!-- x --><p>text</p>", "text", "<!--"},
		{"image", "![text](https://example.com/x.png)", `<a href="https://example.com/x.png"`, "<img"},
		{"image in a link", "[![text](https://example.com/x.png)](https://example.com/)", "text", "<img"},
		{"relative link", "[text](docs/x.md)", "text", "href"},
		{"direction", "a\u202eb", "a\ufffdb", "\u202e"},
		{"terraform-docs", "| a | b |\n|---|---|\n| x | y<br>z |\n", "y<br>z", ""},
		{"details", "<details><summary>More</summary>\n\n- [x] done\n\n</details>", "<summary>More</summary>", ""},
		{"code", "```hcl\nsource = \"x\"\n```", `class="chroma"`, "style="},
		{"unknown language", "```brainfuck\n<b>\n```", "&lt;b&gt;", "chroma"},
		{"one title", "# Title\n\n## Part\n", `<h2 id="md-part">`, "Title"},
		{"gap", "# Title\n\n#### Part\n", `<h2 id="md-part">`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(newMarkdown(time.Now).make(c.source, place{}).html)
			checkSafe(t, got)
			if !strings.Contains(got, c.has) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %s, want %q and not %q", got, c.has, c.not)
			}
		})
	}
}

// TestMarkdownBounds wants what is beyond the bounds as it was written, at once.
func TestMarkdownBounds(t *testing.T) {
	for name, source := range map[string]string{
		"long":        strings.Repeat("a *b* c\n", maxSource/8+1),
		"long line":   strings.Repeat("*", maxLine+1) + " x",
		"deep quotes": strings.Repeat("> ", maxNesting+1) + "x",
		"deep lists":  strings.Repeat(" ", 8*maxNesting+1) + "- x",
	} {
		t.Run(name, func(t *testing.T) {
			r := newMarkdown(time.Now).render(source, place{})
			if !strings.HasPrefix(string(r.html), "<pre>") {
				t.Errorf("it was read: %.80s", r.html)
			}
			if r.cut != (len(source) > maxSource) {
				t.Errorf("cut is %v", r.cut)
			}
		})
	}
}

// TestMarkdownBusy wants a page beside texts that never end.
func TestMarkdownBusy(t *testing.T) {
	m := newMarkdown(time.Now)
	for range rendering {
		m.places <- struct{}{}
	}
	if got := m.render("*x*", place{}); got.html != "<pre>*x*</pre>" {
		t.Errorf("got %s", got.html)
	}
	<-m.places
	if got := m.make("*x*", place{}); !strings.Contains(string(got.html), "<em>x</em>") {
		t.Errorf("got %s", got.html)
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("# A\n\n<b>b</b> [c](http://d) ![e](f)\n\n```hcl\ng\n```\n")
	f.Add("<details open><summary>x</summary>")
	m := newMarkdown(time.Now)
	f.Fuzz(func(t *testing.T, source string) {
		checkSafe(t, string(m.make(source, place{}).html))
	})
}
