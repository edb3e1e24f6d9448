// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// LoadBundle pushes what the registry does not have yet below the depot's prefix:
// blobs, then manifests from the bottom up, version tags last, so that a version
// is visible only with its signatures and its status. A tag that exists with
// another digest is left as it is and reported, and so is a version that does not
// fulfil the policy, which gets no tag; nil is no policy. Repeated, it does only
// what is missing. Repositories with a version go into the catalogue.
func (d *Depot) LoadBundle(ctx context.Context, b *Bundle, policy *VerifyOptions) (BundleReport, error) {
	if policy != nil {
		if err := policy.validate(); err != nil {
			return BundleReport{}, err
		}
	}
	l := &bundleLoader{d: d, b: b, policy: policy, repos: map[string]*oci.Repo{}, filled: map[string]bool{}}
	l.report = BundleReport{Tags: len(b.Index.Manifests), Blobs: len(b.blobs), Required: len(b.required())}
	err := l.load(ctx)
	slices.Sort(l.report.Conflict)
	slices.Sort(l.report.Refused)
	return l.report, err
}

// bundleLoader loads one bundle.
type bundleLoader struct {
	d      *Depot
	b      *Bundle
	policy *VerifyOptions
	repos  map[string]*oci.Repo

	mu     sync.Mutex // guards the fields below
	report BundleReport
	filled map[string]bool // repositories with a version
}

// bundleRoot is one entry of index.json and where it goes.
type bundleRoot struct {
	oci.Descriptor
	repo *oci.Repo
	tag  string // "": a referrer
	have bool   // there is nothing to do
}

func (x bundleRoot) String() string { return x.Annotations[ocispec.AnnotationRefName] }

func (x bundleRoot) version() bool { return isVersion(x.tag) }

func (l *bundleLoader) load(ctx context.Context) error {
	roots, err := l.roots(ctx)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(slices.Clone(roots), func(x bundleRoot) bool { return x.have })
	if err := l.blobs(ctx, wanted); err != nil {
		return err
	}
	// Referrers one by one: a registry without an API for them has a list that
	// two writers at a time would spoil.
	for _, pass := range []struct {
		parallel int
		take     func(bundleRoot) bool
	}{
		{1, func(x bundleRoot) bool { return x.tag == "" }},
		{bundleParallel, func(x bundleRoot) bool { return x.tag != "" && !x.version() }},
		{bundleParallel, bundleRoot.version},
	} {
		if err := l.pass(ctx, wanted, pass.parallel, pass.take); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.filled)) {
		if entry, ok := catalogEntry(l.d.o.Layout, name); ok {
			l.report.Warnings = append(l.report.Warnings, l.d.addToCatalogue(ctx, entry)...)
		}
	}
	return nil
}

// roots finds out which entries of index.json the registry lacks.
func (l *bundleLoader) roots(ctx context.Context) ([]bundleRoot, error) {
	roots := make([]bundleRoot, len(l.b.Index.Manifests))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(bundleParallel)
	for i, desc := range l.b.Index.Manifests {
		ref, err := parseBundleRef(desc)
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		r := l.repos[ref.repository]
		if r == nil {
			if r, err = l.d.repo(path.Join(l.d.o.Layout.Prefix, ref.repository)); err != nil {
				return nil, errors.Join(err, g.Wait())
			}
			l.repos[ref.repository] = r
		}
		roots[i] = bundleRoot{Descriptor: desc, repo: r, tag: ref.tag}
		g.Go(func() (err error) {
			roots[i].have, err = l.have(gctx, roots[i])
			return err
		})
	}
	return roots, g.Wait()
}

// have reports whether there is nothing to do for an entry.
func (l *bundleLoader) have(ctx context.Context, x bundleRoot) (bool, error) {
	if x.tag == "" {
		return false, nil // its manifest may be there and missing in the list of referrers
	}
	stored, err := x.repo.Resolve(ctx, x.tag)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("loading %s: %w", x, err)
	case stored.Digest == x.Digest && !x.version():
		return true, nil
	case stored.Digest == x.Digest:
		l.fill(x.repo)
		return true, nil
	case x.version():
		l.note(&l.report.Conflict, "%s:%s is %s, the bundle has %s", x.repo, x.tag, stored.Digest, x.Digest)
		return true, nil
	}
	return !oci.IsCosignTag(x.tag), nil // signatures are merged; other tags are the registry's own to move
}

