// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
)

// manifests reads and caches version tags, served or not.
type manifests struct {
	client  *oci.Client
	layout  addr.Layout
	revoked RevokedKeys
	log     *slog.Logger
	now     func() time.Time
	watch   Watch
	tagTTL  time.Duration

	blobs     *Blobs                         // gets the sizes and bytes that manifests have
	lists     *cache.Cache[*Versions]        // is told what became known about a version
	modules   *cache.Cache[*ModuleVersion]   // repository:tag
	providers *cache.Cache[*ProviderVersion] // repository:tag and the tag of the event that replaced its signature
}

func (m *manifests) manifestAt(ctx context.Context, repository string, v addr.Version, l *Versions) (oci.Descriptor, error) {
	if d, ok := m.knownManifest(repository, v, l); ok {
		return d, nil
	}
	item, _ := m.layout.Parse(repository)
	switch item.Kind {
	case addr.KindTemplate:
		r, err := m.client.Repo(repository)
		if err != nil {
			return oci.Descriptor{}, err
		}
		d, err := r.Resolve(ctx, v.Tag())
		return d, asDangling(err)
	case addr.KindModule:
		mv, err := m.loadedModule(ctx, repository, v)
		if err != nil {
			return oci.Descriptor{}, err
		}
		return mv.Manifest, nil
	}
	p, err := m.providerVersion(ctx, repository, item.Provider.Type, v, l)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return p.Index, nil
}

// knownManifest is manifestAt without a request.
func (m *manifests) knownManifest(repository string, v addr.Version, l *Versions) (oci.Descriptor, bool) {
	if mv, ok := m.modules.Peek(repository + ":" + v.Tag()); ok {
		return mv.Manifest, true
	}
	p, ok := m.providers.Peek(providerKey(repository, v, l))
	if !ok {
		return oci.Descriptor{}, false
	}
	return p.Index, true
}

// recheckTags reads modules' oldest tags again in the background, at most limit, past the tag TTL.
func (m *manifests) recheckTags(ctx context.Context, repository string, all []addr.Version, limit int) {
	type aged struct {
		tag string
		age time.Duration
	}
	var old []aged
	for _, v := range all {
		if age, ok := m.modules.Age(repository + ":" + v.Tag()); ok && age >= m.tagTTL {
			old = append(old, aged{v.Tag(), age})
		}
	}
	slices.SortStableFunc(old, func(a, b aged) int { return cmp.Compare(b.age, a.age) })
	later := cache.Policy{Fresh: m.tagTTL, Grace: cache.Forever, Stale: cache.Forever}
	for _, o := range old[:min(len(old), limit)] {
		_, _ = m.modules.Get(ctx, repository+":"+o.tag, later, m.loadModule(repository, o.tag)) // the known manifest is returned at once
	}
}

// forgetTag drops the content of a tag.
func (m *manifests) forgetTag(repository, tag string) {
	m.modules.Forget(repository + ":" + tag)
	m.providers.Forget(repository + ":" + tag)
}
