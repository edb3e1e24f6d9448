// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

const (
	// maxRecords is how many changes a workspace may have in recordTime: each adds a tag to every
	// list, which stays where nothing can be deleted.
	maxRecords = 60
	recordTime = time.Hour
	// maxWorkspaces bounds the workspaces of a repository that may get a record.
	maxWorkspaces = 5_000
)

// Change is [Listing.Change] with a new list.
func (w Workspaces) Change(ctx context.Context, workspace string, change func(*Record) error) (Record, error) {
	l, err := w.s.List(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("listing %s: %w", w.s.repo, err)
	}
	return l.Change(ctx, workspace, change)
}

// Change writes the next record. change edits a copy of the newest one, or a blank one if none is
// live. Nothing is written if it returns an error, which is passed on, or if only By differs.
// Number and times are set here, Created only if zero.
//
// There is no lock: of two at once one wins, see [format.WorkspaceTag]. After 60 in an hour the
// error is oci.ErrRateLimited; for a value out of bounds [ErrRecord]; in a copy [ErrReplica].
func (l *Listing) Change(ctx context.Context, workspace string, change func(*Record) error) (Record, error) {
	old, err := l.Record(ctx, workspace)
	if err != nil {
		return Record{}, err
	}
	next := Record{Workspace: workspace}
	if old != nil && !old.Deleted {
		next = *old
		next.Tags = maps.Clone(old.Tags)
	}
	if err := change(&next); err != nil {
		return Record{}, err
	}
	next.Workspace = workspace
	next.Deleted = false
	next.Description = text.Line(next.Description)
	next.By = text.Line(next.By)
	if old != nil && sameRecord(*old, next) {
		return *old, nil
	}
	if old == nil || old.Deleted {
		if err := l.checkWorkspaceLimit(ctx, workspace); err != nil {
			return Record{}, err
		}
	}
	return l.writeRecord(ctx, old, next)
}

// sameRecord ignores author and time.
func sameRecord(a, b Record) bool {
	sameText := a.Workspace == b.Workspace && a.Project == b.Project && a.Description == b.Description
	sameSettings := a.Mode == b.Mode && a.Tool == b.Tool && maps.Equal(a.Tags, b.Tags) && maps.Equal(a.Settings, b.Settings)
	sameLife := a.State == b.State && a.Owner == b.Owner && a.Created.Equal(b.Created) && a.Deleted == b.Deleted
	return sameText && sameSettings && sameLife
}

// checkWorkspaceLimit refuses one workspace too many. It reads them only if there are many tags.
func (l *Listing) checkWorkspaceLimit(ctx context.Context, workspace string) error {
	fragments := map[string]bool{}
	for fragment := range l.recordTags() {
		fragments[fragment] = true
	}
	for _, t := range newestTags(l.tags) {
		fragments[t.Fragment] = true
	}
	if len(fragments) < l.s.maxWorkspaces {
		return nil
	}
	found, err := l.gatherWorkspaces(ctx)
	if err != nil {
		return fmt.Errorf("counting workspaces of %s: %w", l.s.repo, err)
	}
	maps.DeleteFunc(found, func(_ string, w *Workspace) bool { return !w.Exists() })
	if found[workspace] == nil && len(found) >= l.s.maxWorkspaces {
		return fmt.Errorf("%s has %d workspaces, the limit: %w", l.s.repo, len(found), ErrRecord)
	}
	return nil
}

// writeRecord writes the record after old, nil for the first one, and removes old records.
func (l *Listing) writeRecord(ctx context.Context, old *Record, next Record) (Record, error) {
	tags := l.recordTags()[tagNamesOf(next.Workspace).fragment]
	if err := l.s.manifests.checkReplica(ctx, l.tags); err != nil {
		return Record{}, err
	}
	if err := l.checkRate(ctx, next.Workspace, tags); err != nil {
		return Record{}, err
	}
	next.Seq = 1
	next.Updated = l.s.o.Now()
	if old != nil {
		next.Seq = old.Seq + 1
	}
	if next.Created.IsZero() {
		next.Created = next.Updated
	}
	t, m, err := format.NewWorkspaceRecord(next)
	if err != nil {
		return Record{}, fmt.Errorf("workspace %q: %w: %w", text.Excerpt(next.Workspace), ErrRecord, err)
	}
	r, err := format.ParseWorkspaceRecord(t.String(), m)
	if err == nil {
		err = l.s.catalog.putRecord(ctx, t.String(), m)
	}
	if err != nil {
		return Record{}, fmt.Errorf("writing the record of workspace %q to %s: %w", next.Workspace, l.s.repo, err)
	}
	l.s.catalog.heads.keepValue(r.Tag, &r, len(m.Bytes))
	l.s.catalog.dropRecords(ctx, tags, r.Seq, recordTime)
	return r, nil
}

