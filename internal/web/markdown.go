// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"crypto/sha256"
	"html"
	"html/template"
	"regexp"
	"strings"
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

// Bounds of a text that somebody wrote. What is beyond them is shown as it was
// written, or not at all.
const (
	maxSource   = 256 << 10              // bytes
	maxLine     = 10000                  // bytes
	maxNesting  = 32                     // of quotes and lists
	maxColored  = 64 << 10               // bytes of one block of code
	colorLine   = 2000                   // bytes: rules look at a line, and some look ahead in it
	rendering   = 2                      // texts at a time
	renderTime  = 200 * time.Millisecond // for one, then it is shown as written
	maxContents = 100                    // headings
	keptBytes   = 64 << 20               // of texts that were rendered
)

// markdown renders what others wrote. It is safe for concurrent use.
type markdown struct {
	md       goldmark.Markdown
	inline   goldmark.Markdown // of descriptions
	policy   *bluemonday.Policy
	places   chan struct{}
	images   imageHosts
	rendered *cache.Cache[rendered]
	now      func() time.Time
}

// rendered is a text as a browser gets it.
type rendered struct {
	html     template.HTML
	headings []heading
	cut      bool
	parts    []template.HTML // of several texts
}

// heading is an entry of a table of contents.
type heading struct {
	Level    int
	ID, Text string
}

func newMarkdown(now func() time.Time, images imageHosts) *markdown {
	md := goldmark.New(
		goldmark.WithParser(boundedParser()),
		goldmark.WithExtensions(github{}),
		goldmark.WithRendererOptions(mdhtml.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(&codeRenderer{}, 100))), // the policy is behind it
	)
	return &markdown{
		md: md, inline: newInline(), policy: policy(images), images: images, places: make(chan struct{}, rendering), now: now,
		rendered: cache.New("page", keptBytes, rendered.size, now, func(string, string) {}),
	}
}

// policy lets text through, and nothing that acts or looks like a part of okara.
func policy(images imageHosts) *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "ul", "ol", "li", "em", "strong", "b", "i", "del",
		"kbd", "sub", "sup", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "span", "div", "input")
	p.AllowAttrs("id").Matching(regexp.MustCompile(`^md-[\p{L}\p{N}_-]{1,100}$`)).OnElements("h2", "h3", "h4", "h5", "h6")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|right|center)$`)).OnElements("th", "td")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^(language-[\w-]{1,30}|chroma|[a-z]{1,3}[0-9]?)$`)).OnElements("code", "pre", "span")
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
	p.AllowRelativeURLs(true) // only those that relink made fit the patterns
	return p
}

// render returns a text as HTML, from memory if it was rendered before.
func (m *markdown) render(source string, at place) rendered {
	return m.once(source, "text "+at.key, func() rendered { return asWritten(source) }, func() rendered { return m.make(source, at) })
}

// code returns a file with numbered lines, likewise.
func (m *markdown) code(source, language string) rendered {
	return m.once(source, "code "+language, func() rendered { return asWritten(source) }, func() rendered { return numbered(text.Block(source), language) })
}

// source returns code without numbers, likewise.
func (m *markdown) source(code, language string) rendered {
	return m.once(code, "source "+language, func() rendered { return asWritten(code) }, func() rendered { return colored(text.Block(code), language) })
}

// size is how much of memory it takes.
func (r rendered) size() int {
	n := len(r.html) + 256
	for _, p := range r.parts {
		n += len(p) + 16
	}
	return n
}

// once makes what is not in memory, within the bounds of place and time. What is
// not done by then is plain: shown as it was written.
func (m *markdown) once(source, how string, plain, draw func() rendered) rendered {
	sum := sha256.Sum256([]byte(how + "\x00" + source))
	key := string(sum[:])
	if r, ok := m.rendered.Peek(key); ok {
		return r
	}
	select {
	case m.places <- struct{}{}:
	default:
		return plain() // busy: not kept
	}
	done := make(chan rendered, 1)
	go func() {
		defer func() { <-m.places }() // only now: what is stuck keeps its place
		defer func() {
			if recover() != nil {
				done <- plain()
			}
		}()
		done <- draw()
	}()
	late := time.NewTimer(renderTime)
	defer late.Stop()
	var r rendered
	select {
	case r = <-done:
	case <-late.C:
		r = plain()
	}
	m.rendered.Put(key, r)
	return r
}

// asWritten shows a text without reading it.
func asWritten(source string) rendered {
	cut := len(source) > maxSource
	if cut {
		source = strings.ToValidUTF8(source[:maxSource], "")
	}
	return rendered{html: template.HTML("<pre>" + html.EscapeString(text.Block(source)) + "</pre>"), cut: cut} // escaped
}

func (m *markdown) make(source string, at place) rendered {
	if len(source) > maxSource || nested(source) {
		return asWritten(source)
	}
	src := []byte(text.Block(source))
	doc := m.md.Parser().Parse(gmtext.NewReader(src))
	headings, anchors, title := settle(doc, src)
	if title != nil {
		doc.RemoveChild(doc, title) // the page has that heading
	}
	var b bytes.Buffer
	if m.md.Renderer().Render(&b, src, doc) != nil {
		return asWritten(source)
	}
	safe := m.policy.SanitizeBytes(relink(b.Bytes(), at, anchors, m.images))
	return rendered{html: template.HTML(safe), headings: headings} // sanitized
}

// nested reports whether a text is beyond what is parsed: in the length of a line,
// or in how deep its quotes and lists are.
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

// settle puts the headings below that of the page, gives their ids a prefix of
// their own, and returns what a table of contents shows. Title is a first heading
// of level one, which the page has already.
func settle(doc ast.Node, src []byte) (contents []heading, anchors map[string]bool, title ast.Node) {
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

// leveled gives headings the levels from two on, without gaps. Anchors are their
// ids as they were written.
func leveled(headings []*ast.Heading, src []byte) (contents []heading, anchors map[string]bool) {
	anchors = map[string]bool{}
	highest, last := 6, 1
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
			contents = append(contents, heading{h.Level, id, plain(h, src)})
		}
	}
	return contents, anchors
}

// plain is the text of a node.
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
