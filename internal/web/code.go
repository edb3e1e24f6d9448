// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html"
	"html/template"
	"io"
	"path"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// codeRenderer colors blocks of code in a language of this field.
type codeRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (c *codeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, c.block)
}

func (c *codeRenderer) block(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	f, ok := n.(*ast.FencedCodeBlock)
	if !ok {
		return ast.WalkContinue, nil
	}
	var b strings.Builder
	for i := range f.Lines().Len() {
		line := f.Lines().At(i)
		b.Write(line.Value(src))
	}
	if lexer := lexerOf(string(f.Language(src)), b.String()); lexer != nil && color(w, lexer, b.String()) == nil {
		return ast.WalkSkipChildren, nil
	}
	_, err := w.WriteString("<pre><code>" + html.EscapeString(b.String()) + "</code></pre>\n")
	return ast.WalkSkipChildren, err
}

// lexerOf is the lexer for a block of code, nil for one that is shown plain.
func lexerOf(language, code string) chroma.Lexer {
	if len(code) > maxColored || longLine(code, colorLine) {
		return nil
	}
	switch language {
	case "hcl", "terraform", "tf", "tofu":
		return lexers()["hcl"]
	case "json", "yaml", "diff":
		return lexers()[language]
	case "sh", "bash", "shell", "console":
		return lexers()["sh"]
	}
	return nil
}

func longLine(text string, most int) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > most {
			return true
		}
	}
	return false
}

func color(w io.Writer, lexer chroma.Lexer, code string, o ...chromahtml.Option) error {
	tokens, err := lexer.Tokenise(nil, code)
	if err != nil {
		return err
	}
	return chromahtml.New(append(o, chromahtml.WithClasses(true))...).Format(w, classes(), tokens)
}

// colored is code in the colors of its language. What has none is plain.
func colored(code, language string) rendered {
	var b strings.Builder
	if lexer := lexerOf(language, code); lexer == nil || color(&b, lexer, code) != nil {
		return asWritten(code)
	}
	return rendered{html: template.HTML(b.String())} // the formatter escapes
}

// numbered is a file with lines that have addresses, #L1 and so on. One that is too
// large for that is plain.
func numbered(code, language string) rendered {
	if len(code) > maxColored || longLine(code, colorLine) {
		return asWritten(code)
	}
	lexer := lexerOf(language, code)
	if lexer == nil {
		lexer = lexers()[""]
	}
	var b strings.Builder
	if color(&b, lexer, code, chromahtml.WithLineNumbers(true), chromahtml.WithLinkableLineNumbers(true, "L")) != nil {
		return asWritten(code)
	}
	return rendered{html: template.HTML(b.String())} // the formatter escapes
}

// languageOf is what a file is written in, by its name; "" if nothing colors it.
func languageOf(name string) string {
	switch path.Ext(name) {
	case ".tf", ".tofu", ".hcl", ".tfvars":
		return "hcl"
	case ".json":
		return "json"
	case ".yaml", ".yml":
		return "yaml"
	case ".sh":
		return "sh"
	case ".diff", ".patch":
		return "diff"
	}
	return ""
}
