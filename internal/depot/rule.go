// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// VersionRule is the rule of a registry that okara serves: whoever writes, a version's tag names
// the same content for ever, or nothing. It is deleted only after what it named was recorded, and
// records are true, written once, and kept.
type VersionRule struct {
	Depot *Depot
	last  atomic.Pointer[Listing] // as last read
}

// Guards reports whether a reference is a version's tag, a record's, or a digest, in the repository
// of a module or provider.
func (r *VersionRule) Guards(repository, reference string) bool {
	it, ok := r.itemOf(repository)
	return ok && it.Versioned() && (isDigest(reference) || isGuarded(reference))
}

// itemOf returns what a repository has, below any prefix.
func (r *VersionRule) itemOf(repository string) (it addr.Item, ok bool) {
	l := r.Depot.o.Layout
	it, ok = l.Parse(repository)
	for i, c := range repository {
		if c == '/' && !ok {
			l.Prefix = repository[:i]
			it, ok = l.Parse(repository)
		}
	}
	return it, ok
}

func isDigest(reference string) bool { return strings.Contains(reference, ":") }

func isGuarded(tag string) bool {
	_, isVersion := addr.VersionFromTag(tag)
	return isVersion || evidence.IsStatusTag(tag) || strings.HasPrefix(tag, timePrefix)
}

// refusedError is why the rule refuses a request, for the client.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// ErrUnproven means that a number was used, and a manifest is not proved to be what it named.
var ErrUnproven = errors.New("the number was used before, and this cannot be verified to be its content")

// Allow returns why a manifest may not be written under a tag, or "". A version may move to an
// index with all its platforms, or between its editions, whose names stay.
func (r *VersionRule) Allow(ctx context.Context, repository, reference, mediaType string, manifest []byte) (refusal string, err error) {
	if isDigest(reference) {
		return "", nil
	}
	repo, err := r.Depot.Repo(repository)
	if err != nil {
		return "", err
	}
	it, _ := r.itemOf(repository)
	mediaType, _, _ = mime.ParseMediaType(mediaType) // what is no media type is refused by the registry
	next := oci.Manifest{Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}, Bytes: manifest}
	if v, ok := addr.VersionFromTag(reference); ok {
		err = r.allowVersion(ctx, repo, it, v, next)
	} else {
		err = r.allowRecord(ctx, repo, it, reference, next)
	}
	if conflict, ok := errors.AsType[*ConflictError](err); ok {
		conflict.Repository = repository
		return conflict.Error(), nil
	}
	if refused, ok := errors.AsType[refusedError](err); ok {
		return string(refused), nil
	}
	if errors.Is(err, ErrUnproven) {
		return err.Error(), nil
	}
	return "", err
}

// list returns a repository's list, reading only what is new.
func (r *VersionRule) list(ctx context.Context, repo *oci.Repo, it addr.Item) (*Listing, error) {
	old := r.last.Load()
	if old != nil && old.Repository.String() != repo.String() {
		old = nil
	}
	l, err := ReadListing(ctx, repo, it.Kind, old)
	if err == nil {
		r.last.Store(l)
	}
	return l, err
}

func (r *VersionRule) allowVersion(ctx context.Context, repo *oci.Repo, it addr.Item, v addr.Version, next oci.Manifest) error {
	now, err := repo.Fetch(ctx, v.Tag())
	if err == nil && now.Digest == next.Digest {
		return nil
	}
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	l, listErr := r.list(ctx, repo, it)
	if listErr != nil {
		return listErr
	}
	if err == nil && addsPlatforms(now, next) {
		return r.Depot.verifyFiles(ctx, it, l, v, next)
	}
	if err != nil {
		if edition, err := v.EditionOf().WithEdition(next.Digest.Encoded()); v.Edition() && (err != nil || edition != v) {
			return refusedError(v.Tag() + " names an edition by the beginning of its digest, but this is a different one")
		}
		if err := l.checkNumber(ctx, v, next, false); err != nil {
			return err
		}
		return r.Depot.CheckTruth(ctx, it, l, v, next)
	}
	for _, m := range []oci.Manifest{now, next} {
		edition, err := v.WithEdition(m.Digest.Encoded())
		if err != nil || it.Kind != addr.KindModule || v.Edition() {
			return l.conflictWith(v, now.Digest.String(), next.Digest.String())
		}
		kept, err := repo.Resolve(ctx, edition.Tag())
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		if kept.Digest != m.Digest {
			return l.conflictWith(v, now.Digest.String(), next.Digest.String())
		}
	}
	return nil
}

