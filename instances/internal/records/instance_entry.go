// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// InstanceEntry is an entry in the queue that tells where the state of an instance is. It
// is written once, before the first run, so that states can be found that no ledger names
// any more.
type InstanceEntry struct {
	ID         string // of the instance
	Template   string // namespace/name
	Repository string // without host
}

const entryTagPrefix = "i-"

// EntryTag returns the tag of an instance's entry in the queue.
func EntryTag(id string) string { return entryTagPrefix + id }

// EntryInstance returns the ID of the instance of an entry tag, "" for other tags.
func EntryInstance(tag string) string {
	id, ok := strings.CutPrefix(tag, entryTagPrefix)
	if !ok || addr.CheckInstance(id) != nil {
		return ""
	}
	return id
}

// AddInstanceEntry writes the entry into the queue r without checking for an existing
// one: the entry of an instance is always the same.
func AddInstanceEntry(ctx context.Context, r *oci.Repo, e InstanceEntry) error {
	tag := EntryTag(e.ID)
	if EntryInstance(tag) == "" {
		return fmt.Errorf("entry of instance %q: the ID is invalid", e.ID)
	}
	return artifact.PutEntry(ctx, r, tag, artifact.CatalogEntry{Kind: addr.KindInstance, Address: e.Template, Repository: e.Repository})
}

// ReadInstanceEntry reads the entry of the instance id from the queue r.
func ReadInstanceEntry(ctx context.Context, r *oci.Repo, id string) (InstanceEntry, error) {
	e, err := artifact.ReadCatalogEntry(ctx, r, EntryTag(id))
	if err != nil {
		return InstanceEntry{}, err
	}
	if e.Kind != addr.KindInstance || e.Repository == "" {
		return InstanceEntry{}, fmt.Errorf("%s:%s is no entry of an instance: %w", r, EntryTag(id), oci.ErrCorrupt)
	}
	return InstanceEntry{ID: id, Template: e.Address, Repository: e.Repository}, nil
}
