// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// Tab is a part of a page that has its own address.
type Tab struct {
	Link
	Count int // -1: no count
	Here  bool
}

// Mark is a short word about a thing, with its kind.
type Mark struct{ Text, Kind string } // good, bad, plain

// Fact is one line about a thing.
type Fact struct {
	Name, Text, Href string
	Here             string    // like Href, below Up
	When             Timestamp // shown to the minute, with how long ago it was
	Digest           string
}

// Choice is an option of a form.
type Choice struct {
	Value, Text string
	Chosen      bool
}

// Choose marks the choice with the value.
func Choose(all []Choice, value string) []Choice {
	for i := range all {
		all[i].Chosen = all[i].Value == value
	}
	return all
}

// Example is a text to copy.
type Example struct {
	Title, Note, Text string
}

// MaxShown bounds a default or a type on a page, in bytes.
const MaxShown = 64 << 10

// Indented returns indented JSON; an absent value is null.
func Indented(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	if len(raw) < 60 {
		return string(raw)
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return text.Clip(string(raw), MaxShown)
	}
	return text.Clip(b.String(), MaxShown)
}

// Sentence capitalizes the first letter of a text.
func Sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// EscapePath escapes each segment of a path.
func EscapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// Clip shortens a text to fit a table cell.
func Clip(s string) string { return text.Clip(s, 200) }
