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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

const (
	artifactVariable = "application/vnd.okara.variable.v1"
	mediaVariable    = "application/vnd.okara.variable.v1+json"
	annTag           = "vnd.okara.variable.tag" // so that no two records share a manifest: manifests are deleted by digest

	annRecord = "vnd.okara.variable.record" // the layer of a small record, with its content, so that it is one request

	// maxRecords bounds an organization's records, each a tag in every list, and maxOfOne the
	// variables of a workspace or a set.
	maxRecords = 2000
	maxOfOne   = 500
	maxRecord  = 256 << 10 // bytes of one record
	parallel   = 8
	// tries is how often a record is written if the answer is lost.
	tries = 3
)

// ErrFull says that an organization has no room for records, or a workspace or set for variables.
var ErrFull = errors.New("too many variables and sets")

// Book is what decides about the runs of an organization: variables, sets of them, uses of sets,
// and settings of workspaces. With a Sealer an unsealed record is [oci.ErrCorrupt].
type Book struct {
	Repo   *oci.Repo
	States *oci.Repo       // of the states; it has the mark of a copy
	Sealer artifact.Sealer // nil: records are in clear
	Now    func() time.Time
	Known  *Known // nil: each record is read again
}

// Open returns the book beside an organization's states, where their writers cannot push.
func Open(states *oci.Repo, s artifact.Sealer, now func() time.Time, known *Known) (Book, error) {
	repo, err := states.Beside(addr.RunsSuffix)
	return Book{repo, states, s, now, known}, err
}

// Former returns the book of versions that kept records among the states, for [Listing.Take].
func (b Book) Former() Book { return Book{b.States, b.States, b.Sealer, b.Now, nil} }

// Known has records that were read or written; what is under a tag never changes.
type Known struct {
	mu      sync.Mutex // guards the fields below
	kept    map[string]record
	size    int
	written map[string]bool // repositories to which a record was written, so that they have the empty blob
}

const (
	maxKnown   = 16 << 20 // bytes of all kept records
	sizeRecord = 512      // of a record without its texts
)

func (r record) size() int {
	if r.Variable == nil {
		return sizeRecord
	}
	return sizeRecord + len(r.Variable.Value)
}

func (b Book) recall(t tag) (record, bool) {
	if b.Known == nil {
		return record{}, false
	}
	b.Known.mu.Lock()
	defer b.Known.mu.Unlock()
	r, ok := b.Known.kept[b.Repo.String()+":"+t.String()]
	return r, ok
}

// hasEmpty reports whether a record, and so the blob of each manifest, was written; now notes it.
func (b Book) hasEmpty(now bool) bool {
	if b.Known == nil {
		return false
	}
	b.Known.mu.Lock()
	defer b.Known.mu.Unlock()
	if now && b.Known.written == nil {
		b.Known.written = map[string]bool{}
	}
	if now {
		b.Known.written[b.Repo.String()] = true
	}
	return b.Known.written[b.Repo.String()]
}

func (b Book) keepRecord(r record) {
	k := b.Known
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || k.size > maxKnown {
		k.kept = map[string]record{}
		k.size = 0
	}
	k.kept[b.Repo.String()+":"+r.tag.String()] = r
	k.size += r.size()
}

// Listing is a list of the records of a book. It reads those that are asked for, and knows what is
// written through it. It is not safe for concurrent use.
type Listing struct {
	b      Book
	ids    map[string][]tag // by kind and id, the newest first
	marked bool             // the repository is or was a copy
}

// List lists the records; none if the repository does not exist.
func (b Book) List(ctx context.Context) (*Listing, error) {
	l := &Listing{b: b, ids: map[string][]tag{}}
	list, err := b.Repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return l, nil
	}
	for _, s := range list.Tags {
		if t, ok := parseTag(s); ok {
			l.ids[t.kind+t.id] = append(l.ids[t.kind+t.id], t)
		}
	}
	for _, tags := range l.ids {
		slices.SortFunc(tags, compareNewer)
	}
	l.marked = slices.Contains(list.Tags, format.TagReplica)
	return l, err
}

// compareNewer sorts the record that counts first.
func compareNewer(a, b tag) int {
	return cmp.Or(cmp.Compare(b.seq, a.seq), strings.Compare(b.nonce, a.nonce))
}

// Variables lists the variables of a workspace, sorted by category and key.
func (l *Listing) Variables(ctx context.Context, workspace string) ([]Variable, error) {
	return l.variables(ctx, parentHash(kindWorkspace, workspace), func(v Variable) bool { return v.Workspace == workspace })
}

// SetVariables lists the variables of a set.
func (l *Listing) SetVariables(ctx context.Context, set string) ([]Variable, error) {
	return l.variables(ctx, parentHash(kindSet, set), func(v Variable) bool { return v.Set == set })
}

