// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// deletedMessage is what users read who have a version of a deleted object.
const deletedMessage = "the object that published it was deleted"

// withdraw yanks the versions of an entry that its record knows, and with the policy
// Delete removes their tags where the registry can.
func withdraw(ctx context.Context, d *depot.Depot, e *entry, l *depot.Listing, known map[string]supply.VersionRecord) error {
	untag := e.run.DeletionPolicy == v1alpha1.DeletionDelete
	for _, v := range l.Versions {
		_, ours := known[v.EditionOf().String()]
		ours = ours && e.speaksOf(v.EditionOf().String())
		if !ours || !untag && l.Status(v).Yanked != nil {
			continue
		}
		an := depot.Announcement{Action: evidence.ActionYank, Version: v.String(), Message: deletedMessage, Actor: actor(e), DeleteTag: untag}
		if _, _, err := d.Announce(ctx, e.item, an); err != nil {
			return err
		}
	}
	return nil
}
