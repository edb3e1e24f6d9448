// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

type lexer func(src []byte, name string, start hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)

// checkTokens checks the tokens that the parser will see.
func checkTokens(src []byte, name string, lex lexer) error {
	if len(src) > maxTokens && atLeastTokens(src) > maxTokens {
		return refusedAt(hcl.Range{Filename: name, Start: hcl.InitialPos}, "more than %d tokens", maxTokens)
	}
	if isShallow(src) {
		return nil
	}
	return checkEachToken(src, name, lex)
}

func checkEachToken(src []byte, name string, lex lexer) error {
	tokens, _ := lex(src, name, hcl.InitialPos) // the parser reports errors
	n := nesting{frames: []frame{{lines: true}}}
	for i, t := range tokens {
		if t.Type == hclsyntax.TokenNumberLit && !plainNumber(string(t.Bytes)) {
			return refusedAt(t.Range, "a number of more than %d digits or over 1e%d", maxDigits, maxExponent)
		}
		n.addToken(t.Type, tokens[i+1:])
		if n.depth > MaxDepth {
			return refusedAt(t.Range, "nested more than %d deep", MaxDepth)
		}
	}
	return nil
}

// atLeastTokens bounds the tokens of src: runs of letters or digits, and other bytes.
func atLeastTokens(src []byte) int {
	n := 0
	var before byte
	for _, b := range src {
		kind := byteClass(b)
		if kind != ' ' && (kind != before || kind == 0) {
			n++
		}
		before = kind
	}
	return n
}

// isShallow reports whether a text is too short of what nests, and of digits, to exceed a bound: then
// it need not be split into tokens, which takes as long as parsing it.
func isShallow(src []byte) bool {
	n, digits := 0, 0
	var before byte
	for i, b := range src {
		if b == '.' || '0' <= b && b <= '9' {
			digits++
		} else if digits > 0 && b|0x20 == 'e' && i+1 < len(src) && !isLetter(src[i+1]) { // perhaps an exponent
			return false
		} else {
			digits = 0
		}
		switch b {
		case '[', '%': // which may be an index, or a directive: a bracket and an operator
			n += 2
		case '=':
			if before == '=' {
				n++
			}
		case '{', '(', '<', '"', '*', '/', '+', '-', '!', '>', '&', '|', '?':
			n++
		}
		if before = b; n > MaxDepth || digits > maxDigits {
			return false
		}
	}
	return true
}

func isLetter(b byte) bool { return byteClass(b) == 'a' }

// byteClass returns ' ' for blanks, 'a' for letters, '0' for digits, else 0.
func byteClass(b byte) byte {
	switch {
	case b == ' ', b == '\t':
		return ' '
	case 'a' <= b|0x20 && b|0x20 <= 'z', b == '_':
		return 'a'
	case '0' <= b && b <= '9':
		return '0'
	}
	return 0
}

// plainNumber reports whether computing with a literal is cheap.
func plainNumber(s string) bool {
	s, exponent, scaled := strings.Cut(strings.ToLower(s), "e")
	if len(s) > maxDigits {
		return false
	}
	if !scaled {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && -maxExponent <= e && e <= maxExponent
}

// nesting bounds the depth of the tree that the parser will build. Each open bracket is a frame, in
// which all counts that deepens the present item: operators, as binary ones nest left and unary
// ones right, indices and splats, directives, closing ones too. Unmatched brackets are ignored: it
// is never too small.
type nesting struct {
	frames []frame
	depth  int // open frames plus the counts in them
}

type frame struct {
	closes hclsyntax.TokenType
	lines  bool // a line end ends an item
	chain  int
}

func (n *nesting) addToken(t hclsyntax.TokenType, rest hclsyntax.Tokens) {
	top := &n.frames[len(n.frames)-1]
	switch t {
	case hclsyntax.TokenOBrace:
		n.openFrame(frame{closes: hclsyntax.TokenCBrace, lines: !startsFor(rest)})
	case hclsyntax.TokenOParen:
		n.openFrame(frame{closes: hclsyntax.TokenCParen})
	case hclsyntax.TokenOBrack:
		n.countChain(top)
		n.openFrame(frame{closes: hclsyntax.TokenCBrack})
	case hclsyntax.TokenOQuote:
		n.openFrame(frame{closes: hclsyntax.TokenCQuote})
	case hclsyntax.TokenOHeredoc:
		n.openFrame(frame{closes: hclsyntax.TokenCHeredoc})
	case hclsyntax.TokenTemplateControl:
		n.countChain(top)
		n.openFrame(frame{closes: hclsyntax.TokenTemplateSeqEnd})
	case hclsyntax.TokenTemplateInterp:
		n.openFrame(frame{closes: hclsyntax.TokenTemplateSeqEnd})
	case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang, hclsyntax.TokenQuestion:
		n.countChain(top)
	case hclsyntax.TokenComma:
		n.depth = n.depth - top.chain
		top.chain = 0
	case hclsyntax.TokenNewline:
		if top.lines {
			n.depth = n.depth - top.chain
			top.chain = 0
		}
	case top.closes:
		if len(n.frames) > 1 {
			n.depth -= 1 + top.chain
			n.frames = n.frames[:len(n.frames)-1]
		}
	}
}

func (n *nesting) openFrame(f frame) {
	n.frames = append(n.frames, f)
	n.depth++
}

func (n *nesting) countChain(f *frame) {
	f.chain++
	n.depth++
}

// startsFor reports whether a brace opens a for expression, where line ends mean nothing.
func startsFor(rest hclsyntax.Tokens) bool {
	for _, t := range rest {
		if t.Type != hclsyntax.TokenNewline && t.Type != hclsyntax.TokenComment {
			return t.Type == hclsyntax.TokenIdent && bytes.Equal(t.Bytes, []byte("for"))
		}
	}
	return false
}
