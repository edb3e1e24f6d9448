// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// safeElements are the elements that may remain in an untrusted text.
var safeElements = strings.Fields("html head body h2 h3 h4 h5 h6 p br hr blockquote pre code ul ol li em strong b i del kbd sub sup details summary table thead tbody tr th td dl dt dd span div input a s ins small picture source img")

// checkSafe reports what could act, load or pretend.
func checkSafe(t *testing.T, text string) {
	t.Helper()
	doc := must.Get(html.Parse(strings.NewReader(text)))(t)
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
			case slices.Contains(strings.Fields("align class open start type checked disabled rel tabindex colspan width"), a.Key):
			case a.Key == "aria-label" && n.Data == "input" && (a.Val == "done" || a.Val == "to do"):
			case a.Key == "href" && strings.HasPrefix(a.Val, "#md-"):
			case a.Key == "id" && strings.HasPrefix(a.Val, "md-"):
			case a.Key == "href" && (strings.HasPrefix(a.Val, "http://") || strings.HasPrefix(a.Val, "https://") || strings.HasPrefix(a.Val, "mailto:")):
			default:
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
}

// Shows: pages 3 | READMEs: attacks, typical READMEs, bounds on time and memory
func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, source, has, not string }{
		{"script", "<script>alert(1)</script>text", "text", "alert"},
		{"callout", "~> **Note:** the zone `a`\ngoes first", `<blockquote class="callout warn"`, "~&gt;"},
		{"callout in a list", "- -> see it", `<blockquote class="callout info"`, "-&gt;"},
		{"callout that stops", "!> **Warning** it is gone", `<blockquote class="callout stop"`, "!&gt;"},
		{"no callout", "a ~> 1.2 constraint", "~&gt; 1.2", "callout"},
		{"a class of others", `<blockquote class="callout x">text</blockquote><div class="callout warn">more</div>`, "text", "class"},
		{"handler", `<p onclick="alert(1)">text</p>`, "<p>text</p>", "onclick"},
		{"javascript", "[text](javascript:alert(1))", "text", "javascript"},
		{"javascript with a tab", "[text](java\tscript:alert(1))", "text", `href="java`},
		{"data", "[text](data:text/html,x)", "text", "href"},
		{"style", `<div style="position:fixed">text</div>`, "text", "style"},
		{"own class", `<div class="notice">text</div>`, "text", "notice"},
		{"own id", `<h2 id="main">text</h2>`, "text", `"main"`},
		{"form", `<form action="https://example.com"><button>text</button></form>`, "text", "form"},
		{"inputs", `<p>Token: <input name=token> <input type="password" name="token"></p>`, "Token:", "<input"},
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
		{"alert", "> [!WARNING]\n> Save *it*\n> first.", "<blockquote class=\"callout warn\"><p><strong>Warning</strong></p>\n<p>Save <em>it</em>\nfirst.</p>", "[!"},
		{"alert of two paragraphs", "> [!note]  \n>\n> Save it.", "<blockquote class=\"callout info\"><p><strong>Note</strong></p>\n<p>Save it.</p>", "[!"},
		{"no alert", "> [!OTHER]\n> text\n\n[!NOTE]\ntext\n\n> text\n>\n> [!TIP]", "[!TIP]", "callout"},
		{"footnote", "text[^a]\n\n[^a]: Of it.\n", `<sup id="md-fnref:1"><a href="#md-fn:1">1</a></sup>`, "[^"},
		{"emoji", ":rocket: and `:rocket:` :none: arn:aws:iam", "🚀 and <code>:rocket:</code> :none: arn:aws:iam", ""},
		{"heading with an emoji", "x\n\n## :books: Parts of aws_vpc & more\n", `<h2 id="md-books-parts-of-aws_vpc--more">📚 Parts`, ""},
		{"same headings", "x\n\n## Größe\n\n## Größe\n", `<h2 id="md-größe-1">`, ""},
		{"anchor of terraform-docs", "<a name=\"input_a_b\"></a> [a\\_b](#input\\_a\\_b)", `<a id="md-input_a_b"></a> <a href="#md-input_a_b">a_b</a>`, "name="},
		{"anchor of tfplugindocs", "(see [below](#nestedatt--x--y))\n\n<a id=\"nestedatt--x--y\"></a>\n### Nested Schema for `x.y`\n", `<a id="md-nestedatt--x--y"></a>`, "nestedatt--x--y\" rel"},
		{"link to it", "(see [below](#nestedatt--x--y))", `<a href="#md-nestedatt--x--y">below</a>`, ""},
		{"anchor on an element", `<div id="top" onclick=x>text</div>`, `<a id="md-top"></a><div>text</div>`, ""},
		{"heading in HTML", `<h1 align="center">Title</h1><p align=center>text</p>`, `<h2 align="center">Title</h2><p align="center">text</p>`, "h1"},
		{"alignment that is a style", `<p align="center;position:fixed">text</p>`, "<p>text</p>", "align"},
		{"picture of another host", `<picture><source media="(prefers-color-scheme: dark)" srcset="https://evil.example.com/x.png"><img src="https://evil.example.com/x.png" alt="logo"></picture>`, ">logo</a>", "srcset"},
		{"diagram", "```mermaid\ngraph TD; A-->B\n```", "Mermaid diagram, as text:</em></p>\n<pre tabindex=\"0\"><code>graph", ""},
		{"definitions", "Term\n: What it is.\n", "<dt>Term</dt>", ""},
		{"task", "- [x] done\n- [ ] open\n", `<input checked="" disabled="" type="checkbox" aria-label="done"> done`, ""},
		{"table in HTML", `<table><tr><td colspan="2" width="50%" style="x">text</td></tr></table>`, `<td colspan="2" width="50%">`, "style"},
		{"gap", "# Title\n\n#### Part\n", `<h2 id="md-part">`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(New(time.Now, nil).renderSource(c.source, Location{}).HTML)
			checkSafe(t, got)
			if !strings.Contains(got, c.has) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %s, want %q and not %q", got, c.has, c.not)
			}
		})
	}
}

