// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// movable names the tags that an immutability rule must exempt, and those that it may cover.
const movable = "the tag immutability rule must exempt state-*, locked-* and unlocked-*, but need not exempt state-*-v*"

type pointers struct {
	manifests *manifests
	findings  *findings
}

// readPointed reads the current state by state-W. Without a verdict that this tag moves it lists
// the versions, too, and reads the newest; where it cannot move, it uses only these.
func (s *pointers) readPointed(ctx context.Context, l tagNames) (format.StateManifest, error) {
	if s.manifests.o.StrictReads || s.findings.isStuck() {
		return s.manifests.readListed(ctx, l)
	}
	m, err := s.manifests.fetchState(ctx, l.pointerTag(), l.workspace)
	if errors.Is(err, oci.ErrNotFound) { // the writer may have died between version and state-W
		return s.manifests.readListed(ctx, l)
	}
	if err != nil || s.findings.pointerIs() == format.PointerMoves {
		return m, err
	}
	behind, err := s.isBehind(ctx, l, m)
	if err != nil || !behind {
		return m, err
	}
	n := m.N
	if m, err = s.manifests.readListed(ctx, l); err == nil && !s.findings.isStuck() {
		s.manifests.o.Logger.WarnContext(ctx, l.pointerTag()+" is older than the newest version, which was read instead: the registry may not allow moving it; "+movable,
			"repository", s.manifests.repo.String(), "workspace", l.workspace, "tag", n, "version", m.N)
	}
	return m, err
}

// isBehind reports whether there is a version above the one that state-W names, and learns from the
// verdict, if there is one. It waits briefly for a version that is just being written.
func (s *pointers) isBehind(ctx context.Context, l tagNames, m format.StateManifest) (bool, error) {
	tags, err := s.manifests.tags(ctx)
	if err != nil {
		return false, err
	}
	v, err := s.manifests.verdictIn(ctx, tags)
	switch {
	case err == nil:
		s.findings.learnPointer(v.Pointer)
	case !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrCorrupt):
		return false, err
	}
	newest := protocol.NewSnapshot(tags, l.fragment).Newest
	if newest <= m.N || s.findings.isStuck() {
		return newest > m.N, nil
	}
	if err := text.Wait(ctx, listedPause*5); err != nil {
		return false, err
	}
	again, err := s.manifests.fetchState(ctx, l.pointerTag(), l.workspace)
	return err != nil || again.N < newest, nil
}

// reportBehind logs that state-W does not name version n, and records a permanent refusal.
func (s *pointers) reportBehind(ctx context.Context, l tagNames, n int64, cause error) {
	if !refusesForGood(cause) {
		s.manifests.o.Logger.WarnContext(ctx, "the state was stored, but "+l.pointerTag()+" could not be moved to it; the next lock repairs this",
			"repository", s.manifests.repo.String(), "version", n, "error", cause)
		return
	}
	if !s.findings.learnPointer(format.PointerStuck) {
		return // already reported
	}
	s.manifests.o.Logger.WarnContext(ctx, "the state was stored, but the registry does not allow moving "+l.pointerTag()+": okara lists the versions to find the newest, and other tools read an old state; "+movable,
		"repository", s.manifests.repo.String(), "version", n, "error", cause)
	if err := s.recordStuck(ctx); err != nil {
		s.manifests.o.Logger.WarnContext(ctx, "could not record that tags do not move", "repository", s.manifests.repo.String(), "error", err)
	}
}

// Latest is [Lock.Head], read again; ErrLockLost if another process of its id has written since.
// Where state-W may not tell of that, a list does.
func (l *Lock) Latest(ctx context.Context) (Version, error) {
	l.mu.Lock()
	l.head = nil
	l.none = false
	newest, err := l.hold.Newest, error(nil)
	if l.behind || l.s.findings.isStuck() {
		var v protocol.Snapshot
		v, _, err = l.x.listToLock(ctx)
		newest = max(newest, v.Newest)
	}
	if err == nil && newest > l.hold.Newest {
		err = fmt.Errorf("workspace %q in %s: version %d was written: %w", l.x.names.workspace, l.s.repo, newest, ErrLockLost)
	}
	l.mu.Unlock()
	if err != nil {
		return Version{}, err
	}
	return l.Head(ctx)
}

// BringPointer moves state-W to the head if its writer died before it did, and again while a list
// shows a newer version: who writes one after that list moves state-W after this.
func (l *Lock) BringPointer(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.hold.Newest
	for range maxResumes {
		if !l.behind || l.s.findings.isStuck() {
			return nil
		}
		m, err := l.s.repo.Fetch(ctx, l.x.names.numberedTag(n))
		if err != nil {
			return err
		}
		err = l.s.manifests.putOrPush(ctx, l.x.names.pointerTag(), m)
		if refusesForGood(err) {
			l.s.pointers.reportBehind(ctx, l.x.names, n, err)
			return nil
		}
		if err != nil {
			return err
		}
		v, _, err := l.x.listToLock(ctx)
		if err != nil {
			return err
		}
		l.behind = v.Newest > n
		n = v.Newest
	}
	return fmt.Errorf("workspace %q in %s: %w", l.x.names.workspace, l.s.repo, protocol.ErrBeside)
}

func (s *pointers) recordStuck(ctx context.Context) error {
	verdicts := Verdicts{s.manifests, s.findings}
	v, err := verdicts.Newest(ctx)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		v = HostVerdict(s.manifests.repo.Host())
		v.Host = s.manifests.repo.Host()
		v.Checked = s.manifests.o.Now().UTC()
		v.Tool = s.manifests.o.Tool
	case err != nil:
		return err
	case v.Pointer == format.PointerStuck:
		return nil
	}
	v.Pointer = format.PointerStuck
	if err := verdicts.Record(ctx, v); err != nil {
		return err
	}
	s.findings.learnPointer(format.PointerStuck)
	return nil
}
