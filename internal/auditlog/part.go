// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

const (
	format = 1
	// maxHeader bounds the first line of a part, maxLine each other line, in bytes.
	maxHeader = 64 << 10
	maxLine   = 32 << 10
	// maxLines and maxLineBytes bound a part.
	maxLines     = 8192
	maxLineBytes = MaxAuditPart - maxHeader
	// maxOthers bounds the processes in a header: 400 fit.
	maxOthers = 400
)

// header is the first line of a part.
type header struct {
	Format int     `json:"format"`
	Tag    string  `json:"tag"`
	First  int64   `json:"first"`            // number of the first record
	Before *before `json:"before,omitempty"` // nil: this is the first part of its process
	Others []mark  `json:"others,omitempty"`
}

// before names the previous part and the digest of its content.
type before struct {
	Tag    string        `json:"tag"`
	Digest digest.Digest `json:"digest"` // of its lines, unencrypted
}

// mark is the newest known record of a process.
type mark struct {
	Tag string `json:"tag"` // of the part that has it
	N   int64  `json:"n"`
}

// part is the content of a tag.
type part struct {
	header
	last    int64         // number of the last record
	digest  digest.Digest // of the lines, unencrypted
	entries []*Entry      // oldest first
}

func encodeHeader(h header) ([]byte, error) {
	h.Format = format
	b, err := json.Marshal(h)
	if err == nil && len(b) >= maxHeader {
		err = fmt.Errorf("the first line of %s has %d bytes", h.Tag, len(b))
	}
	return append(b, '\n'), err
}

// encodeEntry returns a line. The process is not in it, since it is in the tag.
func encodeEntry(n int64, r Record) ([]byte, error) {
	b, err := json.Marshal(Entry{N: n, Record: r})
	if err == nil && len(b) >= maxLine {
		err = fmt.Errorf("a record of %d bytes", len(b))
	}
	return append(b, '\n'), err
}

// parsePart parses the lines under a tag. Anyone who can write to the registry may have
// written them: everything is bounded, and any error refuses the whole part.
func parsePart(tag AuditTag, text []byte) (*part, error) {
	if len(text) > MaxAuditPart {
		return nil, fmt.Errorf("it has %d bytes", len(text))
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return nil, errors.New("its last line is cut off")
	}
	p := &part{digest: digest.FromBytes(text)}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(first) >= maxHeader {
		return nil, fmt.Errorf("its first line has %d bytes", len(first))
	}
	if err := json.Unmarshal(first, &p.header); err != nil {
		return nil, fmt.Errorf("its first line: %w", err)
	}
	if err := p.header.check(tag); err != nil {
		return nil, err
	}
	p.last = p.First - 1
	for line := range bytes.Lines(rest) {
		if len(line) > maxLine || len(p.entries) == maxLines {
			return nil, fmt.Errorf("it has a line of %d bytes as its %dth", len(line), len(p.entries)+1)
		}
		e := &Entry{}
		if err := json.Unmarshal(line, e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(p.entries)+2, err)
		}
		if p.last++; e.N != p.last {
			return nil, fmt.Errorf("number %d is where %d belongs", e.N, p.last)
		}
		e.Process = tag.ID
		p.entries = append(p.entries, e)
	}
	return p, nil
}

// check validates a first line.
func (h header) check(tag AuditTag) error {
	switch {
	case h.Format != format:
		return fmt.Errorf("its format is %d, and this okara knows %d", h.Format, format)
	case h.Tag != tag.String():
		return fmt.Errorf("it says that it is %.60q", h.Tag)
	case h.First < 1 || h.First > 1<<53:
		return fmt.Errorf("its first number is %d", h.First)
	case len(h.Others) > maxOthers:
		return fmt.Errorf("it knows of %d other processes", len(h.Others))
	}
	if h.Before != nil {
		t, ok := ParseAuditTag(h.Before.Tag)
		if !ok || t.ID != tag.ID || t.Compare(tag) >= 0 || h.Before.Digest.Validate() != nil {
			return fmt.Errorf("the part before it cannot be %.60q", h.Before.Tag)
		}
	} else if h.First != 1 {
		return fmt.Errorf("it is the first one, and begins with number %d", h.First)
	}
	for _, m := range h.Others {
		if _, ok := ParseAuditTag(m.Tag); !ok || m.N < 0 {
			return fmt.Errorf("it knows of %.60q", m.Tag)
		}
	}
	return nil
}
