// SPDX-License-Identifier: Apache-2.0

package web

import (
	"sync"

	"github.com/alecthomas/chroma/v2"
)

// The languages that are colored, by rules of our own: the library's hundreds of
// languages and styles would be read at each start of each command. A rule looks at
// one line, so that none takes time out of proportion.

// lexers are the languages by name. They are made when a page needs the first one.
var lexers = sync.OnceValue(func() map[string]chroma.Lexer {
	all := map[string]chroma.Lexer{}
	for name, rules := range map[string]func() chroma.Rules{"": plainRules, "hcl": hclRules, "json": jsonRules, "yaml": yamlRules, "diff": diffRules, "sh": shellRules} {
		all[name] = chroma.MustNewLexer(&chroma.Config{Name: name}, rules)
	}
	return all
})

// classes is the style of a page: names of classes, whose colors are in app.css.
var classes = sync.OnceValue(func() *chroma.Style { return chroma.MustNewStyle("classes", nil) })

func rule(pattern string, t chroma.Emitter, then ...chroma.Mutator) chroma.Rule {
	r := chroma.Rule{Pattern: pattern, Type: t}
	if len(then) > 0 {
		r.Mutator = then[0]
	}
	return r
}

func plainRules() chroma.Rules {
	return chroma.Rules{"root": {rule(`.+`, chroma.Text), rule(`\n`, chroma.Text)}}
}

// hclRules color what OpenTofu and Terraform read
// (https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md).
func hclRules() chroma.Rules {
	return chroma.Rules{
		"root": {
			rule(`\s+`, chroma.TextWhitespace),
			rule(`(#|//).*`, chroma.CommentSingle),
			rule(`/\*`, chroma.CommentMultiline, chroma.Push("comment")),
			rule(`<<-?[A-Za-z_][\w-]*\n`, chroma.LiteralStringHeredoc, chroma.Push("heredoc")),
			rule(`"`, chroma.LiteralString, chroma.Push("string")),
			rule(`(true|false|null)\b`, chroma.KeywordConstant),
			rule(`\d+(\.\d+)?([eE][+-]?\d+)?`, chroma.LiteralNumber),
			rule(`(for|in|if)\b(?=\s)`, chroma.Keyword),
			rule(`[A-Za-z_][\w-]*(?=[ \t]*("|\{))`, chroma.KeywordDeclaration),
			rule(`[A-Za-z_][\w-]*(?=[ \t]*=[^=>])`, chroma.NameAttribute),
			rule(`[A-Za-z_][\w-]*(?=\()`, chroma.NameBuiltin),
			rule(`[A-Za-z_][\w-]*`, chroma.Name),
			rule(`[-+*/%!<>=&|?:]+`, chroma.Operator),
			rule(`\}`, chroma.Punctuation, chroma.Pop(1)),
			rule(`\{`, chroma.Punctuation, chroma.Push("root")),
			rule(`.`, chroma.Punctuation),
		},
		"comment": {rule(`\*/`, chroma.CommentMultiline, chroma.Pop(1)), rule(`[^*]+|\*`, chroma.CommentMultiline)},
		// The word that ends a text is in capitals, by convention.
		"heredoc": {
			rule(`[ \t]*[A-Z][A-Z0-9_]*(?=\n|\z)`, chroma.LiteralStringHeredoc, chroma.Pop(1)),
			rule(`.+\n?|\n`, chroma.LiteralStringHeredoc),
		},
		"string": {
			rule(`[$%]\{`, chroma.LiteralStringInterpol, chroma.Push("root")),
			rule(`"|\n`, chroma.LiteralString, chroma.Pop(1)),
			rule(`\\.|[^"\\$%\n]+|.`, chroma.LiteralString),
		},
	}
}

func jsonRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.TextWhitespace),
		rule(`"(\\.|[^"\\\n])*"(?=[ \t]*:)`, chroma.NameTag),
		rule(`"(\\.|[^"\\\n])*"?`, chroma.LiteralString),
		rule(`(true|false|null)\b`, chroma.KeywordConstant),
		rule(`-?\d+(\.\d+)?([eE][+-]?\d+)?`, chroma.LiteralNumber),
		rule(`.`, chroma.Punctuation),
	}}
}

func yamlRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.TextWhitespace),
		rule(`#.*`, chroma.Comment),
		rule(`---|\.\.\.`, chroma.Punctuation),
		rule(`[\w./-]+(?=:(\s|\z))`, chroma.NameTag),
		rule(`"(\\.|[^"\\\n])*"?|'[^'\n]*'?`, chroma.LiteralString),
		rule(`(true|false|null|yes|no)(?=\s|\z)`, chroma.KeywordConstant),
		rule(`-?\d+(\.\d+)?(?=\s|\z|,)`, chroma.LiteralNumber),
		rule(`[\[\]{},:&*!|>?-]`, chroma.Punctuation),
		rule(`[^\s#"'\[\]{},:&*!|>?-]+|.`, chroma.Text),
	}}
}

func diffRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`(diff|index|---|\+\+\+).*\n?`, chroma.GenericHeading),
		rule(`@@.*\n?`, chroma.GenericSubheading),
		rule(`\+.*\n?`, chroma.GenericInserted),
		rule(`-.*\n?`, chroma.GenericDeleted),
		rule(`.+\n?|\n`, chroma.Text),
	}}
}

func shellRules() chroma.Rules {
	return chroma.Rules{"root": {
		rule(`\s+`, chroma.TextWhitespace),
		rule(`#.*`, chroma.Comment),
		rule(`"(\\.|[^"\\])*"?|'[^']*'?`, chroma.LiteralString),
		rule(`\$(\{[^}\n]*\}?|\w+|.)`, chroma.NameVariable),
		rule(`(if|then|elif|else|fi|for|in|do|done|while|until|case|esac|function)(?=[\s;]|\z)`, chroma.Keyword),
		rule(`(cd|echo|exec|exit|export|read|set|source|test|trap|unset)(?=\s|\z)`, chroma.NameBuiltin),
		rule(`[\w./:@%+~-]+`, chroma.Text),
		rule(`[|&;<>()={}\[\]!*?]`, chroma.Operator),
		rule(`.`, chroma.Text),
	}}
}
