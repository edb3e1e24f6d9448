// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Select returns a bundle's content for an item: versions, editions, signatures, all events.
func Select(ctx context.Context, d *depot.Depot, what addr.Selection) (Item, error) {
	layout := d.Options().Layout
	r, err := d.Repo(what.Repository(layout))
	if err != nil {
		return Item{}, err
	}
	item := Item{What: what.Item, Name: layout.Below(r.Name()), Repo: r}
	var signatures []string
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return Item{}, fmt.Errorf("listing %s: %w", r, err)
		}
		v, isVersion := addr.VersionFromTag(tag)
		switch {
		case isVersion && (what.Selects(v) || v.Edition() && what.Selects(v.EditionOf())), evidence.IsStatusTag(tag):
			item.Tags = append(item.Tags, tag)
		case evidence.IsCosignTag(tag):
			signatures = append(signatures, tag)
		}
	}
	if len(signatures) > 0 {
		if err := item.addSignatures(ctx, signatures); err != nil {
			return Item{}, err
		}
	}
	slices.Sort(item.Tags)
	return item, nil
}

// addSignatures adds the cosign signatures of the selected versions.
func (item *Item) addSignatures(ctx context.Context, signatures []string) error {
	for _, tag := range slices.Clone(item.Tags) {
		d, err := item.Repo.Resolve(ctx, tag)
		if err != nil {
			return fmt.Errorf("reading %s:%s: %w", item.Repo, tag, err)
		}
		if sig := "sha256-" + d.Digest.Encoded() + ".sig"; slices.Contains(signatures, sig) && !slices.Contains(item.Tags, sig) {
			item.Tags = append(item.Tags, sig)
		}
	}
	return nil
}
