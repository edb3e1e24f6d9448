// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// latestWithin is how soon latest is moved in one request. Who took longer looks whether it still
// is the highest release; who sees another's bid waits longer than that before it looks.
const latestWithin = 5 * time.Second

// latestMove moves latest once a version exists.
type latestMove struct {
	version addr.Version
	began   time.Time
	beside  *Listing // read last by the one who saw a bid for another number, else nil
}

// putWithLatest returns how a version is put, with latest.
func (o ModuleOptions) putWithLatest(ctx context.Context, v addr.Version, fresh bool) putOptions {
	put := putOptions{fresh: fresh}
	if !o.NoLatest {
		m := &latestMove{version: v, began: time.Now().Round(0)}
		put.written = func(l *Listing, root oci.Manifest, old bool) []string { return m.moveToNew(ctx, l, root, old) }
		put.ended = func() []string { return m.settleMove(ctx) }
	}
	return put
}

// withLatest moves the tag latest, unless o.NoLatest, and adds warnings to p.
func (p Published) withLatest(ctx context.Context, l *Listing, o ModuleOptions) Published {
	if !o.NoLatest {
		p.Warnings = append(p.Warnings, MoveLatest(ctx, l)...)
	}
	return p
}

// moveToNew points "latest" at a new version, in one request, if the list before had no higher release
// and no other publisher. Of two the later one sees the other's bid, lists anew, and waits: see
// [latestMove.settleMove]. A lower version moves nothing, unless the list after it shows that the
// release of before was withdrawn. old: the list lacks the own bid.
func (m *latestMove) moveToNew(ctx context.Context, l *Listing, root oci.Manifest, old bool) []string {
	before, ok := l.release()
	isLower := ok && before.Compare(m.version) > 0
	isBeside := slices.ContainsFunc(l.Tags, m.isOther)
	now := l
	var err error
	switch {
	case old, l.Status(m.version).Yanked != nil: // since the plan
	case !m.version.Prerelease() && !isLower && !isBeside:
		if err := l.Repository.PutTag(ctx, artifact.TagLatest, root); err != nil || time.Since(m.began) < latestWithin {
			return notMoved(err)
		}
	case isLower && slices.Contains(l.Tags, artifact.TagLatest):
		if now, err = ReadListing(ctx, l.Repository, l.Kind, l); err != nil {
			return notMoved(err)
		}
		after, ok := now.release()
		if ok && after == before && !isBeside && !slices.ContainsFunc(now.Tags, m.isOther) {
			return nil
		}
	}
	if now == l {
		now, err = ReadListing(ctx, l.Repository, l.Kind, l)
	}
	if err != nil {
		return notMoved(err)
	}
	now, warnings := moveByList(ctx, now, Published{})
	if isBeside && len(warnings) == 0 {
		m.beside = now
	}
	return warnings
}

// ownBids begins the tags of bids for the own number.
func (m *latestMove) ownBids() string { return bidPrefix + numberHash(addr.KindModule, m.version) }

func (m *latestMove) isOther(tag string) bool {
	return strings.HasPrefix(tag, bidPrefix) && !strings.HasPrefix(tag, m.ownBids())
}

// settleMove looks again after those whose bids were seen. The own one is gone: two do not wait for
// each other.
func (m *latestMove) settleMove(ctx context.Context) (warnings []string) {
	if m.beside == nil {
		return nil
	}
	return settleLatest(ctx, m.beside, m.ownBids())
}

// settleLatest looks again after those that bid for other numbers than the own before the list,
// who may move latest to a lower version. Who takes longer looks itself.
func settleLatest(ctx context.Context, l *Listing, own string) (warnings []string) {
	for waited := range bidRivals {
		if !hasUnderWay(ctx, l, own) {
			break
		}
		err := text.Wait(ctx, bidRivalPause<<waited)
		if err == nil {
			l, err = ReadListing(ctx, l.Repository, l.Kind, l)
		}
		if err != nil {
			return notMoved(err)
		}
		if l, warnings = moveByList(ctx, l, Published{}); len(warnings) > 0 {
			break
		}
	}
	return warnings
}

// release returns the highest release that is not withdrawn.
func (l *Listing) release() (v addr.Version, ok bool) {
	i := slices.IndexFunc(l.Versions, func(v addr.Version) bool { return !v.Prerelease() && l.Status(v).Yanked == nil })
	if i < 0 {
		return v, false
	}
	return l.Versions[i], true
}

// MoveLatest points a module's tag "latest" at the highest release that is not withdrawn, or
// removes it. l is from before, whose events are not read again, or empty. A refusal is a warning.
func MoveLatest(ctx context.Context, l *Listing) []string {
	l, err := ReadListing(ctx, l.Repository, l.Kind, l)
	if err != nil || l.Kind != addr.KindModule {
		return notMoved(err)
	}
	l, warnings := moveByList(ctx, l, Published{})
	if len(warnings) > 0 {
		return warnings
	}
	return settleLatest(ctx, l, "")
}

// moveByList is [MoveLatest] with a list that was just read, and a version of which the manifest is
// known, or none. It looks again after each move, since others move it by an older list.
func moveByList(ctx context.Context, l *Listing, known Published) (last *Listing, warnings []string) {
	for range bidRivals {
		moved, err := pointLatest(ctx, l, known)
		if err == nil && moved {
			l, err = ReadListing(ctx, l.Repository, l.Kind, l)
		}
		if err != nil {
			return l, notMoved(err)
		}
		if !moved {
			break
		}
	}
	return l, nil
}

// pointLatest points latest at the highest release of the list, or removes it.
func pointLatest(ctx context.Context, l *Listing, known Published) (moved bool, err error) {
	r := l.Repository
	v, ok := l.release()
	if !ok {
		if !slices.Contains(l.Tags, artifact.TagLatest) {
			return false, nil
		}
		if err := r.Untag(ctx, artifact.TagLatest); oci.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("no release is left: %w", err)
		}
		return true, nil
	}
	have, missing := r.Resolve(ctx, artifact.TagLatest)
	if missing == nil && v.Tag() == known.Tag && have.Digest.String() == known.Digest {
		return false, nil
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil || missing == nil && have.Digest == m.Digest {
		return false, err
	}
	return true, r.PutTag(ctx, artifact.TagLatest, m)
}

func notMoved(err error) (warnings []string) {
	if err != nil {
		return []string{fmt.Sprintf("the tag latest was not moved: %v", err)}
	}
	return nil
}
