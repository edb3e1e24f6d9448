// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// artifactAudit is a part: a process's changes of a day, as lines of JSON, sealed with state keys.
const (
	artifactAudit = "application/vnd.okara.audit.v1"
	mediaAudit    = "application/vnd.okara.audit.v1+jsonl"
)

const (
	// MaxAuditPart bounds the lines under one tag, in bytes.
	MaxAuditPart = 1 << 20
	// maxAuditParts bounds the parts of a process on one day.
	maxAuditParts = 9999
)

var auditTagRE = text.Pattern(`^audit-([0-9]{8})-([0-9a-f]{16})-([0-9]{4})$`)

// AuditTag names a part: number Part, from 1, of a process of 16 hex digits, on a day (UTC).
type AuditTag struct {
	Day  time.Time
	ID   string
	Part int
}

// String returns the tag.
func (t AuditTag) String() string {
	return fmt.Sprintf("audit-%s-%s-%04d", t.Day.UTC().Format("20060102"), t.ID, t.Part)
}

// Compare orders parts by day, process and number.
func (t AuditTag) Compare(o AuditTag) int {
	return cmp.Or(t.Day.Compare(o.Day), cmp.Compare(t.ID, o.ID), cmp.Compare(t.Part, o.Part))
}

// ParseAuditTag is the inverse of [AuditTag.String]. It returns false for other tags.
func ParseAuditTag(tag string) (AuditTag, bool) {
	m := auditTagRE().FindStringSubmatch(tag)
	if m == nil {
		return AuditTag{}, false
	}
	day, err := time.Parse("20060102", m[1])
	part, _ := strconv.Atoi(m[3]) // four digits
	return AuditTag{day, m[2], part}, err == nil && part > 0
}

// PutAudit replaces the lines under a tag, which has only one writer.
func PutAudit(ctx context.Context, r *oci.Repo, s artifact.Sealer, tag AuditTag, lines []byte) error {
	if len(lines) > MaxAuditPart {
		return fmt.Errorf("audit part %s: %d bytes: %w", tag, len(lines), oci.ErrTooLarge)
	}
	blob, err := artifact.Seal(ctx, r, s, tag.String(), mediaAudit, lines)
	if err != nil {
		return err
	}
	return artifact.PutDocument(ctx, r, tag.String(), artifactAudit, blob, map[string]string{artifact.AnnKind: "audit"})
}

// ReadAudit returns a tag's lines, unless known, and digest. With a sealer plain lines are refused.
func ReadAudit(ctx context.Context, r *oci.Repo, s artifact.Sealer, tag AuditTag, known digest.Digest) (lines []byte, at digest.Digest, err error) {
	m, err := r.Fetch(ctx, tag.String())
	if err != nil {
		return nil, "", err
	}
	at = m.Digest
	if at == known {
		return nil, at, nil
	}
	layer, err := artifact.DocumentLayer(m, artifactAudit)
	if err != nil {
		return nil, at, fmt.Errorf("%s:%s is not an audit part: %w", r, tag, err)
	}
	lines, err = artifact.Open(ctx, r, s, tag.String(), mediaAudit, layer, MaxAuditPart)
	if err == nil && len(lines) > MaxAuditPart {
		err = fmt.Errorf("%s:%s: %d bytes: %w", r, tag, len(lines), oci.ErrTooLarge)
	}
	return lines, at, err
}

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
