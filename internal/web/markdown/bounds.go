// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds where goldmark takes more than linear time or space: an opening mark is matched
// against the whole rest of the paragraph, each emphasis mark against all marks before
// it, and a table row with missing cells is filled up.
const (
	maxMarks  = 1000   // of each kind in a paragraph; further ones are text
	maxFilled = 10_000 // cells of a text that its rows lack; further tables are text
	maxEscape = 2_000  // escaped pipes in a paragraph that could be a table
)

// counted limits how many times a parser of inlines is called in each paragraph.
type counted struct {
	parser.InlineParser
	key parser.ContextKey
	max int
}

// tally is the number of calls in a paragraph.
type tally struct {
	in ast.Node
	n  int
}

func newCounted(p parser.InlineParser) counted {
	return counted{p, parser.NewContextKey(), maxMarks}
}

// Parse implements parser.InlineParser.
func (c counted) Parse(in ast.Node, block text.Reader, pc parser.Context) ast.Node {
	m, ok := pc.Get(c.key).(*tally)
	if !ok || m.in != in {
		m = &tally{in: in}
		pc.Set(c.key, m)
	}
	if m.n++; m.n > c.max {
		return nil // another parser may handle it, or it is text
	}
	return c.InlineParser.Parse(in, block, pc)
}

// CloseBlock implements parser.CloseBlocker.
func (c counted) CloseBlock(in ast.Node, block text.Reader, pc parser.Context) {
	if p, ok := c.InlineParser.(parser.CloseBlocker); ok {
		p.CloseBlock(in, block, pc)
	}
}

// inlineParsers wraps the inline parsers of goldmark in counted.
func inlineParsers(all []util.PrioritizedValue) []util.PrioritizedValue {
	for i, v := range all {
		if p, ok := v.Value.(parser.InlineParser); ok {
			all[i].Value = newCounted(p)
		}
	}
	return all
}

// boundedParser returns the default parser of goldmark with bounds.
func boundedParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(inlineParsers(parser.DefaultInlineParsers())...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithAutoHeadingID(),
	)
}

// github extends goldmark to GitHub's Markdown, with bounds.
type github struct{}

// Extend implements goldmark.Extender.
func (github) Extend(m goldmark.Markdown) {
	strike{}.Extend(m)
	extension.Linkify.Extend(m)
	extension.TaskList.Extend(m)
	m.Parser().AddOptions(
		parser.WithParagraphTransformers(util.Prioritized(smallTables{extension.NewTableParagraphTransformer(), parser.NewContextKey()}, 200)),
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0), util.Prioritized(callouts{}, 100)),
	)
	m.Renderer().AddOptions(renderer.WithNodeRenderers(
		util.Prioritized(tasks{}, 400), // before the renderer of the extension
		util.Prioritized(extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), 500),
	))
}

// tasks renders the check boxes of task lists with a label for screen readers.
type tasks struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (tasks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(extast.KindTaskCheckBox, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		box := `<input type="checkbox" disabled="" aria-label="to do"> `
		if n.(*extast.TaskCheckBox).IsChecked {
			box = `<input type="checkbox" disabled="" checked="" aria-label="done"> `
		}
		if entering {
			_, _ = w.WriteString(box) // writes to memory do not fail
		}
		return ast.WalkContinue, nil
	})
}

// strike adds strikethrough.
type strike struct{}

// Extend implements goldmark.Extender.
func (strike) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(parser.WithInlineParsers(util.Prioritized(newCounted(extension.NewStrikethroughParser()), 500)))
	m.Renderer().AddOptions(renderer.WithNodeRenderers(util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 500)))
}

// smallTables skips tables that would have far more cells than their text.
type smallTables struct {
	parser.ParagraphTransformer
	filled parser.ContextKey
}

// Transform implements parser.ParagraphTransformer.
func (s smallTables) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	lines := p.Lines()
	src := reader.Source()
	columns := 0
	escaped := 0
	pipes := 0
	for i := range lines.Len() {
		at := lines.At(i)
		line := at.Value(src)
		n := bytes.Count(line, []byte{'|'})
		pipes += n
		escaped += bytes.Count(line, []byte(`\|`))
		if len(bytes.Trim(line, "|:- \t\n")) == 0 { // could be the delimiter row below the header
			columns = max(columns, n+1)
		}
	}
	if columns == 0 {
		return
	}
	filled, _ := pc.Get(s.filled).(int)
	filled += max(0, columns*lines.Len()-pipes)
	if filled > maxFilled || escaped > maxEscape {
		return
	}
	pc.Set(s.filled, filled)
	s.ParagraphTransformer.Transform(p, reader, pc)
}
