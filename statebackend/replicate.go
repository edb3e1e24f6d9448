// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Replicas copies the workspaces of a store to others.
type Replicas struct{ s *Store }

// Replicas returns what copies the store. It sends no request.
func (s *Store) Replicas() Replicas { return Replicas{s} }

// Mark returns the mark that makes this repository a copy; oci.ErrNotFound if it has none.
func (r Replicas) Mark(ctx context.Context) (format.ReplicaMark, error) {
	return r.s.manifests.readMark(ctx)
}

// Workspaces lists what [Replicas.Replicate] can copy: workspaces with a state or any record.
func (r Replicas) Workspaces(ctx context.Context) ([]string, error) {
	l, err := r.s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", r.s.repo, err)
	}
	found, err := l.gatherWorkspaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", r.s.repo, err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (r *manifests) readMark(ctx context.Context) (format.ReplicaMark, error) {
	m, err := r.repo.Fetch(ctx, format.TagReplica)
	if err != nil {
		return format.ReplicaMark{}, fmt.Errorf("reading the replica mark of %s: %w", r.repo, err)
	}
	return format.ParseReplicaMark(m)
}

// Replicate copies the versions of a workspace that dst lacks, in order, and its newest record,
// even if there is no state. It copies stored bytes and manifests unchanged, within one registry by
// mounting where it can, and never locks: dst's pointer moves last, so a reader of dst always sees
// a state that the source had. After an interruption it continues where it stopped. With
// [Options].MaxVersions, dst gets and keeps only that many.
//
// dst becomes a read-only replica. The error is ErrReplica if dst was taken over meanwhile, or has
// states of its own or versions that the source does not have: see [Replicas.Adopt].
//
// Sealed versions stay bound to the source: readers need [Options].Primary unless dst has its name.
func (r Replicas) Replicate(ctx context.Context, dst *Store, workspace string) ([]int64, error) {
	return copier{src: r.s, dst: dst, tagNames: tagNamesOf(workspace)}.runCopy(ctx)
}

// Reseal is Replicate, but seals each version for dst, which then needs no Primary. Both need keys.
func (r Replicas) Reseal(ctx context.Context, dst *Store, workspace string) ([]int64, error) {
	return copier{src: r.s, dst: dst, tagNames: tagNamesOf(workspace), reseal: true}.runCopy(ctx)
}

type copier struct {
	src, dst *Store
	tagNames
	reseal bool // seal for dst, instead of copying bytes
}

func (c copier) runCopy(ctx context.Context) ([]int64, error) {
	copied, err := c.replicate(ctx)
	return copied, c.describeFailure(err)
}

func (c copier) describeFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("replicating workspace %q of %s to %s: %w", c.workspace, c.src.repo, c.dst.repo, err)
}

func (c copier) replicate(ctx context.Context) ([]int64, error) {
	from, err := c.src.List(ctx)
	if err != nil {
		return nil, err
	}
	to, err := c.dst.List(ctx)
	if err != nil {
		return nil, err
	}
	mark, err := c.checkMark(ctx, to.tags)
	if err != nil {
		return nil, err
	}
	recorded, err := c.copyRecord(ctx, from, to)
	if err != nil {
		return nil, err
	}
	list := from.Numbers(c.workspace)
	switch {
	case len(list) == 0 && recorded:
		return nil, nil
	case len(list) == 0:
		return nil, c.src.manifests.noState(c.workspace)
	}
	missing, err := c.missingVersions(ctx, list, to.Numbers(c.workspace), mark.Kept[c.workspace])
	if err != nil {
		return nil, err
	}
	copied, err := c.copyVersions(ctx, missing)
	if err != nil {
		return copied, err
	}
	if err := c.dst.pointers.movePointer(ctx, c.tagNames, list[0]); err != nil {
		return copied, err
	}
	c.pruneCopies(ctx)
	return copied, nil
}

