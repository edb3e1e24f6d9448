// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Replicated is the result of replicating variables, sets and uses of sets.
type Replicated struct {
	Copied, Removed int
	Left            int // sealed for the path of the source, so that no reader of the copy could open them
}

// Replicate copies the records of b to dst, which must be marked as a copy, else
// [statebackend.ErrReplica]. Only reseal for another path, or dst without deletion, needs a key.
func (b Book) Replicate(ctx context.Context, dst Book, reseal bool) (n Replicated, err error) {
	from, err := b.List(ctx)
	if err != nil {
		return n, err
	}
	to, err := dst.List(ctx)
	if err != nil || len(from.ids)+len(to.ids) == 0 {
		return n, err
	}
	marked := to.marked
	to.marked = true
	if replica, err := to.isReplica(ctx); err != nil || !replica {
		return n, cmp.Or(err, fmt.Errorf("%s is not a copy of another repository: %w", dst.States, statebackend.ErrReplica))
	}
	if !marked {
		if err := dst.copyMark(ctx); err != nil {
			return n, err
		}
	}
	for id, tags := range from.ids {
		if err := b.replicate(ctx, dst, tags[0], to.ids[id], reseal, &n); err != nil {
			return n, err
		}
	}
	for id, tags := range to.ids {
		if from.ids[id] != nil {
			continue
		}
		changed, err := dst.withdraw(ctx, tags)
		if err != nil {
			return n, err
		}
		if changed {
			n.Removed++
		}
	}
	return n, nil
}

// copyMark copies the mark of the states to the records, whose list then has it, too.
func (b Book) copyMark(ctx context.Context) error {
	m, err := b.States.Fetch(ctx, format.TagReplica)
	if err != nil {
		return err
	}
	if err := artifact.EnsureBlobs(ctx, b.Repo); err != nil {
		return err
	}
	return b.Repo.PutTag(ctx, format.TagReplica, m)
}

// replicate copies the record of a tag, and removes other records of its id from dst.
func (b Book) replicate(ctx context.Context, dst Book, t tag, there []tag, reseal bool, n *Replicated) error {
	if !slices.Contains(there, t) {
		copied, err := b.copyTo(ctx, dst, t, reseal)
		switch {
		case errors.Is(err, oci.ErrNotFound): // replaced meanwhile; the next run finds the new one
			return nil
		case err != nil:
			return err
		case !copied:
			n.Left++
			return nil
		}
		n.Copied++
	}
	for _, other := range there {
		if other != t && !dst.removeRecord(ctx, other) && compareNewer(other, t) < 0 {
			return fmt.Errorf("%s:%s counts more than what is copied, and the registry does not allow deleting it: %w", dst.Repo, other, oci.ErrUnsupported)
		}
	}
	return nil
}

// copyTo copies a record unchanged, or seals it for dst; false if it stays sealed for b.
func (b Book) copyTo(ctx context.Context, dst Book, t tag, reseal bool) (bool, error) {
	m, layer, err := b.fetch(ctx, t)
	if err != nil {
		return false, err
	}
	if layer.MediaType != mediaVariable && b.Repo.Name() != dst.Repo.Name() {
		if !reseal {
			return false, nil
		}
		r, err := b.readOne(ctx, t)
		if err == nil {
			_, err = dst.putRecord(ctx, t, r)
		}
		return err == nil, err
	}
	var blobs []oci.Blob
	if image, err := m.Image(); err != nil || image.Annotations[annRecord] == "" { // else it is in the manifest
		blobs = append(blobs, oci.Blob{Descriptor: layer, From: b.Repo, Open: func() (io.ReadCloser, error) { return b.Repo.Open(ctx, layer) }})
	}
	if err := artifact.EnsureBlobs(ctx, dst.Repo, blobs...); err != nil {
		return false, err
	}
	err = dst.Repo.PutTag(ctx, t.String(), m)
	return err == nil, err
}

// withdraw removes the records of an id, or writes one that says deleted; false if that was there.
func (b Book) withdraw(ctx context.Context, tags []tag) (bool, error) {
	gone := true
	for _, t := range tags {
		gone = b.removeRecord(ctx, t) && gone
	}
	if gone {
		return true, nil
	}
	_, layer, err := b.fetch(ctx, tags[0])
	if err == nil && layer.MediaType != mediaVariable && b.Sealer == nil {
		err = fmt.Errorf("%s does not allow deletion, so recording that %s is deleted requires the state keys: %w", b.Repo, tags[0], oci.ErrUnsupported)
	}
	if err != nil {
		return false, err
	}
	r, err := b.readOne(ctx, tags[0])
	if err != nil || r.Deleted {
		return false, err
	}
	t := tags[0]
	t.seq = min(t.seq+1, maxSeq)
	t.nonce = newNonce()
	r.markDeleted("replicate", b.Now())
	_, err = b.putRecord(ctx, t, r)
	return err == nil, err
}
