// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// maxSummaryReads is how many manifests are read at the same time for one list.
const maxSummaryReads = 4

// ManifestSummary is the information that the manifest of a version has.
type ManifestSummary struct {
	Manifest    oci.Descriptor
	Annotations map[string]string
	Size        int64 // of all archives together
}

// Summary returns the cached summary of a version of l, without a request.
func (c *Catalog) Summary(it addr.Item, v addr.Version, l *Versions) (ManifestSummary, bool) {
	repository := it.Repository(c.layout)
	if mv, ok := c.manifests.modules.Peek(repository + ":" + v.Tag()); ok {
		return ManifestSummary{Manifest: mv.Manifest, Annotations: mv.Annotations, Size: mv.Zip.Size}, true
	}
	pv, ok := c.manifests.providers.Peek(providerKey(repository, v, l))
	if !ok {
		return ManifestSummary{}, false
	}
	t := ManifestSummary{Manifest: pv.Index, Annotations: pv.Annotations}
	for _, p := range pv.Platforms {
		t.Size += p.Size
	}
	return t, true
}

// ReadSummaries reads unknown versions of all, in order, at most limit, until ctx ends; unreadable
// ones stay unknown. A moved tag is for a later call.
func (c *Catalog) ReadSummaries(ctx context.Context, it addr.Item, l *Versions, all []addr.Version, limit int) {
	repository := it.Repository(c.layout)
	c.manifests.recheckTags(ctx, repository, all, limit)
	var g errgroup.Group
	g.SetLimit(maxSummaryReads)
	for _, v := range all {
		if _, ok := c.manifests.knownManifest(repository, v, l); ok {
			continue
		}
		if limit--; limit < 0 || ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			_, _ = c.manifests.manifestAt(ctx, repository, v, l) // the list is shown without it
			return nil
		})
	}
	_ = g.Wait() // never fails
}