// missingVersions returns those of list above the newest common one; only dst has those of kept.
func (c copier) missingVersions(ctx context.Context, list, there, kept []int64) ([]int64, error) {
	if len(there) > 0 && there[0] > list[0] {
		return nil, c.adoptError(fmt.Errorf("version %d is newer than the source's %d: %w", there[0], list[0], ErrReplica))
	}
	if err := c.checkResealed(ctx, there); err != nil {
		return nil, err
	}
	common := int64(0)
	for _, n := range there {
		if slices.Contains(list, n) && !slices.Contains(kept, n) {
			common = n
			break
		}
	}
	if same, err := c.isSameVersion(ctx, common); err != nil {
		return nil, err
	} else if !same {
		return nil, c.adoptError(fmt.Errorf("version %d differs from the source's: %w", common, ErrReplica))
	}
	missing := slices.DeleteFunc(slices.Clone(list), func(n int64) bool { return n <= common })
	if limit := c.dst.o.MaxVersions; limit > 0 && len(missing) > limit {
		missing = missing[:limit]
	}
	return slices.DeleteFunc(missing, func(n int64) bool { return slices.Contains(there, n) }), nil
}

// isSameVersion reports whether n is copied or sealed again; also true for n = 0 and pruned ones.
func (c copier) isSameVersion(ctx context.Context, n int64) (bool, error) {
	if n == 0 {
		return true, nil
	}
	ours, err := c.src.manifests.fetchState(ctx, c.numberedTag(n), c.workspace)
	if err != nil {
		return errors.Is(err, oci.ErrNotFound), oci.IgnoreNotFound(err)
	}
	theirs, err := c.dst.manifests.fetchState(ctx, c.numberedTag(n), c.workspace)
	if err != nil {
		return errors.Is(err, oci.ErrNotFound), oci.IgnoreNotFound(err)
	}
	written := ours.LockID != "" && ours.LockID == theirs.LockID && ours.Fence == theirs.Fence && ours.Created.Equal(theirs.Created)
	return written || ours.Manifest.Digest == theirs.Manifest.Digest, nil
}

// copyVersions copies the versions in list, which is newest first, oldest first.
func (c copier) copyVersions(ctx context.Context, list []int64) (copied []int64, err error) {
	one := c.copyVersion
	if c.reseal {
		one = c.resealVersion
	}
	for _, n := range slices.Backward(list) {
		err := one(ctx, n)
		switch {
		case errors.Is(err, errPruned):
			continue
		case err != nil:
			return copied, fmt.Errorf("version %d: %w", n, err)
		}
		copied = append(copied, n)
	}
	return copied, nil
}

// pruneCopies keeps the configured number of versions in a copy; a failure is logged.
func (c copier) pruneCopies(ctx context.Context) {
	s := c.dst
	if s.o.MaxVersions <= 0 {
		return
	}
	tags, err := s.manifests.tags(ctx)
	list := versionNumbers(tags, c.fragment)
	if err == nil && len(list) <= s.o.MaxVersions {
		return
	}
	if err == nil {
		_, err = pruner{s.manifests, c.tagNames}.prune(ctx, tags, list, s.o.MaxVersions, maxPruned)
	}
	s.catalog.warnUnpruned(ctx, c.tagNames, err)
}

// copyRecord copies the newest record and removes older ones in dst; false if the source has none.
func (c copier) copyRecord(ctx context.Context, from, to *Listing) (bool, error) {
	r, err := from.Record(ctx, c.workspace)
	if err != nil || r == nil {
		return false, err
	}
	if to.Has(r.Tag) {
		return true, nil
	}
	m, err := c.src.repo.Fetch(ctx, r.Tag)
	if errors.Is(err, oci.ErrNotFound) {
		return true, nil // a newer record was written meanwhile; the next run copies it
	}
	if err == nil {
		err = c.dst.catalog.putRecord(ctx, r.Tag, m)
	}
	if err != nil {
		return false, fmt.Errorf("its record: %w", err)
	}
	c.dst.catalog.dropRecords(ctx, to.recordTags()[c.fragment], r.Seq, 0)
	return true, nil
}

// checkResealed refuses to copy above versions sealed for dst: no reader would accept both kinds.
func (c copier) checkResealed(ctx context.Context, there []int64) error {
	if c.reseal || len(there) == 0 || c.dst.repo.Name() == c.src.repo.Name() {
		return nil
	}
	m, err := c.dst.manifests.fetchState(ctx, c.numberedTag(there[0]), c.workspace)
	if err == nil && isSealed(m) && m.Origin.Repository == c.dst.repo.Name() {
		err = &RemediedError{Remedy{Kind: RemedyReseal}, fmt.Errorf("its versions were encrypted for it: %w", ErrReplica)}
	}
	return err
}

