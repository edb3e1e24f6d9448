// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checkJSON checks a file of HCL's JSON, templates in its strings too.
func checkJSON(src []byte, name string) ([]byte, error) {
	if atLeastTokens(src) > maxTokens {
		return nil, refusedAt(hcl.Range{Filename: name, Start: hcl.InitialPos}, "more than %d tokens", maxTokens)
	}
	// Unmarshal checks all of the text before it starts, and returns the position of an error.
	if err := json.Unmarshal(src, new(json.RawMessage)); err != nil {
		at := hcl.InitialPos
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			before := src[:min(len(src), int(e.Offset))]
			at = hcl.Pos{Line: 1 + bytes.Count(before, []byte("\n")), Column: max(1, len(before)-1-bytes.LastIndexByte(before, '\n'))}
		}
		return nil, &boundError{at: hcl.Range{Filename: name, Start: at, End: at}, what: "not valid JSON", err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	depth := 0
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return escapeNonASCII(src), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: not valid JSON: %w", name, err)
		}
		if depth, err = checkJSONToken(t, name, depth); err != nil {
			if e, ok := errors.AsType[*boundError](err); ok {
				e.at.Filename = name
				e.at.Start = hcl.Pos{Line: 1 + bytes.Count(src[:dec.InputOffset()], []byte("\n")), Column: 1}
			}
			return nil, err
		}
	}
}

func checkJSONToken(t json.Token, name string, depth int) (int, error) {
	switch v := t.(type) {
	case json.Delim:
		if v == ']' || v == '}' {
			return depth - 1, nil
		}
		if depth++; depth > MaxDepth {
			return depth, refusedAt(hcl.Range{}, "nested more than %d deep", MaxDepth)
		}
	case json.Number:
		if !plainNumber(v.String()) {
			return depth, refusedAt(hcl.Range{}, "a number of more than %d digits or over 1e%d", maxDigits, maxExponent)
		}
	case string:
		return depth, checkTokens([]byte(v), name, hclsyntax.LexTemplate)
	}
	return depth, nil
}

// CheckData checks plain JSON: nesting, numbers, and its end.
func CheckData(src []byte, depth int) error {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	for open, seen := 0, false; ; seen = true {
		t, err := dec.Token()
		if err == io.EOF && seen && open == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not valid JSON: %w", err)
		}
		switch v := t.(type) {
		case json.Delim:
			if v == '[' || v == '{' {
				open++
			} else {
				open--
			}
		case json.Number:
			if !plainNumber(v.String()) {
				return fmt.Errorf("a number of more than %d digits or over 1e%d: %w", maxDigits, maxExponent, ErrTooComplex)
			}
		}
		if open > depth {
			return fmt.Errorf("nested more than %d deep: %w", depth, ErrTooComplex)
		}
		if open == 0 && dec.More() {
			return fmt.Errorf("not valid JSON: %w", errors.New("more than one value"))
		}
	}
}

// escapeNonASCII escapes non-ASCII characters in valid JSON.
func escapeNonASCII(src []byte) []byte {
	if !bytes.ContainsFunc(src, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return src
	}
	out := make([]byte, 0, len(src)+len(src)/4)
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		src = src[n:]
	}
	return out
}
