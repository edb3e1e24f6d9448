// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// LoadOptions says what a bundle may do; zero loads new versions.
type LoadOptions struct {
	Policy *trust.Policy // policy that every version has to fulfil; nil: none
	// Trusted lets the bundle affect existing versions too: yank, deprecate, sign anew, report scans.
	Trusted bool
	// Images lets the bundle load container images to images/NAME, without policy.
	Images bool
}

// Load pushes the content that the registry does not have yet below the depot's prefix: blobs, then
// manifests from the bottom up, version tags and then latest last, so that a visible version has
// its signatures and its status. A tag that exists with another digest is left unchanged and
// reported. A version that does not fulfil the policy is reported and gets no tag. A version whose
// number was withdrawn in the registry is a conflict, as for a publisher, and skipped. A repeated
// run does only what is missing. Repositories with a version are added to the catalog.
//
// A bundle can write only to repositories of modules and providers below the prefix, and there only
// versions, their signatures, status and referrers; with LoadOptions.Images also unused tags of
// images. An entry for anything else is oci.ErrCorrupt, and then nothing is pushed.
func Load(ctx context.Context, d *depot.Depot, b *File, o LoadOptions) (Report, error) {
	if o.Policy != nil {
		if err := o.Policy.Validate(); err != nil {
			return Report{}, err
		}
	}
	l := &loader{
		d: d, b: b, policy: o.Policy, trusted: o.Trusted, images: o.Images,
		repos: map[string]*oci.Repo{}, before: map[*oci.Repo]*depot.Listing{}, filled: map[addr.Item]root{}, done: map[blobRef]bool{},
	}
	l.report = b.Report()
	err := l.load(ctx)
	slices.Sort(l.report.Conflict)
	slices.Sort(l.report.Refused)
	return l.report, err
}

type loader struct {
	d       *depot.Depot
	b       *File
	policy  *trust.Policy
	trusted bool
	images  bool
	repos   map[string]*oci.Repo
	before  map[*oci.Repo]*depot.Listing // of repositories that get a version, before anything is pushed
	fresh   scope

	mu     sync.Mutex // guards the fields below
	report Report
	filled map[addr.Item]root // the lowest version of items that have one
	done   map[blobRef]bool   // manifests that have been pushed
}

// blobRef is a blob or manifest in a repository.
type blobRef struct {
	repo   string
	digest digest.Digest
}

// maxBlobRefs bounds the requests of a file that names one graph in many repositories.
const maxBlobRefs = 1 << 21

func checkRefCount(refCount int) error {
	if refCount > maxBlobRefs {
		return fmt.Errorf("the bundle puts more than %d blobs into repositories: %w", maxBlobRefs, oci.ErrTooLarge)
	}
	return nil
}

func (l *loader) load(ctx context.Context) error {
	roots, err := l.roots(ctx)
	if err != nil {
		return err
	}
	wanted, err := l.wantedRoots(ctx, roots)
	if err != nil {
		return err
	}
	jobs, err := l.planBlobs(ctx, wanted)
	if err != nil {
		return err
	}
	if err := l.blobs(ctx, jobs); err != nil {
		return err
	}
	// Referrers one by one: on a registry without the referrers API, concurrent
	// writers would damage the list.
	for _, pass := range []struct {
		parallel int
		take     func(root) bool
	}{
		{1, func(x root) bool { return x.kind == rootReferrer }},
		{parallel, func(x root) bool { return x.kind == rootSignature || x.kind == rootStatus }},
		{parallel, func(x root) bool { return x.kind == rootVersion || x.kind == rootImage }},
	} {
		if err := l.pushRoots(ctx, wanted, pass.parallel, pass.take); err != nil {
			return err
		}
	}
	for _, it := range slices.SortedFunc(maps.Keys(l.filled), func(a, b addr.Item) int { return cmp.Compare(a.String(), b.String()) }) {
		x := l.filled[it]
		if it.Kind == addr.KindModule {
			l.report.Warnings = append(l.report.Warnings, depot.MoveLatest(ctx, &depot.Listing{Repository: x.repo, Kind: it.Kind})...)
		}
		if err := l.d.AddTitled(ctx, it, x.tag); err != nil {
			l.report.Warnings = append(l.report.Warnings, depot.NotListed(err)...)
		}
	}
	return nil
}