// TestMarkdownBounds shows texts beyond the bounds as they were written, at once.
//
// Shows: pages 3
func TestMarkdownBounds(t *testing.T) {
	for name, source := range map[string]string{
		"long":         strings.Repeat("a *b* c\n", maxSource/8+1),
		"long line":    strings.Repeat("*", maxLine+1) + " x",
		"deep quotes":  strings.Repeat("> ", maxNesting+1) + "x",
		"deep numbers": strings.Repeat("1. ", maxNesting+1) + "x",
		"deep lists":   strings.Repeat(" ", 8*maxNesting+1) + "- x",
	} {
		t.Run(name, func(t *testing.T) {
			r := New(time.Now, nil).Render(source, Location{})
			if !strings.HasPrefix(string(r.HTML), `<pre tabindex="0">`) {
				t.Errorf("it was read: %.80s", r.HTML)
			}
			must.Equal(t, "cut", r.Cut, (len(source) > maxSource))
		})
	}
}

// TestMarkdownWork counts the elements that hostile texts make, rather than the time:
// when the budget is spent, the rest is text.
//
// Shows: pages 3
func TestMarkdownWork(t *testing.T) {
	lines := func(unit string) string { // one paragraph of 240 KB
		return strings.Repeat("x "+strings.Repeat(unit, 8000/len(unit))+"\n", 30)
	}
	const most = maxWork/240_000 + 10
	for _, c := range []struct {
		name, source string
		most         int // elements
	}{
		{"emphasis", lines("*a_"), most},
		{"emphasis of one kind", lines("_a "), most},
		{"emphasis that nests", lines("*a **a "), most},
		{"struck through", lines("~a "), most},
		{"code", lines("`a` "), 240_000/4 + 10},
		{"links", lines("[a](b) "), most},
		{"emoji", lines(":x: **a** "), most},
		{"elements", lines("<b>x</b>"), 240_000/8 + 10},
		{"a wide table of short rows", strings.Repeat("|a", 400) + "|\n" + strings.Repeat("|-", 400) + "|\n" + strings.Repeat("|\n", 2000), 1000},
		{"many of them", strings.Repeat(strings.Repeat("|a", 60)+"|\n"+strings.Repeat("|-", 60)+"|\n"+strings.Repeat("|\n", 60)+"\n", 40), maxWork/cellWork + 60*60 + 40*200},
		{"pipes in the code of cells", "a|b\n-|-\n" + strings.Repeat("`\\|`|b\n", 6000), most},
		{"footnotes", strings.Repeat("[^a]\n\n", maxReferences) + strings.Repeat("[^a]: b\n\n", 10), 10},
		{"references", strings.Repeat("[a]: b\n", maxReferences+1), 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.source) > maxSource || isNested(c.source) {
				t.Fatal("it is not read at all")
			}
			doc := must.Get(html.Parse(strings.NewReader(string(New(time.Now, nil).renderSource(c.source, Location{}).HTML))))(t)
			n := 0
			for node := range doc.Descendants() {
				if node.Type == html.ElementNode {
					n++
				}
			}
			if n > c.most {
				t.Errorf("%d bytes became %d elements, want %d at most", len(c.source), n, c.most)
			}
		})
	}
}

