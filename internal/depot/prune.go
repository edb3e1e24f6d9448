// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Retention defines which versions of a module or provider are kept.
type Retention struct {
	Keep   int                     // number of highest versions to keep, at least 1
	Pinned func(addr.Version) bool // always kept; nil: none
	Usable func(addr.Version) bool // installable according to the caller, besides the status events; nil: all
}

// Prunable returns what the retention removes, highest first. Yanked, unusable and replaced
// versions do not count towards Keep: kept above the lowest that counts, removed below. The release
// that clients choose is always kept. Editions are as their version.
func (l *Listing) Prunable(r Retention) []addr.Version {
	counts := func(v addr.Version) bool {
		s := l.Status(v)
		replaced := s.Deprecated != nil && s.Deprecated.Replacement != ""
		withdrawn := s.Yanked != nil || replaced
		return !v.Edition() && !withdrawn && (r.Usable == nil || r.Usable(v))
	}
	stays := map[addr.Version]bool{}
	counted := 0
	release := false
	for _, v := range l.Versions { // highest first
		c := counts(v)
		first := c && !release && !v.Prerelease()
		if counted < r.Keep || first {
			stays[v.EditionOf()] = true
		}
		if c {
			counted++
		}
		release = release || first
	}
	return slices.DeleteFunc(slices.Clone(l.Versions), func(v addr.Version) bool {
		return stays[v.EditionOf()] || r.Pinned != nil && r.Pinned(v)
	})
}

// KeptError lists versions that were not deleted, only yanked. It wraps oci.ErrUnsupported.
type KeptError struct {
	Host  string
	Kept  []addr.Version
	Of    int // number of versions to remove
	Cause error
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%s does not delete tags; %d of %d versions remain, withdrawn: %v", e.Host, len(e.Kept), e.Of, e.Cause)
}

func (e *KeptError) Unwrap() error { return oci.ErrUnsupported }

// PruneVersions yanks versions, then removes their tags, or, if the registry deletes no tags, the
// manifests that no other tag names; versions that it could not remove are a [*KeptError]. Shared
// content stays; the registry collects the rest. Dead bids, times and part tags of removed versions
// go too.
func PruneVersions(ctx context.Context, l *Listing, versions []addr.Version) error {
	dropBids(ctx, l)
	named := partTags(ctx, l)
	err := pruneVersions(ctx, l, versions)
	gone := versions
	if kept, ok := errors.AsType[*KeptError](err); ok {
		gone = slices.DeleteFunc(slices.Clone(versions), func(v addr.Version) bool { return slices.Contains(kept.Kept, v) })
	}
	if err == nil || errors.Is(err, oci.ErrUnsupported) {
		dropTimes(ctx, l, gone)
		dropPartTags(ctx, l, named, gone)
	}
	return err
}

// partTags returns the versions that name a part, by the part's tag, with a request a version if
// any part has a tag. If one cannot be read, it returns nothing: what that needs is unknown.
func partTags(ctx context.Context, l *Listing) map[string][]addr.Version {
	named := map[string][]addr.Version{}
	if !slices.ContainsFunc(l.Tags, func(tag string) bool { return strings.HasPrefix(tag, oci.PartPrefix) }) {
		return named
	}
	for _, v := range l.Versions {
		m, err := l.Repository.Fetch(ctx, v.Tag())
		if was := l.lastRemoval(v); was != nil && errors.Is(err, oci.ErrNotFound) {
			m, err = l.Repository.Fetch(ctx, was.Subject.String())
		}
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return nil
		}
		manifests, _, _ := partsOf(m) // what is damaged or no version names none
		for _, d := range manifests {
			named[oci.PartTag(d.Digest)] = append(named[oci.PartTag(d.Digest)], v)
		}
	}
	return named
}

