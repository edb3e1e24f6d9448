// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// RebuildCatalog adds the repositories that hold a version to the catalogue; those
// of something else are passed over. Without names it asks the registry for all
// below the prefix. It returns how many it listed.
func (d *Depot) RebuildCatalog(ctx context.Context, repositories []string) (int, error) {
	if len(repositories) == 0 {
		var err error
		if repositories, err = d.o.Client.Repositories(ctx); err != nil {
			return 0, fmt.Errorf("listing the repositories: %w", err)
		}
	}
	catalog, err := d.Repo(d.o.Layout.CatalogRepo())
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range repositories {
		entry, ok := catalogEntry(d.o.Layout, name)
		if !ok {
			continue
		}
		switch _, err := d.Versions(ctx, name); {
		case errors.Is(err, oci.ErrNotFound):
			continue // only status events, or candidates
		case err != nil:
			return n, err
		}
		if err := artifact.AddCatalogEntry(ctx, catalog, entry); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// catalogEntry returns the entry of a repository of modules or providers.
func catalogEntry(l addr.Layout, repository string) (artifact.CatalogEntry, bool) {
	it, ok := l.Parse(repository)
	if !ok {
		return artifact.CatalogEntry{}, false
	}
	switch it.Kind {
	case addr.KindModule, addr.KindProvider, addr.KindMirror:
		return artifact.CatalogEntry{Kind: it.Kind, Address: it.String(), Repository: repository}, true
	}
	return artifact.CatalogEntry{}, false
}
