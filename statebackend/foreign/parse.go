// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Types and annotations of states that the OCI backend proposed for OpenTofu (pull request 3600),
// its fork ghoten, and terraform-provider-oras store. They are only read.
const (
	foreignArtifactState = "application/vnd.terraform.state.v1"
	foreignMediaState    = "application/vnd.terraform.statefile.v1"
	annForeignWorkspace  = "org.terraform.workspace"
	annForeignUpdated    = "org.terraform.state.updated_at"
)

// State is a state found in a repository, written by okara or by one of the tools above.
type State struct {
	Tag       string
	Manifest  oci.Manifest
	Ours      bool // written in okara's layout
	Workspace string
	N         int64 // version; 0: the current state under its pointer tag
	Created   time.Time
	Layer     oci.Descriptor
	Encoding  string // suffix of the layer's media type: "" or "+gzip"; okara's layout has more
}

var foreignTag = text.Pattern(`^(state|stver)-(.+?)(?:-v([0-9]{1,15}))?$`)

// IsStateTag reports whether a tag may be that of a stored state.
func IsStateTag(tag string) bool { return foreignTag().MatchString(tag) }

// ParseState reads a state from its tag and manifest; false if it is none, or a version that says
// "no state". Whether a tag is version 2 of workspace "prod" or the current state of workspace
// "prod-v2", only the workspace that the manifest names tells.
func ParseState(tag string, m oci.Manifest) (State, bool, error) {
	img, err := m.Image()
	if err != nil {
		return State{}, false, err
	}
	kind := img.ArtifactType
	if kind == "" {
		kind = img.Config.MediaType // the form that tools wrote before artifactType existed
	}
	s := State{Tag: tag, Manifest: m, Ours: kind == format.ArtifactState}
	if kind != format.ArtifactState && kind != foreignArtifactState || len(img.Layers) != 1 || img.Annotations[format.AnnStateEmpty] == "true" {
		return State{}, false, nil
	}
	s.Layer = img.Layers[0]
	var known bool
	for _, prefix := range [...]string{format.MediaState, foreignMediaState} {
		if rest, ok := strings.CutPrefix(s.Layer.MediaType, prefix); ok {
			s.Encoding = rest
			known = true
		}
	}
	if !known {
		return State{}, false, fmt.Errorf("tag %s: layer of type %q is not a state: %w", tag, s.Layer.MediaType, oci.ErrCorrupt)
	}
	s.Workspace = img.Annotations[format.AnnStateWorkspace]
	if s.Workspace == "" {
		s.Workspace = img.Annotations[annForeignWorkspace]
	}
	if s.Workspace == "" {
		return State{}, false, fmt.Errorf("tag %s does not say which workspace it belongs to: %w", tag, oci.ErrCorrupt)
	}
	for _, key := range [...]string{artifact.AnnCreated, annForeignUpdated} {
		if t, err := time.Parse(time.RFC3339Nano, img.Annotations[key]); err == nil {
			s.Created = t
		}
	}
	if s.N, err = foreignVersion(tag, s.Workspace); err != nil {
		return State{}, false, err
	}
	return s, true, nil
}

// foreignVersion returns the version in a tag of that workspace; 0 for its current state.
func foreignVersion(tag, workspace string) (int64, error) {
	_, rest, _ := strings.Cut(tag, "-")
	full := sha256.Sum256([]byte(workspace))
	for _, fragment := range [...]string{workspace, format.StateFragment(workspace), format.OldStateFragment(workspace), hex.EncodeToString(full[:])} {
		after, ok := strings.CutPrefix(rest, fragment)
		if !ok {
			continue
		}
		if after == "" {
			return 0, nil
		}
		if digits, ok := strings.CutPrefix(after, "-v"); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("tag %s does not belong to workspace %q: %w", tag, workspace, oci.ErrCorrupt)
}
