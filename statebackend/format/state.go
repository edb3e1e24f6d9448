// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of a stored state. MediaState has the suffixes +zstd, +gzip and +encrypted, as applied.
const (
	ArtifactState = "application/vnd.opentofu.state.v1"
	MediaState    = "application/vnd.opentofu.statefile.v1"
	// MediaUsage is the type of the document in StateManifest.Usage.
	MediaUsage = "application/vnd.okara.usage.v1+json"
)

// Annotations of a stored state.
const (
	AnnStateWorkspace = "org.opentofu.workspace"

	annStateVersion       = "vnd.okara.state.version"
	annStateParent        = "vnd.okara.state.parent"
	annStateParentVersion = "vnd.okara.state.parent-version"
	annStateFence         = "vnd.okara.state.fence"
	annStateLock          = "vnd.okara.state.lock"
	annStateLineage       = "vnd.okara.state.lineage"
	annStateSerial        = "vnd.okara.state.serial"
	annStateSHA256        = "vnd.okara.state.sha256"
	annStateTool          = "vnd.okara.state.tool"
	annStateWho           = "vnd.okara.state.who"
	annStateCaller        = "vnd.okara.state.caller"
	annStateOperation     = "vnd.okara.state.operation"
	annStateRun           = "vnd.okara.state.run"
	annStateUsage         = "vnd.okara.state.usage"
	AnnStateEmpty         = "vnd.okara.state.empty"
	annStateDeleted       = "vnd.okara.state.deleted"

	annOriginRepository = "vnd.okara.state.origin.repository"
	annOriginWorkspace  = "vnd.okara.state.origin.workspace"
	annOriginVersion    = "vnd.okara.state.origin.version"
	annOriginFence      = "vnd.okara.state.origin.fence"
	annOriginParent     = "vnd.okara.state.origin.parent"

	annEnvelopePrefix = "vnd.okara.state.envelope"
)

// OperationTakeover is the operation of a takeover's seal, with the content of the version before.
const OperationTakeover = "takeover"

// OperationRecord is the operation of a version that only repeats the state before it, with what that uses
// now. The next version takes its place.
const OperationRecord = "record"

// maxFragment keeps a forced tombstone's tag in the distribution specification's 128 characters.
const maxFragment = 80

var toolPattern = text.Pattern(`(OpenTofu|Terraform)/[0-9][0-9A-Za-z.+-]{0,60}`)

// FindTool returns the tool in a User-Agent header, as OpenTofu/1.12.6, or "".
func FindTool(agent string) string { return toolPattern().FindString(agent) }

// fragmentPattern is the distribution specification's tag grammar, behind "state-" or "locked-".
var fragmentPattern = text.Pattern(`^[A-Za-z0-9_.-]{1,80}$`)

// reservedPattern matches names whose tags look like another one's version, claim or tombstone.
var reservedPattern = text.Pattern(`^ws-|-v[0-9]+$|-[0-9]{12}-[0-9a-f]{16}(-f)?$`)

// StateFragment returns the tag-safe form of a workspace name: the name itself where that is
// unambiguous, else "ws-" and 32 hex digits of its SHA-256. Every manifest has the real name.
func StateFragment(workspace string) string {
	if len(workspace) <= maxFragment && fragmentPattern().MatchString(workspace) && !reservedPattern().MatchString(workspace) {
		return workspace
	}
	return "ws-" + shortHash(workspace, 32)
}

// OldStateFragment returns the shorter hash of older layouts, which is only read.
func OldStateFragment(workspace string) string { return "ws-" + shortHash(workspace, 16) }

func shortHash(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:n]
}

// StateTagKind is the kind of a tag in a state repository.
type StateTagKind uint8

// The kinds of tags. The zero value is not a tag of okara.
const (
	StatePointer   StateTagKind = iota + 1 // state-W: convenience copy of the newest version
	StateNumbered                          // state-W-v<N>: version N
	LockMarker                             // locked-W: for human readers and older tools
	UnlockMarker                           // unlocked-W: for human readers and older tools
	LockClaim                              // locked-W-<F>-<x>: one attempt to lock
	LockTombstone                          // unlocked-W-<F>-<x>: the end of a claim
	ForceTombstone                         // unlocked-W-<F>-<x>-f: the end of a claim, by another process or after an uncertain write
)

// StateTag is a parsed tag of a state repository.
type StateTag struct {
	Kind     StateTagKind
	Fragment string // tag-safe workspace
	N        int64  // version (StateNumbered) or fencing number (claims, tombstones)
	X        string // 16 hex digits of a claim
}

