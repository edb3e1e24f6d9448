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

// Adopt is Replicate, or Reseal if reseal is set, into a repository that has versions
// of its own, such as the old primary after its copy was taken over. dst becomes the
// read-only replica. Versions of dst that the source does not have, above the newest
// version of both, keep their numbers there. The mark of dst records them, so that
// Adopt returns them again when it is called again, and Replicate works from then on.
//
// Where the newest version of dst is not below that of the source, the source gets a
// new one: a seal with the content of its newest version, under a higher number. The
// source's record is likewise written again unless it is newer than that of dst.
//
// The error is ErrReplica if the source is itself a copy, or the same repository as dst
// under another name, or if dst is the copy of a third repository. If the workspace is
// locked in dst, the error is a [*LockedError]: dst is read-only by then, and Adopt must
// be called again once that lock has ended.
func (r Replicas) Adopt(ctx context.Context, dst *Store, workspace string, reseal bool) (copied, kept []int64, err error) {
	c := copier{src: r.s, dst: dst, tagNames: tagNamesOf(workspace), reseal: reseal}
	kept, lone, err := c.takeOver(ctx)
	if err != nil || lone {
		return nil, kept, c.describeFailure(err)
	}
	copied, err = c.runCopy(ctx)
	return copied, kept, err
}

// takeOver makes dst a replica and returns the versions that dst keeps as its own. lone
// reports that the source does not know the workspace at all.
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

// findOwn finds the versions of dst that only dst has, and records them in its mark. If the
// newest version is one of them, the source moves on above it.
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

// takeMark writes that dst is a copy of the source, unless its mark already says so. The
// kept versions of an older mark are carried over.
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

// checkDistinct makes sure that source and dst are not one repository under two names: then the
// source has the mark, too, and the mark is taken back. The same happens if another
// process made the source a copy at the same time.
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

// findDiverged returns the versions of dst, above the newest that both have, which the
// source lacks or has with other content under the same number.
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

// keepVersions adds versions to those that the mark of dst keeps, and returns all kept versions
// of this workspace, newest first.
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

// riseAbove makes the versions of a workspace continue above n, as after a claim from n on
// that was ended by force: the next lock seals the newest version under a number above
// all that this claim might have written.
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

// raiseRecord writes the record of the workspace again, above a record in dst that would
// otherwise take precedence there. lone reports that only dst has one.
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
