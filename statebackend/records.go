// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// manifests reads and writes the manifests of states and locks, without decrypting states.
type manifests struct {
	repo *oci.Repo
	o    *Options
}

func (r *manifests) readSnapshot(ctx context.Context) (oci.TagList, error) {
	l, err := r.repo.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		if e, ok := errors.AsType[*oci.ResponseError](err); ok {
			l.Date = e.Date // a claim without a time has no lease
		}
		return oci.TagList{Date: l.Date}, nil
	}
	if err == nil && l.Cached && !r.o.UnsafeLocking {
		err = fmt.Errorf("the tag list of %s came from a cache: %w", r.repo, ErrUnsafe)
	}
	return l, err
}

// tags lists the repository; one that does not exist yet is empty.
func (r *manifests) tags(ctx context.Context) ([]string, error) {
	l, err := r.readSnapshot(ctx)
	return l.Tags, err
}

// fetchState checks that the manifest is the workspace's: names collide where case is folded.
func (r *manifests) fetchState(ctx context.Context, tag, workspace string) (format.StateManifest, error) {
	m, err := r.repo.Fetch(ctx, tag)
	if err != nil {
		return format.StateManifest{}, err
	}
	sm, err := format.ParseState(m)
	if err != nil {
		return sm, fmt.Errorf("tag %s of %s: %w", tag, r.repo, err)
	}
	if t, ok := format.ParseStateTag(tag); ok && t.Kind == format.StateNumbered && sm.N != t.N {
		return sm, fmt.Errorf("tag %s of %s contains version %d: %w", tag, r.repo, sm.N, oci.ErrCorrupt)
	}
	if sm.Workspace != "" && sm.Workspace != workspace {
		return sm, fmt.Errorf("tag %s of %s belongs to workspace %q, not %q: %w", tag, r.repo, sm.Workspace, workspace, oci.ErrCorrupt)
	}
	sm.Workspace = workspace
	return sm, nil
}

func (r *manifests) fetchLock(ctx context.Context, tag, workspace string) (format.LockManifest, error) {
	m, err := r.repo.Fetch(ctx, tag)
	if err != nil {
		return format.LockManifest{}, err
	}
	l, err := format.ParseLock(m)
	if err != nil {
		return l, fmt.Errorf("tag %s of %s: %w", tag, r.repo, err)
	}
	if t, _ := format.ParseStateTag(tag); t.Kind == format.LockClaim && l.Info.ID == "" {
		l.Info.ID = t.X // which ForceUnlock accepts
	}
	if l.Workspace != "" && workspace != "" && l.Workspace != workspace {
		return l, fmt.Errorf("tag %s of %s belongs to workspace %q, not %q: %w", tag, r.repo, l.Workspace, workspace, oci.ErrCorrupt)
	}
	return l, nil
}

func (r *manifests) noState(workspace string) error {
	return fmt.Errorf("state of workspace %q in %s: %w", workspace, r.repo, oci.ErrNotFound)
}