func (l *bundleLoader) note(list *[]string, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

func (l *bundleLoader) fill(r *oci.Repo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filled[r.Name()] = true
}

// blobs pushes the blobs that the roots need, in the order of the file.
func (l *bundleLoader) blobs(ctx context.Context, roots []bundleRoot) error {
	type place struct {
		repo string
		blob digest.Digest
	}
	type job struct {
		root bundleRoot
		blob oci.Descriptor
	}
	var jobs []job
	var total int64
	seen := map[place]bool{}
	for _, x := range roots {
		err := l.b.walk(x.Descriptor, func(blob oci.Descriptor) {
			if p := (place{x.repo.Name(), blob.Digest}); !seen[p] {
				seen[p] = true
				jobs, total = append(jobs, job{x, blob}), total+blob.Size
			}
		})
		if err != nil {
			return fmt.Errorf("loading %s: %w", x, err)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Compare(l.b.blobs[a.blob.Digest].offset, l.b.blobs[b.blob.Digest].offset)
	})
	progress := l.d.meter(filepath.Base(l.b.file.Name()), total)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(bundleParallel)
	for _, j := range jobs {
		g.Go(func() error {
			if err := l.blob(gctx, j.root.repo, j.blob, progress); err != nil {
				return fmt.Errorf("loading %s: %w", j.root, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (l *bundleLoader) blob(ctx context.Context, r *oci.Repo, d oci.Descriptor, progress func(int64)) error {
	have, err := r.HasBlob(ctx, d)
	if err != nil {
		return err
	}
	if have {
		progress(d.Size)
		return nil
	}
	open, err := l.b.checked(d)
	if err != nil {
		return err
	}
	blob := oci.Blob{Descriptor: d, Open: func() (io.ReadCloser, error) {
		return &watchedReader{ReadCloser: open(), report: progress}, nil
	}}
	if err := r.PushBlob(ctx, blob); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Pushed++
	return nil
}

// pass pushes the manifests of some of the roots, and then their tags.
func (l *bundleLoader) pass(ctx context.Context, roots []bundleRoot, parallel int, take func(bundleRoot) bool) error {
	listings := map[*oci.Repo]*Listing{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, x := range roots {
		if !take(x) {
			continue
		}
		if l.policy != nil && x.version() && listings[x.repo] == nil {
			listing, err := l.d.listing(ctx, x.repo)
			if err != nil {
				return errors.Join(fmt.Errorf("loading %s: %w", x, err), g.Wait())
			}
			listings[x.repo] = listing
		}
		listing := listings[x.repo]
		g.Go(func() error {
			if err := l.root(gctx, x, listing); err != nil {
				return fmt.Errorf("loading %s: %w", x, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (l *bundleLoader) root(ctx context.Context, x bundleRoot, listing *Listing) error {
	if oci.IsCosignTag(x.tag) {
		m, err := l.manifest(ctx, x.repo, x.Descriptor)
		if err != nil {
			return err
		}
		return x.repo.MergeCosignSignatures(ctx, x.tag, m)
	}
	m, err := l.push(ctx, x.repo, x.Descriptor)
	if err != nil || x.tag == "" {
		return err
	}
	v, ok := addr.VersionFromTag(x.tag)
	if !ok {
		return x.repo.PutTag(ctx, x.tag, m)
	}
	err = l.d.fulfils(ctx, listing, v, m, l.policy)
	if errors.Is(err, ErrUntrusted) {
		l.note(&l.report.Refused, "%v", err)
		return nil
	}
	if err == nil {
		err = x.repo.PutTag(ctx, x.tag, m)
	}
	if err == nil {
		l.fill(x.repo)
	}
	return err
}

func isVersion(tag string) bool {
	_, ok := addr.VersionFromTag(tag)
	return ok
}

// manifest reads a manifest. Where the bundle lacks it, the registry must have it.
func (l *bundleLoader) manifest(ctx context.Context, r *oci.Repo, d oci.Descriptor) (oci.Manifest, error) {
	if _, ok := l.b.blobs[d.Digest]; !ok {
		return r.Fetch(ctx, d.Digest.String())
	}
	return l.b.manifest(d)
}

// push stores one manifest by digest after those that it lists.
func (l *bundleLoader) push(ctx context.Context, r *oci.Repo, d oci.Descriptor) (oci.Manifest, error) {
	m, err := l.manifest(ctx, r, d)
	if _, ok := l.b.blobs[d.Digest]; err != nil || !ok {
		return m, err
	}
	children, _, err := references(m)
	if err != nil {
		return oci.Manifest{}, err
	}
	for _, child := range children {
		if _, err := l.push(ctx, r, child); err != nil {
			return oci.Manifest{}, err
		}
	}
	if image, err := m.Image(); err == nil && image.Subject != nil {
		return m, r.PutReferrer(ctx, m, *image.Subject)
	}
	return m, r.PutManifest(ctx, m)
}
