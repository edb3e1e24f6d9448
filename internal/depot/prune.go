// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Retention says which versions of a module or provider stay.
type Retention struct {
	Keep   int                     // the highest that count, at least 1
	Pinned func(addr.Version) bool // stays in any case; nil: none
	Usable func(addr.Version) bool // can be installed, as far as the caller knows more than the status events; nil: all
}

// Prunable returns the versions that the retention removes, highest first. What is
// yanked, not usable, or deprecated in favour of another does not count: it stays
// while it is above the lowest that counts, and goes below. The release that
// clients choose always stays. An edition goes and stays with its version.
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

// KeptError says which versions of those that were to go the registry keeps: they are
// yanked only. It is an oci.ErrUnsupported.
type KeptError struct {
	Host  string
	Kept  []addr.Version
	Of    int // so many were to go
	Cause error
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%s does not delete tags, so %d of %d versions stay, yanked: %v", e.Host, len(e.Kept), e.Of, e.Cause)
}

func (e *KeptError) Unwrap() error { return oci.ErrUnsupported }

// PruneVersions yanks the versions and then removes their tags. Where the registry
// does not delete tags it removes the manifests, unless a tag that stays is on the
// same one; what it keeps is a [*KeptError]. What another tag needs stays, and the
// registry's own garbage collection frees the rest. What publishers left for versions
// that are there goes, too, and so do the publish times of versions that are gone.
func PruneVersions(ctx context.Context, l *Listing, versions []addr.Version) error {
	dropBids(ctx, l)
	err := pruneVersions(ctx, l, versions)
	gone := versions
	if kept, ok := errors.AsType[*KeptError](err); ok {
		gone = slices.DeleteFunc(slices.Clone(versions), func(v addr.Version) bool { return slices.Contains(kept.Kept, v) })
	}
	if err == nil || errors.Is(err, oci.ErrUnsupported) {
		dropTimes(ctx, l, gone)
	}
	return err
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
		e.Time = evidence.NextStatusTime(l.Events)
		e, err := withdraw(ctx, l.Repository, e)
		switch {
		case e.Tag != "" && keepsTag(err):
			tagged = append(tagged, yanked{v, e.Subject})
			cause = err
		case err != nil:
			return fmt.Errorf("prune %s of %s: %w", v, l.Repository, err)
		}
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

// yanked is a version that was withdrawn while its tag stays.
type yanked struct {
	version addr.Version
	digest  digest.Digest
}

// deleteManifests removes what the yanked versions name, and returns those whose
// manifest a tag of something else names too, or that the registry refuses to remove.
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

// resolveParallel is how many tags are looked up at a time.
const resolveParallel = 4

// digestsBeside are those that the tags name which stay.
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
