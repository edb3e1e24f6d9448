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

// RebuildCatalog adds items that have a version to the catalog, or, without items, all modules and
// providers of the registry below the prefix, and returns how many it added.
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
		l, err := d.Versions(ctx, it)
		switch {
		case errors.Is(err, oci.ErrNotFound):
			continue // only status events, or candidates
		case err != nil:
			return n, err
		}
		if err := d.AddTitled(ctx, it, l.Versions[len(l.Versions)-1].Tag()); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// AddTitled is [Depot.AddToCatalog] with a module's address as the version of tag has it, if any.
func (d *Depot) AddTitled(ctx context.Context, it addr.Item, tag string) error {
	title := ""
	if it.Kind == addr.KindModule {
		r, err := d.Repo(it.Repository(d.o.Layout))
		if err != nil {
			return err
		}
		m, err := r.Fetch(ctx, tag)
		if err != nil && !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrCorrupt) {
			return err
		}
		title = artifact.AnnotationsOf(m)[artifact.AnnTitle]
	}
	return d.AddToCatalog(ctx, it, title)
}
