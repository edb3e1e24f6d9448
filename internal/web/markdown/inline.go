// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"html"
	"html/template"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/seed-141914ff/okara/internal/text"
)

// maxInline bounds one description, in bytes; a longer one is shown as plain text.
const maxInline = 8 << 10

// newInline returns a parser for descriptions: paragraphs with emphasis, links and code.
// HTML in them is text, since <name> is usually a placeholder there.
func newInline() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1000)),
			parser.WithInlineParsers(
				util.Prioritized(parser.NewCodeSpanParser(), 100),
				util.Prioritized(parser.NewLinkParser(), 200),
				util.Prioritized(parser.NewAutoLinkParser(), 300),
				util.Prioritized(parser.NewEmphasisParser(), 500),
			),
		)),
		goldmark.WithExtensions(extension.Strikethrough, extension.Linkify),
	)
}

// Descriptions returns short texts as HTML, one for each. They are rendered and cached
// together, since they belong to one page.
func (m *Renderer) Descriptions(texts []string) []template.HTML {
	var all strings.Builder
	for _, t := range texts {
		all.WriteString(strconv.Itoa(len(t)) + " " + t)
	}
	plain := func() Rendered {
		var r Rendered
		for _, t := range texts {
			r.parts = append(r.parts, escapeText(t))
		}
		return r
	}
	if all.Len() > maxSource {
		return plain().parts
	}
	return m.renderOnce(all.String(), "descriptions", plain, func() Rendered {
		var r Rendered
		for _, t := range texts {
			r.parts = append(r.parts, m.renderDescription(t))
		}
		return r
	}).parts
}

func (m *Renderer) renderDescription(source string) template.HTML {
	if len(source) > maxInline || !strings.ContainsAny(source, "`*_~[:@\\&\n") {
		return escapeText(source)
	}
	src := []byte(text.Block(strings.TrimSpace(source)))
	doc := m.inline().Parser().Parse(gmtext.NewReader(src))
	var b bytes.Buffer
	if m.inline().Renderer().Render(&b, src, doc) != nil {
		return escapeText(source)
	}
	safe := bytes.TrimSpace(m.policy().SanitizeBytes(rewriteTags(b.Bytes(), Location{}, nil)))
	if doc.ChildCount() == 1 {
		safe = bytes.TrimSuffix(bytes.TrimPrefix(safe, []byte("<p>")), []byte("</p>"))
	}
	safe = bytes.ReplaceAll(safe, []byte("</p>\n<p>"), []byte("</p><p>")) // line breaks are visible in the page
	return template.HTML(safe)                                            // sanitized
}

// escapeText returns a text as it was written.
func escapeText(source string) template.HTML {
	return template.HTML(html.EscapeString(text.Block(strings.TrimSpace(source))))
}
