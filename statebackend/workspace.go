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

// WorkspaceVariable stands in the name of a repository for the workspace, so that
// each has a repository of its own. Who opens a Store puts the workspace in its place.
const WorkspaceVariable = "{workspace}"

// Record is what is known of a workspace beside its state.
type Record = format.WorkspaceRecord

// ErrRecord says that a record is not stored: a value is out of bounds, or there
// are too many workspaces.
var ErrRecord = errors.New("workspace record refused")

// Workspace is a workspace as its record, its state and its lock tell.
type Workspace struct {
	Name   string
	Record *Record  // the newest, also one that says deleted; nil: none. Not to be changed
	Head   *Version // without its state; nil: there is none in this repository
	Held   *Held    // the lock; nil: free
}

// Exists reports whether there is such a workspace: its record says so, or it has a
// state, which another door may have made, or a deletion that was cut off has left.
func (w Workspace) Exists() bool { return w.Live() != nil || w.Head != nil }

// Live is the record that counts, nil if there is none or it says deleted.
func (w Workspace) Live() *Record {
	if w.Record == nil || w.Record.Deleted {
		return nil
	}
	return w.Record
}

// Record returns the newest record of a workspace, also one that says deleted; nil
// if it has none. A record that was seen before costs no request.
func (l *Listing) Record(ctx context.Context, workspace string) (*Record, error) {
	r, err := l.newestRecord(ctx, l.records()[tagNamesOf(workspace).fragment])
	if err != nil {
		return nil, fmt.Errorf("the record of workspace %q in %s: %w", workspace, l.s.repo, err)
	}
	if r != nil && r.Workspace != workspace { // two names with one fragment
		return nil, fmt.Errorf("the record of workspace %q in %s belongs to %q: %w", workspace, l.s.repo, text.Excerpt(r.Workspace), oci.ErrCorrupt)
	}
	return r, nil
}

// Exists is [Workspace.Exists], with fewer requests: the state is looked at only
// where the record does not decide.
func (l *Listing) Exists(ctx context.Context, workspace string) (bool, error) {
	r, err := l.Record(ctx, workspace)
	if err != nil || r != nil && !r.Deleted {
		return err == nil, err
	}
	head, err := l.head(ctx, workspace)
	return head != nil, err
}

// Workspace tells about one workspace, whether or not it exists. What was seen
// before, or written by this store, costs no request.
func (l *Listing) Workspace(ctx context.Context, workspace string) (Workspace, error) {
	w := Workspace{Name: workspace}
	var err error
	if w.Record, err = l.Record(ctx, workspace); err != nil {
		return w, err
	}
	if w.Head, err = l.head(ctx, workspace); err != nil {
		return w, err
	}
	w.Held, err = l.Held(ctx, workspace)
	return w, err
}

// head returns the newest version of a workspace; nil if it has no state. Tags of
// the older form of its name count where there are none of today's.
func (l *Listing) head(ctx context.Context, workspace string) (*Version, error) {
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
		head, err := l.s.cachedHead(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("the state of workspace %q in %s: %w", workspace, l.s.repo, err)
		}
		if head.Workspace == "" && head.Digest != "" { // to call it absent would let it be made anew
			return nil, fmt.Errorf("the state of workspace %q in %s: %s is no version of a state: %w", workspace, l.s.repo, t, oci.ErrCorrupt)
		}
		if head.Workspace == workspace {
			return &head.Version, nil
		}
	}
	return nil, nil
}

// Workspaces are those that exist, in order of their names, each with its record,
// its newest version and its lock. What was seen before, or written by this store,
// costs no request. A lock that only an older tool's marker shows is missing where
// okara has locked the workspace and could not delete what it left.
func (l *Listing) Workspaces(ctx context.Context) ([]Workspace, error) {
	found, err := l.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", l.s.repo, err)
	}
	list := make([]Workspace, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if w := found[name]; w.Exists() {
			list = append(list, *w)
		}
	}
	locks, err := l.s.locksOf(ctx, l.shownLocks())
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

