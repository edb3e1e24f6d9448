// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// callouts draws what documentation of providers has for notes: a paragraph that begins
// with "-> ", "~> " or "!> ".
type callouts struct{}

// calloutClass is how a paragraph that begins so is drawn; "": as any other.
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
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns what this does: nil
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

// unmark takes the mark away from the texts that a paragraph begins with; false: it is none
// of a text.
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
