// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Tags of a state repository that are not specific to a workspace.
const (
	TagVerdict = "okara-doctor"  // the findings of okara admin doctor about the registry
	TagReplica = "okara-replica" // the repository is a read-only copy
)

// ProbeFragment is no workspace's. With it okara admin doctor tries whether tags of states move.
const ProbeFragment = "ws-okara-doctor"

// Types and annotations of these marks, which are one JSON document in one annotation.
const (
	artifactVerdict = "application/vnd.okara.verdict.v1"
	artifactReplica = "application/vnd.okara.replica.v1"
	annMark         = "vnd.okara.mark"
)

// Verdict is the result of checking a registry.
type Verdict struct {
	Locking   string    `json:"locking"` // "exact", "settle" or "refused"
	Reason    string    `json:"reason"`
	Host      string    `json:"host"`
	Checked   time.Time `json:"checked"`
	Tool      string    `json:"tool"`
	Rounds    int       `json:"litmus_rounds"`
	Conflicts int       `json:"litmus_conflicts"` // rounds in which neither side saw the other
	Stale     int       `json:"litmus_stale"`     // lists that lacked their own writer's push

	DeleteTag       bool `json:"delete_tag"`
	DeleteDigest    bool `json:"delete_digest"`
	DigestDropsTags bool `json:"delete_digest_drops_tags"`
	ReferrersAPI    bool `json:"referrers_api"`
	CreateOnly      bool `json:"create_only_honoured"` // observed once; never relied on

	Pointer Pointer `json:"pointer,omitempty"`
}

// Pointer says whether an existing tag can be pushed again, as the current state's, state-W, must.
type Pointer string

// The zero Pointer means that the verdict does not say.
const (
	PointerMoves Pointer = "moves"
	PointerStuck Pointer = "stuck" // the tag keeps naming the first version
)

// Examined reports whether the verdict comes from tests of the registry.
func (v Verdict) Examined() bool { return v.Rounds > 0 || v.DeleteTag || v.DeleteDigest }

const laterVerdictPrefix = TagVerdict + "-"

// LaterVerdictTag returns the tag of a verdict where [TagVerdict] does not move.
func LaterVerdictTag(t time.Time) string { return fmt.Sprintf("%s%012d", laterVerdictPrefix, t.Unix()) }

// IsVerdictTag reports whether tag holds a verdict.
func IsVerdictTag(tag string) bool {
	number, later := strings.CutPrefix(tag, laterVerdictPrefix)
	return tag == TagVerdict || later && len(number) == 12 && strings.Trim(number, "0123456789") == ""
}

// NewestVerdict returns the tag of the last verdict in a tag list, "" without one.
func NewestVerdict(tags []string) string {
	newest := ""
	for _, tag := range tags {
		if IsVerdictTag(tag) {
			newest = max(newest, tag) // tags with a number sort after the one without
		}
	}
	return newest
}

// NewVerdict encodes the manifest of a verdict.
func NewVerdict(v Verdict) (oci.Manifest, error) { return NewMark(artifactVerdict, v) }

// ParseVerdict reads the manifest of a verdict.
func ParseVerdict(m oci.Manifest) (Verdict, error) {
	var v Verdict
	return v, ParseMark(m, artifactVerdict, &v)
}

// ReplicaMark names the source of a copy.
type ReplicaMark struct {
	Source   string    `json:"source"` // HOST/NAME
	Updated  time.Time `json:"updated"`
	Promoted bool      `json:"promoted,omitempty"` // the copy was taken over and is now a primary

	// Kept lists each workspace's versions that are older than the mark, and not in the source.
	Kept map[string][]int64 `json:"kept,omitempty"`
}

// NewReplicaMark encodes the manifest of TagReplica.
func NewReplicaMark(r ReplicaMark) (oci.Manifest, error) { return NewMark(artifactReplica, r) }

// ParseReplicaMark reads the manifest of TagReplica.
func ParseReplicaMark(m oci.Manifest) (ReplicaMark, error) {
	var r ReplicaMark
	return r, ParseMark(m, artifactReplica, &r)
}

// NewMark encodes a mark: one JSON document in one annotation.
func NewMark(artifactType string, v any) (oci.Manifest, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return oci.Manifest{}, fmt.Errorf("encode mark: %w", err)
	}
	return artifact.NewBare(artifactType, map[string]string{annMark: string(b)})
}

// ParseMark reads a mark of that type; any other manifest is [oci.ErrCorrupt].
func ParseMark(m oci.Manifest, artifactType string, v any) error {
	img, err := m.Image()
	if err != nil {
		return err
	}
	if img.ArtifactType != artifactType {
		return fmt.Errorf("manifest %s has artifact type %q instead of %q: %w", m.Digest, img.ArtifactType, artifactType, oci.ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(img.Annotations[annMark]), v); err != nil {
		return fmt.Errorf("manifest %s: annotation %s: %v: %w", m.Digest, annMark, err, oci.ErrCorrupt)
	}
	return nil
}