func (l *Listing) variables(ctx context.Context, parent string, its func(Variable) bool) ([]Variable, error) {
	records, err := l.readRecords(ctx, func(t tag) bool { return t.kind == kindVariable && t.parent == parent })
	if err != nil {
		return nil, err
	}
	var list []Variable
	for _, r := range records {
		if its(*r.Variable) { // two names may share a hash
			list = append(list, *r.Variable)
		}
	}
	slices.SortFunc(list, compareVariables)
	return list, nil
}

func compareVariables(a, b Variable) int {
	return strings.Compare(a.Category+"\x00"+a.Key+"\x00"+a.ID, b.Category+"\x00"+b.Key+"\x00"+b.ID)
}

// Variable returns the variable with an id; nil if there is none.
func (l *Listing) Variable(ctx context.Context, id string) (*Variable, error) {
	records, err := l.readRecords(ctx, func(t tag) bool { return t.kind == kindVariable && t.id == id })
	if err != nil || len(records) == 0 {
		return nil, err
	}
	one := *records[0].Variable
	return &one, nil
}

// Settings returns the settings by name of one workspace, or with "" of all that have some.
func (l *Listing) Settings(ctx context.Context, workspace string) (map[string]Settings, error) {
	records, err := l.readRecords(ctx, func(t tag) bool {
		return t.kind == kindSettings && (workspace == "" || t.id == settingsID(workspace))
	})
	all := map[string]Settings{}
	for _, r := range records {
		all[r.Settings.Workspace] = *r.Settings
	}
	return all, err
}

// Sets lists the sets, sorted by name, and their uses.
func (l *Listing) Sets(ctx context.Context) ([]Set, []Use, error) {
	records, err := l.readRecords(ctx, func(t tag) bool { return t.kind == kindSet || t.kind == kindUse })
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

func (l *Listing) ofWorkspace(ctx context.Context, workspace string) ([]record, error) {
	its := parentHash(kindWorkspace, workspace)
	records, err := l.readRecords(ctx, func(t tag) bool { return t.kind == kindUse || t.parent == its })
	return slices.DeleteFunc(records, func(r record) bool {
		isVariable := r.Variable != nil && r.Variable.Set == "" && r.Variable.Workspace == workspace
		isUse := r.Use != nil && r.Use.Workspace == workspace
		return !isVariable && !isUse && (r.Settings == nil || r.Settings.Workspace != workspace)
	}), err
}

// readRecords reads the newest wanted records that are not deleted. One that is listed but not
// found may have been removed after a newer one was written, which another list shows. One that is
// again not found is skipped: its write was not acknowledged.
func (l *Listing) readRecords(ctx context.Context, want func(tag) bool) ([]record, error) {
	for again := false; ; again = true {
		records, err := l.readAll(ctx, l.wantedTags(want), again)
		if again || !errors.Is(err, oci.ErrNotFound) {
			return slices.DeleteFunc(records, func(r record) bool { return r.Deleted }), err
		}
		next, err := l.b.List(ctx)
		if err != nil {
			return nil, err
		}
		*l = *next
	}
}

// readAll reads the first tag of each id or, if found is set, the first that is found.
func (l *Listing) readAll(ctx context.Context, ids [][]tag, found bool) ([]record, error) {
	records := make([]record, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, tags := range ids {
		g.Go(func() (err error) {
			records[i] = record{Deleted: true} // if none is found
			for _, t := range tags {
				r, err := l.b.readOne(ctx, t)
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
	if r, ok := b.recall(t); ok {
		return r, nil
	}
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
		return record{}, b.corruptRecord(t)
	}
	if r.Variable != nil {
		r.Variable.ID = t.id
	}
	if r.Set != nil {
		r.Set.ID = t.id
	}
	if kind, parent, id := r.tagParts(); kind != t.kind || parent != t.parent || id != t.id {
		return record{}, b.corruptRecord(t)
	}
	b.keepRecord(r)
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
		return m, oci.Descriptor{}, b.corruptRecord(t)
	}
	layer := image.Layers[0]
	if inside := image.Annotations[annRecord]; inside != "" {
		layer = oci.Descriptor{}
		if json.Unmarshal([]byte(inside), &layer) != nil || len(layer.Data) == 0 {
			return m, layer, b.corruptRecord(t)
		}
	}
	return m, layer, nil
}

func (b Book) corruptRecord(t tag) error {
	return fmt.Errorf("%s:%s is not a variable, set or use of one: %w", b.Repo, t, oci.ErrCorrupt)
}

func (l *Listing) wantedTags(want func(tag) bool) [][]tag {
	var ids [][]tag
	for _, tags := range l.ids {
		if want(tags[0]) {
			ids = append(ids, tags)
		}
	}
	return ids
}
