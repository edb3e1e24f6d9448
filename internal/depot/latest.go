// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// latestMover returns what moves latest once a version exists, or nil.
func (o ModuleOptions) latestMover(ctx context.Context, v addr.Version) func(l *Listing, root oci.Manifest, old bool) (warnings []string) {
	if o.NoLatest {
		return nil
	}
	return func(l *Listing, m oci.Manifest, old bool) []string {
		if old {
			return MoveLatest(ctx, l)
		}
		return pointLatest(ctx, l, v, m)
	}
}

// withLatest moves the tag latest, unless o.NoLatest, and adds warnings to p.
func (p Published) withLatest(ctx context.Context, l *Listing, o ModuleOptions) Published {
	if !o.NoLatest {
		p.Warnings = append(p.Warnings, MoveLatest(ctx, l)...)
	}
	return p
}

// pointLatest points "latest" at a new version, in one request, if the list before had no higher
// release and no other publisher. Of two the later one sees the other's bid, which is removed only
// after that one moved the tag, and lists anew. A lower version moves nothing, unless the list
// after it shows that the release of before was withdrawn.
func pointLatest(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest) []string {
	own := bidPrefix + numberHash(addr.KindModule, v)
	bidOfOther := func(tag string) bool { return strings.HasPrefix(tag, bidPrefix) && !strings.HasPrefix(tag, own) }
	before, ok := l.release()
	switch isLower := ok && before.Compare(v) > 0; {
	case l.Status(v).Yanked != nil: // since the plan
	case !v.Prerelease() && !isLower && !slices.ContainsFunc(l.Tags, bidOfOther):
		return notMoved(l.Repository.PutTag(ctx, artifact.TagLatest, m))
	case isLower && slices.Contains(l.Tags, artifact.TagLatest):
		now, err := ReadListing(ctx, l.Repository, l.Kind, l)
		if err != nil {
			return notMoved(err)
		}
		if after, ok := now.release(); ok && after == before && !slices.ContainsFunc(slices.Concat(l.Tags, now.Tags), bidOfOther) {
			return nil
		}
		return moveByList(ctx, now, Published{})
	}
	return MoveLatest(ctx, l)
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
	return moveByList(ctx, l, Published{})
}

// moveByList is [MoveLatest] with a list that was just read, and a version of which the manifest is
// known, or none.
func moveByList(ctx context.Context, l *Listing, known Published) []string {
	r := l.Repository
	v, ok := l.release()
	if !ok {
		if !slices.Contains(l.Tags, artifact.TagLatest) {
			return nil
		}
		if err := r.Untag(ctx, artifact.TagLatest); err != nil && !errors.Is(err, oci.ErrNotFound) {
			return []string{fmt.Sprintf("no release is left, but the tag latest was not removed: %v", err)}
		}
		return nil
	}
	have, missing := r.Resolve(ctx, artifact.TagLatest)
	if missing == nil && v.Tag() == known.Tag && have.Digest.String() == known.Digest {
		return nil
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil || missing == nil && have.Digest == m.Digest {
		return notMoved(err)
	}
	return notMoved(r.PutTag(ctx, artifact.TagLatest, m))
}

func notMoved(err error) (warnings []string) {
	if err != nil {
		return []string{fmt.Sprintf("the tag latest was not moved: %v", err)}
	}
	return nil
}
