// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
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
	LockID    string    `json:"lock_id,omitempty"`
	Parent    int64     `json:"parent,omitempty"`    // the version it was made from
	Fence     int64     `json:"fence,omitempty"`     // first number of the lock that wrote it
	Deleted   bool      `json:"deleted,omitempty"`   // the workspace was deleted
	Empty     bool      `json:"empty,omitempty"`     // there is no state
	Encrypted bool      `json:"encrypted,omitempty"` // by a Sealer
}

func newVersion(m artifact.StateManifest) Version {
	v := Version{
		N: m.N, Digest: m.Manifest.Digest.String(), Created: m.Created, Lineage: m.Lineage, Serial: m.Serial,
		Tool: m.Tool, LockID: m.LockID, Parent: m.ParentN, Fence: m.Fence, Deleted: m.Deleted, Empty: m.Empty,
		Encrypted: sealed(m),
	}
	if !m.Empty {
		v.Size = m.Layer.Size
	}
	return v
}

// numbers returns the version numbers of a workspace, newest first.
func numbers(tags []string, fragment string) []int64 {
	var list []int64
	for _, tag := range tags {
		if t, ok := artifact.ParseStateTag(tag); ok && t.Kind == artifact.StateNumbered && t.Fragment == fragment {
			list = append(list, t.N)
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// History lists the versions of a workspace, newest first, one request each.
// A jump of about 100,000 in the numbers marks a lock that was taken over.
func (s *Store) History(ctx context.Context, workspace string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		tags, err := s.tags(ctx)
		if err != nil {
			yield(Version{}, err)
			return
		}
		x := s.session(workspace, LockInfo{})
		for i, n := range numbers(tags, x.fragment) {
			m, err := s.fetchState(ctx, x.numbered(n), workspace)
			if i > 0 && errors.Is(err, oci.ErrNotFound) {
				continue // pruned meanwhile
			}
			if err = unreadable(err); err != nil {
				err = fmt.Errorf("version %d of workspace %q: %w", n, workspace, err)
			}
			v := newVersion(m)
			v.N, v.Current = n, i == 0
			if !yield(v, err) {
				return
			}
		}
	}
}

// Current returns the current version of a workspace without reading its state;
// oci.ErrNotFound if there is none or the workspace was deleted. Nothing is
// opened, so what it says is what the manifest says.
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
	return Version{}, s.noState(workspace)
}

// Since counts the versions of a workspace above n. A replica whose current
// version is n lacks as many of its source.
func (s *Store) Since(ctx context.Context, workspace string, n int64) (count int, err error) {
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

// forkAge is how long versions beside the line of the head are kept: they hold
// what an overtaken lock wrote.
const forkAge = 30 * 24 * time.Hour

// Prune removes all but the newest keep versions and returns what it removed.
// The highest version always stays, for its number must not be used again, and
// so do young versions that are not on the line of the head.
func (s *Store) Prune(ctx context.Context, workspace string, keep int) ([]int64, error) {
	tags, err := s.tags(ctx)
	if err != nil {
		return nil, err
	}
	x := s.session(workspace, LockInfo{})
	x.seen = newView(tags, x.fragment)
	list := numbers(tags, x.fragment)
	return x.prune(ctx, tags, list, max(keep, 1), len(list))
}

// prune looks at the versions after the first keep ones, oldest first, and
// removes at most limit.
func (x *session) prune(ctx context.Context, tags []string, list []int64, keep, limit int) ([]int64, error) {
	if len(list) <= keep {
		return nil, nil
	}
	forks, err := x.forks(ctx, list)
	if err != nil {
		return nil, err
	}
	shared, err := x.shared(ctx, tags)
	if err != nil {
		return nil, err
	}
	var gone []int64
	for _, n := range slices.Backward(list[keep:]) {
		if len(gone) == limit {
			break
		}
		if forks[n] {
			m, err := x.s.fetchState(ctx, x.numbered(n), x.workspace)
			if err != nil && !errors.Is(err, oci.ErrNotFound) {
				return gone, err
			}
			if err == nil && x.s.o.Now().Sub(m.Created) < forkAge {
				continue
			}
		}
		if err := x.remove(ctx, n, shared); err != nil {
			return gone, fmt.Errorf("removing version %d of workspace %q: %w", n, x.workspace, err)
		}
		gone = append(gone, n)
	}
	return gone, nil
}

// forks returns the versions from which the head was not made. They exist only
// where a lock was taken over, which shows as a jump in the numbers; only then
// the line of the head is read.
func (x *session) forks(ctx context.Context, list []int64) (map[int64]bool, error) {
	forks := map[int64]bool{}
	if !jumped(list) {
		return forks, nil
	}
	for _, n := range list {
		forks[n] = true
	}
	for n := list[0]; forks[n]; {
		delete(forks, n)
		m, err := x.s.fetchState(ctx, x.numbered(n), x.workspace)
		if errors.Is(err, oci.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		n = m.ParentN
	}
	return forks, nil
}

// jumped tells whether a lock was ever taken over in this history.
func jumped(list []int64) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1]-list[i] >= jump/2 {
			return true
		}
	}
	return false
}

