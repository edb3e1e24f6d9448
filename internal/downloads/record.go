// SPDX-License-Identifier: Apache-2.0

package downloads

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ArtifactCounts is a process's counts of a day: one layer of JSON, mediaCounts.
const (
	ArtifactCounts = "application/vnd.okara.counts.v1"
	mediaCounts    = "application/vnd.okara.counts.v1+json"
)

// maxCounts bounds the entries under one tag. A process with more adds them up.
const maxCounts = 10_000

// maxCountBytes is maxCounts times more than the longest address, in bytes.
const maxCountBytes = 8 << 20

// Counted identifies what was downloaded.
type Counted struct {
	Kind    string `json:"kind"` // KindModule, KindProvider or KindMirror
	Address string `json:"address"`
	Version string `json:"version,omitempty"` // empty: all versions that are not counted separately
	Tool    string `json:"tool,omitempty"`    // downloading tool according to its User-Agent; empty: not recorded
}

var countTagRE = text.Pattern(`^count-([0-9]{8})-([0-9a-f]{16})$`)

// CountTag returns the tag of a process, 16 hex digits, for its counts of a day (UTC).
func CountTag(day time.Time, id string) string {
	return "count-" + day.UTC().Format("20060102") + "-" + id
}

// ParseCountTag is the inverse of [CountTag]. It returns false for other tags.
func ParseCountTag(tag string) (day time.Time, id string, ok bool) {
	m := countTagRE().FindStringSubmatch(tag)
	if m == nil {
		return day, "", false
	}
	day, err := time.Parse("20060102", m[1])
	return day, m[2], err == nil
}

type countDoc struct {
	Counted
	Count int64 `json:"count"`
}

// PutCounts replaces the counts under a tag, which has only one writer.
func PutCounts(ctx context.Context, r *oci.Repo, tag string, counts map[Counted]int64) error {
	docs := make([]countDoc, 0, len(counts))
	for c, n := range counts {
		docs = append(docs, countDoc{c, n})
	}
	slices.SortFunc(docs, func(a, b countDoc) int {
		return strings.Compare(a.Kind+" "+a.Address+" "+a.Version+" "+a.Tool, b.Kind+" "+b.Address+" "+b.Version+" "+b.Tool)
	})
	b, err := json.Marshal(docs)
	if err != nil {
		return fmt.Errorf("encode counts: %w", err)
	}
	blob := oci.BytesBlob(mediaCounts, b)
	return artifact.PutDocument(ctx, r, tag, ArtifactCounts, blob, map[string]string{artifact.AnnKind: "counts"})
}

// ReadCounts reads the counts under a tag.
func ReadCounts(ctx context.Context, r *oci.Repo, tag string) (map[Counted]int64, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, err
	}
	layer, err := artifact.DocumentLayer(m, ArtifactCounts)
	if err != nil {
		return nil, fmt.Errorf("%s:%s has no counts: %w", r, tag, err)
	}
	b, err := r.ReadBlob(ctx, layer, maxCountBytes)
	if err != nil {
		return nil, err
	}
	var docs []countDoc
	if err := json.Unmarshal(b, &docs); err != nil {
		return nil, fmt.Errorf("counts of %s:%s: %w: %w", r, tag, oci.ErrCorrupt, err)
	}
	if len(docs) > maxCounts {
		return nil, fmt.Errorf("counts of %s:%s: %d entries: %w", r, tag, len(docs), oci.ErrTooLarge)
	}
	counts := make(map[Counted]int64, len(docs))
	for _, d := range docs {
		if d.Count > 0 {
			counts[d.Counted] = d.Count
		}
	}
	return counts, nil
}
