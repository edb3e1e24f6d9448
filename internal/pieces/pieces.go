// SPDX-License-Identifier: Apache-2.0

package pieces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

const (
	parallel = 8
	// maxManifests bounds the requests for one version. A provider has about
	// twenty manifests, and each may have a few reports.
	maxManifests = 1000
	timeTag      = "okara-time-" // followed by a number and the tag of the version
)

// Set is the content of a version. It is immutable.
type Set struct {
	tags    []string // sorted
	digests map[digest.Digest]bool
}

// Tags returns the tags about the version, sorted: its own, and those of its
// signatures, events and publish time.
func (s *Set) Tags() []string { return s.tags }

// HasTag reports whether a tag is one of [Set.Tags].
func (s *Set) HasTag(tag string) bool {
	_, ok := slices.BinarySearch(s.tags, tag)
	return ok
}

// Has reports whether a manifest or blob belongs to the version.
func (s *Set) Has(d digest.Digest) bool { return s.digests[d] }

// Size returns the approximate memory of the set, in bytes.
func (s *Set) Size() int { return 256 + 128*(len(s.tags)+len(s.digests)) }

// Of returns the content of version v, whose manifest is root. l is the list of its repository.
// Missing manifests are skipped. After a thousand manifests the rest is skipped too: any publisher
// may add reports without limit, and these must not make the version unreadable.
func Of(ctx context.Context, r *oci.Repo, root digest.Digest, v addr.Version, l *depot.Listing) (*Set, error) {
	s := &Set{tags: tagsAbout(v, l), digests: map[digest.Digest]bool{}}
	for _, e := range l.Events {
		if s.HasTag(e.Tag) {
			s.addPieces(e.Layers)
		}
	}
	todo := []step{{reference: root.String(), subject: true}}
	for read := 0; len(todo) > 0; {
		todo = todo[:min(len(todo), maxManifests-read)]
		read += len(todo)
		found := make([]found, len(todo))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(parallel)
		for i, at := range todo {
			g.Go(func() (err error) {
				found[i], err = at.readStep(ctx, r, l.Tags)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, fmt.Errorf("read the content of version %s of %s: %w", v, r, err)
		}
		todo = nil
		for _, f := range found {
			s.addPieces(f.pieces)
			s.tags = append(s.tags, f.tags...)
			todo = append(todo, f.next...)
		}
	}
	slices.Sort(s.tags)
	return s, nil
}

func (s *Set) addPieces(pieces []oci.Descriptor) {
	for _, d := range pieces {
		s.digests[d.Digest] = true
	}
}

// tagsAbout returns the tags that are about a version according to their name or event.
func tagsAbout(v addr.Version, l *depot.Listing) []string {
	tags := []string{v.Tag()}
	for _, e := range l.Events {
		if e.Covers(v.String()) {
			tags = append(tags, e.Tag)
		}
	}
	for _, tag := range l.Tags {
		rest, ok := strings.CutPrefix(tag, timeTag)
		if _, version, _ := strings.Cut(rest, "-"); ok && version == v.Tag() {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// step is a manifest to read.
type step struct {
	reference string // digest, or tag
	subject   bool   // its referrers belong to the version, too
}

// found holds the references of a manifest.
type found struct {
	pieces []oci.Descriptor
	tags   []string
	next   []step
}

func (at step) readStep(ctx context.Context, r *oci.Repo, tags []string) (f found, err error) {
	m, err := r.Fetch(ctx, at.reference)
	if errors.Is(err, oci.ErrNotFound) || !at.subject && errors.Is(err, oci.ErrCorrupt) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.pieces = append(f.pieces, m.Descriptor)
	if image, err := m.Image(); err == nil {
		f.pieces = append(append(f.pieces, image.Config), image.Layers...)
	}
	if !at.subject {
		return f, nil
	}
	if index, err := m.Index(); err == nil {
		for _, d := range index.Manifests {
			f.next = append(f.next, step{reference: d.Digest.String(), subject: true})
		}
	}
	referrers, err := r.Referrers(ctx, m.Descriptor, "")
	for _, d := range referrers {
		f.next = append(f.next, step{reference: d.Digest.String()})
	}
	prefix := strings.Replace(m.Digest.String(), ":", "-", 1)
	first, _ := slices.BinarySearch(tags, prefix)
	for _, tag := range tags[first:] {
		if !strings.HasPrefix(tag, prefix) {
			break
		}
		f.tags = append(f.tags, tag)
		f.next = append(f.next, step{reference: tag})
	}
	return f, err
}
