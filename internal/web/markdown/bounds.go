// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"slices"

	emojiast "github.com/yuin/goldmark-emoji/ast"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// The budget of a text, where goldmark takes more than linear time or space. A mark may be
// matched against the whole rest of its paragraph, a table row with missing cells is
// filled up, and each escaped pipe in code is compared with all others. When the budget
// is spent, further marks and tables are text.
const (
	maxWork       = 128 << 20 // bytes that are looked at
	cellWork      = 12 << 10  // of a cell that is filled up
	escapeWork    = 32 << 10  // of an escaped pipe in a table
	maxReferences = 4000      // references, footnotes and what names those, each compared with all others
)

// workKey holds what a text has cost.
var workKey = parser.NewContextKey()

// spendBudget takes n from the budget of a text; false: it is spent.
func spendBudget(pc parser.Context, n int) bool {
	work, _ := pc.ComputeIfAbsent(workKey, func() any { return new(int) }).(*int)
	*work += n
	return *work <= maxWork
}

// boundedParser makes the parsers of inlines and tables that are added to it pay from the
// budget.
type boundedParser struct{ parser.Parser }

// AddOptions implements parser.Parser.
func (b boundedParser) AddOptions(options ...parser.Option) {
	c := parser.NewConfig()
	for _, o := range options {
		o.SetParserOption(c)
	}
	for i, v := range c.InlineParsers {
		if p, ok := v.Value.(parser.InlineParser); ok {
			c.InlineParsers[i].Value = boundedInline{p}
		}
	}
	for i, v := range c.ParagraphTransformers {
		if p, ok := v.Value.(parser.ParagraphTransformer); ok {
			c.ParagraphTransformers[i].Value = boundedTable{p}
		}
	}
	b.Parser.AddOptions(parser.WithBlockParsers(c.BlockParsers...), parser.WithInlineParsers(c.InlineParsers...),
		parser.WithParagraphTransformers(c.ParagraphTransformers...), parser.WithASTTransformers(c.ASTTransformers...))
}

// boundedInline pays for the paragraph at each call that may look at all of it, now or
// when the paragraph ends.
type boundedInline struct{ parser.InlineParser }

// Parse implements parser.InlineParser.
func (b boundedInline) Parse(in ast.Node, block text.Reader, pc parser.Context) ast.Node {
	if !spendBudget(pc, 0) {
		return nil // it is text
	}
	line, _ := block.PeekLine()
	word, _, _ := bytes.Cut(line[1:], []byte{' '})
	node := b.InlineParser.Parse(in, block, pc)
	switch n := node.(type) {
	case nil:
		if !slices.Contains(b.Trigger(), ']') {
			spendBudget(pc, len(word))
			return nil
		}
	case *ast.RawHTML, *ast.CodeSpan, *ast.AutoLink, *emojiast.Emoji, *extast.FootnoteLink:
		return node // nothing looks at its text again
	case *parser.Delimiter:
		if !n.CanClose {
			return node
		}
	}
	lines := in.Lines()
	spendBudget(pc, lines.At(lines.Len()-1).Stop-lines.At(0).Start)
	return node
}

// CloseBlock implements parser.CloseBlocker.
func (b boundedInline) CloseBlock(in ast.Node, block text.Reader, pc parser.Context) {
	if p, ok := b.InlineParser.(parser.CloseBlocker); ok {
		p.CloseBlock(in, block, pc)
	}
}

// boundedTable pays for the cells that a table has beyond its text.
type boundedTable struct{ parser.ParagraphTransformer }

// Transform implements parser.ParagraphTransformer.
func (b boundedTable) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	columns := 0
	escaped := 0
	pipes := 0
	for _, at := range p.Lines().Sliced(0, p.Lines().Len()) {
		line := at.Value(reader.Source())
		n := bytes.Count(line, []byte{'|'})
		pipes += n
		escaped += bytes.Count(line, []byte(`\|`))
		if len(bytes.Trim(line, "|:- \t\n")) == 0 { // could be the delimiter row below the header
			columns = max(columns, n+1)
		}
	}
	if columns > 0 && spendBudget(pc, max(0, columns*p.Lines().Len()-pipes)*cellWork+escaped*escapeWork) {
		b.ParagraphTransformer.Transform(p, reader, pc)
	}
}
