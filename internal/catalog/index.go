// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Index is what has been published.
type Index struct {
	*depot.Catalog
	Modules []addr.Module // those of the entries that are modules, likewise by address
}

func (x *Index) size() int { return 512 * len(x.Tags) }

// Index returns what has been published; where there is no catalogue yet, nothing.
func (c *Catalog) Index(ctx context.Context) (*Index, error) {
	name := c.layout.CatalogRepo()
	x, err := c.indexes.Get(ctx, name, listPolicy(), func(ctx context.Context, old *Index, has bool) (*Index, error) {
		r, err := c.client.Repo(name)
		if err != nil {
			return nil, err
		}
		var known *depot.Catalog
		if has {
			known = old.Catalog
		}
		all, err := depot.ReadCatalog(ctx, r, known)
		if err != nil || all == known {
			return old, err
		}
		c.lost.warn(name, all.Ghosts...)
		x := &Index{Catalog: all}
		for _, e := range all.Entries {
			if m, err := addr.ParseModule(e.Address); err == nil && e.Kind == artifact.KindModule {
				x.Modules = append(x.Modules, m)
			}
		}
		return x, nil
	})
	if errors.Is(err, oci.ErrNotFound) {
		return &Index{Catalog: &depot.Catalog{}}, nil
	}
	return x, err
}
