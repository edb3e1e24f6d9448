// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/internal/webtest"
)

// safeElements are the elements that may remain in an untrusted text.
var safeElements = strings.Fields("html head body h2 h3 h4 h5 h6 p br hr blockquote pre code ul ol li em strong b i del kbd sub sup details summary table thead tbody tr th td dl dt dd span div input a")

// checkSafe reports everything in a page that could act, load or look like a part of
// okara.
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
			case a.Key == "aria-label" && n.Data == "input" && (a.Val == "done" || a.Val == "to do"):
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
			got := string(New(time.Now, nil).make(c.source, Location{}).HTML)
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
		"long":        strings.Repeat("a *b* c\n", maxSource/8+1),
		"long line":   strings.Repeat("*", maxLine+1) + " x",
		"deep quotes": strings.Repeat("> ", maxNesting+1) + "x",
		"deep lists":  strings.Repeat(" ", 8*maxNesting+1) + "- x",
	} {
		t.Run(name, func(t *testing.T) {
			r := New(time.Now, nil).Render(source, Location{})
			if !strings.HasPrefix(string(r.HTML), "<pre>") {
				t.Errorf("it was read: %.80s", r.HTML)
			}
			if r.Cut != (len(source) > maxSource) {
				t.Errorf("cut is %v", r.Cut)
			}
		})
	}
}

// TestMarkdownWork counts the elements that hostile texts make, rather than the time:
// they must be proportional to the text.
//
// Shows: pages 3
func TestMarkdownWork(t *testing.T) {
	lines := func(unit string) string { // one paragraph of 64 KB
		return strings.Repeat("x "+strings.Repeat(unit, 8000/len(unit))+"\n", 8)
	}
	for _, c := range []struct {
		name, source string
		most         int // elements
	}{
		{"emphasis", lines("*a_"), maxMarks + 10},
		{"emphasis of one kind", lines("_a "), maxMarks + 10},
		{"emphasis that nests", lines("*a **a "), maxMarks + 10},
		{"struck through", lines("~a "), maxMarks + 10},
		{"code", lines("`a` "), maxMarks + 10},
		{"links", lines("[a](b) "), maxMarks + 10},
		{"elements", lines("<b>x</b>"), maxMarks + 10},
		{"a wide table of short rows", strings.Repeat("|a", 400) + "|\n" + strings.Repeat("|-", 400) + "|\n" + strings.Repeat("|\n", 2000), 1000},
		{"many of them", strings.Repeat(strings.Repeat("|a", 60)+"|\n"+strings.Repeat("|-", 60)+"|\n"+strings.Repeat("|\n", 60)+"\n", 40), maxFilled + 60*60 + 40*200},
		{"pipes in the code of cells", "a|b\n-|-\n" + strings.Repeat("`\\|`|b\n", 6000), maxMarks + 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.source) > maxSource || nested(c.source) {
				t.Fatal("it is not read at all")
			}
			doc, err := html.Parse(strings.NewReader(string(New(time.Now, nil).make(c.source, Location{}).HTML)))
			if err != nil {
				t.Fatal(err)
			}
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

// looking counts how often it is called for a bracket.
type looking int

func (*looking) Trigger() []byte { return []byte{'['} }

func (l *looking) Parse(ast.Node, text.Reader, parser.Context) ast.Node {
	*l++
	return nil
}

// TestMarkdownMarks checks that the number of searches for a closing mark in a paragraph
// is bounded, and counted per paragraph.
func TestMarkdownMarks(t *testing.T) {
	var l looking
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithInlineParsers(inlineParsers([]util.PrioritizedValue{util.Prioritized(&l, 1)})...))
	p.Parse(text.NewReader([]byte("x" + strings.Repeat(" [", 3000) + "\n" + strings.Repeat(" [", 3000) + "\n\nx [ [\n\nx " + strings.Repeat("[", 3000))))
	if l != 2*maxMarks+2 {
		t.Errorf("it was looked for %d times", l)
	}
}

// TestMarkdownLarge reads real texts completely that are larger than most.
//
// Shows: pages 3
func TestMarkdownLarge(t *testing.T) {
	m := New(time.Now, nil)
	row := "| <a name=\"input_name\"></a> [the\\_name](#input\\_name) | What **it** is, `a \\| b`. | `map(object({ a = string }))` | `{}` | no |\n"
	table := "| Name | Description | Type | Default | Required |\n|------|-------------|:----|---------|:--------:|\n" + strings.Repeat(row, 900)
	if got := string(m.make(table, Location{}).HTML); strings.Count(got, "<tr>") != 901 || strings.Count(got, "<strong>") != 900 || !strings.Contains(got, `<td align="center">no</td>`) {
		t.Errorf("a table of 900 inputs has %d rows and %d marks", strings.Count(got, "<tr>"), strings.Count(got, "<strong>"))
	}
	list := strings.Repeat("- `name` (String) It is *this* or [that](https://example.com).\n", 3000)
	if got := string(m.make(list, Location{}).HTML); strings.Count(got, "<em>") != 3000 || strings.Count(got, "<a ") != 3000 {
		t.Errorf("a list of 3000 attributes has %d marks", strings.Count(got, "<em>"))
	}
}

// TestDescriptions renders emphasis, links and code in the description of an input, and
// leaves everything else as written.
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
	for range rendering { // cached texts need no place
		m.Descriptions([]string{"`a`"})
		m.limiter <- struct{}{}
	}
	if got := m.Descriptions([]string{"`a`"}); got[0] != "<code>a</code>" {
		t.Errorf("from memory: %s", got[0])
	}
	if got := m.Descriptions([]string{"`b`"}); got[0] != "`b`" {
		t.Errorf("while all places are taken: %s", got[0])
	}
}

// TestMarkdownBusy renders a page while other renders never end.
func TestMarkdownBusy(t *testing.T) {
	m := New(time.Now, nil)
	for range rendering {
		m.limiter <- struct{}{}
	}
	if got := m.Render("*x*", Location{}); got.HTML != "<pre>*x*</pre>" {
		t.Errorf("got %s", got.HTML)
	}
	<-m.limiter
	if got := m.make("*x*", Location{}); !strings.Contains(string(got.HTML), "<em>x</em>") {
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
		checkSafe(t, string(m.make(source, Location{}).HTML))
		checkSafe(t, string(m.describe(source)))
	})
}

// TestTerraformDocs renders the tables that terraform-docs writes into a README, which
// mix Markdown and HTML, as they should look.
//
// Shows: page-mistakes 2 | raw HTML of generated tables is broken | OpenDepot
func TestTerraformDocs(t *testing.T) {
	source, err := os.ReadFile("testdata/terraform-docs.txt")
	if err != nil {
		t.Fatal(err)
	}
	doc := New(time.Now, nil).Render(string(source), Location{})
	checkSafe(t, string(doc.HTML))
	webtest.Compare(t, "testdata/golden/terraform-docs.html", string(doc.HTML))
}