// checkRate refuses a record where many were written recently, by any process.
func (l *Listing) checkRate(ctx context.Context, workspace string, tags []format.WorkspaceTag) error {
	if len(tags) < maxRecords {
		return nil
	}
	r, err := l.s.catalog.readRecordCached(ctx, tags[maxRecords-1].String())
	switch {
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading records of workspace %q in %s: %w", workspace, l.s.repo, err)
	case l.s.catalog.recordAge(r) < recordTime:
		return fmt.Errorf("workspace %q in %s was changed %d times within an hour: %w", workspace, l.s.repo, maxRecords, oci.ErrRateLimited)
	}
	return nil
}

// recordTries bounds how often a record with a lost answer is sent again.
const recordTries = 4

// putRecord writes a record, again if the answer was lost: no other record uses its tag.
func (s *catalog) putRecord(ctx context.Context, tag string, m oci.Manifest) error {
	err := s.manifests.putOrPush(ctx, tag, m)
	for range recordTries {
		if !errors.Is(err, oci.ErrUncertain) || sleepFor(ctx, protocol.Again()) != nil {
			return err
		}
		if d, rerr := s.manifests.repo.Resolve(ctx, tag); rerr == nil && d.Digest == m.Digest {
			return nil
		}
		err = s.manifests.putOrPush(ctx, tag, m)
	}
	return err
}

// dropRecords removes records below seq that are older than age, if the registry deletes; checkRate
// needs younger ones. The next write tries again.
func (s *catalog) dropRecords(ctx context.Context, tags []format.WorkspaceTag, seq int, age time.Duration) {
	dropped := 0
	for _, t := range slices.Backward(tags) {
		can := s.findings.knownAbilities()
		if dropped == maxCleaned || t.Seq >= seq || can.ByTag == protocol.Unable && can.ByDigest == protocol.Unable {
			return
		}
		r, err := s.readRecordCached(ctx, t.String())
		if err != nil || s.recordAge(r) < age {
			continue
		}
		// No two records share a digest: the nonce is in it, and the tag has its hash.
		err = s.manifests.dropTag(ctx, r.Tag, func(d oci.Descriptor) bool { return !strings.HasPrefix(d.Digest.Encoded(), t.Hex) })
		if errors.Is(err, oci.ErrUnsupported) {
			s.findings.learnAbilities(protocol.Abilities{ByTag: protocol.Unable, ByDigest: protocol.Unable})
			return
		}
		if err != nil {
			s.manifests.o.Logger.WarnContext(ctx, "an old workspace record could not be removed", "repository", s.manifests.repo.String(), "tag", r.Tag, "error", err)
			return
		}
		dropped++
	}
}

// DeleteWorkspace writes a record that says deleted and keeps the other facts, then deletes the
// state, whose history stays. Interrupted in between, the workspace still exists by its state and
// never looks empty, so the call may be repeated. If the record is in another repository, records
// and workspace name it; nil: this one. The lock stays.
func (l *Lock) DeleteWorkspace(ctx context.Context, records *Store, workspace, by string) error {
	if records == nil {
		records = l.s
		workspace = l.x.names.workspace
	}
	if err := l.Check(ctx); err != nil {
		return err
	}
	_, err := l.Head(ctx)
	empty := errors.Is(err, oci.ErrNotFound)
	if err != nil && !empty {
		return err
	}
	if err := markDeleted(ctx, records, workspace, by, empty); err != nil || empty {
		return err
	}
	return l.Delete(ctx)
}

// MarkDeleted records a deletion unless that is known. The state is left for who has its keys.
func (w Workspaces) MarkDeleted(ctx context.Context, workspace, by string) error {
	return markDeleted(ctx, w.s, workspace, by, true)
}

