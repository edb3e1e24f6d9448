// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"html"
	"html/template"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// codeRenderer highlights code blocks in the languages of [newLexer].
type codeRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (c *codeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, c.renderBlock)
}

func (c *codeRenderer) renderBlock(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
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
	if string(f.Language(src)) == "mermaid" { // drawing it takes a browser and scripts
		_, _ = w.WriteString("<p><em>Mermaid diagram, as text:</em></p>\n") // writes to memory do not fail
	}
	if by := lexerOf(string(f.Language(src)), b.String()); by != nil && writeBlock(w, by, b.String()) == nil {
		return ast.WalkSkipChildren, nil
	}
	_, err := w.WriteString("<pre><code>" + html.EscapeString(b.String()) + "</code></pre>\n")
	return ast.WalkSkipChildren, err
}

// lexerOf returns the lexer for a block of code, nil if it is shown without colors.
func lexerOf(language, code string) chroma.Lexer {
	if len(code) > maxColored || longLine(code, colorLine) {
		return nil
	}
	switch language {
	case "hcl", "terraform", "tf", "tofu":
		return newLexer("hcl")
	case "json", "yaml", "diff":
		return newLexer(language)
	case "sh", "bash", "shell", "console":
		return newLexer("sh")
	}
	return nil
}

func longLine(text string, limit int) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > limit {
			return true
		}
	}
	return false
}

// A formatter works out its style once, which takes longer than most blocks of code. Colors are in app.css.
var (
	blockFormat = sync.OnceValue(func() *chromahtml.Formatter {
		return chromahtml.New(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(true)) // nor elements for each line
	})
	fileFormat = sync.OnceValue(func() *chromahtml.Formatter {
		return chromahtml.New(chromahtml.WithClasses(true), chromahtml.WithLineNumbers(true), chromahtml.WithLinkableLineNumbers(true, "L"))
	})
	classes = sync.OnceValue(func() *chroma.Style { return chroma.MustNewStyle("classes", nil) })
)

func writeColored(w io.Writer, by chroma.Lexer, code string, format *chromahtml.Formatter) error {
	tokens, err := by.Tokenise(nil, code)
	if err != nil {
		return err
	}
	return format.Format(w, classes(), tokens)
}

func writeBlock(w io.Writer, by chroma.Lexer, code string) error {
	var b strings.Builder
	err := writeColored(&b, by, code, blockFormat())
	if err == nil {
		_, err = io.WriteString(w, `<pre class="chroma"><code>`+b.String()+"</code></pre>")
	}
	return err
}

// colorCode renders highlighted code, or plain code if no lexer fits.
func colorCode(code, language string) Rendered {
	var b strings.Builder
	if by := lexerOf(language, code); by == nil || writeBlock(&b, by, code) != nil {
		return asWritten(code)
	}
	return Rendered{HTML: template.HTML(strings.Replace(b.String(), "<pre", `<pre tabindex="0"`, 1))} // the formatter escapes
}

// numberLines renders a file with an anchor per line, #L1 and so on. A file that is too
// large for that is plain.
func numberLines(code, language string) Rendered {
	if len(code) > maxColored || longLine(code, colorLine) {
		return asWritten(code)
	}
	by := lexerOf(language, code)
	if by == nil {
		by = newLexer("")
	}
	var b strings.Builder
	if writeColored(&b, by, code, fileFormat()) != nil {
		return asWritten(code)
	}
	return Rendered{HTML: template.HTML(b.String())} // the formatter escapes
}

// LanguageOf returns the language of a file, by its name; "" if it is not highlighted.
func LanguageOf(name string) string {
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

// Only these languages are highlighted, with rules in this file: the hundreds of
// languages and styles of the library would be parsed at each start of each command. A
// rule looks at one line, so that its time is bounded; HCL has [hclLexer]. What app.css gives no color is chroma.Text,
// which gets no element.

// lexers are those that some text needed, by language. To compile one takes longer than to read
// most texts.
var lexers sync.Map

// newLexer returns the lexer of a language; "" is plain text.
func newLexer(language string) chroma.Lexer {
	if made, ok := lexers.Load(language); ok {
		return made.(chroma.Lexer)
	}
	rules := func() chroma.Rules { return chroma.Rules{"root": {rule(`.+`, chroma.Text), rule(`\n`, chroma.Text)}} }
	switch language {
	case "json":
		rules = jsonRules
	case "yaml":
		rules = yamlRules
	case "diff":
		rules = diffRules
	case "sh":
		rules = shellRules
	}
	by := chroma.Coalesce(chroma.MustNewLexer(&chroma.Config{Name: language}, rules))
	if language == "hcl" {
		by = hclLexer{by}
	}
	made, _ := lexers.LoadOrStore(language, by)
	return made.(chroma.Lexer)
}

func rule(pattern string, t chroma.Emitter, then ...chroma.Mutator) chroma.Rule {
	r := chroma.Rule{Pattern: pattern, Type: t}
	if len(then) > 0 {
		r.Mutator = then[0]
	}
	return r
}

func jsonRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.Text),
		rule(`"(\\.|[^"\\\n])*"(?=[ \t]*:)`, chroma.NameTag),
		rule(`"(\\.|[^"\\\n])*"?`, chroma.LiteralString),
		rule(`(true|false|null)\b`, chroma.KeywordConstant),
		rule(`-?\d+(\.\d+)?([eE][+-]?\d+)?`, chroma.LiteralNumber),
		rule(`.`, chroma.Text),
	}}
}

func yamlRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.Text),
		rule(`#.*`, chroma.Comment),
		rule(`---|\.\.\.`, chroma.Text),
		rule(`[\w./-]+(?=:(\s|\z))`, chroma.NameTag),
		rule(`"(\\.|[^"\\\n])*"?|'[^'\n]*'?`, chroma.LiteralString),
		rule(`(true|false|null|yes|no)(?=\s|\z)`, chroma.KeywordConstant),
		rule(`-?\d+(\.\d+)?(?=\s|\z|,)`, chroma.LiteralNumber),
		rule(`[\[\]{},:&*!|>?-]`, chroma.Text),
		rule(`[^\s#"'\[\]{},:&*!|>?-]+|.`, chroma.Text),
	}}
}

func diffRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`(diff|index|---|\+\+\+).*\n?`, chroma.Text),
		rule(`@@.*\n?`, chroma.Text),
		rule(`\+.*\n?`, chroma.GenericInserted),
		rule(`-.*\n?`, chroma.GenericDeleted),
		rule(`.+\n?|\n`, chroma.Text),
	}}
}

func shellRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.Text),
		rule(`#.*`, chroma.Comment),
		rule(`"(\\.|[^"\\])*"?|'[^']*'?`, chroma.LiteralString),
		rule(`\$(\{[^}\n]*\}?|\w+|.)`, chroma.Text),
		rule(`(if|then|elif|else|fi|for|in|do|done|while|until|case|esac|function)(?=[\s;]|\z)`, chroma.Keyword),
		rule(`(cd|echo|exec|exit|export|read|set|source|test|trap|unset)(?=\s|\z)`, chroma.NameBuiltin),
		rule(`[\w./:@%+~-]+`, chroma.Text),
		rule(`[|&;<>()={}\[\]!*?]`, chroma.Text),
		rule(`.`, chroma.Text),
	}}
}
