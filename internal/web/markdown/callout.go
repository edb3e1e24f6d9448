// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// callouts renders the notes of provider documentation: paragraphs that begin with "-> ",
// "~> " or "!> ".
type callouts struct{}

// calloutClass returns the CSS class for a paragraph that begins so; "": no callout.
func calloutClass(begin []byte) string {
	switch {
	case bytes.HasPrefix(begin, []byte("-> ")):
		return "callout info"
	case bytes.HasPrefix(begin, []byte("~> ")):
		return "callout warn"
	case bytes.HasPrefix(begin, []byte("!> ")):
		return "callout stop"
	}
	return ""
}

// Transform implements parser.ASTTransformer.
func (callouts) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	found := map[ast.Node]string{}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never returns an error
		if kind := n.Kind(); !entering || kind != ast.KindParagraph && kind != ast.KindTextBlock {
			return ast.WalkContinue, nil
		}
		if lines := n.Lines(); lines.Len() > 0 {
			line := lines.At(0)
			if class := calloutClass(line.Value(reader.Source())); class != "" && unmark(n) {
				found[n] = class
			}
		}
		return ast.WalkSkipChildren, nil
	})
	for n, class := range found {
		box := ast.NewBlockquote()
		box.SetAttributeString("class", []byte(class))
		n.Parent().ReplaceChild(n.Parent(), n, box)
		box.AppendChild(box, n)
	}
}

// unmark removes the mark at the beginning of a paragraph; false: it is not in plain
// text.
func unmark(n ast.Node) bool {
	const mark = len("-> ")
	for left := mark; left > 0; {
		first, ok := n.FirstChild().(*ast.Text)
		if !ok {
			return false
		}
		length := first.Segment.Len()
		if length > left {
			first.Segment = first.Segment.WithStart(first.Segment.Start + left)
			return true
		}
		n.RemoveChild(n, first)
		left -= length
	}
	return true
}