// TestMarkdownLarge reads real texts completely that are larger than most.
//
// Shows: pages 3
func TestMarkdownLarge(t *testing.T) {
	m := New(time.Now, nil)
	row := "| <a name=\"input_name\"></a> [the\\_name](#input\\_name) | What **it** is, `a \\| b`. | `map(object({ a = string }))` | `{}` | no |\n"
	table := "| Name | Description | Type | Default | Required |\n|------|-------------|:----|---------|:--------:|\n" + strings.Repeat(row, 900)
	if got := string(m.renderSource(table, Location{}).HTML); strings.Count(got, "<tr>") != 901 || strings.Count(got, "<strong>") != 900 || !strings.Contains(got, `<td align="center">no</td>`) {
		t.Errorf("a table of 900 inputs has %d rows and %d marks", strings.Count(got, "<tr>"), strings.Count(got, "<strong>"))
	}
	if got := m.renderSource("| Type |\n|---|\n| <pre>map(object({<br/>"+strings.Repeat("a = optional(string)<br/>", 900)+"}))</pre> |\n", Location{}); got.AsWritten {
		t.Error("a type of 20 KB in one line is shown as it was written")
	}
	list := strings.Repeat("- `name` (String) It is *this* or [that](https://example.com).\n", 3000)
	if got := string(m.renderSource(list, Location{}).HTML); strings.Count(got, "<em>") != 3000 || strings.Count(got, "<a ") != 3000 {
		t.Errorf("a list of 3000 attributes has %d marks", strings.Count(got, "<em>"))
	}
}

