// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// isReplica reports whether the states are a copy; they keep the mark when they are taken over.
func (l *Listing) isReplica(ctx context.Context) (bool, error) {
	if !l.marked {
		return false, nil
	}
	m, err := l.b.States.Fetch(ctx, format.TagReplica)
	if err != nil {
		return false, oci.IgnoreNotFound(err)
	}
	mark, err := format.ParseReplicaMark(m)
	return !mark.Promoted, err
}

// PutVariable stores a variable, or deletes it.
func (l *Listing) PutVariable(ctx context.Context, v Variable, deleted bool, by string) error {
	return l.writeRecord(ctx, record{Variable: &v, Deleted: deleted, By: by})
}

// PutSettings stores the settings of a workspace, if they are new.
func (l *Listing) PutSettings(ctx context.Context, s Settings, by string) error {
	known, err := l.Settings(ctx, s.Workspace)
	old := known[s.Workspace]
	if err != nil || old.Project == s.Project && old.Mode == s.Mode && maps.Equal(old.Options, s.Options) {
		return err
	}
	return l.writeRecord(ctx, record{Settings: &s, By: by})
}

// PutSet stores a set, or deletes it after its variables and uses, so that this can be repeated.
func (l *Listing) PutSet(ctx context.Context, s Set, deleted bool, by string) error {
	if deleted {
		its := parentHash(kindSet, s.ID)
		records, err := l.readRecords(ctx, func(t tag) bool { return t.parent == its })
		if err != nil {
			return err
		}
		records = slices.DeleteFunc(records, func(r record) bool {
			return (r.Variable == nil || r.Variable.Set != s.ID) && (r.Use == nil || r.Use.Set != s.ID)
		})
		if err := l.deleteRecords(ctx, by, records); err != nil {
			return err
		}
	}
	return l.writeRecord(ctx, record{Set: &s, Deleted: deleted, By: by})
}

// PutUse stores a use of a set, or deletes it.
func (l *Listing) PutUse(ctx context.Context, u Use, deleted bool, by string) error {
	return l.writeRecord(ctx, record{Use: &u, Deleted: deleted, By: by})
}

// EndWorkspace deletes the variables and settings of a workspace, and its uses of sets.
func (l *Listing) EndWorkspace(ctx context.Context, workspace, by string) error {
	records, err := l.ofWorkspace(ctx, workspace)
	if err != nil {
		return err
	}
	return l.deleteRecords(ctx, by, records)
}

// Take moves the records of another book that l lacks, sealed for their new place. left are the
// tags of those that cannot be read, which stay. A dry run only counts.
func (l *Listing) Take(ctx context.Context, from Book, dry bool) (taken int, left []string, err error) {
	other, err := from.List(ctx)
	if err != nil {
		return 0, nil, err
	}
	for id, tags := range other.ids {
		if l.ids[id] == nil {
			r, err := from.readOne(ctx, tags[0])
			switch {
			case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrUnsupported), errors.Is(err, oci.ErrNotFound):
				left = append(left, tags[0].String())
				continue
			case err == nil && !r.Deleted:
				if taken++; !dry {
					_, err = l.b.putRecord(ctx, tags[0], r)
				}
			}
			if err != nil {
				return taken, left, err
			}
		}
		if dry {
			continue
		}
		if l.ids[id] == nil {
			l.ids[id] = tags[:1]
		}
		for _, t := range tags {
			from.removeRecord(ctx, t) // best effort: nothing reads it any more
		}
	}
	return taken, left, nil
}

// Reseal writes each record again whose seal is not right, and returns the number of those.
func (l *Listing) Reseal(ctx context.Context, by string, right func(seal map[string]string) bool) (n int, err error) {
	records, err := l.readRecords(ctx, func(tag) bool { return true })
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if right(r.seal) {
			continue
		}
		r.By = by
		if err := l.writeRecord(ctx, r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (l *Listing) deleteRecords(ctx context.Context, by string, records []record) error {
	for _, r := range records {
		r.Deleted = true
		r.By = by
		if err := l.writeRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes the next record of an id, and removes older ones if the registry deletes.
func (l *Listing) writeRecord(ctx context.Context, r record) error {
	t := tag{nonce: newNonce(), seq: 1}
	t.kind, t.parent, t.id = r.tagParts()
	before := l.ids[t.kind+t.id]
	if len(before) > 0 {
		t.seq = before[0].seq + 1
	}
	replica, err := l.isReplica(ctx)
	switch {
	case err != nil:
		return err
	case replica:
		return fmt.Errorf("%s: %w", l.b.Repo, statebackend.ErrReplica)
	case r.Deleted && len(before) == 0:
		return nil
	case len(before) == 0 && len(l.ids) >= maxRecords, t.seq > maxSeq:
		return fmt.Errorf("%s has %d of them, including deleted ones that the registry keeps: %w", l.b.Repo, len(l.ids), ErrFull)
	case len(before) == 0 && t.kind == kindVariable && len(l.wantedTags(t.isBeside)) >= maxOfOne:
		return fmt.Errorf("a workspace, or a set, has at most %d variables: %w", maxOfOne, ErrFull)
	}
	if r.Deleted {
		r.markDeleted(r.By, l.b.Now())
	}
	r.Updated = l.b.Now().UTC()
	m, err := l.b.putRecord(ctx, t, r)
	if err != nil {
		return err
	}
	gone := true
	for _, old := range before {
		gone = l.b.removeRecord(ctx, old) && gone
	}
	l.ids[t.kind+t.id] = append([]tag{t}, before...)
	if r.Deleted && gone { // no older record is left that this one must hide
		_ = l.b.Repo.Delete(ctx, oci.Descriptor{Digest: m.Digest}) // best effort
		delete(l.ids, t.kind+t.id)
	}
	return nil
}

func (t tag) isBeside(other tag) bool { return t.kind == other.kind && t.parent == other.parent }

func (b Book) putRecord(ctx context.Context, t tag, r record) (oci.Manifest, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return oci.Manifest{}, err
	}
	blob, err := artifact.SealInlined(ctx, b.Repo, b.Sealer, t.String(), mediaVariable, text)
	if err != nil {
		return oci.Manifest{}, err
	}
	r.tag = t
	r.seal = blob.Annotations
	ann := map[string]string{annTag: t.String()}
	blobs := []oci.Blob{blob}
	if len(blob.Data) > 0 {
		inside, err := json.Marshal(blob.Descriptor)
		if err != nil {
			return oci.Manifest{}, err
		}
		ann[annRecord] = string(inside)
		blob = oci.EmptyBlob()
		blobs = nil
	}
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: artifactVariable, Config: artifact.EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor}, Annotations: ann,
	})
	if err != nil {
		return m, err
	}
	b.keepRecord(r)
	ensure := blobs != nil || !b.hasEmpty(false)
	for n := 1; ; n++ { // no other record uses the tag, so it may be sent again
		if ensure {
			if err := artifact.EnsureBlobs(ctx, b.Repo, blobs...); err != nil {
				return m, err
			}
		}
		err := b.Repo.PutTag(ctx, t.String(), m)
		if err == nil {
			b.hasEmpty(true)
		}
		if ensure && !errors.Is(err, oci.ErrUncertain) || err == nil || n == tries {
			return m, err
		}
		ensure = true // the registry may have removed the empty blob with the last record
	}
}

func (b Book) removeRecord(ctx context.Context, t tag) bool {
	d, err := b.Repo.Resolve(ctx, t.String())
	if err == nil {
		err = b.Repo.Delete(ctx, d)
	}
	return err == nil || errors.Is(err, oci.ErrNotFound)
}
