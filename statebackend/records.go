// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// records reads what a repository holds under the tags of states and locks,
// without opening it.
type records struct {
	repo *oci.Repo
	o    Options
}

func (r *records) snapshot(ctx context.Context) (oci.TagList, error) {
	l, err := r.repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		if e, ok := errors.AsType[*oci.ResponseError](err); ok {
			l.Date = e.Date // a claim that does not say when it was written has no lease
		}
		return oci.TagList{Date: l.Date}, nil
	}
	if err == nil && l.Cached && !r.o.UnsafeLocking {
		err = fmt.Errorf("the tag list of %s came from a cache: %w", r.repo, ErrUnsafe)
	}
	return l, err
}

// tags lists the repository; one that does not exist yet is empty.
func (r *records) tags(ctx context.Context) ([]string, error) {
	l, err := r.snapshot(ctx)
	return l.Tags, err
}

// fetchState reads a state manifest and checks that it is of that workspace:
// names may collide on registries that fold case.
func (r *records) fetchState(ctx context.Context, tag, workspace string) (format.StateManifest, error) {
	m, err := r.repo.Fetch(ctx, tag)
	if err != nil {
		return format.StateManifest{}, err
	}
	sm, err := format.ParseState(m)
	if err != nil {
		return sm, fmt.Errorf("tag %s of %s: %w", tag, r.repo, err)
	}
	if t, ok := format.ParseStateTag(tag); ok && t.Kind == format.StateNumbered && sm.N != t.N {
		return sm, fmt.Errorf("tag %s of %s holds version %d: %w", tag, r.repo, sm.N, oci.ErrCorrupt)
	}
	if sm.Workspace != "" && sm.Workspace != workspace {
		return sm, fmt.Errorf("tag %s of %s belongs to workspace %q, not %q: %w", tag, r.repo, sm.Workspace, workspace, oci.ErrCorrupt)
	}
	sm.Workspace = workspace
	return sm, nil
}

func (r *records) fetchLock(ctx context.Context, tag, workspace string) (format.LockManifest, error) {
	m, err := r.repo.Fetch(ctx, tag)
	if err != nil {
		return format.LockManifest{}, err
	}
	l, err := format.ParseLock(m)
	if err != nil {
		return l, fmt.Errorf("tag %s of %s: %w", tag, r.repo, err)
	}
	if l.Workspace != "" && workspace != "" && l.Workspace != workspace {
		return l, fmt.Errorf("tag %s of %s belongs to workspace %q, not %q: %w", tag, r.repo, l.Workspace, workspace, oci.ErrCorrupt)
	}
	return l, nil
}

func (r *records) noState(workspace string) error {
	return fmt.Errorf("state of workspace %q in %s: %w", workspace, r.repo, oci.ErrNotFound)
}

// workspaceOf returns the workspace of a fragment, as its state tells it: most names
// are their own fragment, and the others cannot be read off it.
func (r *records) workspaceOf(ctx context.Context, fragment string) string {
	if format.StateFragment(fragment) == fragment {
		return fragment
	}
	m, err := r.repo.Fetch(ctx, format.StateTag{Kind: format.StatePointer, Fragment: fragment}.String())
	if err != nil {
		return fragment
	}
	if sm, err := format.ParseState(m); err == nil && format.StateFragment(sm.Workspace) == fragment {
		return sm.Workspace
	}
	return fragment
}

// removeTag deletes a tag, with its manifest where tags cannot be deleted.
func (r *records) removeTag(ctx context.Context, tag string) error {
	err := r.repo.Untag(ctx, tag)
	if errors.Is(err, oci.ErrUnsupported) {
		var d oci.Descriptor
		if d, err = r.repo.Resolve(ctx, tag); err == nil {
			err = r.repo.Delete(ctx, d)
		}
	}
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	return err
}

// A version that is listed and cannot be read is looked for again so often, after
// this pause and ones that are five times as long as the one before.
const (
	listedAgain = 3
	listedPause = 50 * time.Millisecond
)

// listed reads the manifest of the newest version that the registry lists. A
// version can be listed before it can be read, since distribution makes the
// folder of a tag first and its link last, and one that was listed may be pruned
// by now: neither is dangling yet, so it is listed anew.
func (r *records) listed(ctx context.Context, l tagNames) (format.StateManifest, error) {
	for again, next := 0, listedPause; ; again, next = again+1, 5*next {
		tags, err := r.tags(ctx)
		if err != nil {
			return format.StateManifest{}, err
		}
		m, err := r.newest(ctx, l, protocol.NewSnapshot(tags, l.fragment))
		if _, gone := errors.AsType[*unreadableError](err); !gone || again == listedAgain {
			return m, err
		}
		if err := sleep(ctx, protocol.Pause{Min: next}); err != nil {
			return m, err
		}
	}
}

