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

// Announcement changes how a version is listed.
type Announcement struct {
	Action      string // artifact.ActionDeprecate, …Undeprecate, …Yank or …Unyank
	Version     string // exact, or artifact.AllVersions
	Message     string // shown to the users
	Replacement string // version or address to use instead
	Actor       string
	DeleteTag   bool // for a yank: remove the tag where the registry can
}

// Announce records the announcement in the repository. The version must exist.
// The warning says that a wanted deletion is not supported.
func (d *Depot) Announce(ctx context.Context, it addr.Item, an Announcement) (event artifact.StatusEvent, warnings []string, err error) {
	l, err := d.Versions(ctx, it)
	if err != nil {
		return artifact.StatusEvent{}, nil, err
	}
	v, err := addr.ParseVersion(an.Version)
	switch {
	case an.Version == artifact.AllVersions:
	case err != nil:
		return artifact.StatusEvent{}, nil, err
	case !slices.Contains(l.Versions, v):
		return artifact.StatusEvent{}, nil, fmt.Errorf("%s has no version %s: %w", l.Repository, v, oci.ErrNotFound)
	}
	event, err = artifact.PutStatusEvent(ctx, l.Repository, artifact.StatusEvent{
		Action: an.Action, Version: an.Version, Message: an.Message, Replacement: an.Replacement, Actor: an.Actor, Time: artifact.NextStatusTime(l.Events),
	})
	if err != nil {
		return event, nil, err
	}
	if an.DeleteTag && an.Action == artifact.ActionYank && an.Version != artifact.AllVersions {
		err = l.Repository.Untag(ctx, v.Tag())
		if errors.Is(err, oci.ErrUnsupported) {
			return event, []string{fmt.Sprintf("the registry does not delete tags: %s is yanked, but can still be pulled by name", v)}, nil
		}
	}
	return event, nil, err
}
