// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
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
		return !v.Edition() && s.Yanked == nil && !replaced && (r.Usable == nil || r.Usable(v))
	}
	stays := map[addr.Version]bool{}
	counted, release := 0, false
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

// PruneVersions yanks the versions and then removes their tags. Where the
// registry does not delete tags all are yanked and the error is an
// oci.ErrUnsupported. Only tags are removed: what another tag needs stays, and
// the registry's own garbage collection frees the rest.
func PruneVersions(ctx context.Context, l *Listing, versions []addr.Version) error {
	var unsupported error
	for _, v := range versions {
		e := artifact.StatusEvent{Message: "removed by retention"}
		if yanked := l.Status(v).Yanked; yanked != nil {
			e = artifact.StatusEvent{Message: yanked.Message, Replacement: yanked.Replacement, Actor: yanked.Actor}
		}
		e.Action, e.Version, e.Time = artifact.ActionYank, v.String(), artifact.NextStatusTime(l.Events)
		e, err := withdraw(ctx, l.Repository, e)
		switch {
		case e.Tag != "" && errors.Is(err, oci.ErrUnsupported):
			unsupported = fmt.Errorf("%s does not delete tags, the versions are yanked only: %w", l.Repository.Host(), err)
		case err != nil:
			return fmt.Errorf("prune %s of %s: %w", v, l.Repository, err)
		}
	}
	return unsupported
}
