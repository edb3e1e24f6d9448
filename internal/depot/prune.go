// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Prunable returns the versions beyond the keep highest ones. An edition goes
// and stays with its version. Versions for which pinned is true stay.
func (l *Listing) Prunable(keep int, pinned func(addr.Version) bool) []addr.Version {
	kept := map[addr.Version]bool{}
	var prunable []addr.Version
	for _, v := range l.Versions { // highest first
		of := v.EditionOf()
		if len(kept) < keep {
			kept[of] = true
		}
		if !kept[of] && !pinned(v) {
			prunable = append(prunable, v)
		}
	}
	return prunable
}

// PruneVersions yanks the versions and then removes their tags. Where the
// registry does not delete tags all are yanked and the error is an
// oci.ErrUnsupported. Only tags are removed: what another tag needs stays, and
// the registry's own garbage collection frees the rest.
func PruneVersions(ctx context.Context, r *oci.Repo, versions []addr.Version) error {
	var unsupported error
	for _, v := range versions {
		if _, err := artifact.PutStatusEvent(ctx, r, artifact.StatusEvent{
			Action: artifact.ActionYank, Version: v.String(), Message: "removed by retention", Time: time.Now().UTC(),
		}); err != nil {
			return fmt.Errorf("prune %s of %s: %w", v, r, err)
		}
		err := r.Untag(ctx, v.Tag())
		switch {
		case errors.Is(err, oci.ErrUnsupported):
			unsupported = fmt.Errorf("%s does not delete tags, the versions are yanked only: %w", r.Host(), err)
		case err != nil && !errors.Is(err, oci.ErrNotFound):
			return fmt.Errorf("prune %s of %s: %w", v, r, err)
		}
	}
	return unsupported
}
