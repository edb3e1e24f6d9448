// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"mime"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// VersionRule is the rule of a registry that okara serves itself: whatever
// program writes there, the tag of a version names the same content for ever.
type VersionRule struct{ Depot *Depot }

// Guards reports whether a tag is that of a version of a module or provider.
func (r VersionRule) Guards(repository, tag string) bool {
	it, ok := r.Depot.o.Layout.Parse(repository)
	_, version := addr.VersionFromTag(tag)
	return ok && version && it.Versioned()
}

// Allow returns why a manifest may not be written under the tag of a version, ""
// if it may. A version may move to another index with all of its platforms, and,
// between the tags of its editions, to another edition.
func (r VersionRule) Allow(ctx context.Context, repository, tag, mediaType string, manifest []byte) (refusal string, err error) {
	repo, err := r.Depot.Repo(repository)
	if err != nil {
		return "", err
	}
	it, _ := r.Depot.o.Layout.Parse(repository)
	v, _ := addr.VersionFromTag(tag)
	mediaType, _, _ = mime.ParseMediaType(mediaType) // what is no media type is refused by the registry
	next := oci.Manifest{Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}, Bytes: manifest}
	err = allowTag(ctx, repo, it.Kind, v, next)
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Repository = repository
		return conflict.Error(), nil
	}
	return "", err
}

func allowTag(ctx context.Context, r *oci.Repo, kind string, v addr.Version, next oci.Manifest) error {
	if edition, err := v.EditionOf().WithEdition(next.Digest.Encoded()); err == nil && edition == v {
		return nil // its name is its digest
	}
	now, err := r.Fetch(ctx, v.Tag())
	if err == nil && (now.Digest == next.Digest || addsPlatforms(now, next)) {
		return nil
	}
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	l, listErr := ReadListing(ctx, r, kind, nil)
	if listErr != nil {
		return listErr
	}
	if err != nil {
		return l.allows(ctx, v, next)
	}
	for _, m := range []oci.Manifest{now, next} {
		edition, err := v.WithEdition(m.Digest.Encoded())
		if err != nil || kind != addr.KindModule || !l.has(edition) {
			return l.conflict(v, now.Digest.String(), next.Digest.String())
		}
	}
	return nil
}

// addsPlatforms reports whether an index has every platform of the one before,
// unchanged.
func addsPlatforms(before, next oci.Manifest) bool {
	old, err := artifact.ParseProviderIndex(before)
	if err != nil {
		return false
	}
	grown, err := artifact.ParseProviderIndex(next)
	return err == nil && keepsPlatforms(old, grown) && slices.Equal(old.Protocols, grown.Protocols)
}

func keepsPlatforms(old, grown artifact.ProviderIndex) bool {
	return len(old.Platforms) > 0 && !slices.ContainsFunc(old.Platforms, func(had artifact.ProviderPlatform) bool {
		return !slices.ContainsFunc(grown.Platforms, func(has artifact.ProviderPlatform) bool {
			return has.Platform == had.Platform && has.Manifest.Digest == had.Manifest.Digest
		})
	})
}
