// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// WorkspaceVariable stands for the workspace in a repository name. Who opens a Store replaces it.
const WorkspaceVariable = "{workspace}"

// Record is the metadata of a workspace, stored beside its state.
type Record = format.WorkspaceRecord

// ErrRecord says that a record has a value out of bounds, or that there are too many workspaces.
var ErrRecord = errors.New("workspace record refused")

// Workspace is a workspace as described by its record, its state and its lock.
type Workspace struct {
	Name   string
	Record *Record  // the newest, also one that says deleted; nil: none. Must not be changed
	Head   *Version // without its state; nil: no state in this repository
	Held   *Held    // the lock; nil: free
}

// Exists reports whether there is a live record, or a state: of another API, or half deleted.
func (w Workspace) Exists() bool { return w.Live() != nil || w.Head != nil }

// Live returns the record; nil if there is none or it says deleted.
func (w Workspace) Live() *Record {
	if w.Record == nil || w.Record.Deleted {
		return nil
	}
	return w.Record
}

// Record returns the newest record, also one that says deleted; nil: none. It is cached.
func (l *Listing) Record(ctx context.Context, workspace string) (*Record, error) {
	r, err := l.newestRecord(ctx, l.recordTags()[tagNamesOf(workspace).fragment])
	if err != nil {
		return nil, fmt.Errorf("the record of workspace %q in %s: %w", workspace, l.s.repo, err)
	}
	if r != nil && r.Workspace != workspace { // two names share a fragment
		return nil, fmt.Errorf("the record of workspace %q in %s belongs to %q: %w", workspace, l.s.repo, text.Excerpt(r.Workspace), oci.ErrCorrupt)
	}
	return r, nil
}

// Exists is [Workspace.Exists] that reads the state only where the record does not decide.
func (l *Listing) Exists(ctx context.Context, workspace string) (bool, error) {
	r, err := l.Record(ctx, workspace)
	if err != nil || r != nil && !r.Deleted {
		return err == nil, err
	}
	head, err := l.newestVersion(ctx, workspace)
	return head != nil, err
}

// Workspace describes one workspace, existing or not. What this store read or wrote is cached.
func (l *Listing) Workspace(ctx context.Context, workspace string) (Workspace, error) {
	w := Workspace{Name: workspace}
	var err error
	if w.Record, err = l.Record(ctx, workspace); err != nil {
		return w, err
	}
	if w.Head, err = l.newestVersion(ctx, workspace); err != nil {
		return w, err
	}
	w.Held, err = l.Held(ctx, workspace)
	return w, err
}

// newestVersion returns the newest version, of the older form of the name if there is no other.
func (l *Listing) newestVersion(ctx context.Context, workspace string) (*Version, error) {
	var own, old []format.StateTag
	for _, t := range newestTags(l.tags) {
		switch t.Fragment {
		case tagNamesOf(workspace).fragment:
			own = append(own, t)
		case format.OldStateFragment(workspace):
			old = append(old, t)
		}
	}
	for _, t := range append(own, old...)[:min(1, len(own)+len(old))] {
		head, err := l.s.catalog.readHeadCached(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("the state of workspace %q in %s: %w", workspace, l.s.repo, err)
		}
		if head.Workspace == "" && head.Digest != "" { // reporting it as absent would let it be created again
			return nil, fmt.Errorf("the state of workspace %q in %s: %s is not a version of a state: %w", workspace, l.s.repo, t, oci.ErrCorrupt)
		}
		if head.Workspace == workspace {
			return &head.Version, nil
		}
	}
	return nil, nil
}

// Workspaces returns the existing workspaces by name, like [Listing.Workspace]. It misses an older
// tool's lock where okara has locked the workspace and could not delete its own tags.
func (l *Listing) Workspaces(ctx context.Context) ([]Workspace, error) {
	found, err := l.gatherWorkspaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", l.s.repo, err)
	}
	list := make([]Workspace, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if w := found[name]; w.Exists() {
			list = append(list, *w)
		}
	}
	locks, err := l.s.manifests.locksOf(ctx, l.shownLocks())
	if err != nil {
		return nil, fmt.Errorf("listing locks of %s: %w", l.s.repo, err)
	}
	for _, h := range locks {
		i, ok := slices.BinarySearchFunc(list, h.Workspace, func(w Workspace, name string) int { return strings.Compare(w.Name, name) })
		if ok {
			list[i].Held = &h
		}
	}
	return list, nil
}

// shownLocks returns the live claims, and the markers of workspaces with neither claim nor
// tombstone: where nothing can be deleted, every workspace has a marker.
func (l *Listing) shownLocks() []format.StateTag {
	known := map[string]bool{}
	for _, tag := range l.tags {
		if t, ok := format.ParseStateTag(tag); ok && (t.Kind == format.LockClaim || t.Kind == format.LockTombstone || t.Kind == format.ForceTombstone) {
			known[t.Fragment] = true
		}
	}
	return slices.DeleteFunc(lockTags(l.tags), func(t format.StateTag) bool { return t.Kind == format.LockMarker && known[t.Fragment] })
}

