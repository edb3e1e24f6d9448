// SPDX-License-Identifier: Apache-2.0

package format

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// artifactWorkspace is the type of a workspace record. Each change writes a new one, once.
const artifactWorkspace = "application/vnd.okara.workspace.v1"

// StateSplit as [WorkspaceRecord].State says that the state is in a separate repository; not which.
const StateSplit = "split"

// Values of [WorkspaceRecord].Mode. The empty one is local.
const (
	modeLocal  = "local"
	modeRemote = "remote"
)

const (
	annWorkspaceSeq         = "vnd.okara.workspace.seq"
	annWorkspaceNonce       = "vnd.okara.workspace.nonce"
	annWorkspaceProject     = "vnd.okara.workspace.project"
	annWorkspaceTags        = "vnd.okara.workspace.tags"
	annWorkspaceDescription = "vnd.okara.workspace.description"
	annWorkspaceMode        = "vnd.okara.workspace.mode"
	annWorkspaceTool        = "vnd.okara.workspace.tool"
	annWorkspaceSettings    = "vnd.okara.workspace.settings"
	annWorkspaceState       = "vnd.okara.workspace.state"
	annWorkspaceCreated     = "vnd.okara.workspace.created"
	annWorkspaceBy          = "vnd.okara.workspace.by"
	annWorkspaceOwner       = "vnd.okara.workspace.owner"
	annWorkspaceDeleted     = "vnd.okara.workspace.deleted"
)

// Bounds of a record. Characters are Unicode code points.
const (
	maxWorkspaceName        = 255      // bytes
	maxWorkspaceTags        = 64       // also of settings
	maxWorkspaceTagKey      = 128      // characters
	maxWorkspaceTagValue    = 256      // characters
	maxWorkspaceDescription = 1 << 10  // bytes
	maxWorkspaceText        = 128      // characters of project and tool
	maxWorkspaceSubject     = 512      // characters of by and owner
	maxWorkspaceRecord      = 16 << 10 // bytes of the manifest
	// maxWorkspaceSeq is the highest number that a tag has room for.
	maxWorkspaceSeq = 999_999
)

const (
	workspaceTagPrefix = "workspace-"
	workspaceSeqLen    = 6
	workspaceHexLen    = 8
	workspaceNonceLen  = 16
)

var workspaceNoncePattern = text.Pattern(`^[0-9a-f]{16}$`)

// WorkspaceTag is a parsed tag of a workspace record.
type WorkspaceTag struct {
	Fragment string // tag-safe workspace, see [StateFragment]
	Seq      int    // from 1 on; the highest counts, of several the one with the larger Hex
	Hex      string // the first 8 hex digits of the record's digest
}

// String returns the tag: workspace-W-<seq, 6 digits>-<hex>.
func (t WorkspaceTag) String() string {
	return fmt.Sprintf("%s%s-%0*d-%s", workspaceTagPrefix, t.Fragment, workspaceSeqLen, t.Seq, t.Hex)
}

// ParseWorkspaceTag is the reverse of String; false for other tags.
func ParseWorkspaceTag(tag string) (WorkspaceTag, bool) {
	rest, ok := strings.CutPrefix(tag, workspaceTagPrefix)
	hexAt := len(rest) - workspaceHexLen
	seqAt := hexAt - 1 - workspaceSeqLen
	if !ok || seqAt < 2 || rest[hexAt-1] != '-' || rest[seqAt-1] != '-' {
		return WorkspaceTag{}, false
	}
	t := WorkspaceTag{Fragment: rest[:seqAt-1], Hex: rest[hexAt:]}
	if !isDigits(rest[seqAt:hexAt-1]) || strings.Trim(t.Hex, "0123456789abcdef") != "" || !fragmentPattern().MatchString(t.Fragment) {
		return WorkspaceTag{}, false
	}
	t.Seq, _ = strconv.Atoi(rest[seqAt : hexAt-1]) // six digits
	return t, t.Seq > 0
}

// WorkspaceRecord is the metadata of a workspace beside its state.
type WorkspaceRecord struct {
	Tag         string // set by ParseWorkspaceRecord
	Workspace   string
	Seq         int    // the number in its tag
	Nonce       string // 16 hex digits, so that no two records share a digest
	Project     string
	Tags        map[string]string // value "" for a tag without a value
	Description string
	Mode        string            // "", modeLocal or modeRemote
	Tool        string            // required version of the tool; "": any
	Settings    map[string]string // non-default settings, by their names in tfe.v2
	State       string            // "" or StateSplit
	By          string            // the author of this record
	Owner       string            // the only subject whose runs may use the state; "": no restriction
	Deleted     bool              // the workspace was deleted, at Updated
	Created     time.Time
	Updated     time.Time // when this record was written
}