// ParseStateTag parses a tag; false if it is not a tag of a state repository.
func ParseStateTag(tag string) (StateTag, bool) {
	if rest, ok := strings.CutPrefix(tag, "state-"); ok {
		if w, n, ok := cutVersion(rest); ok {
			return StateTag{Kind: StateNumbered, Fragment: w, N: n}, true
		}
		return StateTag{Kind: StatePointer, Fragment: rest}, rest != ""
	}
	if rest, ok := strings.CutPrefix(tag, "locked-"); ok {
		if t, ok := cutClaim(rest); ok {
			t.Kind = LockClaim
			return t, true
		}
		return StateTag{Kind: LockMarker, Fragment: rest}, rest != ""
	}
	rest, ok := strings.CutPrefix(tag, "unlocked-")
	if !ok || rest == "" {
		return StateTag{}, false
	}
	if t, ok := cutClaim(rest); ok {
		t.Kind = LockTombstone
		return t, true
	}
	if claim, ok := strings.CutSuffix(rest, "-f"); ok {
		if t, ok := cutClaim(claim); ok {
			t.Kind = ForceTombstone
			return t, true
		}
	}
	return StateTag{Kind: UnlockMarker, Fragment: rest}, true
}

func cutVersion(s string) (w string, n int64, ok bool) {
	i := strings.LastIndex(s, "-v")
	if i < 1 || !isDigits(s[i+2:]) || s[i+2] == '0' {
		return "", 0, false
	}
	n, err := strconv.ParseInt(s[i+2:], 10, 64)
	return s[:i], n, err == nil
}