// movePointer makes the pointer a copy of version n. A registry that refuses is logged, no error.
func (s *pointers) movePointer(ctx context.Context, l tagNames, n int64) error {
	m, err := s.manifests.repo.Fetch(ctx, l.numberedTag(n))
	if err != nil {
		return err
	}
	d, err := s.manifests.repo.Resolve(ctx, l.pointerTag())
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	if err == nil && d.Digest == m.Digest {
		return nil
	}
	err = s.manifests.repo.PutTag(ctx, l.pointerTag(), m)
	if refusesForGood(err) {
		s.reportBehind(ctx, l, n, err)
		return nil
	}
	return err
}

var errPruned = errors.New("pruned meanwhile")

// copyVersion copies what the manifest of a version needs, then the manifest.
func (c copier) copyVersion(ctx context.Context, n int64) error {
	tag := c.numberedTag(n)
	m, err := c.src.repo.Fetch(ctx, tag)
	if errors.Is(err, oci.ErrNotFound) {
		return errPruned
	}
	if err != nil {
		return err
	}
	sm, err := format.ParseState(m)
	if err != nil {
		return err
	}
	var blobs []oci.Blob
	if !sm.Empty || isSealed(sm) {
		blobs = append(blobs, oci.Blob{
			Descriptor: sm.Layer, From: c.src.repo, Open: func() (io.ReadCloser, error) { return c.src.repo.Open(ctx, sm.Layer) },
		})
	}
	if err := artifact.EnsureBlobs(ctx, c.dst.repo, blobs...); err != nil {
		return err
	}
	return c.dst.repo.PutTag(ctx, tag, m)
}

func (c copier) resealVersion(ctx context.Context, n int64) error {
	if c.dst.o.Sealer == nil {
		return errors.New("encrypting again requires a key")
	}
	m, err := c.src.manifests.fetchState(ctx, c.numberedTag(n), c.workspace)
	if errors.Is(err, oci.ErrNotFound) {
		return errPruned
	}
	if err != nil {
		return err
	}
	state, _, err := c.src.vault.readState(ctx, m, 0)
	if err != nil && !(m.Empty && errors.Is(err, oci.ErrNotFound)) {
		return err
	}
	h := readHead(state)
	m.Lineage = h.lineage
	m.Serial = h.serial
	m.Parent = ""
	if m.ParentN > 0 { // the parent has another manifest there
		d, err := c.dst.repo.Resolve(ctx, c.numberedTag(m.ParentN))
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		m.Parent = d.Digest.String()
	}
	blob, _, err := c.dst.vault.storeState(ctx, state, &m, c.src.vault.usageIn(ctx, m))
	if err != nil {
		return err
	}
	if err := artifact.EnsureBlobs(ctx, c.dst.repo, blob); err != nil {
		return err
	}
	sealed, err := format.NewStateManifest(m)
	if err != nil {
		return err
	}
	return c.dst.repo.PutTag(ctx, c.numberedTag(n), sealed)
}

// checkMark marks dst on the first run and checks the mark on later ones.
func (c copier) checkMark(ctx context.Context, tags []string) (format.ReplicaMark, error) {
	if slices.Contains(tags, format.TagReplica) {
		mark, err := c.dst.manifests.readMark(ctx)
		switch {
		case err != nil:
			return mark, err
		case mark.Promoted:
			return mark, c.adoptError(fmt.Errorf("it was taken over and is no longer a copy: %w", ErrReplica))
		case mark.Source != c.src.repo.String():
			return mark, c.elsewhereError(mark)
		}
		return mark, nil
	}
	if slices.ContainsFunc(tags, func(tag string) bool {
		_, state := format.ParseStateTag(tag)
		_, record := format.ParseWorkspaceTag(tag)
		return state || record
	}) {
		return format.ReplicaMark{}, c.adoptError(fmt.Errorf("it has states of its own: %w", ErrReplica))
	}
	mark := format.ReplicaMark{Source: c.src.repo.String(), Updated: c.src.o.Now().UTC()}
	return mark, c.dst.manifests.putReplicaMark(ctx, mark)
}

func (c copier) adoptError(err error) error {
	return &RemediedError{Remedy{Kind: RemedyAdopt, Repository: c.src.repo.String(), Copy: c.dst.repo.String(), Workspace: c.workspace}, err}
}

