// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"crypto/sha256"
	"html"
	"html/template"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	mdhtml "github.com/yuin/goldmark/renderer/html"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/text"
)

// Bounds of untrusted texts. Texts beyond them are shown as they were written, or not at
// all.
const (
	maxSource   = 256 << 10              // bytes
	maxLine     = 10000                  // bytes
	maxNesting  = 32                     // of quotes and lists
	maxColored  = 64 << 10               // bytes of one code block
	colorLine   = 2000                   // bytes: rules look at a line, and some look ahead in it
	rendering   = 2                      // concurrent renders
	renderTime  = 200 * time.Millisecond // per text; then it is shown as written
	maxContents = 100                    // headings
	keptBytes   = 64 << 20               // of rendered texts
)

// Renderer renders untrusted texts. It is safe for concurrent use.
type Renderer struct {
	md       goldmark.Markdown
	inline   goldmark.Markdown         // for descriptions
	policy   func() *bluemonday.Policy // created when a text is first rendered
	limiter  chan struct{}
	images   ImageHosts
	rendered *cache.Cache[Rendered]
	now      func() time.Time
}

// Rendered is a text as HTML.
type Rendered struct {
	HTML     template.HTML
	Headings []Heading
	Cut      bool
	parts    []template.HTML // one for each of several texts
}

// Heading is an entry of a table of contents.
type Heading struct {
	Level    int
	ID, Text string
}

// New returns a renderer with an empty cache; images are the other hosts whose images it
// keeps.
func New(now func() time.Time, images ImageHosts) *Renderer {
	md := goldmark.New(
		goldmark.WithParser(boundedParser()),
		goldmark.WithExtensions(github{}),
		goldmark.WithRendererOptions(mdhtml.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(&codeRenderer{}, 100))), // newPolicy makes the output safe
	)
	return &Renderer{
		md: md, inline: newInline(), policy: sync.OnceValue(func() *bluemonday.Policy { return newPolicy(images) }), images: images, limiter: make(chan struct{}, rendering), now: now,
		rendered: cache.New("page", keptBytes, Rendered.size, now, func(string, string) {}),
	}
}

// newPolicy allows text, and nothing that is active or looks like a part of okara.
func newPolicy(images ImageHosts) *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "ul", "ol", "li", "em", "strong", "b", "i", "del",
		"kbd", "sub", "sup", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "span", "div", "input")
	p.AllowAttrs("id").Matching(regexp.MustCompile(`^md-[\p{L}\p{N}_-]+$`)).OnElements("h2", "h3", "h4", "h5", "h6")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|right|center)$`)).OnElements("th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^(language-[\w-]{1,30}|chroma|[a-z]{1,3}[0-9]?)$`)).OnElements("code", "pre", "span")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^callout (info|warn|stop)$`)).OnElements("blockquote")
	p.AllowAttrs("open").Matching(regexp.MustCompile(`^$`)).OnElements("details")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[0-9]{1,6}$`)).OnElements("ol")
	p.AllowAttrs("type").Matching(regexp.MustCompile(`^checkbox$`)).OnElements("input")
	p.AllowAttrs("aria-label").Matching(regexp.MustCompile(`^(done|to do)$`)).OnElements("input")
	p.AllowAttrs("checked", "disabled").Matching(regexp.MustCompile(`^$`)).OnElements("input")
	p.AllowElements("img")
	p.AllowAttrs("alt").OnElements("img")
	p.AllowAttrs("width", "height").Matching(regexp.MustCompile(`^[0-9]{1,4}$`)).OnElements("img")
	p.AllowAttrs("src").Matching(images.sources()).OnElements("img")
	p.AllowAttrs("href").Matching(regexp.MustCompile(`^(https?://|mailto:|#md-|\./(\.\./)*(modules|providers|mirror)/)`)).OnElements("a")
	p.AllowAttrs("rel").Matching(regexp.MustCompile(`^` + linkRel + `$`)).OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(true) // only those of rewriteLinks match the patterns
	return p
}

// Render returns a text as HTML, from memory if it was rendered before.
func (m *Renderer) Render(source string, at Location) Rendered {
	return m.once(source, "text "+at.Key, func() Rendered { return asWritten(source) }, func() Rendered { return m.make(source, at) })
}

// Code returns a file with numbered lines in the same way.
func (m *Renderer) Code(source, language string) Rendered {
	return m.once(source, "code "+language, func() Rendered { return asWritten(source) }, func() Rendered { return numbered(text.Block(source), language) })
}

// Source returns code without line numbers in the same way.
func (m *Renderer) Source(code, language string) Rendered {
	return m.once(code, "source "+language, func() Rendered { return asWritten(code) }, func() Rendered { return colored(text.Block(code), language) })
}

