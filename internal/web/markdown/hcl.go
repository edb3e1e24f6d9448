// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"

	"github.com/seed-141914ff/okara/internal/text"
)

// hclLexer splits HCL, the language of OpenTofu and Terraform
// (https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md), of which READMEs of modules are
// full: rules of regular expressions take ten times as long.
type hclLexer struct{ chroma.Lexer }

var (
	hclNumber    = text.Pattern(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	heredocStart = text.Pattern(`^<<-?[A-Za-z_][\w-]*\n`)
	heredocEnd   = text.Pattern(`(?m)^[ \t]*[A-Z][A-Z0-9_]*$`) // in capitals by convention
)

// Tokenise implements chroma.Lexer. Neighbors of one type are one token.
func (hclLexer) Tokenise(_ *chroma.TokeniseOptions, code string) (chroma.Iterator, error) {
	var tokens []chroma.Token
	strung := []bool{false} // what is open: strings, and brackets
	for start, at := 0, 0; at < len(code); {
		kind, n := chroma.Error, len(code)-at // after a bracket that closes nothing
		if top := len(strung) - 1; top >= 0 {
			in, next := strung[top], nextOutside
			if in {
				next = nextInString
			}
			kind, n = next(code[at:])
			switch token := code[at : at+n]; {
			case !in && (token == `"` || token == "{"), in && kind == chroma.Text:
				strung = append(strung, token == `"`)
			case !in && token == "}", in && (token == `"` || token == "\n"):
				strung = strung[:top]
			}
		}
		if last := len(tokens) - 1; last < 0 || tokens[last].Type != kind {
			start = at
			tokens = append(tokens, chroma.Token{Type: kind})
		}
		at += n
		tokens[len(tokens)-1].Value = code[start:at]
	}
	return chroma.Literator(tokens...), nil
}

func nextInString(code string) (kind chroma.TokenType, n int) {
	switch special := strings.IndexAny(code, "\"\\$%\n"); {
	case special < 0:
		return chroma.LiteralString, len(code)
	case special > 0:
		return chroma.LiteralString, special
	case strings.HasPrefix(code, "${"), strings.HasPrefix(code, "%{"):
		return chroma.Text, 2
	case code[0] == '\\' && !strings.HasPrefix(code[1:], "\n"):
		_, size := utf8.DecodeRuneInString(code[1:])
		return chroma.LiteralString, 1 + size
	}
	return chroma.LiteralString, 1
}

func nextOutside(code string) (kind chroma.TokenType, n int) {
	line, _, _ := strings.Cut(code, "\n")
	switch c := rune(code[0]); {
	case c == '#', strings.HasPrefix(code, "//"):
		return chroma.CommentSingle, len(line)
	case strings.HasPrefix(code, "/*"):
		inner, _, _ := strings.Cut(code[len("/*"):], "*/")
		return chroma.CommentMultiline, min(len("/**/")+len(inner), len(code))
	case c == '"':
		return chroma.LiteralString, 1
	case '0' <= c && c <= '9':
		return chroma.LiteralNumber, len(hclNumber().FindString(line))
	case c == '_', c < utf8.RuneSelf && unicode.IsLetter(c):
		return nextName(line)
	case strings.HasPrefix(code, "<<"):
		if start := len(heredocStart().FindString(code)); start > 0 {
			if end := heredocEnd().FindStringIndex(code[start:]); end != nil {
				return chroma.LiteralStringHeredoc, start + end[1]
			}
			return chroma.LiteralStringHeredoc, len(code)
		}
	}
	operators := len(code) - len(strings.TrimLeft(code, "-+*/%!<>=&|?:"))
	_, size := utf8.DecodeRuneInString(code)
	return chroma.Text, max(operators, size)
}

// nextName returns a name by what follows it in its line.
func nextName(line string) (kind chroma.TokenType, n int) {
	rest := strings.TrimLeftFunc(line, func(r rune) bool { return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
	name, after := line[:len(line)-len(rest)], strings.TrimLeft(rest, " \t")
	word, _, _ := strings.Cut(name, "-")
	switch {
	case word == "true", word == "false", word == "null":
		return chroma.KeywordConstant, len(word)
	case (name == "for" || name == "in" || name == "if") && (rest == "" || rest[0] == ' ' || rest[0] == '\t'):
		return chroma.Keyword, len(name)
	case strings.HasPrefix(after, `"`), strings.HasPrefix(after, "{"):
		return chroma.KeywordDeclaration, len(name)
	case strings.HasPrefix(after, "=") && !strings.HasPrefix(after, "==") && !strings.HasPrefix(after, "=>"):
		return chroma.NameAttribute, len(name)
	case strings.HasPrefix(rest, "("):
		return chroma.NameBuiltin, len(name)
	}
	return chroma.Text, len(name)
}