// CheckTruth checks others' manifest for a used number: it must be what that named, or say the
// truth about its files. A module's tar is read; a provider's zips have their digests, in
// SHA256SUMS too.
func (d *Depot) CheckTruth(ctx context.Context, it addr.Item, l *Listing, v addr.Version, m oci.Manifest) error {
	records, err := readRecords(ctx, l, v)
	if err != nil || len(records) == 0 || slices.ContainsFunc(records, func(was evidence.StatusEvent) bool { return was.Subject == m.Digest }) {
		return err
	}
	return d.verifyFiles(ctx, it, l, v, m)
}

func (d *Depot) verifyFiles(ctx context.Context, it addr.Item, l *Listing, v addr.Version, m oci.Manifest) error {
	_, err := trust.Verify(ctx, d.SubjectOf(it, l, v, m), trust.Policy{Deep: it.Kind == addr.KindModule, AllowYanked: true, AllowExpired: true})
	if errors.Is(err, trust.ErrUntrusted) {
		return fmt.Errorf("%s: %w: %w", v.Tag(), ErrUnproven, err)
	}
	return err
}

// allowRecord checks a record of a version: its time, or the event before a removal.
func (r *VersionRule) allowRecord(ctx context.Context, repo *oci.Repo, it addr.Item, tag string, next oci.Manifest) error {
	switch have, err := repo.Resolve(ctx, tag); {
	case err == nil && have.Digest != next.Digest:
		return refusedError(tag + " is a record and cannot be changed")
	case err == nil:
		return nil
	case !errors.Is(err, oci.ErrNotFound):
		return err
	}
	if _, at, _ := parseTime(tag); evidence.IsStatusAhead(tag, time.Time{}) || at.After(time.Now().Add(evidence.MaxStatusAhead)) {
		return refusedError(tag + " is in the future; check your clock")
	}
	v, says, isRecord := recordOf(tag, next)
	if !isRecord {
		return nil
	}
	named, err := repo.Fetch(ctx, v.Tag())
	var records []evidence.StatusEvent
	switch {
	case errors.Is(err, oci.ErrNotFound):
		l, err := r.list(ctx, repo, it)
		if err != nil {
			return err
		}
		if records, err = readRecords(ctx, l, v); err != nil || len(records) == 0 {
			return err // the number was not used
		}
	case err != nil:
		return err
	default:
		if named.Digest != says.Subject {
			before, err := repo.Fetch(ctx, says.Subject.String())
			if err == nil && addsPlatforms(before, named) { // meanwhile
				named = before
			}
		}
		records = []evidence.StatusEvent{{Subject: named.Digest, Content: fixedContent(named)}}
	}
	if !slices.ContainsFunc(records, func(was evidence.StatusEvent) bool { return isTruth(it.Kind, says, was) }) {
		return refusedError(tag + " does not say what " + v.Tag() + " points or pointed to")
	}
	return nil
}

// isTruth reports whether what an event says that a version was is true.
func isTruth(kind string, says, was evidence.StatusEvent) bool {
	content := was.Content
	if kind == addr.KindModule && len(says.Content) == recordsNoFolder && len(content) > 0 { // by an older okara
		content = content[:recordsNoFolder]
	}
	return says.Subject == was.Subject && (len(says.Content) == 0 || slices.Equal(says.Content, content))
}