// dropPartTags removes part tags that only the gone versions name, as far as the registry allows.
func dropPartTags(ctx context.Context, l *Listing, named map[string][]addr.Version, gone []addr.Version) {
	for tag, versions := range named {
		isPart := func(m oci.Manifest) bool { return oci.PartTag(m.Digest) == tag }
		isNeeded := slices.ContainsFunc(versions, func(v addr.Version) bool { return !slices.Contains(gone, v) })
		if !isNeeded && slices.Contains(l.Tags, tag) && dropTag(ctx, l.Repository, tag, isPart) != nil {
			return
		}
	}
}

// dropTag removes a tag, or, if tags stay, its manifest if isOwn says that nothing else needs it.
func dropTag(ctx context.Context, r *oci.Repo, tag string, isOwn func(oci.Manifest) bool) error {
	err := r.Untag(ctx, tag)
	if errors.Is(err, oci.ErrUnsupported) {
		var m oci.Manifest
		if m, err = r.Fetch(ctx, tag); err == nil && isOwn(m) {
			err = r.Delete(ctx, m.Descriptor)
		}
	}
	return oci.IgnoreNotFound(err)
}

func pruneVersions(ctx context.Context, l *Listing, versions []addr.Version) error {
	var tagged []yanked
	var cause error
	for _, v := range versions {
		e := evidence.StatusEvent{Message: "removed by retention"}
		if before := l.Status(v).Yanked; before != nil {
			e = evidence.StatusEvent{Message: before.Message, Replacement: before.Replacement, Actor: before.Actor}
		}
		e.Action = evidence.ActionYank
		e.Version = v.String()
		e.Time = evidence.NextStatusTime(l.Events, l.now())
		e, err := withdrawVersion(ctx, l.Repository, e)
		switch {
		case e.Tag != "" && keepsTag(err):
			tagged = append(tagged, yanked{v, e.Subject})
			cause = err
		case err != nil:
			return fmt.Errorf("prune %s of %s: %w", v, l.Repository, err)
		}
		l = l.withEvent(e)
	}
	if len(versions) > 0 && slices.Contains(l.Tags, artifact.TagLatest) {
		_ = MoveLatest(ctx, l) // before manifests are deleted, which it may name
	}
	if len(tagged) == 0 {
		return nil
	}
	kept, err := deleteManifests(ctx, l.Repository, tagged)
	if keepsTag(err) {
		cause = err
		err = nil
	}
	if err != nil || len(kept) == 0 {
		return err
	}
	return &KeptError{Host: l.Repository.Host(), Kept: kept, Of: len(versions), Cause: cause}
}

// yanked is a yanked version whose tag still exists.
type yanked struct {
	version addr.Version
	digest  digest.Digest
}

// deleteManifests removes yanked versions' manifests, and returns versions whose manifest another
// tag names or the registry keeps.
func deleteManifests(ctx context.Context, r *oci.Repo, versions []yanked) (kept []addr.Version, refused error) {
	going := map[string]bool{}
	for _, y := range versions {
		going[y.version.Tag()] = true
	}
	needed, err := digestsBeside(ctx, r, going)
	if err != nil {
		return nil, err
	}
	for _, y := range versions {
		if !needed[y.digest] && refused == nil {
			err := r.Delete(ctx, oci.Descriptor{Digest: y.digest})
			if err == nil || errors.Is(err, oci.ErrNotFound) {
				continue
			}
			refused = err
		}
		kept = append(kept, y.version)
	}
	return kept, refused
}

// resolveParallel is how many tags are resolved concurrently.
const resolveParallel = 4

// digestsBeside returns the digests of all tags that are not in going.
func digestsBeside(ctx context.Context, r *oci.Repo, going map[string]bool) (map[digest.Digest]bool, error) {
	var mu sync.Mutex // guards needed
	needed := map[digest.Digest]bool{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(resolveParallel)
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		if going[tag] {
			continue
		}
		g.Go(func() error {
			d, err := r.Resolve(gctx, tag)
			if errors.Is(err, oci.ErrNotFound) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			needed[d.Digest] = true
			return err
		})
	}
	return needed, g.Wait()
}