// TestDescriptions renders emphasis, links and code only.
func TestDescriptions(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"plain", "The range of addresses.", "The range of addresses."},
		{"code", "One of `a` or `b`.", "One of <code>a</code> or <code>b</code>."},
		{"marks", "**Must** be *set*, ~~maybe~~.", "<strong>Must</strong> be <em>set</em>, <del>maybe</del>."},
		{"names with underscores", "See input_name_x and aws_vpc.", "See input_name_x and aws_vpc."},
		{"link", "See [this](https://example.com/a?b=1&c=2).", `See <a href="https://example.com/a?b=1&amp;c=2" rel="nofollow noopener ugc">this</a>.`},
		{"address", "See https://example.com.", `See <a href="https://example.com" rel="nofollow noopener ugc">https://example.com</a>.`},
		{"relative link", "See [this](docs/a.md).", "See this."},
		{"a name in brackets", "arn:aws:iam::<account>:role/<b>x</b>", "arn:aws:iam::&lt;account&gt;:role/&lt;b&gt;x&lt;/b&gt;"},
		{"script", "`x` <script>alert(1)</script>", "<code>x</code> &lt;script&gt;alert(1)&lt;/script&gt;"},
		{"link that acts", "[x](javascript:alert(1))", "x"},
		{"image", "![x](https://example.com/x.png)", `<a href="https://example.com/x.png" rel="nofollow noopener ugc">x</a>`},
		{"no heading", "# Not a heading", "# Not a heading"},
		{"no list", "One of:\n- a\n- `b`", "One of:\n- a\n- <code>b</code>"},
		{"paragraphs", "One.\n\nTwo `a`.\n", "<p>One.</p><p>Two <code>a</code>.</p>"},
		{"indented", "  One.\n    Two `a`.", "One.\nTwo <code>a</code>."},
		{"direction", "a\u202e`b`", "a\ufffd<code>b</code>"},
		{"long", strings.Repeat("`a` ", maxInline/4) + "`b`", strings.Repeat("`a` ", maxInline/4) + "`b`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := New(time.Now, nil).Descriptions([]string{"before", c.source})
			if len(got) != 2 || got[0] != "before" || string(got[1]) != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	m := New(time.Now, nil)
	many := slices.Repeat([]string{strings.Repeat("`a` ", 256)}, maxSource/1024)
	if got := m.Descriptions(many); strings.Contains(string(got[0]), "<code>") {
		t.Error("more than is rendered at once was read")
	}
}

// TestMarkdownBusy: text as written while there is no place.
func TestMarkdownBusy(t *testing.T) {
	m := New(time.Now, nil)
	m.Descriptions([]string{"`a`"})
	for range rendering + waiting {
		m.queue <- struct{}{}
	}
	if got := m.Descriptions([]string{"`a`"}); got[0] != "<code>a</code>" {
		t.Errorf("from memory: %s", got[0])
	}
	if got := m.Descriptions([]string{"`b`"}); got[0] != "`b`" {
		t.Errorf("while all places are taken: %s", got[0])
	}
	if got := m.Render("*x*", Location{}); got.HTML != `<pre tabindex="0">*x*</pre>` || !got.AsWritten {
		t.Errorf("got %s", got.HTML)
	}
	if got := m.renderOnce("*x*", "text ", func() Rendered { return asWritten("*x*") }, func() Rendered { panic("a fault of a library") }); !got.AsWritten {
		t.Errorf("after a failure: %s", got.HTML)
	}
	<-m.queue
	if got := m.Render("*x*", Location{}); !strings.Contains(string(got.HTML), "<em>x</em>") || got.AsWritten {
		t.Errorf("got %s", got.HTML)
	}
}

// Shows: pages 3
func FuzzMarkdown(f *testing.F) {
	f.Add("# A\n\n<b>b</b> [c](http://d) ![e](f)\n\n```hcl\ng\n```\n")
	f.Add("<details open><summary>x</summary>")
	f.Add(strings.Repeat("*a_", 2000))
	f.Add("|a|b|\n|-|-|\n" + strings.Repeat("|\n", 50))
	f.Add(strings.Repeat("[a](b \"", 500) + strings.Repeat("x <!-- ", 500))
	m := New(time.Now, nil)
	f.Fuzz(func(t *testing.T, source string) {
		checkSafe(t, string(m.renderSource(source, Location{}).HTML))
		checkSafe(t, string(m.renderDescription(source)))
	})
}

// TestTerraformDocs renders the tables that terraform-docs writes into a README, which
// mix Markdown and HTML, as they should look.
//
// Shows: page-mistakes 2 | raw HTML of generated tables is broken | OpenDepot
func TestTerraformDocs(t *testing.T) {
	source := must.Get(os.ReadFile("testdata/terraform-docs.txt"))(t)
	doc := New(time.Now, nil).Render(string(source), Location{})
	checkSafe(t, string(doc.HTML))
	webtest.Compare(t, "testdata/golden/terraform-docs.html", string(doc.HTML))
}