func (l *Listing) gatherWorkspaces(ctx context.Context) (map[string]*Workspace, error) {
	records := slices.Collect(maps.Values(l.recordTags()))
	newest := newestTags(l.tags)
	read := make([]*Record, len(records))
	heads := make([]Head, len(newest))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReads)
	for i, tags := range records {
		g.Go(func() (err error) {
			read[i], err = l.newestRecord(ctx, tags)
			return err
		})
	}
	for i, t := range newest {
		g.Go(func() (err error) {
			heads[i], err = l.s.catalog.readHeadCached(ctx, t)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	found := map[string]*Workspace{}
	of := func(name string) *Workspace {
		if found[name] == nil {
			found[name] = &Workspace{Name: name}
		}
		return found[name]
	}
	for _, r := range read {
		if r != nil {
			of(r.Workspace).Record = r
		}
	}
	for _, h := range heads {
		if h.Workspace != "" {
			if w := of(h.Workspace); w.Head == nil || w.Head.N < h.N {
				w.Head = &h.Version
			}
		}
	}
	return found, nil
}

// View is [Store.View] of the highest listed version, regardless of state-W. If that cannot be
// read, as while it is written, newer lists are used.
func (l *Listing) View(ctx context.Context, workspace string, use func(state []byte, v Version) error) (Version, error) {
	names := tagNamesOf(workspace)
	m, err := l.s.manifests.readNewest(ctx, names, protocol.NewSnapshot(l.tags, names.fragment))
	if _, gone := errors.AsType[*unreadableError](err); gone {
		m, err = l.s.manifests.readListed(ctx, names)
	}
	if err != nil {
		return Version{}, err
	}
	return l.s.vault.view(ctx, m, m.N, use)
}

// recordTags returns the tags of records by fragment, the newest first.
func (l *Listing) recordTags() map[string][]format.WorkspaceTag {
	found := map[string][]format.WorkspaceTag{}
	for _, tag := range l.tags {
		if t, ok := format.ParseWorkspaceTag(tag); ok {
			found[t.Fragment] = append(found[t.Fragment], t)
		}
	}
	for _, tags := range found {
		slices.SortFunc(tags, func(a, b format.WorkspaceTag) int {
			return cmp.Or(cmp.Compare(b.Seq, a.Seq), strings.Compare(b.Hex, a.Hex))
		})
	}
	return found
}

const maxBadRecords = 100

// errNoRecord says that a tag holds no record, not that a record arrived incomplete.
var errNoRecord = errors.New("not a workspace record")

// newestRecord reads the first of these tags that holds a record; nil if none does. It skips what
// okara did not write. A tag that is listed but not found is skipped if a second list shows it as
// well, since its write was never acknowledged; else it was removed after a newer write.
func (l *Listing) newestRecord(ctx context.Context, tags []format.WorkspaceTag) (*Record, error) {
	relisted := false
	for _, t := range tags[:min(len(tags), maxBadRecords)] {
		r, err := l.s.catalog.readRecordCached(ctx, t.String())
		switch {
		case errors.Is(err, errNoRecord):
			continue
		case !errors.Is(err, oci.ErrNotFound):
			return r, err
		case relisted:
			continue
		}
		again, err := l.s.List(ctx)
		if err != nil {
			return nil, err
		}
		if now := again.recordTags()[t.Fragment]; !slices.Equal(now, tags) {
			return again.newestRecord(ctx, now)
		}
		relisted = true
	}
	if len(tags) > maxBadRecords {
		return nil, fmt.Errorf("%d tags like %s contain no record: %w", maxBadRecords, tags[0], oci.ErrCorrupt)
	}
	return nil, nil
}

func (s *catalog) readRecordCached(ctx context.Context, tag string) (*Record, error) {
	if r, ok := recallValue[*Record](&s.heads, tag); ok {
		return r, nil
	}
	m, err := s.manifests.repo.Fetch(ctx, tag)
	if err != nil {
		return nil, err
	}
	r, err := format.ParseWorkspaceRecord(tag, m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	s.heads.keepValue(tag, &r, len(m.Bytes))
	return &r, nil
}

// readHeadCached is fetchHead with a cache. A version is only ever rewritten with the same content.
func (s *catalog) readHeadCached(ctx context.Context, t format.StateTag) (Head, error) {
	if h, ok := recallValue[Head](&s.heads, t.String()); ok {
		return h, nil
	}
	h, err := s.fetchHead(ctx, t)
	dangling := h.Workspace != "" && h.Digest == "" // listed but not found
	if err == nil && t.Kind == format.StateNumbered && !dangling {
		s.heads.keepValue(t.String(), h, headSize)
	}
	return h, err
}

func (s *catalog) remember(l tagNames, v Version) {
	h := Head{l.workspace, v}
	if v.Empty {
		h = Head{}
	}
	s.heads.keepValue(l.numberedTag(v.N), h, headSize)
}

func (s *catalog) recordAge(r *Record) time.Duration { return s.manifests.o.Now().Sub(r.Updated) }
