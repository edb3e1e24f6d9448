// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"crypto/sha256"
	"html"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	emoji "github.com/yuin/goldmark-emoji"
	emojiast "github.com/yuin/goldmark-emoji/ast"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	mdhtml "github.com/yuin/goldmark/renderer/html"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/text"
)

// idPrefix begins the IDs of a text, so that they differ from those of the page.
const idPrefix = "md-"

// Bounds of untrusted texts. Texts beyond them are shown as they were written, or not at
// all.
const (
	maxSource   = 256 << 10 // bytes
	maxLine     = 64 << 10  // bytes
	maxNesting  = 32        // of quotes and lists
	maxColored  = 64 << 10  // bytes of one code block
	colorLine   = 2000      // bytes: rules look at a line, and some look ahead in it
	rendering   = 2         // concurrent renders
	waiting     = 32        // renders that wait for those; further texts are shown as written
	maxContents = 100       // headings
	keptBytes   = 64 << 20  // of rendered texts
)

// Renderer renders untrusted texts. It is safe for concurrent use.
type Renderer struct {
	md       func() goldmark.Markdown // made when a text is first rendered, as the next two
	inline   func() goldmark.Markdown // for descriptions
	policy   func() *bluemonday.Policy
	limiter  chan struct{} // renders at work
	queue    chan struct{} // those, and renders that wait
	images   ImageHosts
	rendered *cache.Cache[Rendered]
}

// Rendered is a text as HTML.
type Rendered struct {
	HTML      template.HTML
	Headings  []Heading
	Cut       bool
	AsWritten bool            // it was not parsed
	parts     []template.HTML // one for each of several texts
}

// Heading is an entry of a table of contents.
type Heading struct {
	Level    int
	ID, Text string
}

// New returns a renderer with an empty cache; images are the other hosts whose images it
// keeps.
func New(now func() time.Time, images ImageHosts) *Renderer {
	return &Renderer{
		md: sync.OnceValue(newMarkdown), inline: sync.OnceValue(newInline), policy: sync.OnceValue(func() *bluemonday.Policy { return newPolicy(images) }), images: images,
		limiter: make(chan struct{}, rendering), queue: make(chan struct{}, rendering+waiting),
		rendered: cache.New("page", keptBytes, Rendered.size, now, func(string, string) {}),
	}
}

// newMarkdown returns a parser and renderer of what GitHub renders, and of definition
// lists. The policy makes its output safe.
func newMarkdown() goldmark.Markdown {
	blocks := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...))
	return goldmark.New(
		goldmark.WithParser(boundedParser{blocks}),
		goldmark.WithParserOptions(parser.WithInlineParsers(parser.DefaultInlineParsers()...)),
		goldmark.WithExtensions(
			extension.Linkify, extension.Strikethrough, extension.TaskList, extension.DefinitionList, emoji.Emoji, callouts{},
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
			extension.NewFootnote(extension.WithFootnoteIDPrefix(idPrefix)),
		),
		goldmark.WithRendererOptions(mdhtml.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(&codeRenderer{}, 100))),
	)
}

