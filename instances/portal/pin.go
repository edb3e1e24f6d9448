// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Pin returns a template with the version of its module that a caller names: one
// that the template takes. "" is [Templates.Current]. Without such a template it
// is lifecycle.ErrNotFound.
func (t *Templates) Pin(ctx context.Context, name, version string) (*Entry, error) {
	e, ok := t.Current(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	case version == "" || version == e.Source.Version:
		return e, nil
	}
	v, err := addr.ParseVersion(version)
	if err != nil {
		return nil, field("/version", "want a version such as 1.2.3")
	}
	ref := e.Template.Module
	if !takes(ref, v) {
		return nil, field("/version", "the template takes %s", ref.Version)
	}
	ref.Version = v.String()
	source, module, err := ResolveModule(ctx, t.o.Catalog, ref)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, field("/version", "the module has no version %s", v)
	}
	if err != nil {
		return nil, err
	}
	pinned := *e
	pinned.Source, pinned.Problem, pinned.Cause, pinned.Behind = source, "", "", ""
	if pinned.Schema, err = template.NewSchema(e.Template, module); err != nil {
		return nil, field("/version", "version %s of the module does not fit: %v", v, err)
	}
	return &pinned, nil
}

// maxVersions bounds how many versions of a module are offered.
const maxVersions = 50

// Versions are those of its module that a template takes, the highest first; none
// where that is not for who launches it to say: it names a digest, or has a pool.
func (t *Templates) Versions(ctx context.Context, name string) ([]string, error) {
	e, ok := t.Current(name)
	if !ok {
		return nil, fmt.Errorf("template %s: %w", name, lifecycle.ErrNotFound)
	}
	ref := e.Template.Module
	if ref.Pinned() || e.Template.Pool != nil {
		return nil, nil
	}
	m, err := addr.ParseModule(ref.Address)
	if err != nil {
		return nil, err
	}
	list, err := t.o.Catalog.Module(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", m, err)
	}
	fits := slices.DeleteFunc(slices.Clone(list.Listed), func(v addr.Version) bool { return !takes(ref, v) })
	slices.SortFunc(fits, func(a, b addr.Version) int { return b.Compare(a) })
	var versions []string
	for _, v := range fits[:min(len(fits), maxVersions)] {
		versions = append(versions, v.String())
	}
	return versions, nil
}

// takes reports whether a template lets a caller choose a version.
func takes(ref template.ModuleRef, v addr.Version) bool {
	if ref.Pinned() {
		return false
	}
	fits, err := addr.ParseConstraint(ref.Version)
	return err == nil && fits.Allows(v)
}

// Compare reads what two versions of a module say of themselves.
func (t *Templates) Compare(ctx context.Context, was, is api.Source) ([]description.Difference, error) {
	var sides [2]artifact.DescribedModule
	for i, source := range []api.Source{was, is} {
		m, err := addr.ParseModule(source.Module)
		if err != nil {
			return nil, err
		}
		v, err := addr.ParseVersion(source.Version)
		if err != nil {
			return nil, err
		}
		mv, err := t.o.Catalog.ModuleVersion(ctx, m, v)
		if err != nil {
			return nil, err
		}
		if have := mv.Manifest.Digest.String(); have != source.Digest {
			return nil, fmt.Errorf("module %s %s has the digest %s now, not %s", m, v, have, source.Digest)
		}
		d, err := t.o.Catalog.Description(ctx, mv)
		if err != nil {
			return nil, err
		}
		if sides[i], err = described(d, source.Path); err != nil {
			return nil, fmt.Errorf("module %s %s: %w", m, v, err)
		}
	}
	return description.Compare(sides[0], sides[1]), nil
}
