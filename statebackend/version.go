// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Version describes one stored version of a workspace's state. Its JSON is that
// of the CLI's --json.
type Version struct {
	N         int64     `json:"version"` // 0: written by a tool without versions
	Current   bool      `json:"current"` // it is the head
	Digest    string    `json:"digest"`
	Created   time.Time `json:"created"`
	Lineage   string    `json:"lineage,omitempty"`
	Serial    uint64    `json:"serial"`
	Size      int64     `json:"stored_bytes"`
	Tool      string    `json:"tool,omitempty"`
	Who       string    `json:"who,omitempty"`
	Operation string    `json:"operation,omitempty"` // such as OperationTypeApply, push, restore of version 3, takeover
	LockID    string    `json:"lock_id,omitempty"`
	Parent    int64     `json:"parent,omitempty"`    // the version it was made from
	Fence     int64     `json:"fence,omitempty"`     // first number of the lock that wrote it
	Deleted   bool      `json:"deleted,omitempty"`   // the workspace was deleted
	Empty     bool      `json:"empty,omitempty"`     // there is no state
	Encrypted bool      `json:"encrypted,omitempty"` // by a Sealer

	// Envelope is what the Sealer keeps beside the bytes: the ids of its keys.
	Envelope map[string]string `json:"-"`
}

func newVersion(m format.StateManifest) Version {
	v := Version{
		N: m.N, Digest: m.Manifest.Digest.String(), Created: m.Created, Lineage: m.Lineage, Serial: m.Serial,
		Tool: m.Tool, Who: m.Who, Operation: m.Operation, LockID: m.LockID, Parent: m.ParentN, Fence: m.Fence, Deleted: m.Deleted, Empty: m.Empty,
		Encrypted: sealed(m), Envelope: m.Envelope,
	}
	if !m.Empty {
		v.Size = m.Layer.Size
	}
	return v
}

// Why says in words for what the version was written, "" if nobody said it. The
// tools name their operations like OperationTypeApply.
func (v Version) Why() string {
	operation := strings.TrimPrefix(v.Operation, "OperationType")
	switch {
	case v.Operation == format.OperationTakeover && v.Parent > 0:
		return fmt.Sprintf("takeover, content of %d", v.Parent)
	case operation != v.Operation:
		return strings.ToLower(operation)
	}
	return operation
}

// Jump is how far the numbers of versions skip ahead at least where a lock was
// taken over.
const Jump = protocol.Jump

// numbers returns the version numbers of a workspace, newest first.
func numbers(tags []string, fragment string) []int64 {
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

// History lists the versions of a workspace, newest first, one request each.
// A jump of about 100,000 in the numbers marks a lock that was taken over.
func (s *reader) History(ctx context.Context, workspace string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		tags, err := s.tags(ctx)
		if err != nil {
			yield(Version{}, err)
			return
		}
		below := int64(math.MaxInt64)
		for i, n := range numbers(tags, lineOf(workspace).fragment) {
			if n >= below {
				continue
			}
			m, err := s.fetchState(ctx, lineOf(workspace).numbered(n), workspace)
			switch missing := errors.Is(err, oci.ErrNotFound); {
			case missing && i > 0:
				continue // pruned meanwhile
			case missing: // it is being written, perhaps
				if m, err = s.listed(ctx, lineOf(workspace)); err == nil {
					n = m.N
				}
			}
			below = n
			v := newVersion(m)
			v.N, v.Current = n, i == 0
			if !yield(v, versionError(workspace, n, unreadable(err))) {
				return
			}
		}
	}
}

// Describe returns version n of a workspace without reading its state, with one
// request. Nothing tells it whether the version is the current one.
func (s *reader) Describe(ctx context.Context, workspace string, n int64) (Version, error) {
	m, err := s.fetchState(ctx, lineOf(workspace).numbered(n), workspace)
	v := newVersion(m)
	v.N = n
	return v, versionError(workspace, n, err)
}

// versionError says which version an error is about.
func versionError(workspace string, n int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("version %d of workspace %q: %w", n, workspace, err)
}

// Current returns the current version of a workspace without reading its state;
// oci.ErrNotFound if there is none or the workspace was deleted. Nothing is
// opened, so what it says is what the manifest says.
func (s *reader) Current(ctx context.Context, workspace string) (Version, error) {
	for v, err := range s.History(ctx, workspace) {
		if err != nil {
			return Version{}, err
		}
		if v.Deleted || v.Empty {
			break
		}
		return v, nil
	}
	return Version{}, s.noState(workspace)
}

// Since counts the versions of a workspace above n. A replica whose current
// version is n lacks as many of its source.
func (s *reader) Since(ctx context.Context, workspace string, n int64) (count int, err error) {
	for v, err := range s.History(ctx, workspace) {
		if err != nil {
			return count, err
		}
		if v.N <= n {
			break
		}
		count++
	}
	return count, nil
}
