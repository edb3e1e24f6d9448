// SPDX-License-Identifier: Apache-2.0

package instancerun

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
)

// Modules is what a registry has, for the statuses of Templates. It implements
// [instancectl.Modules].
type Modules struct{ Catalog *catalog.Catalog }

// Resolve is the version of a module that a template means now.
func (m Modules) Resolve(ctx context.Context, ref template.ModuleRef) (template.Source, template.Module, error) {
	return portal.ResolveModule(ctx, m.Catalog, ref)
}

// Versions are those that a template takes, the highest first.
func (m Modules) Versions(ctx context.Context, ref template.ModuleRef, n int) ([]template.Source, error) {
	if ref.Pinned() {
		return nil, nil
	}
	module, err := addr.ParseModule(ref.Address)
	if err != nil {
		return nil, err
	}
	fits, err := addr.ParseConstraint(ref.Version)
	if err != nil {
		return nil, err
	}
	list, err := m.Catalog.Module(ctx, module)
	if err != nil {
		return nil, err
	}
	taken := slices.DeleteFunc(slices.Clone(list.Listed), func(v addr.Version) bool { return !fits.Allows(v) })
	slices.SortFunc(taken, func(a, b addr.Version) int { return b.Compare(a) })
	var all []template.Source
	for _, v := range taken[:min(len(taken), n)] {
		found, err := m.Catalog.ModuleVersion(ctx, module, v)
		if errors.Is(err, oci.ErrNotFound) { // a policy holds it back
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, template.Source{
			Module: module.String(), Version: v.String(), Digest: found.Manifest.Digest.String(), Archive: found.Zip.Digest.String(), Size: found.Zip.Size, Path: ref.Path,
		})
	}
	return all, nil
}