func (l *loader) markFilled(x root) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, _ := addr.VersionFromTag(x.tag)
	lowest, _ := addr.VersionFromTag(l.filled[x.item].tag)
	if l.filled[x.item].tag == "" || v.Compare(lowest) < 0 {
		l.filled[x.item] = x
	}
}

// job is a blob that a root needs.
type job struct {
	root root
	blob oci.Descriptor
}

// planBlobs finds the blobs that roots need, in the file's order, and what is new.
func (l *loader) planBlobs(ctx context.Context, roots []root) ([]job, error) {
	var jobs []job
	l.fresh = scope{map[string]bool{}, map[string]bool{}}
	seen := map[blobRef]bool{}
	walked := map[*oci.Repo]map[digest.Digest]bool{}
	for _, x := range slices.SortedStableFunc(slices.Values(roots), func(a, b root) int { return cmp.Compare(b.kind, a.kind) }) { // versions first
		isNew := x.kind == rootVersion || x.kind == rootImage
		if isNew {
			l.fresh.versions[x.repo.Name()+":"+x.tag] = true
		}
		if walked[x.repo] == nil {
			walked[x.repo] = map[digest.Digest]bool{}
		}
		w := walk{b: l.b, seen: walked[x.repo]}
		w.visit = func(m oci.Manifest, blobs []oci.Descriptor) error {
			if isNew {
				l.fresh.reached[x.repo.Name()+"@"+m.Digest.String()] = true
			}
			for _, blob := range blobs {
				if p := (blobRef{x.repo.Name(), blob.Digest}); !seen[p] {
					seen[p] = true
					jobs = append(jobs, job{x, blob})
				}
			}
			return checkRefCount(len(seen) + len(l.fresh.reached))
		}
		if err := w.walkFrom(ctx, x.Descriptor); err != nil {
			return nil, fmt.Errorf("loading %s: %w", x, err)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int {
		return cmp.Compare(l.b.blobs[a.blob.Digest].offset, l.b.blobs[b.blob.Digest].offset)
	})
	return jobs, nil
}

func (l *loader) blobs(ctx context.Context, jobs []job) error {
	var total int64
	for _, j := range jobs {
		total += j.blob.Size
	}
	progress := l.d.Options().Progress.Of(filepath.Base(l.b.file.Name()), total)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
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

func (l *loader) blob(ctx context.Context, r *oci.Repo, d oci.Descriptor, progress func(int64)) error {
	have, err := r.HasBlob(ctx, d)
	if err != nil {
		return err
	}
	if have {
		progress(d.Size)
		return nil
	}
	open, err := l.b.openChecked(ctx, d)
	if err != nil {
		return err
	}
	blob := oci.Blob{Descriptor: d, Open: func() (io.ReadCloser, error) {
		return depot.Watch(open(), progress), nil
	}}
	if err := r.PushBlob(ctx, blob); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Pushed++
	return nil
}

// pushRoots pushes the manifests that take selects, then their tags.
func (l *loader) pushRoots(ctx context.Context, roots []root, parallel int, take func(root) bool) error {
	listings := map[*oci.Repo]*depot.Listing{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, x := range roots {
		if !take(x) {
			continue
		}
		if l.policy != nil && x.kind == rootVersion && listings[x.repo] == nil {
			listing, err := depot.ReadListing(ctx, x.repo, x.item.Kind, nil)
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

func (l *loader) root(ctx context.Context, x root, listing *depot.Listing) error {
	m, err := l.manifest(ctx, x.repo, x.Descriptor)
	if err != nil {
		return err
	}
	switch x.kind {
	case rootSignature:
		if err = l.checkVouched(x, m); err == nil {
			err = evidence.MergeCosignSignatures(ctx, x.repo, x.tag, m)
		}
	case rootStatus:
		if err = l.vouchedStatus(ctx, x, m); err == nil {
			err = l.push(ctx, x)
		}
		if err == nil {
			err = putTag(ctx, x, m)
		}
	case rootVersion:
		if err = l.push(ctx, x); err == nil {
			err = l.publishVersion(ctx, x, m, listing)
		}
	case rootImage:
		if err = l.push(ctx, x); err == nil {
			err = putTag(ctx, x, m)
		}
	default:
		err = l.push(ctx, x)
	}
	if reason, ok := errors.AsType[*unvouchedError](err); ok {
		return l.refuseRoot(ctx, x, reason)
	}
	return err
}

// putTag tags a pushed manifest, if the registry serves the manifest.
func putTag(ctx context.Context, x root, m oci.Manifest) error {
	if err := x.repo.CheckHandedOut(ctx, m.Digest); err != nil {
		return err
	}
	return x.repo.PutTag(ctx, x.tag, m)
}

// publishVersion makes m visible. The policy checks the bytes that get the tag.
func (l *loader) publishVersion(ctx context.Context, x root, m oci.Manifest, listing *depot.Listing) error {
	v, ok := addr.VersionFromTag(x.tag)
	if !ok {
		return fmt.Errorf("tag %q is not a version: %w", x.tag, oci.ErrCorrupt)
	}
	if l.policy != nil {
		switch err := trust.Fulfils(ctx, l.d.SubjectOf(x.item, listing, v, m), l.policy); {
		case errors.Is(err, trust.ErrUntrusted):
			l.noteReason(&l.report.Refused, "%v", err)
			return nil
		case err != nil:
			return err
		}
	}
	var warnings []string
	err := l.d.CheckTruth(ctx, x.item, l.before[x.repo], v, m)
	if err == nil {
		warnings, err = depot.PutVersion(ctx, l.before[x.repo], v, m)
	}
	for _, w := range warnings {
		l.noteReason(&l.report.Warnings, "%s", w)
	}
	if other, ok := errors.AsType[*depot.ConflictError](err); ok {
		l.noteReason(&l.report.Conflict, "%v", other)
		return nil
	}
	switch {
	case errors.Is(err, depot.ErrUnproven):
		l.noteReason(&l.report.Conflict, "%v", err)
		return nil
	case errors.Is(err, depot.ErrTaken):
		l.noteReason(&l.report.Conflict, "%s now has a different digest, the bundle has %s", x, x.Digest)
		return nil
	case err == nil:
		l.markFilled(x)
	}
	return err
}

// manifest reads a manifest from the bundle, or else the registry.
func (l *loader) manifest(ctx context.Context, r *oci.Repo, d oci.Descriptor) (oci.Manifest, error) {
	if _, ok := l.b.blobs[d.Digest]; !ok {
		return r.Fetch(ctx, d.Digest.String())
	}
	return l.b.manifest(d)
}

// push stores a root's manifest by digest, after those that it lists.
func (l *loader) push(ctx context.Context, x root) error {
	w := walk{b: l.b, seen: map[digest.Digest]bool{}, skip: func(d digest.Digest) bool { return l.isPushed(x.repo, d) }}
	w.missing = func(d oci.Descriptor) error {
		_, err := x.repo.Resolve(ctx, d.Digest.String())
		return err
	}
	w.visit = func(m oci.Manifest, _ []oci.Descriptor) error {
		if err := l.checkVouched(x, m); err != nil {
			return err
		}
		put := x.repo.PutManifest
		if x.kind == rootVersion && m.Digest != x.Digest {
			put = x.repo.PutPart
		}
		if subject, err := subjectOf(m); err == nil && subject != nil {
			put = func(ctx context.Context, m oci.Manifest) error { return x.repo.PutReferrer(ctx, m, *subject) }
		}
		if err := put(ctx, m); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done[blobRef{x.repo.Name(), m.Digest}] = true
		return nil
	}
	return w.walkFrom(ctx, x.Descriptor)
}

func (l *loader) isPushed(r *oci.Repo, d digest.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[blobRef{r.Name(), d}]
}
