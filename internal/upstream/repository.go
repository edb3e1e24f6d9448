// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Repository reads providers from OCI repositories: okara's own, or any that OpenTofu's oci_mirror
// can read. It caches the index of each version, so that twelve platforms take one request.
type Repository struct {
	repo func(p addr.Provider) (*oci.Repo, error)

	mu      sync.Mutex // guards the fields below
	indexes map[string]artifact.ProviderIndex
	events  map[string][]evidence.StatusEvent // by repository
}

// NewRepository returns a source for the repositories that repo returns.
func NewRepository(repo func(p addr.Provider) (*oci.Repo, error)) *Repository {
	return &Repository{repo: repo, indexes: map[string]artifact.ProviderIndex{}, events: map[string][]evidence.StatusEvent{}}
}

// Versions lists the tags that are versions, highest first.
func (s *Repository) Versions(ctx context.Context, p addr.Provider) ([]addr.Version, error) {
	r, err := s.repo(p)
	if err != nil {
		return nil, err
	}
	var out []addr.Version
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return nil, fmt.Errorf("listing the versions of %s: %w", p, err)
		}
		if v, ok := addr.VersionFromTag(tag); ok {
			out = append(out, v)
		}
	}
	return sortVersions(out), nil
}

func (s *Repository) fetchIndex(ctx context.Context, p addr.Provider, v addr.Version) (*oci.Repo, artifact.ProviderIndex, error) {
	r, err := s.repo(p)
	if err != nil {
		return nil, artifact.ProviderIndex{}, err
	}
	key := p.String() + " " + v.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if idx, ok := s.indexes[key]; ok {
		return r, idx, nil
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil {
		return nil, artifact.ProviderIndex{}, fmt.Errorf("reading %s %s: %w", p, v, err)
	}
	idx, err := artifact.ParseProviderIndex(m)
	if err != nil {
		return nil, artifact.ProviderIndex{}, fmt.Errorf("reading %s %s: %w", p, v, err)
	}
	s.indexes[key] = idx
	return r, idx, nil
}

// Platforms lists the platforms of the version's index.
func (s *Repository) Platforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	_, idx, err := s.fetchIndex(ctx, p, v)
	if err != nil {
		return nil, err
	}
	var out []addr.Platform
	for _, t := range idx.Platforms {
		out = append(out, t.Platform)
	}
	return sortPlatforms(out), nil
}

// Package returns the zip of one platform, with SHA256SUMS, signature and keys
// if the index has a metadata child.
func (s *Repository) Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (Package, error) {
	r, idx, err := s.fetchIndex(ctx, p, v)
	if err != nil {
		return Package{}, err
	}
	for _, have := range idx.Platforms {
		if have.Platform == t {
			return s.packageOf(ctx, r, p, v, idx, have)
		}
	}
	return Package{}, fmt.Errorf("%s %s has no package for %s: %w", p, v, t, oci.ErrNotFound)
}

func (s *Repository) packageOf(ctx context.Context, r *oci.Repo, p addr.Provider, v addr.Version, idx artifact.ProviderIndex, t artifact.ProviderPlatform) (Package, error) {
	zip, err := artifact.ResolveProviderZip(ctx, r, t)
	if err != nil {
		return Package{}, fmt.Errorf("reading %s: %w", p, err)
	}
	pkg := Package{
		Platform: t.Platform, Filename: t.Filename, Zh: zip.Digest.Encoded(), H1: t.H1, Protocols: idx.Protocols,
		Open: func(ctx context.Context) (io.ReadCloser, error) { return openSized(ctx, r, zip) }, Checked: true,
	}
	if pkg.Filename == "" {
		pkg.Filename = signing.PackageName(p, v, t.Platform)
	}
	status, err := s.readStatus(ctx, r, v, idx)
	if err != nil {
		return Package{}, fmt.Errorf("reading the status of %s: %w", p, err)
	}
	md, err := evidence.Resigned(ctx, r, idx, status)
	if errors.Is(err, oci.ErrNotFound) {
		return pkg, nil // the index was made by another tool
	}
	if err != nil {
		return Package{}, fmt.Errorf("reading the checksums of %s: %w", p, err)
	}
	pkg.Shasums = md.ShasumsBytes
	pkg.Signature = md.SignatureBytes
	pkg.Keys = md.Keys
	if md.Docs != nil {
		pkg.Docs = func(ctx context.Context) ([]byte, error) { return r.ReadBlob(ctx, *md.Docs, artifact.MaxProviderDocs) }
	}
	return pkg, nil
}

func openSized(ctx context.Context, r *oci.Repo, d oci.Descriptor) (io.ReadCloser, error) {
	body, err := r.Open(ctx, d)
	if err != nil {
		return nil, err
	}
	return limitedBody{body, body, d.Size}, nil
}

// readStatus returns the changes of a version's status since its publication, such
// as a new signature.
func (s *Repository) readStatus(ctx context.Context, r *oci.Repo, v addr.Version, idx artifact.ProviderIndex) (evidence.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, ok := s.events[r.Name()]
	if !ok {
		list, err := r.Snapshot(ctx)
		if err != nil {
			return evidence.Status{}, err
		}
		if events, _, err = evidence.ReadStatusEvents(ctx, r, list); err != nil {
			return evidence.Status{}, err
		}
		s.events[r.Name()] = events
	}
	return evidence.FoldStatus(events, v.String(), idx.Index.Digest), nil
}
