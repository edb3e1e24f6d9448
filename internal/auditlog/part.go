// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	format = 1
	// maxHeader bounds the first line of a part, maxLine each other line, in bytes.
	maxHeader = 64 << 10
	maxLine   = 32 << 10
	// maxLines and maxLineBytes bound a part.
	maxLines     = 8192
	maxLineBytes = MaxAuditPart - maxHeader
)

// header is the first line of a part. Earlier versions of okara wrote more fields.
type header struct {
	Format int    `json:"format"`
	Tag    string `json:"tag"`
	First  int64  `json:"first"` // number of the first record
}

func encodeHeader(tag AuditTag, first int64) []byte {
	b, _ := json.Marshal(header{Format: format, Tag: tag.String(), First: first}) // cannot fail
	return append(b, '\n')
}

// encodeEntry returns a line. The process is not in it, since it is in the tag.
func encodeEntry(n int64, r Record) ([]byte, error) {
	b, err := json.Marshal(Entry{N: n, Record: r})
	if err == nil && len(b) >= maxLine {
		err = fmt.Errorf("record too large: %d bytes", len(b))
	}
	return append(b, '\n'), err
}

// parsePart parses the lines under a tag, oldest first. Anyone may have written them: all is
// bounded, and any error refuses the part.
func parsePart(tag AuditTag, text []byte) (entries []*Entry, err error) {
	if len(text) > MaxAuditPart {
		return nil, fmt.Errorf("too large: %d bytes", len(text))
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return nil, errors.New("the last line is truncated")
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(first) >= maxHeader {
		return nil, fmt.Errorf("first line too long: %d bytes", len(first))
	}
	var h header
	switch err := json.Unmarshal(first, &h); {
	case err != nil:
		return nil, fmt.Errorf("first line: %w", err)
	case h.Format != format:
		return nil, fmt.Errorf("format %d is not supported, expected %d", h.Format, format)
	case h.Tag != tag.String():
		return nil, fmt.Errorf("header is for %.60q", h.Tag)
	}
	for line := range bytes.Lines(rest) {
		if len(line) > maxLine || len(entries) == maxLines {
			return nil, fmt.Errorf("invalid line of %d bytes, line %d", len(line), len(entries)+1)
		}
		e := &Entry{}
		if err := json.Unmarshal(line, e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(entries)+2, err)
		}
		e.Process = tag.ID
		entries = append(entries, e)
	}
	return entries, nil
}