func (c copier) elsewhereError(mark format.ReplicaMark) error {
	return &RemediedError{Remedy{Kind: RemedyPromote, Repository: c.dst.repo.String()}, fmt.Errorf("it is a copy of %s: %w", mark.Source, ErrReplica)}
}

func (r *manifests) putReplicaMark(ctx context.Context, mark format.ReplicaMark) error {
	m, err := format.NewReplicaMark(mark)
	if err != nil {
		return err
	}
	if _, err := r.repo.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
		return err
	}
	return r.repo.PutTag(ctx, format.TagReplica, m)
}

// readCopyMark is readMark, but of is nil if the repository is no copy or was taken over.
func (r *manifests) readCopyMark(ctx context.Context) (of *format.ReplicaMark, err error) {
	mark, err := r.readMark(ctx)
	if errors.Is(err, oci.ErrNotFound) || err == nil && mark.Promoted {
		return nil, nil
	}
	return &mark, err
}

// promote makes a replica independent. The tag stays, since not every registry deletes.
func (r *manifests) promote(ctx context.Context) error {
	mark, err := r.readCopyMark(ctx)
	if err != nil || mark == nil {
		return err
	}
	mark.Promoted = true
	mark.Updated = r.o.Now().UTC()
	if err := r.putReplicaMark(ctx, *mark); err != nil {
		return fmt.Errorf("making %s an independent repository: %w", r.repo, err)
	}
	return nil
}

// checkReplica refuses writes to a replica. Only a takeover makes it writable.
func (r *manifests) checkReplica(ctx context.Context, tags []string) error {
	if !slices.Contains(tags, format.TagReplica) {
		return nil
	}
	mark, err := r.readCopyMark(ctx)
	if err != nil || mark == nil {
		return err
	}
	return &RemediedError{Remedy{Kind: RemedyPromote, Repository: r.repo.String()}, fmt.Errorf("%s is a read-only copy of %s: %w", r.repo, mark.Source, ErrReplica)}
}

// Rekey seals the content of version n again, in its place: the only case in which the manifest of
// a version changes. The old manifest is deleted where the registry deletes. A state that OpenTofu
// encrypted uses no key of ours and stays; one in clear is ErrUnsealed.
func (l *Lock) Rekey(ctx context.Context, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := rekeyVersion(ctx, l, n); err != nil {
		return fmt.Errorf("encrypting version %d of workspace %q in %s with other keys: %w", n, l.x.names.workspace, l.s.repo, err)
	}
	return nil
}

func rekeyVersion(ctx context.Context, l *Lock, n int64) error {
	if l.released {
		return ErrLockLost
	}
	if l.s.o.Sealer == nil {
		return errNoKey
	}
	m, err := l.s.manifests.fetchState(ctx, l.x.names.numberedTag(n), l.x.names.workspace)
	if err != nil {
		return err
	}
	state, _, err := l.s.vault.readState(ctx, m, 0)
	if err != nil && !(m.Empty && errors.Is(err, oci.ErrNotFound)) {
		return err
	}
	switch {
	case !isSealed(m):
		return nil
	case m.Origin.Repository != l.s.repo.Name():
		return fmt.Errorf("it was encrypted for %s: %w", m.Origin.Repository, ErrReplica)
	}
	old := m.Manifest
	blob, _, err := l.s.vault.storeState(ctx, state, &m, l.s.vault.usageIn(ctx, m))
	if err != nil {
		return err
	}
	next, err := format.NewStateManifest(m)
	if err != nil {
		return err
	}
	if _, err := l.s.repo.EnsureBlob(ctx, blob); err != nil {
		return err
	}
	return replaceVersion(ctx, l, n, old, next)
}

func replaceVersion(ctx context.Context, l *Lock, n int64, old oci.Descriptor, next oci.Manifest) error {
	v, _, err := l.x.listToLock(ctx)
	if err != nil {
		return err
	}
	if !v.Has(l.hold.Claim) || v.Ended[l.hold.Claim] != 0 {
		return ErrLockLost
	}
	if err := l.s.repo.PutTag(ctx, l.x.names.numberedTag(n), next); err != nil {
		return err
	}
	if n == v.Newest {
		l.head = nil
		if err := l.s.pointers.movePointer(ctx, l.x.names, n); err != nil {
			return err
		}
	}
	err = l.s.repo.Delete(ctx, old)
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied) {
		return nil // the version has no tag any more
	}
	return err
}
