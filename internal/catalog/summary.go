// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// maxSummaryReads is how many manifests one reader of a list has read at a time.
const maxSummaryReads = 4

// ManifestSummary is what the manifest of a version says about it.
type ManifestSummary struct {
	Manifest    oci.Descriptor
	Annotations map[string]string
	Size        int64 // of its archives, all together
}

// Summary is what is known of a version of l, without asking.
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

// ReadSummaries has the manifests of versions of l read that nobody has read yet, the first
// ones of all first and no more than most, as long as ctx. What cannot be read stays
// unknown. It waits for no tag that may have moved since it was read: whoever asks again
// gets what is under it now.
func (c *Catalog) ReadSummaries(ctx context.Context, it addr.Item, l *Versions, all []addr.Version, limit int) {
	repository := it.Repository(c.layout)
	c.manifests.recheck(ctx, repository, all, limit)
	var g errgroup.Group
	g.SetLimit(maxSummaryReads)
	for _, v := range all {
		if _, ok := c.manifests.known(repository, v, l); ok {
			continue
		}
		if limit--; limit < 0 || ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			_, _ = c.manifests.at(ctx, repository, v, l) // a list does without it
			return nil
		})
	}
	_ = g.Wait() // none of them fails
}