// size returns the approximate memory of a rendered text.
func (r Rendered) size() int {
	n := len(r.HTML) + 256
	for _, p := range r.parts {
		n += len(p) + 16
	}
	return n
}

// once returns the cached text or renders it, if the limiter has a place. After
// renderTime the text is plain instead: shown as it was written.
func (m *Renderer) once(source, how string, plain, render func() Rendered) Rendered {
	sum := sha256.Sum256([]byte(how + "\x00" + source))
	key := string(sum[:])
	if r, ok := m.rendered.Peek(key); ok {
		return r
	}
	select {
	case m.limiter <- struct{}{}:
	default:
		return plain() // busy: not cached
	}
	done := make(chan Rendered, 1)
	go func() {
		defer func() { <-m.limiter }() // a render that hangs keeps its place
		defer func() {
			if recover() != nil {
				done <- plain()
			}
		}()
		done <- render()
	}()
	late := time.NewTimer(renderTime)
	defer late.Stop()
	var r Rendered
	select {
	case r = <-done:
	case <-late.C:
		r = plain()
	}
	m.rendered.Put(key, r)
	return r
}

// asWritten shows a text without parsing it.
func asWritten(source string) Rendered {
	cut := len(source) > maxSource
	if cut {
		source = strings.ToValidUTF8(source[:maxSource], "")
	}
	return Rendered{HTML: template.HTML("<pre>" + html.EscapeString(text.Block(source)) + "</pre>"), Cut: cut} // escaped
}

func (m *Renderer) make(source string, at Location) Rendered {
	if len(source) > maxSource || nested(source) {
		return asWritten(source)
	}
	src := []byte(text.Block(source))
	doc := m.md.Parser().Parse(gmtext.NewReader(src))
	headings, anchors, title := normalizeHeadings(doc, src)
	if title != nil {
		doc.RemoveChild(doc, title) // the page shows that heading itself
	}
	var b bytes.Buffer
	if m.md.Renderer().Render(&b, src, doc) != nil {
		return asWritten(source)
	}
	safe := m.policy().SanitizeBytes(rewriteLinks(b.Bytes(), at, anchors, m.images))
	return Rendered{HTML: template.HTML(safe), Headings: headings} // sanitized
}

// nested reports whether a text exceeds the bounds of parsing: in the length of a line,
// or in the depth of quotes and lists.
func nested(source string) bool {
	for line := range strings.SplitSeq(source, "\n") {
		if len(line) > maxLine {
			return true
		}
		depth := 0
		for _, c := range line {
			if c == '>' || c == '-' || c == '*' || c == '+' {
				depth++
			} else if c != ' ' && c != '\t' {
				break
			}
		}
		if indent := len(line) - len(strings.TrimLeft(line, " \t")); depth > maxNesting && strings.Trim(line, "-* \t") != "" || indent > 8*maxNesting {
			return true
		}
	}
	return false
}

// normalizeHeadings moves the headings below that of the page, gives their IDs a prefix,
// and returns the table of contents. Title is a first heading of level one, which the
// page has already.
func normalizeHeadings(doc ast.Node, src []byte) (contents []Heading, anchors map[string]bool, title ast.Node) {
	var headings []*ast.Heading
	stop := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if n, ok := n.(*ast.Heading); ok {
			if n.Level == 1 && n == doc.FirstChild() {
				title = n
				return ast.WalkSkipChildren, nil
			}
			headings = append(headings, n)
		}
		return ast.WalkContinue, nil
	})
	if stop != nil {
		return nil, nil, nil
	}
	contents, anchors = leveled(headings, src)
	return contents, anchors, title
}

// leveled gives headings levels from two on, without gaps. Anchors are their original
// IDs.
func leveled(headings []*ast.Heading, src []byte) (contents []Heading, anchors map[string]bool) {
	anchors = map[string]bool{}
	highest := 6
	last := 1
	for _, h := range headings {
		highest = min(highest, h.Level)
	}
	for _, h := range headings {
		h.Level = min(h.Level-highest+2, last+1, 6)
		last = h.Level
		id := ""
		if raw, ok := h.AttributeString("id"); ok {
			b, _ := raw.([]byte)
			anchors[string(b)] = true
			id = "md-" + string(b)
			h.SetAttributeString("id", []byte(id))
		}
		if h.Level <= 3 && len(contents) < maxContents {
			contents = append(contents, Heading{h.Level, id, plain(h, src)})
		}
	}
	return contents, anchors
}

// plain returns the text of a node.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(src))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
