// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// callouts renders the notes of provider documentation, which are paragraphs that begin
// with "-> ", "~> " or "!> ", and the alerts of GitHub, which are quotes that begin with a
// line such as "[!NOTE]".
type callouts struct{}

// Extend implements goldmark.Extender.
func (c callouts) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(parser.WithASTTransformers(util.Prioritized(c, 100)))
}

// calloutOf returns the mark with which a line begins, the kind of the callout, and the
// title of an alert; "": no callout.
func calloutOf(line string) (mark, kind, title string) {
	switch mark = line[:min(len(line), len("-> "))]; mark {
	case "-> ":
		return mark, "info", ""
	case "~> ":
		return mark, "warn", ""
	case "!> ":
		return mark, "stop", ""
	}
	mark = strings.TrimRight(line, " \t\r\n")
	switch strings.ToUpper(mark) {
	case "[!NOTE]":
		return mark, "info", "Note"
	case "[!TIP]":
		return mark, "info", "Tip"
	case "[!IMPORTANT]":
		return mark, "info", "Important"
	case "[!WARNING]":
		return mark, "warn", "Warning"
	case "[!CAUTION]":
		return mark, "stop", "Caution"
	}
	return "", "", ""
}

// Transform implements parser.ASTTransformer.
func (callouts) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var found []func()
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never returns an error
		if kind := n.Kind(); !entering || kind != ast.KindParagraph && kind != ast.KindTextBlock {
			return ast.WalkContinue, nil
		}
		if n.Lines().Len() == 0 {
			return ast.WalkSkipChildren, nil
		}
		line := n.Lines().At(0)
		mark, kind, title := calloutOf(string(line.Value(reader.Source())))
		quote, alert := n.Parent().(*ast.Blockquote)
		if kind == "" || title != "" && (!alert || n.PreviousSibling() != nil) || !cutTo(n, line.Start+len(mark)) {
			return ast.WalkSkipChildren, nil
		}
		found = append(found, func() {
			box := quote
			if title == "" {
				box = ast.NewBlockquote()
				n.Parent().ReplaceChild(n.Parent(), n, box)
				box.AppendChild(box, n)
			} else {
				addTitle(box, title)
			}
			box.SetAttributeString("class", []byte("callout "+kind))
		})
		return ast.WalkSkipChildren, nil
	})
	for _, change := range found {
		change()
	}
}

func addTitle(box ast.Node, title string) {
	p := ast.NewParagraph()
	strong := ast.NewEmphasis(2)
	strong.AppendChild(strong, ast.NewString([]byte(title)))
	p.AppendChild(p, strong)
	if first := box.FirstChild(); first.FirstChild() != nil {
		box.InsertBefore(box, first, p)
	} else {
		box.ReplaceChild(box, first, p) // the mark was all of it
	}
}

// cutTo removes the text of a paragraph before a position in the source; false: it is not
// plain text.
func cutTo(n ast.Node, end int) bool {
	for {
		first, ok := n.FirstChild().(*ast.Text)
		if !ok {
			return false
		}
		stop := first.Segment.Stop
		if stop > end {
			first.Segment = first.Segment.WithStart(end)
			return true
		}
		n.RemoveChild(n, first)
		if stop == end {
			return true
		}
	}
}
