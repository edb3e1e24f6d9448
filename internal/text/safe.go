// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns an untrusted text as one line: line ends and tabs become spaces.
func Line(s string) string {
	if isPlain(s) { // as nearly all that the server records of each request
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return visibleRune(r)
	}, s)
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Block returns an untrusted text of several lines, with its line ends and tabs. Carriage returns
// are removed. Joiners are kept, since Persian and some emoji need them.
func Block(s string) string {
	const joiners = "\u200c\u200d"
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n' || r == '\t' || ' ' <= r && r <= '~' || strings.ContainsRune(joiners, r):
			return r
		}
		return visibleRune(r)
	}, s)
}

func visibleRune(r rune) rune {
	if Hidden(r) {
		return unicode.ReplacementChar
	}
	return r
}

// excerpt bounds what [Excerpt] returns, in bytes.
const excerpt = 512

// Excerpt returns the beginning of an untrusted text as one line without
// repeated white space, for use in errors.
func Excerpt(s string) string {
	return Clip(strings.Join(strings.Fields(Line(Clip(s, 4*excerpt))), " "), excerpt)
}

// head bounds what [Head] returns: lines, and bytes.
const (
	headLines = 8
	headBytes = 1 << 10
)

// Head returns the first non-empty lines of an untrusted text in the form of
// [Block]: the part of a tool's output that shows the error.
func Head(s string) string {
	var lines []string
	for line := range strings.Lines(Block(Clip(s, 8*headBytes))) {
		if line = strings.TrimRight(line, "\n\t "); line != "" && len(lines) < headLines {
			lines = append(lines, line)
		}
	}
	return Clip(strings.Join(lines, "\n"), headBytes)
}

// Hidden reports whether a character affects the display instead of being
// visible: a control character, one that changes the text direction, one of no
// width, or the replacement for invalid UTF-8.
func Hidden(r rune) bool {
	return unicode.IsControl(r) || r == unicode.ReplacementChar ||
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Writer returns a writer that passes text on in the form of [Block].
func Writer(to io.Writer) io.Writer { return &writer{to: to} }

type writer struct {
	to   io.Writer
	rest []byte // the beginning of an incomplete character
}

func (w *writer) Write(p []byte) (int, error) {
	all := append(w.rest, p...)
	whole := len(all)
	for i := 1; i < min(utf8.UTFMax, len(all)+1); i++ {
		if tail := all[len(all)-i:]; utf8.RuneStart(tail[0]) && !utf8.FullRune(tail) {
			whole -= i
			break
		}
	}
	w.rest = bytes.Clone(all[whole:])
	if _, err := io.WriteString(w.to, Block(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}
