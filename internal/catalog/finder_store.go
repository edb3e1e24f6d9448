// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// storedCatalog returns the catalog of the stored index; nil if that was loaded before.
func (f *Finder) storedCatalog(ctx context.Context, r *oci.Repo) *depot.Catalog {
	f.mu.Lock()
	loaded := f.loaded
	f.mu.Unlock()
	if loaded {
		return nil
	}
	stored, err := readIndex(ctx, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.log.Warn("search index cannot be read; rebuilding it", "repository", r.Name(), "error", err)
	}
	f.loaded = !errors.Is(err, oci.ErrUnavailable)
	f.mergeStored(stored)
	entries := make([]artifact.CatalogEntry, 0, len(f.entries))
	for _, e := range f.entries {
		if it, ok := itemOf(e); ok {
			entries = append(entries, artifact.CatalogEntry{Kind: e.Kind, Address: e.Address, Repository: it.Repository(f.c.layout), Title: e.Title})
		}
	}
	return depot.KnownCatalog(entries)
}

// mergeStored keeps newer stored entries, none from the future, f.mu held.
func (f *Finder) mergeStored(others []search.Entry) {
	latest := f.now().Add(time.Minute)
	for _, e := range others {
		if e.Listed.After(f.entries[e.Key()].Listed) && e.Listed.Before(latest) {
			f.entries[e.Key()] = e
			f.stale = true
		}
	}
}

// itemOf returns the item of an entry; false if its address is invalid.
func itemOf(e search.Entry) (addr.Item, bool) {
	if e.Kind == addr.KindTemplate {
		it := addr.Item{Kind: e.Kind, Template: e.Address}
		return it, it.Repository(addr.Layout{}) != ""
	}
	it, err := addr.ParseItem(e.Address)
	return it, err == nil && it.Kind == e.Kind && it.String() == e.Address
}

// readIndex reads the stored index; nil if there is none.
func readIndex(ctx context.Context, r *oci.Repo) ([]search.Entry, error) {
	document, err := artifact.SearchIndex().Read(ctx, r, nil, search.MaxDocument)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	return search.DecodeEntries(document)
}

// saveIndexIfDue writes a changed index, not too often, merged with what others wrote.
func (f *Finder) saveIndexIfDue(ctx context.Context, base *Published) {
	f.mu.Lock()
	now := f.now()
	due := f.unsaved && !f.keep && now.Sub(f.written) >= writeEvery
	if due {
		f.written = now
		f.unsaved = false
	}
	f.mu.Unlock()
	if !due {
		return
	}
	err := f.writeIndex(ctx, base)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, oci.ErrDenied) || errors.Is(err, oci.ErrUnauthenticated):
		f.keep = true
		f.log.Info("search index not stored: this server has read-only access to the registry", "error", err)
	default:
		f.unsaved = true
		f.log.Warn("search index not stored", "error", err)
	}
}

func (f *Finder) writeIndex(ctx context.Context, base *Published) error {
	r, err := f.c.client.Repo(f.c.layout.CatalogRepo())
	if err != nil {
		return err
	}
	stored, err := readIndex(ctx, r)
	if errors.Is(err, oci.ErrUnavailable) {
		return err
	}
	f.mu.Lock()
	f.mergeStored(stored)
	entries := make([]search.Entry, 0, len(base.items))
	for _, it := range slices.Concat(base.items, base.templates) {
		if e := f.entry(it); !e.Listed.IsZero() {
			e.Title = base.Titles[it]
			entries = append(entries, e)
		}
	}
	f.mu.Unlock()
	document, err := search.EncodeEntries(entries)
	if err != nil {
		return err
	}
	return artifact.SearchIndex().Put(ctx, r, nil, document)
}