// shownLocks are the live claims, and the markers of workspaces of which there is
// no claim nor tombstone: where nothing can be deleted, markers are everywhere.
func (l *Listing) shownLocks() []format.StateTag {
	known := map[string]bool{}
	for _, tag := range l.tags {
		if t, ok := format.ParseStateTag(tag); ok && (t.Kind == format.LockClaim || t.Kind == format.LockTombstone || t.Kind == format.ForceTombstone) {
			known[t.Fragment] = true
		}
	}
	return slices.DeleteFunc(lockTags(l.tags), func(t format.StateTag) bool { return t.Kind == format.LockMarker && known[t.Fragment] })
}

// gather reads the records and the newest versions of all workspaces, by name.
func (l *Listing) gather(ctx context.Context) (map[string]*Workspace, error) {
	records := slices.Collect(maps.Values(l.records()))
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
			heads[i], err = l.s.cachedHead(ctx, t)
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

// Replicable lists the workspaces of which [Store.Replicate] finds something: a
// state or a record, also one that says deleted.
func (s *Store) Replicable(ctx context.Context) ([]string, error) {
	l, err := s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", s.repo, err)
	}
	found, err := l.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing workspaces of %s: %w", s.repo, err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// View is [Store.View] of the highest version that the list shows, whatever state-W
// says. One that cannot be read, as while it is written, is looked for in newer lists.
func (l *Listing) View(ctx context.Context, workspace string, use func(state []byte, v Version) error) (Version, error) {
	names := tagNamesOf(workspace)
	m, err := l.s.newest(ctx, names, protocol.NewSnapshot(l.tags, names.fragment))
	if _, gone := errors.AsType[*unreadableError](err); gone {
		m, err = l.s.listed(ctx, names)
	}
	if err != nil {
		return Version{}, err
	}
	return l.s.view(ctx, m, m.N, use)
}

// records returns the tags of records by the fragment of their workspace, the one
// that counts first.
func (l *Listing) records() map[string][]format.WorkspaceTag {
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

// maxBadRecords bounds how many tags are read in vain before a record counts.
const maxBadRecords = 100

// errNoRecord says that what is under a tag is no record, as opposed to one that the
// registry did not send whole.
var errNoRecord = errors.New("no workspace record")

// newestRecord reads the first of these tags under which a record is; nil if there
// is none. What is not okara's record does not count, nor a tag that is listed and
// not found, in a second list too: its write was never acknowledged.
// One that the second list does not show was removed after a newer one.
func (l *Listing) newestRecord(ctx context.Context, tags []format.WorkspaceTag) (*Record, error) {
	relisted := false
	for _, t := range tags[:min(len(tags), maxBadRecords)] {
		r, err := l.s.cachedRecord(ctx, t.String())
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
		if now := again.records()[t.Fragment]; !slices.Equal(now, tags) {
			return again.newestRecord(ctx, now)
		}
		relisted = true
	}
	if len(tags) > maxBadRecords {
		return nil, fmt.Errorf("%d tags like %s hold no record: %w", maxBadRecords, tags[0], oci.ErrCorrupt)
	}
	return nil, nil
}

// cachedRecord reads a record; what is under its tag never changes.
func (s *reader) cachedRecord(ctx context.Context, tag string) (*Record, error) {
	if r, ok := recall[*Record](&s.heads, tag); ok {
		return r, nil
	}
	m, err := s.repo.Fetch(ctx, tag)
	if err != nil {
		return nil, err
	}
	r, err := format.ParseWorkspaceRecord(tag, m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	s.heads.keep(tag, &r, len(m.Bytes))
	return &r, nil
}

// cachedHead is head, but a version that was read before is not read again. Nobody
// rewrites a version but with the same content.
func (s *reader) cachedHead(ctx context.Context, t format.StateTag) (Head, error) {
	if h, ok := recall[Head](&s.heads, t.String()); ok {
		return h, nil
	}
	h, err := s.head(ctx, t)
	dangling := h.Workspace != "" && h.Digest == "" // listed, and not found
	if err == nil && t.Kind == format.StateNumbered && !dangling {
		s.heads.keep(t.String(), h, headSize)
	}
	return h, err
}

// remember keeps what this store wrote itself.
func (s *reader) remember(l tagNames, v Version) {
	h := Head{l.workspace, v}
	if v.Empty {
		h = Head{}
	}
	s.heads.keep(l.numbered(v.N), h, headSize)
}

// age is how long ago a record was written, by our own clock.
func (s *reader) age(r *Record) time.Duration { return s.o.Now().Sub(r.Updated) }
