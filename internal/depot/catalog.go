// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// RebuildCatalog adds modules and providers that have a version to the catalog.
// Without items it lists all repositories of the registry below the prefix and
// skips those of other kinds. It returns how many it added.
func (d *Depot) RebuildCatalog(ctx context.Context, items []addr.Item) (int, error) {
	if len(items) == 0 {
		repositories, err := d.o.Client.Repositories(ctx)
		if err != nil {
			return 0, fmt.Errorf("listing the repositories: %w", err)
		}
		for _, name := range repositories {
			if it, ok := d.o.Layout.Parse(name); ok && it.Versioned() {
				items = append(items, it)
			}
		}
	}
	n := 0
	for _, it := range items {
		switch _, err := d.Versions(ctx, it); {
		case errors.Is(err, oci.ErrNotFound):
			continue // only status events, or candidates
		case err != nil:
			return n, err
		}
		if err := d.AddToCatalog(ctx, it, ""); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