// newest reads the manifest of the highest version in v, or what a tool
// without versions wrote.
func (r *records) newest(ctx context.Context, l tagNames, v protocol.Snapshot) (format.StateManifest, error) {
	switch {
	case v.Newest > 0:
		m, err := r.fetchState(ctx, l.numbered(v.Newest), l.workspace)
		return m, r.unreadableVersion(l, v.Newest, err)
	case v.Pointer:
		m, err := r.fetchState(ctx, l.pointer(), l.workspace)
		return m, unreadable(err)
	}
	old := format.OldStateFragment(l.workspace)
	if l.fragment != l.workspace {
		return r.fetchState(ctx, format.StateTag{Kind: format.StatePointer, Fragment: old}.String(), l.workspace)
	}
	return format.StateManifest{}, r.noState(l.workspace)
}

// unreadableVersion tells a version that is listed and not found from no state.
func (r *records) unreadableVersion(l tagNames, n int64, err error) error {
	if !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	return &RemediedError{Remedy{Kind: RemedyGoBack, Repository: r.repo.String(), Workspace: l.workspace, Version: n}, unreadable(err)}
}

// unreadable tells what is listed and missing from what does not exist: a state
// that cannot be read must never look like no state.
func unreadable(err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return &unreadableError{err}
	}
	return err
}

// unreadableError is about what is listed and was not found.
type unreadableError struct{ missing error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("it is listed, but %v: %v", e.missing, oci.ErrCorrupt)
}

func (e *unreadableError) Unwrap() error { return oci.ErrCorrupt }

// tagNames names the tags of one workspace.
type tagNames struct{ workspace, fragment string }

func tagNamesOf(workspace string) tagNames {
	return tagNames{workspace, format.StateFragment(workspace)}
}

func (l tagNames) pointer() string {
	return format.StateTag{Kind: format.StatePointer, Fragment: l.fragment}.String()
}

func (l tagNames) numbered(n int64) string {
	return format.StateTag{Kind: format.StateNumbered, Fragment: l.fragment, N: n}.String()
}

func (l tagNames) claimTag(c protocol.ClaimID) string {
	return format.StateTag{Kind: format.LockClaim, Fragment: l.fragment, N: c.Fence, X: c.X}.String()
}

// Listing is what one tag list says of a repository: any number of questions
// about it cost one request, and those that read more say so. It grows old.
type Listing struct {
	s    *Store
	tags []string
	date time.Time // by the registry's clock; zero: it did not say
}

// List lists the repository; one that does not exist yet is empty.
func (s *Store) List(ctx context.Context) (*Listing, error) {
	l, err := s.snapshot(ctx)
	return &Listing{s, l.Tags, l.Date}, err
}

// Numbers are those of the versions of a workspace, newest first.
func (l *Listing) Numbers(workspace string) []int64 {
	return numbers(l.tags, tagNamesOf(workspace).fragment)
}

// Has reports whether a tag is listed.
func (l *Listing) Has(tag string) bool { return slices.Contains(l.tags, tag) }

// Replica reports whether the repository says that it is, or was, a copy.
func (l *Listing) Replica() bool { return slices.Contains(l.tags, format.TagReplica) }

// Size is about how much memory the listing takes, in bytes.
func (l *Listing) Size() int {
	size := 0
	for _, tag := range l.tags {
		size += len(tag) + 16
	}
	return size
}

// Head is a workspace with its newest version.
type Head struct {
	Workspace string
	Version
}

// Heads are the workspaces with a state, in order of their names; a request for
// each. Nothing is opened, as by [Store.Current].
func (l *Listing) Heads(ctx context.Context) ([]Head, error) { return l.s.headsIn(ctx, l.tags) }

// Held returns the lock of one workspace, nil when it is free. Without a lock it
// reads nothing.
func (l *Listing) Held(ctx context.Context, workspace string) (*Held, error) {
	fragment := tagNamesOf(workspace).fragment
	own := slices.DeleteFunc(lockTags(l.tags), func(t format.StateTag) bool { return t.Fragment != fragment })
	if slices.ContainsFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockClaim }) { // the marker says the same
		own = slices.DeleteFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockMarker })
	}
	locks, err := l.s.locksOf(ctx, own)
	for _, h := range locks {
		if h.Workspace == workspace {
			return &h, nil
		}
	}
	return nil, err
}

// Locks lists the locks that are held in the repository, a request for each.
func (l *Listing) Locks(ctx context.Context) ([]Held, error) {
	return l.s.locksOf(ctx, lockTags(l.tags))
}