// recordOf returns which version a manifest under a tag records, and what it says.
func recordOf(tag string, m oci.Manifest) (v addr.Version, says evidence.StatusEvent, isRecord bool) {
	if evidence.IsStatusTag(tag) {
		e, err := evidence.ParseStatusEvent(tag, m)
		v, isRecord = removedVersion(e)
		return v, e, err == nil && isRecord
	}
	version, _, ok := parseTime(tag)
	v, isRecord = addr.VersionFromTag(version)
	if was := parseTimeRecord(m); was != nil {
		says = *was
	}
	return v, says, ok && isRecord
}

// AllowDelete returns why a tag, a blob, or a manifest with its tags may not be deleted, or "".
func (r *VersionRule) AllowDelete(ctx context.Context, repository, reference string) (refusal string, err error) {
	repo, err := r.Depot.Repo(repository)
	if err != nil {
		return "", err
	}
	it, _ := r.itemOf(repository)
	l, err := r.list(ctx, repo, it)
	if err != nil {
		return "", err
	}
	for _, tag := range l.Tags {
		if tag != reference && !isDigest(reference) || !isGuarded(tag) {
			continue
		}
		m, err := repo.Fetch(ctx, tag)
		isPart := false
		if err == nil {
			isPart, err = hasPart(ctx, repo, m, reference)
		}
		switch {
		case errors.Is(err, oci.ErrNotFound):
			continue
		case err != nil:
			return "", err
		case isPart:
			return "it is part of " + tag + "; what `okara yank --delete-tag` removed is freed by the next garbage collection", nil
		case isDigest(reference) && m.Digest.String() != reference:
			continue
		case !isDeletable(l, tag, m):
			return tag + " is a version, or the record of one; `okara yank --delete-tag` records what a version is and deletes its tag", nil
		}
	}
	return "", nil
}

// hasPart reports whether a manifest leads to another one, or to a blob.
func hasPart(ctx context.Context, r *oci.Repo, m oci.Manifest, reference string) (bool, error) {
	manifests, blobs, err := partsOf(m)
	if err != nil {
		return false, nil // a damaged one leads nowhere
	}
	if provider, err := artifact.ParseProviderIndex(m); err == nil && provider.Metadata != nil && provider.Metadata.Data == nil {
		metadata, err := r.Fetch(ctx, provider.Metadata.Digest.String())
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return false, err
		}
		image, _ := metadata.Image() // without layers if it is lost
		blobs = append(blobs, image.Layers...)
	}
	parts := append(slices.Concat(manifests, blobs), artifact.EmptyConfig())
	return slices.ContainsFunc(parts, func(d oci.Descriptor) bool { return d.Digest.String() == reference }), nil
}

// isDeletable reports whether, without a tag, it stays known what a version named; the version's
// own only once it is withdrawn.
func isDeletable(l *Listing, tag string, m oci.Manifest) bool {
	if v, ok := addr.VersionFromTag(tag); ok {
		was := l.lastRemoval(v)
		return was != nil && was.Subject == m.Digest && l.Status(v).Yanked != nil
	}
	v, _, isRecord := recordOf(tag, m)
	return !isRecord || !evidence.IsStatusTag(tag) && l.lastRemoval(v) != nil
}

// addsPlatforms reports whether an index has all platforms of the one before, unchanged, and
// SHA256SUMS if that has.
func addsPlatforms(before, next oci.Manifest) bool {
	old, err := artifact.ParseProviderIndex(before)
	if err != nil {
		return false
	}
	grown, err := artifact.ParseProviderIndex(next)
	return err == nil && keepsPlatforms(old, grown) && slices.Equal(old.Protocols, grown.Protocols) && (old.Metadata == nil || grown.Metadata != nil)
}

func keepsPlatforms(old, grown artifact.ProviderIndex) bool {
	return len(old.Platforms) > 0 && !slices.ContainsFunc(old.Platforms, func(had artifact.ProviderPlatform) bool {
		return !slices.ContainsFunc(grown.Platforms, func(has artifact.ProviderPlatform) bool { return reflect.DeepEqual(has, had) })
	})
}
