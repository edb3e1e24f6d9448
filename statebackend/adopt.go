// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// Adopt is Replicate, or Reseal if reseal is set, into a repository with versions of its own, such
// as the old primary after its copy was taken over. dst becomes the read-only replica, and keeps
// the versions above the newest common one that the source lacks. Its mark records these, so that
// Adopt returns them again when repeated, and Replicate works from then on.
//
// If the newest version of dst is not below that of the source, the source gets a seal with the
// content of its newest version under a higher number, and a new record unless its own is newer.
//
// The error is ErrReplica if the source is itself a copy or the same repository under another name,
// or dst the copy of a third. It is a [*LockedError] if the workspace is locked in dst: dst is
// read-only by then, and Adopt must be called again once that lock has ended.
func (r Replicas) Adopt(ctx context.Context, dst *Store, workspace string, reseal bool) (copied, kept []int64, err error) {
	c := copier{src: r.s, dst: dst, tagNames: tagNamesOf(workspace), reseal: reseal}
	kept, lone, err := c.takeOver(ctx)
	if err != nil || lone {
		return nil, kept, c.describeFailure(err)
	}
	copied, err = c.runCopy(ctx)
	return copied, kept, err
}

// takeOver makes dst a replica; lone reports that the source does not know the workspace at all.
func (c copier) takeOver(ctx context.Context) (kept []int64, lone bool, err error) {
	mark, err := c.takeMark(ctx)
	if err != nil {
		return nil, false, err
	}
	from, err := c.src.List(ctx)
	if err != nil {
		return nil, false, err
	}
	to, err := c.dst.List(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := c.checkFree(ctx, to); err != nil {
		return nil, false, err
	}
	if kept, err = c.findOwn(ctx, mark, from, to); err != nil {
		return nil, false, err
	}
	lone, err = c.raiseRecord(ctx, from, to)
	return kept, lone && len(from.Numbers(c.workspace)) == 0, err
}

// findOwn finds and marks the versions that only dst has, and lifts the source above the newest.
func (c copier) findOwn(ctx context.Context, mark format.ReplicaMark, from, to *Listing) ([]int64, error) {
	list := from.Numbers(c.workspace)
	there := to.Numbers(c.workspace)
	kept, err := c.findDiverged(ctx, list, there)
	if err != nil {
		return nil, err
	}
	if kept, err = c.keepVersions(ctx, mark, kept); err != nil {
		return nil, err
	}
	if len(list) > 0 && len(there) > 0 && there[0] >= list[0] && slices.Contains(kept, there[0]) {
		err = c.riseAbove(ctx, there[0])
	}
	pruned := func(n int64) bool { return !slices.Contains(there, n) }
	return slices.DeleteFunc(kept, pruned), err
}

// takeMark marks dst as a copy of the source. An older mark's kept versions are carried over.
func (c copier) takeMark(ctx context.Context) (format.ReplicaMark, error) {
	mark, err := c.dst.manifests.readMark(ctx)
	absent := errors.Is(err, oci.ErrNotFound)
	switch {
	case err != nil && !absent:
		return mark, err
	case !absent && !mark.Promoted && mark.Source == c.src.repo.String():
		return mark, nil
	case !absent && !mark.Promoted:
		return mark, c.elsewhereError(mark)
	}
	if err := c.mayTake(ctx); err != nil {
		return mark, err
	}
	mark = format.ReplicaMark{Source: c.src.repo.String(), Updated: c.src.o.Now().UTC(), Kept: mark.Kept}
	if err := c.dst.manifests.putReplicaMark(ctx, mark); err != nil {
		return mark, err
	}
	return mark, c.checkDistinct(ctx)
}

// mayTake makes the checks that would fail later, before anything is written.
func (c copier) mayTake(ctx context.Context) error {
	from, err := c.src.manifests.tags(ctx)
	if err != nil {
		return err
	}
	if err := c.src.manifests.checkReplica(ctx, from); err != nil {
		return err
	}
	to, err := c.dst.manifests.tags(ctx)
	if err != nil {
		return err
	}
	return c.checkResealed(ctx, versionNumbers(to, c.fragment))
}

// checkDistinct makes sure that the source has not become a copy, too: it is dst under another
// name, or another process made it one meanwhile. Then the mark is taken back.
func (c copier) checkDistinct(ctx context.Context) error {
	tags, err := c.src.manifests.tags(ctx)
	if err != nil {
		return err
	}
	err = c.src.manifests.checkReplica(ctx, tags)
	if err == nil || !errors.Is(err, ErrReplica) {
		return err
	}
	if mark, _ := c.src.manifests.readMark(ctx); mark.Source == c.src.repo.String() {
		err = fmt.Errorf("both are the same repository: %w", ErrReplica)
	}
	return errors.Join(err, c.dst.manifests.promote(ctx))
}

// checkFree is nil if the workspace is not locked in dst, which accepts no new locks any more.
func (c copier) checkFree(ctx context.Context, to *Listing) error {
	held, err := to.Held(ctx, c.workspace)
	if err != nil || held == nil {
		return err
	}
	return &LockedError{
		Workspace: c.workspace, Repository: c.dst.repo.String(), Held: held.Info, Tag: held.Tag, Since: held.Age, Unreadable: held.Unreadable,
	}
}

// findDiverged returns dst's versions above the newest common one: not, or not so, in the source.
func (c copier) findDiverged(ctx context.Context, list, there []int64) (found []int64, err error) {
	for _, n := range there {
		if slices.Contains(list, n) {
			if same, err := c.isSameVersion(ctx, n); err != nil || same {
				return found, err
			}
		}
		found = append(found, n)
	}
	return found, nil
}

// keepVersions adds to what dst's mark keeps of this workspace, and returns that, newest first.
func (c copier) keepVersions(ctx context.Context, mark format.ReplicaMark, found []int64) ([]int64, error) {
	before := mark.Kept[c.workspace]
	all := slices.Concat(before, found)
	slices.Sort(all)
	all = slices.Compact(all)
	slices.Reverse(all)
	if len(all) == len(before) {
		return all, nil
	}
	mark.Kept = maps.Clone(mark.Kept)
	if mark.Kept == nil {
		mark.Kept = map[string][]int64{}
	}
	mark.Kept[c.workspace] = all
	return slices.Clone(all), c.dst.manifests.putReplicaMark(ctx, mark)
}

// riseAbove makes the versions continue above n, as after a forced end of a claim from n on: the
// next lock seals the newest version above all that this claim might have written.
func (c copier) riseAbove(ctx context.Context, n int64) error {
	s := c.src
	info := NewLockInfo("replicate", s.o.Tool)
	x := newSession(s, c.workspace, info, terms{})
	if n >= maxNumber {
		return x.checkNumbers([]string{c.numberedTag(n)})
	}
	end := protocol.Request{Op: protocol.OpPutTombstone, Claim: protocol.ClaimID{Fence: n, X: format.ClaimX(info.ID, rand.Uint32())}, Forced: true, Reason: format.ReasonForced}
	if r := x.perform(ctx, end, nil); r.Err != nil {
		return fmt.Errorf("continuing above version %d in %s: %w", n, s.repo, r.Err)
	}
	return s.Hold(ctx, c.workspace, info, func(*Lock) error { return nil })
}

// raiseRecord rewrites the record above a newer one of dst. lone reports that only dst has one.
func (c copier) raiseRecord(ctx context.Context, from, to *Listing) (lone bool, err error) {
	ours, err := from.Record(ctx, c.workspace)
	if err != nil {
		return false, err
	}
	theirs, err := to.Record(ctx, c.workspace)
	switch {
	case err != nil:
		return false, err
	case ours == nil:
		return theirs != nil || len(to.Numbers(c.workspace)) > 0, nil
	case theirs == nil || theirs.Tag == ours.Tag || theirs.Seq < ours.Seq:
		return false, nil
	}
	above := *ours
	above.Seq = theirs.Seq
	_, err = from.writeRecord(ctx, &above, *ours)
	return false, err
}
