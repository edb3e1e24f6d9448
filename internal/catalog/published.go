// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// Published is what has been published.
type Published struct {
	*depot.Catalog
	items     []addr.Item // the modules and providers, parsed
	templates []addr.Item
}

// Filter says what is looked for. An empty field is any.
type Filter struct {
	Kind                    string   // [addr.KindModule], [addr.KindProvider] or [addr.KindMirror]
	Namespace, Name, System string   // of a module
	Terms                   []string // each in lower case, and part of the address
}

// Search returns what a query means, by kind and address. It asks for nothing.
func (p *Published) Search(q Filter) []addr.Item {
	fits := func(want, part string) bool { return want == "" || want == part }
	var found []addr.Item
	for _, it := range p.items {
		m := it.Module
		addressFits := fits(q.Namespace, m.Namespace) && fits(q.Name, m.Name) && fits(q.System, m.System)
		lacks := func(term string) bool { return !strings.Contains(it.String(), term) }
		if fits(q.Kind, it.Kind) && addressFits && !slices.ContainsFunc(q.Terms, lacks) {
			found = append(found, it)
		}
	}
	return found
}

func (p *Published) size() int { return 512 * len(p.Tags) }

// Progress is how far the list of what has been published was read.
type Progress struct{ Read, All int }

// progress keeps the last one.
type progress struct{ of atomic.Pointer[Progress] }

// note hears of readings in any order.
func (p *progress) note(known, all int) {
	for {
		old := p.of.Load()
		if old != nil && old.All == all && old.Read >= known || p.of.CompareAndSwap(old, &Progress{known, all}) {
			return
		}
	}
}

// Progress is how far the list is read, while it was never read as a whole; zero
// before anything is known of it. It counts what a caller may not read as well.
func (c *Catalog) Progress() Progress {
	if p := c.progress.of.Load(); p != nil {
		return *p
	}
	return Progress{}
}

// Published returns what has been published; where there is no catalog yet, nothing.
func (c *Catalog) Published(ctx context.Context) (*Published, error) {
	name := c.layout.CatalogRepo()
	published, err := c.published.Get(ctx, name, listPolicy(), func(ctx context.Context, old *Published, has bool) (*Published, error) {
		r, err := c.client.Repo(name)
		if err != nil {
			return nil, err
		}
		known := c.entries.Load()
		if known == nil && c.finder != nil {
			known = c.finder.known(ctx, r)
		}
		all, err := depot.ReadCatalog(ctx, r, known, c.progress.note)
		if all != nil {
			c.entries.Store(all) // a large catalog takes more than one load
		}
		if err != nil || has && all == old.Catalog {
			return old, err
		}
		c.lost.warn(name, all.Dangling...)
		fresh := &Published{Catalog: all}
		for _, e := range all.Entries {
			if it, ok := c.layout.Parse(e.Repository); ok && it.Kind == addr.KindTemplate && e.Kind == it.Kind {
				fresh.templates = append(fresh.templates, it)
			} else if it, err := addr.ParseItem(e.Address); err == nil && it.Kind == e.Kind {
				fresh.items = append(fresh.items, it)
			}
		}
		return fresh, nil
	})
	if errors.Is(err, oci.ErrNotFound) {
		return &Published{Catalog: &depot.Catalog{}}, nil
	}
	return published, err
}
