// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Meta reads lineage and serial, in clear even where the tool encrypts; ok is false for no state.
func Meta(state []byte) (lineage string, serial uint64, ok bool) {
	h := readHead(state)
	return h.lineage, h.serial, h.ok
}

// EncryptedByTool reports whether OpenTofu encrypted the state itself: it has the members of an
// encrypted state and no others, since Terraform would read a mixed one as if in clear. See
// https://github.com/opentofu/opentofu/blob/main/internal/encryption/base.go.
func EncryptedByTool(state []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(state))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	encrypted := false
	for dec.More() {
		switch t, _ := dec.Token(); t {
		case "encrypted_data":
			encrypted = true
		case "serial", "lineage", "meta", "encryption_version":
		default:
			return false
		}
		if skipValue(dec) != nil {
			return false
		}
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return false
	}
	_, err := dec.Token()
	return encrypted && err == io.EOF
}

// head is the top level of a state's JSON.
type head struct {
	lineage   string
	serial    uint64
	encrypted bool
	ok        bool
}

// readHead reads only as far as needed: states are large, and both tools write these members first.
func readHead(state []byte) head {
	var h head
	var serial, lineage, version bool
	dec := json.NewDecoder(bytes.NewReader(state))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return h
	}
	for dec.More() {
		t, err := dec.Token()
		key, isString := t.(string)
		if err != nil || !isString {
			return head{}
		}
		switch key {
		case "encrypted_data", "encryption_version":
			h.encrypted = true
		case "version":
			version = true
		case "serial", "lineage":
			v, err := dec.Token()
			if err != nil {
				return head{}
			}
			if n, isNumber := v.(json.Number); isNumber && key == "serial" {
				h.serial, err = strconv.ParseUint(n.String(), 10, 64)
				serial = err == nil
			}
			if s, isString := v.(string); isString && key == "lineage" {
				h.lineage = s
				lineage = true
			}
			h.ok = serial && lineage
			if h.ok && (h.encrypted || version) {
				return h
			}
			continue
		}
		if h.ok && (h.encrypted || version) {
			return h
		}
		if err := skipValue(dec); err != nil {
			return head{}
		}
	}
	return h
}

// maxDepth bounds the nesting of a skipped member: the decoder keeps eight bytes per open bracket,
// so a state of nothing but brackets would take eight times its size.
const maxDepth = 1000