// remove deletes a version: its tag, and its manifest if no other tag points to
// that, since many registries keep manifests without a tag for good. Where tags
// cannot be deleted the manifest is the only way.
func (x *session) remove(ctx context.Context, n int64, shared func(oci.Descriptor) bool) error {
	d, err := x.s.repo.Resolve(ctx, x.numbered(n))
	if err == nil {
		err = x.s.repo.Untag(ctx, x.numbered(n))
	}
	unsupported := errors.Is(err, oci.ErrUnsupported)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil && !unsupported:
		return err
	case shared(d) && unsupported:
		return fmt.Errorf("another tag is on the same manifest: %w", err)
	case shared(d):
		return nil
	}
	err = x.s.repo.Delete(ctx, d)
	if errors.Is(err, oci.ErrNotFound) || !unsupported && (errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied)) {
		return nil // the version is gone; its space is for the registry's own collection
	}
	return err
}

// maxForeign bounds how many tags of other tools are looked up before manifests
// are deleted; where there are more, only tags are.
const maxForeign = 100

// shared tells of manifests that state-W or a tag of another tool points to.
// Versions have a manifest each, and locks have other ones.
func (x *session) shared(ctx context.Context, tags []string) (func(oci.Descriptor) bool, error) {
	look := foreign(tags)
	if len(look) > maxForeign {
		return func(oci.Descriptor) bool { return true }, nil
	}
	var found []oci.Descriptor
	for _, tag := range append(look, x.pointer()) {
		d, err := x.s.repo.Resolve(ctx, tag)
		if err == nil {
			found = append(found, d)
		} else if !errors.Is(err, oci.ErrNotFound) {
			return nil, err
		}
	}
	return func(d oci.Descriptor) bool {
		return slices.ContainsFunc(found, func(f oci.Descriptor) bool { return f.Digest == d.Digest })
	}, nil
}

// foreign returns the tags that are not okara's: of no kind that it writes, or
// state-X where X has no versions.
func foreign(tags []string) (list []string) {
	versioned := map[string]bool{}
	for _, tag := range tags {
		if t, ok := artifact.ParseStateTag(tag); ok && t.Kind == artifact.StateNumbered {
			versioned[t.Fragment] = true
		}
	}
	for _, tag := range tags {
		t, ok := artifact.ParseStateTag(tag)
		switch {
		case ok && (t.Kind != artifact.StatePointer || versioned[t.Fragment]):
		case tag == artifact.TagVerdict, tag == artifact.TagReplica, strings.HasPrefix(tag, "workspace-"):
		default:
			list = append(list, tag)
		}
	}
	return list
}