// newPolicy allows text, and nothing that is active or looks like a part of okara.
func newPolicy(images ImageHosts) *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements(strings.Fields(`h2 h3 h4 h5 h6 p br hr blockquote pre code ul ol li em strong b i del s strike ins mark small q cite abbr samp tt var wbr
		kbd sub sup details summary table caption thead tbody tfoot tr th td dl dt dd span div input figure figcaption picture source img`)...)
	p.AllowAttrs("id").Matching(regexp.MustCompile(`^`+idPrefix+`[\p{L}\p{N}:._-]+$`)).OnElements("h2", "h3", "h4", "h5", "h6", "a", "li", "sup")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(?i:left|right|center|middle|top)$`)).OnElements("th", "td", "tr", "table", "p", "div", "img", "h2", "h3", "h4", "h5", "h6")
	p.AllowAttrs("colspan", "rowspan").Matching(regexp.MustCompile(`^[0-9]{1,2}$`)).OnElements("th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^(language-[\w-]{1,30}|chroma|[a-z]{1,3}[0-9]?)$`)).OnElements("code", "pre", "span")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^callout (info|warn|stop)$`)).OnElements("blockquote")
	p.AllowAttrs("open").Matching(regexp.MustCompile(`^$`)).OnElements("details")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[0-9]{1,6}$`)).OnElements("ol")
	p.AllowAttrs("type").Matching(regexp.MustCompile(`^checkbox$`)).OnElements("input")
	p.AllowAttrs("aria-label").Matching(regexp.MustCompile(`^(done|to do)$`)).OnElements("input")
	p.AllowAttrs("checked", "disabled").Matching(regexp.MustCompile(`^$`)).OnElements("input")
	p.AllowAttrs("alt").OnElements("img")
	p.AllowAttrs("width", "height").Matching(regexp.MustCompile(`^[0-9]{1,4}(px|%)?$`)).OnElements("img", "th", "td", "table")
	p.AllowAttrs("src").Matching(images.sourcePattern()).OnElements("img")
	p.AllowAttrs("srcset").Matching(images.sourcePattern()).OnElements("source")
	p.AllowAttrs("media").Matching(regexp.MustCompile(`^\(prefers-color-scheme: ?(dark|light)\)$`)).OnElements("source")
	p.AllowAttrs("href").Matching(regexp.MustCompile(`^(https?://|mailto:|#` + idPrefix + `|\./(\.\./)*(modules|providers|mirror|docs)/)`)).OnElements("a")
	p.AllowAttrs("rel").Matching(regexp.MustCompile(`^` + linkRel + `$`)).OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(true) // only those of rewriteTags match the patterns
	return p
}

// Render returns a text as HTML, from memory if it was rendered before.
func (m *Renderer) Render(source string, at Location) Rendered {
	return m.renderOnce(source, "text "+at.Key, func() Rendered { return asWritten(source) }, func() Rendered { return m.renderSource(source, at) })
}

// Code returns a file with numbered lines in the same way.
func (m *Renderer) Code(source, language string) Rendered {
	return m.renderOnce(source, "code "+language, func() Rendered { return asWritten(source) }, func() Rendered { return numberLines(text.Block(source), language) })
}

// Source returns code without line numbers in the same way.
func (m *Renderer) Source(code, language string) Rendered {
	return m.renderOnce(code, "source "+language, func() Rendered { return asWritten(code) }, func() Rendered { return colorCode(text.Block(code), language) })
}

// size returns the approximate memory of a rendered text.
func (r Rendered) size() int {
	n := len(r.HTML) + 256
	for _, p := range r.parts {
		n += len(p) + 16
	}
	return n
}

// renderOnce returns the cached text or renders it, when the limiter has a place. If too many
// wait for one, or the render fails, the text is plain: shown as it was written, and
// rendered at the next request.
func (m *Renderer) renderOnce(source, how string, plain, render func() Rendered) (r Rendered) {
	sum := sha256.Sum256([]byte(how + "\x00" + source))
	key := string(sum[:])
	if r, ok := m.rendered.Peek(key); ok {
		return r
	}
	select {
	case m.queue <- struct{}{}:
		defer func() { <-m.queue }()
	default:
		return plain()
	}
	m.limiter <- struct{}{}
	defer func() { <-m.limiter }()
	if r, ok := m.rendered.Peek(key); ok { // by another request
		return r
	}
	defer func() {
		if recover() != nil {
			r = plain()
		}
	}()
	r = render()
	m.rendered.Put(key, r)
	return r
}