func cutClaim(s string) (StateTag, bool) {
	const numberLen, xLen = 12, 16
	x := len(s) - xLen
	f := x - 1 - numberLen
	divided := f >= 2 && s[x-1] == '-' && s[f-1] == '-'
	if !divided || !isDigits(s[f:x-1]) || strings.Trim(s[x:], "0123456789abcdef") != "" {
		return StateTag{}, false
	}
	n, err := strconv.ParseInt(s[f:x-1], 10, 64)
	return StateTag{Fragment: s[:f-1], N: n, X: s[x:]}, err == nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (t StateTag) String() string {
	switch t.Kind {
	case StatePointer:
		return "state-" + t.Fragment
	case StateNumbered:
		return fmt.Sprintf("state-%s-v%d", t.Fragment, t.N)
	case LockMarker:
		return "locked-" + t.Fragment
	case UnlockMarker:
		return "unlocked-" + t.Fragment
	case LockClaim:
		return fmt.Sprintf("locked-%s-%012d-%s", t.Fragment, t.N, t.X)
	case LockTombstone:
		return fmt.Sprintf("unlocked-%s-%012d-%s", t.Fragment, t.N, t.X)
	case ForceTombstone:
		return fmt.Sprintf("unlocked-%s-%012d-%s-f", t.Fragment, t.N, t.X)
	}
	return ""
}

// StateOrigin is the place that a state was written for. Sealed bytes are bound to it, also in
// replicas; for states in clear it is informational.
type StateOrigin struct {
	Repository, Workspace string // the repository without its host
	Version, Fence        int64
	Parent                string
}

// StateManifest is the content of the manifest of one stored version.
type StateManifest struct {
	Manifest  oci.Descriptor
	Workspace string
	N         int64 // 0: written by a tool without versions
	Parent    string
	ParentN   int64
	Fence     int64
	LockID    string
	Lineage   string
	Serial    uint64
	SHA256    string
	Tool      string
	Who       string // of the lock under which it was written
	Caller    string // of the server through which it was written; "": none, or unknown
	Operation string // of that lock; OperationTakeover for the seal of a takeover
	Run       string // page of the CI job or run that held the lock; "": unknown
	Usage     string // what the state was made of, see MediaUsage; "": not recorded
	Created   time.Time
	Empty     bool // no state yet, or the workspace was deleted
	Deleted   bool
	Origin    StateOrigin
	Envelope  map[string]string // annotations of the sealer
	Layer     oci.Descriptor
}

// Encoding returns the suffixes of the layer's media type: "", "+zstd", "+gzip+encrypted" etc.
func (s StateManifest) Encoding() string { return strings.TrimPrefix(s.Layer.MediaType, MediaState) }

// StateLayer describes stored state bytes; small ones are inlined.
func StateLayer(encoding string, stored []byte) oci.Blob {
	return artifact.Inlined(oci.BytesBlob(MediaState+encoding, stored), stored)
}

// NewStateManifest encodes s. An Empty one gets the empty layer, or the seal that proves that.
func NewStateManifest(s StateManifest) (oci.Manifest, error) {
	layer := s.Layer
	if s.Empty && len(s.Envelope) == 0 {
		layer = artifact.EmptyConfig()
	}
	ann := map[string]string{
		AnnStateWorkspace:         s.Workspace,
		annStateVersion:           strconv.FormatInt(s.N, 10),
		annStateFence:             strconv.FormatInt(s.Fence, 10),
		annOriginRepository:       s.Origin.Repository,
		annOriginWorkspace:        s.Origin.Workspace,
		annOriginVersion:          strconv.FormatInt(s.Origin.Version, 10),
		annOriginFence:            strconv.FormatInt(s.Origin.Fence, 10),
		annOriginParent:           s.Origin.Parent,
		annStateParent:            s.Parent,
		annStateLock:              s.LockID,
		annStateLineage:           s.Lineage,
		annStateSHA256:            s.SHA256,
		annStateTool:              s.Tool,
		annStateWho:               s.Who,
		annStateCaller:            s.Caller,
		annStateOperation:         s.Operation,
		annStateRun:               s.Run,
		annStateUsage:             s.Usage,
		ocispec.AnnotationCreated: s.Created.UTC().Format(time.RFC3339Nano),
	}
	if s.ParentN > 0 {
		ann[annStateParentVersion] = strconv.FormatInt(s.ParentN, 10)
	}
	if s.Lineage != "" {
		ann[annStateSerial] = strconv.FormatUint(s.Serial, 10)
	}
	for key, set := range map[string]bool{AnnStateEmpty: s.Empty, annStateDeleted: s.Deleted} {
		if set {
			ann[key] = "true"
		}
	}
	maps.Copy(ann, s.Envelope)
	maps.DeleteFunc(ann, isEmpty)
	return artifact.NewImage(ArtifactState, ann, layer)
}

// ParseState reads a stored state, also of tools without versions. Anything else is ErrCorrupt.
func ParseState(m oci.Manifest) (StateManifest, error) {
	img, err := m.Image()
	if err != nil {
		return StateManifest{}, err
	}
	if img.ArtifactType != ArtifactState || len(img.Layers) != 1 {
		return StateManifest{}, fmt.Errorf("manifest %s is not a state (artifact type %q, %d layers): %w", m.Digest, img.ArtifactType, len(img.Layers), oci.ErrCorrupt)
	}
	ann := img.Annotations
	n := annotationReader{ann: ann}
	s := StateManifest{
		Manifest:  m.Descriptor,
		Workspace: ann[AnnStateWorkspace],
		N:         n.readInt(annStateVersion),
		Parent:    ann[annStateParent],
		ParentN:   n.readInt(annStateParentVersion),
		Fence:     n.readInt(annStateFence),
		LockID:    ann[annStateLock],
		Lineage:   ann[annStateLineage],
		Serial:    uint64(n.readInt(annStateSerial)),
		SHA256:    ann[annStateSHA256],
		Tool:      ann[annStateTool],
		Who:       text.Line(ann[annStateWho]),
		Caller:    text.Line(ann[annStateCaller]),
		Operation: text.Line(ann[annStateOperation]),
		Run:       text.Line(ann[annStateRun]),
		Usage:     ann[annStateUsage],
		Created:   n.readTime(ocispec.AnnotationCreated),
		Empty:     ann[AnnStateEmpty] == "true",
		Deleted:   ann[annStateDeleted] == "true",
		Origin: StateOrigin{
			Repository: ann[annOriginRepository],
			Workspace:  ann[annOriginWorkspace],
			Version:    n.readInt(annOriginVersion),
			Fence:      n.readInt(annOriginFence),
			Parent:     ann[annOriginParent],
		},
		Envelope: map[string]string{},
		Layer:    img.Layers[0],
	}
	for k, v := range ann {
		if strings.HasPrefix(k, annEnvelopePrefix) {
			s.Envelope[k] = v
		}
	}
	if n.err != nil {
		return StateManifest{}, fmt.Errorf("manifest %s: %w", m.Digest, n.err)
	}
	if !s.Empty && !strings.HasPrefix(s.Layer.MediaType, MediaState) {
		return StateManifest{}, fmt.Errorf("manifest %s: layer of type %q is not a state: %w", m.Digest, s.Layer.MediaType, oci.ErrCorrupt)
	}
	return s, nil
}

// isEmpty reports whether an annotation is left out.
func isEmpty(_, value string) bool { return value == "" }

// annotationReader converts annotations and keeps the first error.
type annotationReader struct {
	ann map[string]string
	err error
}

func (r *annotationReader) readInt(key string) int64 {
	v, ok := r.ann[key]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if (err != nil || n < 0) && r.err == nil {
		r.err = fmt.Errorf("annotation %s = %q is not a number: %w", key, v, oci.ErrCorrupt)
	}
	return n
}

func (r *annotationReader) readTime(key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.ann[key])
	if err != nil {
		return time.Time{} // informative only
	}
	return t
}
