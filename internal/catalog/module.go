// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ModuleVersion is the manifest under the version tag of a module.
type ModuleVersion struct {
	artifact.ModuleManifest
	Repository string   // without host
	Derived    sync.Map // values that callers derive from this version, by form
}

func (m *ModuleVersion) size() int { return 2048 }

// ModuleVersion returns a served version. Errors are a [RefusedError] and [oci.ErrNotFound].
func (c *Catalog) ModuleVersion(ctx context.Context, m addr.Module, v addr.Version) (*ModuleVersion, error) {
	repository := c.layout.Module(m)
	l, err := listForVersion(ctx, c, m.Item())
	if err != nil {
		return nil, err
	}
	if err := l.Available(v); err != nil {
		return nil, err
	}
	mv, err := c.manifests.loadedModule(ctx, repository, v)
	if err != nil {
		return nil, dropIfDangling(c, repository, l, v, err)
	}
	return mv, c.policy.admitVersion(ctx, repository, v, mv.Manifest, l)
}

// loadedModule returns a version's manifest, its tag read again after the TTL.
func (m *manifests) loadedModule(ctx context.Context, repository string, v addr.Version) (*ModuleVersion, error) {
	return m.modules.Get(ctx, repository+":"+v.Tag(), cache.Policy{Fresh: m.tagTTL, Stale: staleFor}, m.loadModule(repository, v.Tag()))
}

// loadModule reads the manifest of a tag, unless the known digest is unchanged.
func (m *manifests) loadModule(repository, tag string) cache.Loader[*ModuleVersion] {
	return func(ctx context.Context, old *ModuleVersion, has bool) (*ModuleVersion, error) {
		r, err := m.client.Repo(repository)
		if err != nil {
			return nil, err
		}
		if has {
			d, err := r.Resolve(ctx, tag)
			if err != nil {
				return nil, asDangling(err)
			}
			if d.Digest == old.Manifest.Digest {
				return old, nil
			}
		}
		raw, err := r.Fetch(ctx, tag)
		if err != nil {
			return nil, asDangling(err)
		}
		parsed, err := artifact.ParseModule(raw)
		if err != nil {
			return nil, asOther(fmt.Errorf("%s:%s: %w", repository, tag, err), repository, tag, raw)
		}
		m.blobs.KeepSize(repository, *parsed.Zip)
		return &ModuleVersion{ModuleManifest: parsed, Repository: repository}, nil
	}
}

// Description returns a version's description, empty for one that another tool made.
func (c *Catalog) Description(ctx context.Context, mv *ModuleVersion) (artifact.ModuleDescription, error) {
	var d artifact.ModuleDescription
	if mv.Description == nil {
		return d, nil
	}
	b, err := c.Blobs.smallBlob(ctx, mv.Repository, *mv.Description)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("description of %s: %w: %w", mv.Repository, oci.ErrCorrupt, err)
	}
	d.Dir = mv.Annotations[artifact.AnnModuleDir]
	return d, nil
}

// TemplateVersion returns a served version of a template, and its JSON. Errors are a [RefusedError]
// and [oci.ErrNotFound].
func (c *Catalog) TemplateVersion(ctx context.Context, name string, v addr.Version) (artifact.TemplateManifest, []byte, error) {
	var none artifact.TemplateManifest
	it := addr.Item{Kind: addr.KindTemplate, Template: name}
	repository := it.Repository(c.layout)
	l, err := listForVersion(ctx, c, it)
	if err != nil {
		return none, nil, err
	}
	if err := l.Available(v); err != nil {
		return none, nil, err
	}
	r, err := c.client.Repo(repository)
	if err != nil {
		return none, nil, err
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil {
		return none, nil, err
	}
	t, err := artifact.ParseTemplate(m)
	if err == nil && (t.Name != name || t.Version != v || t.Layer.Size > artifact.MaxTemplate) {
		err = fmt.Errorf("unexpected content: version %s of %s, %d bytes: %w", t.Version, t.Name, t.Layer.Size, oci.ErrCorrupt)
	}
	if err != nil {
		return none, nil, fmt.Errorf("%s:%s: %w", repository, v.Tag(), err)
	}
	if err := c.policy.admitVersion(ctx, repository, v, m.Descriptor, l); err != nil {
		return none, nil, err
	}
	body, err := c.Blobs.smallBlob(ctx, repository, t.Layer)
	return t, body, err
}
