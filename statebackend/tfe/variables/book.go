// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	artifactVariable = "application/vnd.okara.variable.v1"
	mediaVariable    = "application/vnd.okara.variable.v1+json"
	annTag           = "vnd.okara.variable.tag" // so that no two records share a manifest: manifests are deleted by digest

	// maxRecords bounds the records of an organization: each is a tag in every list of its
	// repository.
	maxRecords = 2000
	maxRecord  = 256 << 10 // bytes of one record
	parallel   = 8
	// tries is how often a record is written if the answer is lost.
	tries = 3
)

// ErrFull says that an organization has the maximum number of records.
var ErrFull = errors.New("too many variables and sets")

// Book reads and writes the variables of an organization.
type Book struct {
	Repo   *oci.Repo
	Sealer artifact.Sealer // nil: records are in clear
	Now    func() time.Time
}

// Variables lists the variables of a workspace, sorted by category and key.
func (b Book) Variables(ctx context.Context, workspace string) ([]Variable, error) {
	return b.variables(ctx, of("workspace", workspace), func(v Variable) bool { return v.Workspace == workspace })
}

// SetVariables lists the variables of a set.
func (b Book) SetVariables(ctx context.Context, set string) ([]Variable, error) {
	return b.variables(ctx, of(kindSet, set), func(v Variable) bool { return v.Set == set })
}

func (b Book) variables(ctx context.Context, parent string, its func(Variable) bool) ([]Variable, error) {
	records, err := b.read(ctx, func(t tag) bool { return t.kind == kindVariable && t.parent == parent })
	if err != nil {
		return nil, err
	}
	var list []Variable
	for _, r := range records {
		if its(*r.Variable) { // two names may share a hash
			list = append(list, *r.Variable)
		}
	}
	slices.SortFunc(list, compare)
	return list, nil
}

func compare(a, b Variable) int {
	return strings.Compare(a.Category+"\x00"+a.Key+"\x00"+a.ID, b.Category+"\x00"+b.Key+"\x00"+b.ID)
}

// Variable returns the variable with an id; nil if there is none.
func (b Book) Variable(ctx context.Context, id string) (*Variable, error) {
	records, err := b.read(ctx, func(t tag) bool { return t.kind == kindVariable && t.id == id })
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return records[0].Variable, nil
}

