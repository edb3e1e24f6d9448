// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Replica returns the mark that makes this repository a copy of another one;
// oci.ErrNotFound if it is none.
func (s *Store) Replica(ctx context.Context) (artifact.ReplicaMark, error) {
	m, err := s.repo.Fetch(ctx, artifact.TagReplica)
	if err != nil {
		return artifact.ReplicaMark{}, fmt.Errorf("reading the replica mark of %s: %w", s.repo, err)
	}
	return artifact.ParseReplicaMark(m)
}

// Replicate copies the versions of a workspace that dst lacks, in order, and
// moves dst's pointer last. It copies stored bytes and manifests unchanged and
// never locks, so a reader of dst sees at each moment a state that the source
// had. Cut off, it goes on where it stopped. dst becomes a read-only replica;
// one that was taken over meanwhile, or that has states of its own, is
// ErrReplica.
//
// Sealed versions stay bound to the source: readers of dst name it in
// [Options].Primary unless both repositories have the same name.
func (s *Store) Replicate(ctx context.Context, dst *Store, workspace string) ([]int64, error) {
	return s.copyTo(ctx, dst, workspace, false)
}

// Reseal is Replicate, but opens each version and seals it for dst, which then
// needs no Primary. Both stores need keys.
func (s *Store) Reseal(ctx context.Context, dst *Store, workspace string) ([]int64, error) {
	return s.copyTo(ctx, dst, workspace, true)
}

func (s *Store) copyTo(ctx context.Context, dst *Store, workspace string, reseal bool) ([]int64, error) {
	copied, err := s.replicate(ctx, dst, workspace, reseal)
	if err != nil {
		return copied, fmt.Errorf("replicating workspace %q of %s to %s: %w", workspace, s.repo, dst.repo, err)
	}
	return copied, nil
}

func (s *Store) replicate(ctx context.Context, dst *Store, workspace string, reseal bool) ([]int64, error) {
	from, err := s.tags(ctx)
	if err != nil {
		return nil, err
	}
	to, err := dst.tags(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.markReplica(ctx, dst, to); err != nil {
		return nil, err
	}
	x := s.session(workspace, LockInfo{})
	list := numbers(from, x.fragment)
	if len(list) == 0 {
		return nil, s.noState(workspace)
	}
	there := numbers(to, x.fragment)
	if len(there) > 0 && there[0] > list[0] {
		return nil, fmt.Errorf("version %d is newer than the source's %d: %w", there[0], list[0], ErrReplica)
	}
	one := s.resealVersion
	if !reseal {
		one = s.copyVersion
		if err := dst.checkResealed(ctx, s, x, there); err != nil {
			return nil, err
		}
	}
	var copied []int64
	for _, n := range slices.Backward(list) {
		if slices.Contains(there, n) {
			continue
		}
		if err := one(ctx, dst, workspace, n); errors.Is(err, errPruned) {
			continue
		} else if err != nil {
			return copied, fmt.Errorf("version %d: %w", n, err)
		}
		copied = append(copied, n)
	}
	return copied, movePointer(ctx, dst.repo, x.pointer(), x.numbered(list[0]))
}

// checkResealed refuses to copy above versions that were sealed for s: readers
// would take neither for the other's successor.
func (s *Store) checkResealed(ctx context.Context, src *Store, x *session, there []int64) error {
	if len(there) == 0 || s.repo.Name() == src.repo.Name() {
		return nil
	}
	m, err := s.fetchState(ctx, x.numbered(there[0]), x.workspace)
	if err == nil && sealed(m) && m.Origin.Repository == s.repo.Name() {
		err = &RemediedError{Remedy{Kind: RemedyReseal}, fmt.Errorf("its versions were sealed for it: %w", ErrReplica)}
	}
	return err
}

// movePointer makes the pointer a copy of the newest version.
func movePointer(ctx context.Context, repo *oci.Repo, pointer, newest string) error {
	m, err := repo.Fetch(ctx, newest)
	if err != nil {
		return err
	}
	d, err := repo.Resolve(ctx, pointer)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	if err == nil && d.Digest == m.Digest {
		return nil
	}
	return repo.PutTag(ctx, pointer, m)
}

// errPruned says that a version was removed between the list and its reading.
var errPruned = errors.New("pruned meanwhile")

// copyVersion copies what the manifest of a version needs, then the manifest.
func (s *Store) copyVersion(ctx context.Context, dst *Store, workspace string, n int64) error {
	tag := s.session(workspace, LockInfo{}).numbered(n)
	m, err := s.repo.Fetch(ctx, tag)
	if errors.Is(err, oci.ErrNotFound) {
		return errPruned
	}
	if err != nil {
		return err
	}
	sm, err := artifact.ParseState(m)
	if err != nil {
		return err
	}
	blobs := []oci.Blob{oci.EmptyBlob()}
	if !sm.Empty || sealed(sm) {
		blobs = append(blobs, oci.Blob{Descriptor: sm.Layer, Open: func() (io.ReadCloser, error) { return s.repo.Open(ctx, sm.Layer) }})
	}
	for _, b := range blobs {
		if _, err := dst.repo.EnsureBlob(ctx, b); err != nil {
			return err
		}
	}
	return dst.repo.PutTag(ctx, tag, m)
}

// resealVersion seals the content of a version for dst.
func (s *Store) resealVersion(ctx context.Context, dst *Store, workspace string, n int64) error {
	if dst.o.Sealer == nil {
		return errors.New("sealing anew needs a key")
	}
	x := s.session(workspace, LockInfo{})
	m, err := s.fetchState(ctx, x.numbered(n), workspace)
	if errors.Is(err, oci.ErrNotFound) {
		return errPruned
	}
	if err != nil {
		return err
	}
	state, _, err := s.read(ctx, m, 0)
	if err != nil && !(m.Empty && errors.Is(err, oci.ErrNotFound)) {
		return err
	}
	h := readHead(state)
	m.Lineage, m.Serial, m.Parent = h.lineage, h.serial, ""
	if m.ParentN > 0 { // its manifest is another one there
		d, err := dst.repo.Resolve(ctx, x.numbered(m.ParentN))
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		m.Parent = d.Digest.String()
	}
	blob, _, err := dst.store(ctx, state, &m)
	if err != nil {
		return err
	}
	for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
		if _, err := dst.repo.EnsureBlob(ctx, b); err != nil {
			return err
		}
	}
	sealed, err := artifact.NewStateManifest(m)
	if err != nil {
		return err
	}
	return dst.repo.PutTag(ctx, x.numbered(n), sealed)
}

