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

// Published is the list of published items.
type Published struct {
	*depot.Catalog
	Titles    map[addr.Item]string // addresses as they were written first, if not as stored
	items     []addr.Item          // the modules and providers, parsed
	templates []addr.Item
}

// Filter selects items. An empty field matches all.
type Filter struct {
	Kind                    string   // [addr.KindModule], [addr.KindProvider] or [addr.KindMirror]
	Namespace, Name, System string   // of a module
	Terms                   []string // in lower case, each a part of the address
}

// Search returns the matching items, by kind and address. It makes no request.
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

// Progress is how much of the list of published items has been read.
type Progress struct{ Read, All int }

// progress keeps the last Progress.
type progress struct{ of atomic.Pointer[Progress] }

// note records the progress of reads, which may be reported in any order.
func (p *progress) note(known, all int) {
	for {
		old := p.of.Load()
		if old != nil && old.All == all && old.Read >= known || p.of.CompareAndSwap(old, &Progress{known, all}) {
			return
		}
	}
}

// Progress returns how much of the list was read the first time; zero: nothing known. It counts
// what a caller may not read.
func (c *Catalog) Progress() Progress {
	if p := c.progress.of.Load(); p != nil {
		return *p
	}
	return Progress{}
}

// Published returns the list of published items, empty if there is no catalog yet.
func (c *Catalog) Published(ctx context.Context) (*Published, error) {
	name := c.layout.CatalogRepo()
	published, err := c.published.Get(ctx, name, listPolicy(), func(ctx context.Context, old *Published, has bool) (*Published, error) {
		r, err := c.client.Repo(name)
		if err != nil {
			return nil, err
		}
		known := c.entries.Load()
		if known == nil && c.finder != nil {
			known = c.finder.storedCatalog(ctx, r)
		}
		all, err := depot.ReadCatalog(ctx, r, known, c.progress.note)
		if all != nil {
			c.entries.Store(all) // a large catalog takes more than one load
		}
		if err != nil || has && all == old.Catalog {
			return old, err
		}
		c.lost.warnListed(name, all.Dangling)
		fresh := &Published{Catalog: all, Titles: map[addr.Item]string{}}
		for _, e := range all.Entries {
			if it, ok := c.layout.Parse(e.Repository); ok && it.Kind == addr.KindTemplate && e.Kind == it.Kind {
				fresh.templates = append(fresh.templates, it)
			} else if it, err := addr.ParseItem(e.Address); err == nil && it.Kind == e.Kind {
				fresh.items = append(fresh.items, it)
				if title := it.Module.Title(e.Title); it.Kind == addr.KindModule && title != e.Address {
					fresh.Titles[it] = title
				}
			}
		}
		return fresh, nil
	})
	if errors.Is(err, oci.ErrNotFound) {
		return &Published{Catalog: &depot.Catalog{}}, nil
	}
	return published, err
}