// Check returns the reason why r cannot be stored; nil if it can.
func (r WorkspaceRecord) Check() error {
	switch {
	case r.Workspace == "" || len(r.Workspace) > maxWorkspaceName || !utf8.ValidString(r.Workspace) || strings.ContainsFunc(r.Workspace, unicode.IsControl):
		return fmt.Errorf("workspace name %q: must be 1 to %d bytes without control characters", text.Excerpt(r.Workspace), maxWorkspaceName)
	case r.Mode != "" && r.Mode != modeLocal && r.Mode != modeRemote:
		return fmt.Errorf("mode %q is neither %s nor %s", text.Excerpt(r.Mode), modeLocal, modeRemote)
	case r.State != "" && r.State != StateSplit:
		return fmt.Errorf("state %q is not %s", text.Excerpt(r.State), StateSplit)
	case len(r.Description) > maxWorkspaceDescription:
		return fmt.Errorf("description of %d bytes, the limit is %d", len(r.Description), maxWorkspaceDescription)
	case len(r.Tags) > maxWorkspaceTags, len(r.Settings) > maxWorkspaceTags:
		return fmt.Errorf("%d tags and %d settings, the limit is %d", len(r.Tags), len(r.Settings), maxWorkspaceTags)
	}
	for _, t := range [...]struct {
		name, value string
		limit       int
	}{
		{"project", r.Project, maxWorkspaceText}, {"tool", r.Tool, maxWorkspaceText}, {"description", r.Description, maxWorkspaceDescription},
		{"by", r.By, maxWorkspaceSubject}, {"owner", r.Owner, maxWorkspaceSubject},
	} {
		if err := checkText(t.name, t.value, t.limit); err != nil {
			return err
		}
	}
	if err := checkPairs("tag", r.Tags); err != nil {
		return err
	}
	return checkPairs("setting", r.Settings)
}