// asWritten shows a text without parsing it.
func asWritten(source string) Rendered {
	cut := len(source) > maxSource
	if cut {
		source = strings.ToValidUTF8(source[:maxSource], "")
	}
	return Rendered{HTML: template.HTML(`<pre tabindex="0">` + html.EscapeString(text.Block(source)) + "</pre>"), Cut: cut, AsWritten: true} // escaped
}

func (m *Renderer) renderSource(source string, at Location) Rendered {
	if len(source) > maxSource || isNested(source) || strings.Count(source, "[^")+strings.Count(source, "]:") > maxReferences {
		return asWritten(source)
	}
	src := []byte(text.Block(source))
	doc := m.md().Parser().Parse(gmtext.NewReader(src))
	title, _ := doc.FirstChild().(*ast.Heading)
	if title != nil && title.Level == 1 {
		doc.RemoveChild(doc, title) // the page shows that heading itself
	}
	headings := normalizeHeadings(doc, src)
	var b bytes.Buffer
	if m.md().Renderer().Render(&b, src, doc) != nil {
		return asWritten(source)
	}
	safe := m.policy().SanitizeBytes(rewriteTags(b.Bytes(), at, m.images))
	safe = bytes.ReplaceAll(safe, []byte("<pre"), []byte(`<pre tabindex="0"`)) // it scrolls, also by keyboard
	return Rendered{HTML: template.HTML(safe), Headings: headings}             // sanitized
}

// isNested reports whether a text exceeds the bounds of parsing: in the length of a line,
// or in the depth of quotes and lists.
func isNested(source string) bool {
	for line := range strings.SplitSeq(source, "\n") {
		if len(line) > maxLine {
			return true
		}
		depth := 0
		for _, c := range line {
			if strings.ContainsRune(">-*+:.)", c) {
				depth++
			} else if !strings.ContainsRune(" \t0123456789", c) {
				break
			}
		}
		if indent := len(line) - len(strings.TrimLeft(line, " \t")); depth > maxNesting && strings.Trim(line, ".:-* \t") != "" || indent > 8*maxNesting {
			return true
		}
	}
	return false
}

// normalizeHeadings moves the headings below that of the page, without gaps between their
// levels, gives them the IDs that GitHub gives, with a prefix, and returns the table of
// contents.
func normalizeHeadings(doc ast.Node, src []byte) (contents []Heading) {
	var headings []*ast.Heading
	highest := 6
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never returns an error
		if h, ok := n.(*ast.Heading); ok && entering {
			headings = append(headings, h)
			highest = min(highest, h.Level)
		}
		return ast.WalkContinue, nil
	})
	used := map[string]int{}
	last := 1
	for _, h := range headings {
		h.Level = min(h.Level-highest+2, last+1, 6)
		last = h.Level
		title, name := nodeText(h, src)
		id := strings.Map(idRune, name)
		if n := used[id]; n > 0 {
			used[id]++
			id += "-" + strconv.Itoa(n)
		}
		used[id]++
		if id = idPrefix + id; id != idPrefix {
			h.SetAttributeString("id", []byte(id))
		}
		if h.Level <= 3 && len(contents) < maxContents {
			contents = append(contents, Heading{h.Level, id, title})
		}
	}
	return contents
}

// idRune returns what becomes of a character of a heading in its ID.
func idRune(r rune) rune {
	switch {
	case unicode.IsLetter(r), unicode.IsNumber(r), r == '_', r == '-':
		return unicode.ToLower(r)
	case r == ' ':
		return '-'
	}
	return -1
}

// nodeText returns the text of a node, and the same with the names of emoji.
func nodeText(n ast.Node, src []byte) (title, name string) {
	var text, named strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never returns an error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				text.Write(n.Segment.Value(src))
				named.Write(n.Segment.Value(src))
			}
		case *emojiast.Emoji:
			if entering {
				text.WriteString(string(n.Value.Unicode))
				named.Write(n.ShortName)
			}
		}
		return ast.WalkContinue, nil
	})
	return text.String(), named.String()
}