func skipValue(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested more than %d deep: %w", maxDepth, ErrNotState)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// Version describes one stored version of a state. Its JSON form is the output of the CLI's --json.
type Version struct {
	N         int64     `json:"version"` // 0: written by a tool without versions
	Current   bool      `json:"current"` // the version is the head
	Digest    string    `json:"digest"`
	Created   time.Time `json:"created"`
	Lineage   string    `json:"lineage,omitempty"`
	Serial    uint64    `json:"serial"`
	Size      int64     `json:"stored_bytes"`
	Tool      string    `json:"tool,omitempty"`
	Who       string    `json:"who,omitempty"`       // USER@MACHINE, as its tool says
	Caller    string    `json:"caller,omitempty"`    // of the server through which it was written
	Operation string    `json:"operation,omitempty"` // for example OperationTypeApply, push, restore of version 3, takeover
	Run       string    `json:"run,omitempty"`       // page of the CI job, or of the run on a server
	LockID    string    `json:"lock_id,omitempty"`
	Parent    int64     `json:"parent,omitempty"`    // the version it was made from
	Fence     int64     `json:"fence,omitempty"`     // first number of the lock that wrote it
	Deleted   bool      `json:"deleted,omitempty"`   // the workspace was deleted
	Empty     bool      `json:"empty,omitempty"`     // there is no state
	Encrypted bool      `json:"encrypted,omitempty"` // by a Sealer

	// Envelope is what the Sealer stores beside the bytes: the ids of its keys.
	Envelope map[string]string `json:"-"`
}

func newVersion(m format.StateManifest) Version {
	v := Version{
		N: m.N, Digest: m.Manifest.Digest.String(), Created: m.Created, Lineage: m.Lineage, Serial: m.Serial,
		Tool: m.Tool, Who: m.Who, Caller: m.Caller, Operation: m.Operation, Run: runPage(m.Run), LockID: m.LockID, Parent: m.ParentN, Fence: m.Fence, Deleted: m.Deleted, Empty: m.Empty,
		Encrypted: isSealed(m), Envelope: m.Envelope,
	}
	if !m.Empty {
		v.Size = m.Layer.Size
	}
	return v
}

// By names who wrote the version: the caller of a server, else whom its tool names.
func (v Version) By() string { return cmp.Or(v.Caller, v.Who) }

// Why says why the version was written, or "". Tools name operations like OperationTypeApply, with
// OperationTypeInvalid for commands that plan nothing; cloud blocks name none.
func (v Version) Why() string {
	switch operation := strings.TrimPrefix(v.Operation, "OperationType"); {
	case v.Operation == format.OperationTakeover && v.Parent > 0:
		return fmt.Sprintf("takeover, content of %d", v.Parent)
	case operation == "Invalid":
		return "import, or another command without a plan"
	case operation == "tfe.v2":
		return "a command through a cloud block"
	case operation != v.Operation:
		return strings.ToLower(operation)
	default:
		return operation
	}
}

// runPage returns the page of the CI job or run that ends the words about a lock, "" if none.
func runPage(info string) string {
	page := info[strings.LastIndexByte(info, ' ')+1:]
	if u, err := url.Parse(page); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return page
}

// Jump is how far, at least, version numbers skip ahead where a lock was taken over.
const Jump = protocol.Jump

func versionNumbers(tags []string, fragment string) []int64 {
	var list []int64
	for _, tag := range tags {
		if t, ok := format.ParseStateTag(tag); ok && t.Kind == format.StateNumbered && t.Fragment == fragment {
			list = append(list, t.N)
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// History lists the versions of a workspace, newest first, one request each. A jump of about
// 100,000 in the numbers marks a lock that was taken over.
func (s *Store) History(ctx context.Context, workspace string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		tags, err := s.manifests.tags(ctx)
		if err != nil {
			yield(Version{}, err)
			return
		}
		below := int64(math.MaxInt64)
		for i, n := range versionNumbers(tags, tagNamesOf(workspace).fragment) {
			if n >= below {
				continue
			}
			m, err := s.manifests.fetchState(ctx, tagNamesOf(workspace).numberedTag(n), workspace)
			switch missing := errors.Is(err, oci.ErrNotFound); {
			case missing && i > 0:
				continue // pruned meanwhile
			case missing: // the version may be being written
				if m, err = s.manifests.readListed(ctx, tagNamesOf(workspace)); err == nil {
					n = m.N
				}
			}
			below = n
			v := newVersion(m)
			v.N = n
			v.Current = i == 0
			if !yield(v, versionError(workspace, n, markUnreadable(err))) {
				return
			}
		}
	}
}

// Describe returns version n without its state, with one request. Version.Current is not set.
func (s *Store) Describe(ctx context.Context, workspace string, n int64) (Version, error) {
	m, err := s.manifests.fetchState(ctx, tagNamesOf(workspace).numberedTag(n), workspace)
	v := newVersion(m)
	v.N = n
	return v, versionError(workspace, n, err)
}

// versionError adds to an error the version that it is about.
func versionError(workspace string, n int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("version %d of workspace %q: %w", n, workspace, err)
}

// Current returns the current version without reading its state; oci.ErrNotFound if there is none
// or the workspace was deleted. It relies on the manifest alone.
func (s *Store) Current(ctx context.Context, workspace string) (Version, error) {
	for v, err := range s.History(ctx, workspace) {
		if err != nil {
			return Version{}, err
		}
		if v.Deleted || v.Empty {
			break
		}
		return v, nil
	}
	return Version{}, s.manifests.noState(workspace)
}