// markReplica marks dst on the first run and checks the mark on later ones.
func (s *Store) markReplica(ctx context.Context, dst *Store, tags []string) error {
	if slices.Contains(tags, artifact.TagReplica) {
		mark, err := dst.Replica(ctx)
		switch {
		case err != nil:
			return err
		case mark.Promoted:
			return fmt.Errorf("it was taken over and is no copy any more: %w", ErrReplica)
		case mark.Source != s.repo.String():
			return fmt.Errorf("it is a copy of %s: %w", mark.Source, ErrReplica)
		}
		return nil
	}
	if slices.ContainsFunc(tags, func(tag string) bool { _, ok := artifact.ParseStateTag(tag); return ok }) {
		return fmt.Errorf("it has states of its own: %w", ErrReplica)
	}
	return dst.putReplicaMark(ctx, artifact.ReplicaMark{Source: s.repo.String(), Updated: s.o.Now().UTC()})
}

func (s *Store) putReplicaMark(ctx context.Context, mark artifact.ReplicaMark) error {
	m, err := artifact.NewReplicaMark(mark)
	if err != nil {
		return err
	}
	if _, err := s.repo.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
		return err
	}
	return s.repo.PutTag(ctx, artifact.TagReplica, m)
}

// promote makes a replica a repository of its own, before a takeover. The tag
// stays, since not every registry deletes.
func (s *Store) promote(ctx context.Context) error {
	mark, err := s.Replica(ctx)
	if errors.Is(err, oci.ErrNotFound) || err == nil && mark.Promoted {
		return nil
	}
	if err != nil {
		return err
	}
	mark.Promoted, mark.Updated = true, s.o.Now().UTC()
	if err := s.putReplicaMark(ctx, mark); err != nil {
		return fmt.Errorf("making %s a repository of its own: %w", s.repo, err)
	}
	return nil
}

// checkReplica refuses writes to a replica. Only a takeover ends its being one.
func (s *Store) checkReplica(ctx context.Context, tags []string) error {
	if !slices.Contains(tags, artifact.TagReplica) {
		return nil
	}
	mark, err := s.Replica(ctx)
	if errors.Is(err, oci.ErrNotFound) || err == nil && mark.Promoted {
		return nil
	}
	if err != nil {
		return err
	}
	return &RemediedError{
		Remedy{Kind: RemedyPromote, Repository: s.repo.String()},
		fmt.Errorf("%s is a read-only copy of %s: %w", s.repo, mark.Source, ErrReplica),
	}
}