// markDeleted records a deletion, also where there was no record, so that clients that saw the
// workspace learn it. With empty, there is no state: then only a live record gets a successor.
func markDeleted(ctx context.Context, s *Store, workspace, by string, empty bool) error {
	l, err := s.List(ctx)
	if err != nil {
		return fmt.Errorf("listing %s: %w", s.repo, err)
	}
	old, err := l.Record(ctx, workspace)
	if err != nil {
		return err
	}
	next := Record{Workspace: workspace}
	if old != nil {
		next = *old
	}
	if empty && (old == nil || old.Deleted) {
		return nil
	}
	next.Deleted = true
	next.By = text.Line(by)
	_, err = l.writeRecord(ctx, old, next)
	return err
}

// ErrOwner says that the record of a workspace names another owner or none, or says deleted.
var ErrOwner = errors.New("not this object's state")

// Owned is nil if the newest record names this owner and does not say deleted, else [ErrOwner]. A
// record that was read before costs no request.
//
// The owner changes only under the workspace's lock: its holder owns the state until its release.
func (l *Listing) Owned(ctx context.Context, workspace, owner string) error {
	r, err := l.Record(ctx, workspace)
	switch {
	case err != nil:
		return err
	case r == nil:
		return l.s.manifests.notOwned(workspace, "it has no record")
	case r.Deleted:
		return l.s.manifests.notOwned(workspace, "it was deleted")
	case r.Owner == "":
		return l.s.manifests.notOwned(workspace, "it has no owner")
	case r.Owner != owner:
		return l.s.manifests.notOwned(workspace, "its owner is "+text.Excerpt(r.Owner))
	}
	return nil
}

func (s *manifests) notOwned(workspace, why string) error {
	return fmt.Errorf("workspace %q in %s: %w: %s", workspace, s.repo, ErrOwner, why)
}

// Owned is access to the workspaces of one owner, see [Listing.Owned].
type Owned struct {
	s     *Store
	owner string
}

// OwnedBy returns access to the workspaces whose records name the owner.
func (s *Store) OwnedBy(owner string) Owned { return Owned{s, owner} }

// Check is [Listing.Owned] for the holder of a lock; id may be "". It costs a list unless this
// process has checked the owner under this lock before.
func (o Owned) Check(ctx context.Context, workspace, id string) error {
	if l, ok := o.s.Holding(workspace, id); ok && o.isKnownOf(l) {
		return nil
	}
	l, err := o.s.List(ctx)
	if err != nil {
		return fmt.Errorf("reading the owner of workspace %q in %s: %w", workspace, o.s.repo, err)
	}
	if err := l.Owned(ctx, workspace, o.owner); err != nil {
		return err
	}
	if l, ok := o.s.Holding(workspace, id); ok {
		o.noteIn(l)
	}
	return nil
}

// LockWhen is [Store.LockWhen]. It checks the owner in the list of the lock.
func (o Owned) LockWhen(ctx context.Context, workspace string, info LockInfo, fit func(context.Context, *Listing) error) (*Lock, error) {
	if _, ok := o.s.Holding(workspace, info.ID); ok {
		if err := o.Check(ctx, workspace, info.ID); err != nil {
			return nil, err
		}
	}
	asked := false
	l, err := o.s.LockWhen(ctx, workspace, info, func(ctx context.Context, l *Listing) error {
		asked = true
		if err := l.Owned(ctx, workspace, o.owner); err != nil {
			return err
		}
		return fit(ctx, l)
	})
	if err == nil && asked {
		o.noteIn(l)
	}
	return l, err
}

// View is [Store.View]. It always lists, and checks the owner in that list.
func (o Owned) View(ctx context.Context, workspace string, use func(state []byte, v Version) error) (Version, error) {
	l, err := o.s.List(ctx)
	if err != nil {
		return Version{}, err
	}
	if err := l.Owned(ctx, workspace, o.owner); err != nil {
		return Version{}, err
	}
	v, err := l.View(ctx, workspace, use)
	if _, gone := errors.AsType[*unreadableError](err); gone {
		return o.s.View(ctx, workspace, use)
	}
	return v, err
}

func (o Owned) isKnownOf(l *Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owner == o.owner && !l.hold.Lost && !l.released
}

func (o Owned) noteIn(l *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner = o.owner
}