// workspaceOf returns the workspace of a fragment, from the state if it is not the fragment itself.
func (r *manifests) workspaceOf(ctx context.Context, fragment string) string {
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
func (r *manifests) removeTag(ctx context.Context, tag string) error {
	err := r.repo.Untag(ctx, tag)
	if errors.Is(err, oci.ErrUnsupported) {
		var d oci.Descriptor
		if d, err = r.repo.Resolve(ctx, tag); err == nil {
			err = r.repo.Delete(ctx, d)
		}
	}
	return oci.IgnoreNotFound(err)
}

// How often an unreadable listed version is listed again; each pause is five times the last.
const (
	listedAgain = 3
	listedPause = 50 * time.Millisecond
)

// readListed reads the manifest of the newest listed version. distribution makes the folder of a
// tag first and its link last, so a version can be listed before it can be read, or may have been
// pruned since. Neither is dangling, so it lists again.
func (r *manifests) readListed(ctx context.Context, l tagNames) (format.StateManifest, error) {
	for again, next := 0, listedPause; ; again, next = again+1, 5*next {
		tags, err := r.tags(ctx)
		if err != nil {
			return format.StateManifest{}, err
		}
		m, err := r.readNewest(ctx, l, protocol.NewSnapshot(tags, l.fragment))
		if _, gone := errors.AsType[*unreadableError](err); !gone || again == listedAgain {
			return m, err
		}
		if err := text.Wait(ctx, next); err != nil {
			return m, err
		}
	}
}

// readNewest reads the manifest of the highest version in v, or a versionless tool's state.
func (r *manifests) readNewest(ctx context.Context, l tagNames, v protocol.Snapshot) (format.StateManifest, error) {
	switch {
	case v.Newest > 0:
		m, err := r.fetchState(ctx, l.numberedTag(v.Newest), l.workspace)
		return m, r.unreadableVersion(l, v.Newest, err)
	case v.Pointer:
		m, err := r.fetchState(ctx, l.pointerTag(), l.workspace)
		return m, markUnreadable(err)
	}
	old := format.OldStateFragment(l.workspace)
	if l.fragment != l.workspace {
		return r.fetchState(ctx, format.StateTag{Kind: format.StatePointer, Fragment: old}.String(), l.workspace)
	}
	return format.StateManifest{}, r.noState(l.workspace)
}

// unreadableVersion turns not found, for a listed version, into a distinct error.
func (r *manifests) unreadableVersion(l tagNames, n int64, err error) error {
	if !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	return &RemediedError{Remedy{Kind: RemedyGoBack, Repository: r.repo.String(), Workspace: l.workspace, Version: n}, markUnreadable(err)}
}

// markUnreadable marks a listed but missing object: an unreadable state must never look like none.
func markUnreadable(err error) error {
	if errors.Is(err, oci.ErrNotFound) {
		return &unreadableError{err}
	}
	return err
}

type unreadableError struct{ missing error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("it is listed, but %v: %v", e.missing, oci.ErrCorrupt)
}

func (e *unreadableError) Unwrap() error { return oci.ErrCorrupt }

type tagNames struct{ workspace, fragment string }

func tagNamesOf(workspace string) tagNames {
	return tagNames{workspace, format.StateFragment(workspace)}
}

func (l tagNames) pointerTag() string {
	return format.StateTag{Kind: format.StatePointer, Fragment: l.fragment}.String()
}

func (l tagNames) numberedTag(n int64) string {
	return format.StateTag{Kind: format.StateNumbered, Fragment: l.fragment, N: n}.String()
}

func (l tagNames) claimTag(c protocol.ClaimID) string {
	return format.StateTag{Kind: format.LockClaim, Fragment: l.fragment, N: c.Fence, X: c.X}.String()
}

// Listing is one tag list, without later changes. Methods that send further requests say so.
type Listing struct {
	s    *Store
	tags []string
	date time.Time // by the registry's clock; zero: not sent
}

// List lists the repository; one that does not exist yet is empty.
func (s *Store) List(ctx context.Context) (*Listing, error) {
	l, err := s.manifests.readSnapshot(ctx)
	return &Listing{s, l.Tags, l.Date}, err
}

// Numbers returns the version numbers of a workspace, newest first.
func (l *Listing) Numbers(workspace string) []int64 {
	return versionNumbers(l.tags, tagNamesOf(workspace).fragment)
}

// Has reports whether a tag is listed.
func (l *Listing) Has(tag string) bool { return slices.Contains(l.tags, tag) }

// Replica reports whether the repository is marked as a copy, now or in the past.
func (l *Listing) Replica() bool { return slices.Contains(l.tags, format.TagReplica) }

// Size returns the approximate memory that the listing takes, in bytes.
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

// Heads returns the workspaces with a state by name, with one request each. It opens no state.
func (l *Listing) Heads(ctx context.Context) ([]Head, error) { return l.s.catalog.headsIn(ctx, l.tags) }

// Held returns the lock of one workspace, nil if it is free, for which it sends no request.
func (l *Listing) Held(ctx context.Context, workspace string) (*Held, error) {
	fragment := tagNamesOf(workspace).fragment
	own := slices.DeleteFunc(lockTags(l.tags), func(t format.StateTag) bool { return t.Fragment != fragment })
	if slices.ContainsFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockClaim }) { // the marker repeats it
		own = slices.DeleteFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockMarker })
	}
	locks, err := l.s.manifests.locksOf(ctx, own)
	for _, h := range locks {
		if h.Workspace == workspace {
			return &h, nil
		}
	}
	return nil, err
}

// Locks lists the locks that are held in the repository, with one request for each.
func (l *Listing) Locks(ctx context.Context) ([]Held, error) {
	return l.s.manifests.locksOf(ctx, lockTags(l.tags))
}
