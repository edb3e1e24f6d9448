// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

const (
	// minMasked is the length, in bytes, of the shortest value that is masked: shorter
	// ones occur in many words.
	minMasked = 8
	// minLine is the same for a line of a longer value: no word, or beside short lines only.
	minLine = 4
	// maxMasked is the size of the largest pattern; a longer value is masked in pieces.
	maxMasked = 4 << 10
	// masked replaces a masked value.
	masked = "(sensitive)"
)

// masks holds the forms of secret values that must not appear in texts. It protects
// against accidents only: a program with a value can print it backwards.
type masks struct {
	byStart map[[2]byte][][]byte // by the first two bytes, longest first
	longest int
	written map[string]bool
}

// newMasks masks values, as a whole and line by line, plain, in JSON, in URLs and in base64.
func newMasks(values []string) *masks {
	m := &masks{byStart: map[[2]byte][][]byte{}, written: map[string]bool{}}
	m.addValues(values)
	return m
}

// addValues masks further values. It must not run concurrently with writes.
func (m *masks) addValues(values []string) {
	for _, v := range values {
		lines := strings.Split(strings.ReplaceAll(v, "\r\n", "\n"), "\n")
		short := !slices.ContainsFunc(lines, func(line string) bool { return len(line) >= minMasked })
		for _, text := range append(lines, v) {
			if len(text) < minMasked {
				line := strings.TrimSpace(text)
				if len(v) >= minMasked && len(line) >= minLine && (short || !isWord(line)) {
					m.hide(line, minLine)
					for _, form := range jsonForms(line) {
						m.hide(form, minLine)
					}
				}
				continue
			}
			for _, form := range formsOf(text) {
				m.hide(form, minMasked)
			}
		}
	}
	for _, list := range m.byStart {
		slices.SortFunc(list, func(a, b []byte) int { return len(b) - len(a) })
	}
}

func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsLetter(c) })
}

// hide adds one form of a value, in pieces of at least a length if it is long.
func (m *masks) hide(p string, least int) {
	for len(p) >= least {
		piece := p[:min(len(p), maxMasked)]
		p = p[len(piece):]
		if m.written[piece] {
			continue
		}
		m.written[piece] = true
		start := [2]byte{piece[0], piece[1]}
		m.byStart[start] = append(m.byStart[start], []byte(piece))
		m.longest = max(m.longest, len(piece))
	}
}

// formsOf returns the encodings of a text that programs write: of base64 the characters that do not
// depend on neighbouring bytes, at each of three bit offsets.
func formsOf(text string) []string {
	forms := append(jsonForms(text), text, url.QueryEscape(text), url.PathEscape(text))
	for shift := range 3 {
		padded := append(make([]byte, shift), text...)
		whole := len(padded) / 3 * 3
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			s := enc.EncodeToString(padded[:whole])
			if shift > 0 {
				s = s[min(4, len(s)):]
			}
			forms = append(forms, s)
		}
	}
	return forms
}

// jsonForms returns a text as it stands in JSON, and in JSON that is a text within JSON.
func jsonForms(text string) (forms []string) {
	for _, escapeHTML := range []bool{true, false} {
		inJSON := text
		for range 2 {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(escapeHTML)
			_ = e.Encode(inJSON) // a string always can be
			inJSON = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
			forms = append(forms, inJSON)
		}
	}
	return forms
}

func (m *masks) maskText(s string) string {
	var b strings.Builder
	w := m.writer(&b)
	_, _ = w.Write([]byte(s)) // a Builder has no errors
	_ = w.Close()
	return b.String()
}

// longestAt returns the length of the longest pattern with which b begins; 0: none.
func (m *masks) longestAt(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	for _, p := range m.byStart[[2]byte{b[0], b[1]}] {
		if bytes.HasPrefix(b, p) {
			return len(p)
		}
	}
	return 0
}

func (m *masks) beginsPattern(b []byte) bool {
	if len(b) >= m.longest {
		return false
	}
	longer := func(p []byte) bool { return len(p) > len(b) && bytes.HasPrefix(p, b) }
	if len(b) > 1 {
		return slices.ContainsFunc(m.byStart[[2]byte{b[0], b[1]}], longer)
	}
	for start := range m.byStart {
		if start[0] == b[0] {
			return true
		}
	}
	return false
}

// writer replaces masked values, even across writes: it holds back what may begin one. Close writes
// what is held back, and does not close w.
func (m *masks) writer(w io.Writer) io.WriteCloser { return &maskWriter{m: m, to: w} }

type maskWriter struct {
	m      *masks
	to     io.Writer
	held   []byte // not decided yet
	inside int    // how many bytes of held belong to a masked value
}

func (w *maskWriter) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	if err := w.forward(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *maskWriter) Close() error { return w.forward(true) }

// forward writes all bytes up to the first that may begin a pattern; at the end, all of them.
func (w *maskWriter) forward(end bool) error {
	var out []byte
	i := 0
	for ; i < len(w.held) && (end || !w.m.beginsPattern(w.held[i:])); i++ {
		if n := w.m.longestAt(w.held[i:]); n > w.inside {
			if w.inside == 0 {
				out = append(out, masked...)
			}
			w.inside = n
		}
		if w.inside > 0 {
			w.inside--
			continue
		}
		out = append(out, w.held[i])
	}
	w.held = append(w.held[:0], w.held[i:]...)
	if len(out) == 0 {
		return nil
	}
	_, err := w.to.Write(out)
	return err
}
