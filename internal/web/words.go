// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// tab is a part of a page with an address of its own.
type tab struct {
	link
	Count int // -1: nothing to count
	Here  bool
}

// mark is a word about a thing, and how good that is.
type mark struct{ Text, Kind string } // good, bad, plain

// fact is one line about a thing.
type fact struct {
	Name, Text, Href string
	Here             string // like Href, below Up
	When             moment // shown to the minute, with how long ago it was
	Digest           string
}

// choice is an option of a form.
type choice struct {
	Value, Text string
	Chosen      bool
}

// choose marks the choice of a value.
func choose(all []choice, value string) []choice {
	for i := range all {
		all[i].Chosen = all[i].Value == value
	}
	return all
}

// snippet is a text to copy.
type snippet struct {
	Title, Note, Text string
}

// maxShown is how much of a default or type a page shows, in bytes.
const maxShown = 64 << 10

// indented is JSON as people read it; what is absent is null.
func indented(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	if len(raw) < 60 {
		return string(raw)
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return text.Clip(string(raw), maxShown)
	}
	return text.Clip(b.String(), maxShown)
}

// sentence begins a text with a capital letter.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// escapePath escapes each segment of a path.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// shellWord is a text as one word of a POSIX shell; false: it has what no line to
// copy should have.
func shellWord(s string) (string, bool) {
	if text.Block(s) != s || strings.ContainsAny(s, "\n\t") {
		return "", false
	}
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:@,+") == "" {
		return s, true
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", true
}

// clip is a text that fits a cell.
func clip(s string) string { return text.Clip(s, 200) }