func checkPairs(kind string, pairs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if key == "" {
			return fmt.Errorf("%s without a key", kind)
		}
		if err := errors.Join(checkText(kind, key, maxWorkspaceTagKey), checkText("value of "+kind+" "+text.Excerpt(key), pairs[key], maxWorkspaceTagValue)); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses text that is too long, or not safe to display unchanged.
func checkText(name, s string, limit int) error {
	if n := utf8.RuneCountInString(s); n > limit {
		return fmt.Errorf("%s of %d characters, the limit is %d", name, n, limit)
	}
	if !utf8.ValidString(s) || text.Line(s) != s {
		return fmt.Errorf("%s contains non-printable characters", name)
	}
	return nil
}

// NewWorkspaceRecord encodes r under a new nonce, and returns its tag.
func NewWorkspaceRecord(r WorkspaceRecord) (WorkspaceTag, oci.Manifest, error) {
	if err := r.Check(); err != nil {
		return WorkspaceTag{}, oci.Manifest{}, err
	}
	if r.Seq < 1 || r.Seq > maxWorkspaceSeq {
		return WorkspaceTag{}, oci.Manifest{}, fmt.Errorf("record number %d exceeds %d", r.Seq, maxWorkspaceSeq)
	}
	if r.Created.IsZero() || r.Updated.IsZero() {
		return WorkspaceTag{}, oci.Manifest{}, errors.New("record without timestamps")
	}
	nonce := make([]byte, workspaceNonceLen/2)
	rand.Read(nonce) // never fails
	ann := map[string]string{
		AnnStateWorkspace:       r.Workspace,
		annWorkspaceSeq:         strconv.Itoa(r.Seq),
		annWorkspaceNonce:       hex.EncodeToString(nonce),
		annWorkspaceProject:     r.Project,
		annWorkspaceDescription: r.Description,
		annWorkspaceMode:        r.Mode,
		annWorkspaceTool:        r.Tool,
		annWorkspaceState:       r.State,
		annWorkspaceCreated:     workspaceTime(r.Created),
		annWorkspaceBy:          r.By,
		annWorkspaceOwner:       r.Owner,
		artifact.AnnCreated:     workspaceTime(r.Updated),
	}
	for name, pairs := range map[string]map[string]string{annWorkspaceTags: r.Tags, annWorkspaceSettings: r.Settings} {
		if len(pairs) == 0 {
			continue
		}
		b, err := json.Marshal(pairs)
		if err != nil {
			return WorkspaceTag{}, oci.Manifest{}, fmt.Errorf("encoding a record: %w", err)
		}
		ann[name] = string(b)
	}
	if r.Deleted {
		ann[annWorkspaceDeleted] = "true"
	}
	maps.DeleteFunc(ann, isEmpty)
	m, err := artifact.NewBare(artifactWorkspace, ann)
	if err != nil {
		return WorkspaceTag{}, m, err
	}
	if len(m.Bytes) > maxWorkspaceRecord {
		return WorkspaceTag{}, m, fmt.Errorf("record of %d bytes, the limit is %d", len(m.Bytes), maxWorkspaceRecord)
	}
	return WorkspaceTag{Fragment: StateFragment(r.Workspace), Seq: r.Seq, Hex: m.Digest.Encoded()[:workspaceHexLen]}, m, nil
}

func workspaceTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseWorkspaceRecord reads the record under tag. One that does not match its tag, or is encoded
// in another way, is [oci.ErrCorrupt]: it could hide a record. Unknown annotations are ignored.
func ParseWorkspaceRecord(tag string, m oci.Manifest) (WorkspaceRecord, error) {
	r, err := parseWorkspace(tag, m)
	if err != nil {
		return WorkspaceRecord{}, fmt.Errorf("workspace record %s: %w: %w", text.Excerpt(tag), oci.ErrCorrupt, err)
	}
	return r, nil
}

func parseWorkspace(tag string, m oci.Manifest) (WorkspaceRecord, error) {
	t, ok := ParseWorkspaceTag(tag)
	switch {
	case !ok:
		return WorkspaceRecord{}, errors.New("no tag of a record")
	case len(m.Bytes) > maxWorkspaceRecord:
		return WorkspaceRecord{}, fmt.Errorf("%d bytes, the limit is %d", len(m.Bytes), maxWorkspaceRecord)
	case m.Digest.Validate() != nil || m.Digest.Algorithm() != digest.SHA256 || m.Digest.Encoded()[:workspaceHexLen] != t.Hex:
		return WorkspaceRecord{}, fmt.Errorf("its digest is %s", m.Digest)
	}
	img, err := m.Image()
	if err != nil {
		return WorkspaceRecord{}, err
	}
	if img.ArtifactType != artifactWorkspace || len(img.Layers) != 1 || img.Layers[0].MediaType != ocispec.MediaTypeEmptyJSON {
		return WorkspaceRecord{}, fmt.Errorf("artifact type %q, %d layers", text.Excerpt(img.ArtifactType), len(img.Layers))
	}
	ann := img.Annotations
	r := WorkspaceRecord{
		Tag: tag, Workspace: ann[AnnStateWorkspace], Seq: t.Seq, Nonce: ann[annWorkspaceNonce], Project: ann[annWorkspaceProject],
		Description: ann[annWorkspaceDescription], Mode: ann[annWorkspaceMode], Tool: ann[annWorkspaceTool], State: ann[annWorkspaceState],
		By: ann[annWorkspaceBy], Owner: ann[annWorkspaceOwner], Deleted: ann[annWorkspaceDeleted] == "true",
	}
	switch deleted := ann[annWorkspaceDeleted]; {
	case ann[annWorkspaceSeq] != strconv.Itoa(t.Seq):
		return r, fmt.Errorf("its number is %q", text.Excerpt(ann[annWorkspaceSeq]))
	case StateFragment(r.Workspace) != t.Fragment:
		return r, fmt.Errorf("it belongs to workspace %q", text.Excerpt(r.Workspace))
	case !workspaceNoncePattern().MatchString(r.Nonce):
		return r, errors.New("bad nonce")
	case deleted != "" && deleted != "true":
		return r, fmt.Errorf("deleted is %q", text.Excerpt(deleted))
	}
	if r.Tags, err = parsePairs("tags", ann[annWorkspaceTags]); err != nil {
		return r, err
	}
	if r.Settings, err = parsePairs("settings", ann[annWorkspaceSettings]); err != nil {
		return r, err
	}
	if r.Created, err = parseWorkspaceTime(ann[annWorkspaceCreated]); err != nil {
		return r, err
	}
	if r.Updated, err = parseWorkspaceTime(ann[artifact.AnnCreated]); err != nil {
		return r, err
	}
	return r, r.Check()
}

// parsePairs reads tags or settings, only in the form that is written: sorted, keys unique.
func parsePairs(kind, s string) (map[string]string, error) {
	if s == "" {
		return nil, nil
	}
	var pairs map[string]string
	if err := json.Unmarshal([]byte(s), &pairs); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if b, err := json.Marshal(pairs); err != nil || string(b) != s || len(pairs) == 0 {
		return nil, fmt.Errorf("%s are not in canonical form", kind)
	}
	return pairs, nil
}

func parseWorkspaceTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || workspaceTime(t) != s {
		return time.Time{}, fmt.Errorf("time %q", text.Excerpt(s))
	}
	return t, nil
}
