// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxLast bounds how many reports are opened to find the last valid one: those that
// others put there do not open.
const maxLast = 20

// LastRun reads the newest report of an instance that opens. Its nonce is not checked,
// since it is no longer known, so the result is trustworthy only if it is sealed. Without
// a report it is oci.ErrNotFound.
func (i InstanceRepo) LastRun(ctx context.Context, id string) (InstanceTag, RunResult, error) {
	list, err := i.Repo.Snapshot(ctx)
	if err != nil {
		return InstanceTag{}, RunResult{}, err
	}
	tags := instanceTags(list.Tags, TagRun, id)
	var damaged []error
	for _, t := range tags[:min(len(tags), maxLast)] {
		r := RunResult{layer: map[string]oci.Descriptor{}, tag: t.String(), i: i}
		image, err := i.image(ctx, t, artifactRun)
		if err == nil {
			for _, l := range image.Layers {
				r.layer[artifact.ClearType(l.MediaType)] = l
			}
			r.JSON, err = r.read(ctx, mediaRun, MaxRunResult)
		}
		if err == nil {
			return t, r, nil
		}
		if errors.Is(err, oci.ErrUnavailable) || ctx.Err() != nil {
			return t, r, err
		}
		damaged = append(damaged, err)
	}
	return InstanceTag{}, RunResult{}, fmt.Errorf("%s has no result of instance %s: %w", i.Repo, id, errors.Join(append(damaged, oci.ErrNotFound)...))
}

// SourceBefore returns the source that run n executed: the newest one, up to n, with this
// archive digest.
func (i InstanceRepo) SourceBefore(ctx context.Context, id string, n int, archive string) (SourceManifest, error) {
	list, err := i.Repo.Snapshot(ctx)
	if err != nil {
		return SourceManifest{}, err
	}
	for _, t := range instanceTags(list.Tags, TagSource, id) {
		if t.N > n {
			continue
		}
		s, err := i.Source(ctx, id, t.N)
		if err != nil && !errors.Is(err, oci.ErrCorrupt) {
			return s, err
		}
		if err == nil && s.Zip.Digest.String() == archive {
			return s, nil
		}
	}
	return SourceManifest{}, fmt.Errorf("%s has no source of instance %s with archive %s: %w", i.Repo, id, archive, oci.ErrNotFound)
}

// instanceTags returns the tags of one kind and instance, newest first.
func instanceTags(tags []string, kind, id string) []InstanceTag {
	var all []InstanceTag
	for _, tag := range tags {
		if t, ok := ParseInstanceTag(tag); ok && t.Kind == kind && t.ID == id {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b InstanceTag) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Attempt, a.Attempt))
	})
	return all
}