// Sets lists the sets, sorted by name, and their uses.
func (b Book) Sets(ctx context.Context) ([]Set, []Use, error) {
	records, err := b.read(ctx, func(t tag) bool { return t.kind != kindVariable })
	if err != nil {
		return nil, nil, err
	}
	var sets []Set
	var uses []Use
	for _, r := range records {
		if r.Set != nil {
			sets = append(sets, *r.Set)
		} else {
			uses = append(uses, *r.Use)
		}
	}
	slices.SortFunc(sets, func(a, b Set) int { return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	slices.SortFunc(uses, func(a, b Use) int {
		return strings.Compare(a.Set+"\x00"+a.Workspace+"\x00"+a.Project, b.Set+"\x00"+b.Workspace+"\x00"+b.Project)
	})
	return sets, uses, nil
}

// read reads the newest records whose tags are wanted, without deleted ones. A tag that is
// listed but not found may have been removed after a newer one was written; then another
// list shows the newer one. A tag that is again not found is skipped, since its write was
// not acknowledged.
func (b Book) read(ctx context.Context, want func(tag) bool) ([]record, error) {
	for again := false; ; again = true {
		l, err := b.list(ctx)
		if err != nil {
			return nil, err
		}
		records, err := b.readAll(ctx, l.wanted(want), again)
		if again || !errors.Is(err, oci.ErrNotFound) {
			return slices.DeleteFunc(records, func(r record) bool { return r.Deleted }), err
		}
	}
}

// readAll reads the first tag of each id or, if found is set, the first that is found.
func (b Book) readAll(ctx context.Context, ids [][]tag, found bool) ([]record, error) {
	records := make([]record, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, tags := range ids {
		g.Go(func() (err error) {
			records[i] = record{Deleted: true} // if none is found
			for _, t := range tags {
				r, err := b.readOne(ctx, t)
				if found && errors.Is(err, oci.ErrNotFound) {
					continue
				}
				if err == nil {
					records[i] = r
				}
				return err
			}
			return nil
		})
	}
	return records, g.Wait()
}

func (b Book) readOne(ctx context.Context, t tag) (record, error) {
	_, layer, err := b.fetch(ctx, t)
	if err != nil {
		return record{}, err
	}
	text, err := artifact.Open(ctx, b.Repo, b.Sealer, t.String(), mediaVariable, layer, maxRecord)
	if err != nil {
		return record{}, err
	}
	r := record{tag: t, seal: layer.Annotations}
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, b.corrupt(t)
	}
	if r.Variable != nil {
		r.Variable.ID = t.id
	}
	if r.Set != nil {
		r.Set.ID = t.id
	}
	if kind, parent, id := r.place(); kind != t.kind || parent != t.parent || id != t.id {
		return record{}, b.corrupt(t)
	}
	return r, nil
}

// fetch reads the manifest of a record, and returns the layer with the record.
func (b Book) fetch(ctx context.Context, t tag) (oci.Manifest, oci.Descriptor, error) {
	m, err := b.Repo.Fetch(ctx, t.String())
	if err != nil {
		return m, oci.Descriptor{}, err
	}
	image, err := m.Image()
	if err != nil {
		return m, oci.Descriptor{}, err
	}
	if image.ArtifactType != artifactVariable || len(image.Layers) != 1 {
		return m, oci.Descriptor{}, b.corrupt(t)
	}
	return m, image.Layers[0], nil
}

func (b Book) corrupt(t tag) error {
	return fmt.Errorf("%s:%s is no variable, set or use of one: %w", b.Repo, t, oci.ErrCorrupt)
}

// listing is a list of tags by record.
type listing struct {
	ids    map[string][]tag // by kind and id, the newest first
	marked bool             // the repository is or was a copy
}

// wanted returns the tags of the ids whose newest tag is wanted.
func (l listing) wanted(want func(tag) bool) [][]tag {
	var ids [][]tag
	for _, tags := range l.ids {
		if want(tags[0]) {
			ids = append(ids, tags)
		}
	}
	return ids
}

// list lists the records; none if the repository does not exist.
func (b Book) list(ctx context.Context) (l listing, err error) {
	list, err := b.Repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return l, nil
	}
	l.ids = map[string][]tag{}
	for _, s := range list.Tags {
		if t, ok := parseTag(s); ok {
			l.ids[t.kind+t.id] = append(l.ids[t.kind+t.id], t)
		}
	}
	for _, tags := range l.ids {
		slices.SortFunc(tags, newer)
	}
	l.marked = slices.Contains(list.Tags, format.TagReplica)
	return l, err
}

// newer sorts the record that counts first.
func newer(a, b tag) int {
	return cmp.Or(cmp.Compare(b.seq, a.seq), strings.Compare(b.nonce, a.nonce))
}

// replica reports whether the repository is a copy: one that was taken over keeps the
// mark.
func (b Book) replica(ctx context.Context, l listing) (bool, error) {
	if !l.marked {
		return false, nil
	}
	m, err := b.Repo.Fetch(ctx, format.TagReplica)
	if errors.Is(err, oci.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mark, err := format.ParseReplicaMark(m)
	return !mark.Promoted, err
}

// PutVariable stores a variable, or deletes it.
func (b Book) PutVariable(ctx context.Context, v Variable, deleted bool, by string) error {
	return b.write(ctx, record{Variable: &v, Deleted: deleted, By: by})
}

// PutSet stores a set, or deletes it with its variables and uses. These are deleted first,
// so that an interrupted deletion can be repeated.
func (b Book) PutSet(ctx context.Context, s Set, deleted bool, by string) error {
	if deleted {
		its := of(kindSet, s.ID)
		if err := b.end(ctx, by, func(t tag) bool { return t.parent == its }, func(r record) bool {
			return r.Variable != nil && r.Variable.Set == s.ID || r.Use != nil && r.Use.Set == s.ID
		}); err != nil {
			return err
		}
	}
	return b.write(ctx, record{Set: &s, Deleted: deleted, By: by})
}

// PutUse stores a use of a set, or deletes it.
func (b Book) PutUse(ctx context.Context, u Use, deleted bool, by string) error {
	return b.write(ctx, record{Use: &u, Deleted: deleted, By: by})
}

// EndWorkspace deletes the variables of a workspace and its uses of sets.
func (b Book) EndWorkspace(ctx context.Context, workspace, by string) error {
	its := of("workspace", workspace)
	return b.end(ctx, by, func(t tag) bool { return t.kind == kindUse || t.parent == its }, func(r record) bool {
		isItsVariable := r.Variable != nil && r.Variable.Set == "" && r.Variable.Workspace == workspace
		isItsUse := r.Use != nil && r.Use.Workspace == workspace
		return isItsVariable || isItsUse
	})
}

// Reseal writes each record again whose seal is not right, and returns the number of
// those.
func (b Book) Reseal(ctx context.Context, by string, right func(seal map[string]string) bool) (n int, err error) {
	records, err := b.read(ctx, func(tag) bool { return true })
	if err != nil {
		return 0, err
	}
	for _, r := range records {
		if right(r.seal) {
			continue
		}
		r.By = by
		if err := b.write(ctx, r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// end deletes records.
func (b Book) end(ctx context.Context, by string, read func(tag) bool, its func(record) bool) error {
	records, err := b.read(ctx, read)
	if err != nil {
		return err
	}
	for _, r := range records {
		if !its(r) {
			continue
		}
		r.Deleted = true
		r.By = by
		if err := b.write(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// write writes the next record of an id, and removes the older ones if the registry
// deletes.
func (b Book) write(ctx context.Context, r record) error {
	l, err := b.list(ctx)
	if err != nil {
		return err
	}
	t := tag{nonce: newNonce(), seq: 1}
	t.kind, t.parent, t.id = r.place()
	before := l.ids[t.kind+t.id]
	if len(before) > 0 {
		t.seq = before[0].seq + 1
	}
	replica, err := b.replica(ctx, l)
	switch {
	case err != nil:
		return err
	case replica:
		return fmt.Errorf("%s: %w", b.Repo, statebackend.ErrReplica)
	case r.Deleted && len(before) == 0:
		return nil
	case len(before) == 0 && len(l.ids) >= maxRecords, t.seq > maxSeq:
		return fmt.Errorf("%s has %d of them, with those that are deleted where the registry keeps them: %w", b.Repo, len(l.ids), ErrFull)
	}
	if r.Deleted {
		r.gone(r.By, b.Now())
	}
	r.Updated = b.Now().UTC()
	m, err := b.put(ctx, t, r)
	if err != nil {
		return err
	}
	gone := true
	for _, old := range before {
		gone = b.remove(ctx, old) && gone
	}
	if r.Deleted && gone { // no older record is left that this one must hide
		_ = b.Repo.Delete(ctx, oci.Descriptor{Digest: m.Digest}) // best effort
	}
	return nil
}

func (b Book) put(ctx context.Context, t tag, r record) (oci.Manifest, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return oci.Manifest{}, err
	}
	blob, err := artifact.SealInlined(ctx, b.Repo, b.Sealer, t.String(), mediaVariable, text)
	if err != nil {
		return oci.Manifest{}, err
	}
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: artifactVariable, Config: artifact.EmptyConfig(), Layers: []oci.Descriptor{blob.Descriptor},
		Annotations: map[string]string{annTag: t.String()},
	})
	if err != nil {
		return m, err
	}
	if err := artifact.EnsureBlobs(ctx, b.Repo, blob); err != nil {
		return m, err
	}
	for n := 1; ; n++ { // no other record uses the tag, so it may be sent again
		err := b.Repo.PutTag(ctx, t.String(), m)
		if !errors.Is(err, oci.ErrUncertain) || n == tries {
			return m, err
		}
	}
}

// remove removes a record, and reports whether it is gone.
func (b Book) remove(ctx context.Context, t tag) bool {
	d, err := b.Repo.Resolve(ctx, t.String())
	if err == nil {
		err = b.Repo.Delete(ctx, d)
	}
	return err == nil || errors.Is(err, oci.ErrNotFound)
}
