// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
)

// HeldModule is [Catalog.ModuleVersion] for publishers: of versions not served too, with a reason.
func (c *Catalog) HeldModule(ctx context.Context, m addr.Module, v addr.Version) (*ModuleVersion, *RefusedError, error) {
	mv, err := c.ModuleVersion(ctx, m, v)
	no, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return mv, nil, err
	}
	mv, err = c.manifests.loadedModule(ctx, c.layout.Module(m), v)
	return mv, no, err
}

// HeldProvider is like [Catalog.ProviderVersion] in the same way.
func (c *Catalog) HeldProvider(ctx context.Context, p addr.Provider, v addr.Version) (*ProviderVersion, *RefusedError, error) {
	pv, err := c.ProviderVersion(ctx, p, v)
	no, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return pv, nil, err
	}
	repository := p.Item().Repository(c.layout)
	l, err := listForVersion(ctx, c, p.Item())
	if err != nil {
		return nil, no, err
	}
	pv, err = c.manifests.providerVersion(ctx, repository, p.Type, v, l)
	if err == nil && pv.Broken != nil {
		err = pv.Broken
	}
	return pv, no, err
}

// Held returns the versions not served, highest first, with the [RefusedError] of each.
func (l *Versions) Held() ([]addr.Version, []error) {
	var versions []addr.Version
	var reasons []error
	for _, v := range slices.Backward(slices.SortedFunc(slices.Values(l.Listing.Versions), addr.Version.Compare)) {
		if err := l.Available(v); err != nil {
			versions = append(versions, v)
			reasons = append(reasons, err)
		}
	}
	return versions, reasons
}
