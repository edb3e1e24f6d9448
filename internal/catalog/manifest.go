// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
)

// manifests is what is under version tags, whether it may be served or not.
type manifests struct {
	client  *oci.Client
	layout  addr.Layout
	revoked RevokedKeys
	log     *slog.Logger
	now     func() time.Time
	watch   Watch
	tagTTL  time.Duration

	blobs     *Blobs                         // learn what manifests tell of them
	lists     *cache.Cache[*Versions]        // likewise
	modules   *cache.Cache[*ModuleVersion]   // repository:tag
	providers *cache.Cache[*ProviderVersion] // repository:tag and the event that replaced its signature
}

// at returns the descriptor of what is under a version tag of l.
func (m *manifests) at(ctx context.Context, repository string, v addr.Version, l *Versions) (oci.Descriptor, error) {
	if d, ok := m.known(repository, v, l); ok {
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
		return d, asGhost(err)
	case addr.KindModule:
		mv, err := m.module(ctx, repository, v)
		if err != nil {
			return oci.Descriptor{}, err
		}
		return mv.Manifest, nil
	}
	p, err := m.provider(ctx, repository, item.Provider.Type, v, l)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return p.Index, nil
}

// known is at without asking.
func (m *manifests) known(repository string, v addr.Version, l *Versions) (oci.Descriptor, bool) {
	if mv, ok := m.modules.Peek(repository + ":" + v.Tag()); ok {
		return mv.Manifest, true
	}
	p, ok := m.providers.Peek(providerKey(repository, v, l))
	if !ok {
		return oci.Descriptor{}, false
	}
	return p.Index, true
}

// forget drops what was under a tag.
func (m *manifests) forget(repository, tag string) {
	m.modules.Forget(repository + ":" + tag)
	m.providers.Forget(repository + ":" + tag)
}
