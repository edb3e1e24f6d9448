// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
)

// requires annotates index.json with digests, by spaces, of blobs in an earlier bundle.
const requires = "vnd.okara.bundle.requires"

// Item is one repository that goes into a bundle, with its selected tags.
type Item struct {
	What addr.Item
	Name string // repository without the prefix
	Repo *oci.Repo
	Tags []string
}

// Report summarizes a bundle or the result of loading it.
type Report struct {
	Tags     int      `json:"tags"`
	Blobs    int      `json:"blobs"`
	Bytes    int64    `json:"bytes"`
	Resumed  int      `json:"resumed,omitempty"`  // blobs found in an incomplete file
	Required int      `json:"required,omitempty"` // blobs omitted because an earlier bundle has them
	Pushed   int      `json:"pushed,omitempty"`
	Conflict []string `json:"conflicts,omitempty"` // references that exist with another digest
	Refused  []string `json:"refused,omitempty"`   // refused because of the policy, the missing signature of the bundle, or a withdrawal, with the reason
	Warnings []string `json:"warnings,omitempty"`
}

// CreateOptions configures the content of a bundle.
type CreateOptions struct {
	Since  map[digest.Digest]bool // blobs of an earlier bundle, which are omitted
	Policy *trust.Policy          // policy that every version has to fulfil; nil: none
}

// Create writes items to file with all they need: indexes' children, blobs, signatures, referrers.
// A version that does not fulfil the policy is an error, before anything is written, that wraps
// trust.ErrUntrusted. The file is file+".part" until complete; another run of the same content
// continues it.
func Create(ctx context.Context, d *depot.Depot, file string, items []Item, o CreateOptions) (Report, error) {
	plan, report, err := collectItems(ctx, d, items, o)
	if err != nil {
		return Report{}, err
	}
	plan.progress = d.Options().Progress.Of(filepath.Base(file), report.Bytes)
	part := file + ".part"
	if info, err := os.Lstat(part); err == nil && !info.Mode().IsRegular() {
		return Report{}, fmt.Errorf("creating the bundle: %s is not a regular file", part)
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|files.NoFollow, 0o644)
	if err != nil {
		return Report{}, fmt.Errorf("creating the bundle: %w", err)
	}
	report.Resumed, err = plan.completeTar(ctx, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return Report{}, fmt.Errorf("writing %s: %w", part, err)
	}
	if err := os.Rename(part, file); err != nil {
		return Report{}, fmt.Errorf("finishing the bundle: %w", err)
	}
	return report, nil
}

// parallel is how many requests for one bundle run concurrently.
const parallel = 8

func collectItems(ctx context.Context, d *depot.Depot, items []Item, o CreateOptions) (contents, Report, error) {
	c := collector{seen: map[digest.Digest]blob{}, roots: map[string]oci.Descriptor{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, item := range items {
		check, err := policyCheck(ctx, d, item, o.Policy)
		if err != nil {
			return contents{}, Report{}, errors.Join(err, g.Wait())
		}
		for _, tag := range item.Tags {
			g.Go(func() error {
				if err := c.root(gctx, item, tag, check); err != nil {
					return fmt.Errorf("reading %s:%s: %w", item.Repo, tag, err)
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return contents{}, Report{}, err
	}
	return c.orderBlobs(o.Since)
}

// policyCheck returns the function that checks a version of the item against the policy.
func policyCheck(ctx context.Context, d *depot.Depot, item Item, policy *trust.Policy) (func(context.Context, string, oci.Manifest) error, error) {
	if policy == nil {
		return func(context.Context, string, oci.Manifest) error { return nil }, nil
	}
	l, err := depot.ReadListing(ctx, item.Repo, item.What.Kind, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tag string, m oci.Manifest) error {
		v, ok := addr.VersionFromTag(tag)
		if !ok {
			return nil
		}
		return trust.Fulfils(ctx, d.SubjectOf(item.What, l, v, m), policy)
	}, nil
}

// collector collects the blobs that tags need. It is safe for concurrent use.
type collector struct {
	mu    sync.Mutex // guards the fields below
	seen  map[digest.Digest]blob
	roots map[string]oci.Descriptor // by name
}

func (c *collector) addBlob(b blob) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.seen[b.desc.Digest]; ok {
		return false
	}
	c.seen[b.desc.Digest] = b
	return true
}

func (c *collector) hasCollected(d digest.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.seen[d]
	return ok
}

// addRoot lists a manifest in index.json under a name.
func (c *collector) addRoot(m oci.Manifest, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots[name] = oci.Descriptor{
		MediaType: m.MediaType, Digest: m.Digest, Size: m.Size, Annotations: map[string]string{ocispec.AnnotationRefName: name},
	}
}

func (c *collector) orderBlobs(since map[digest.Digest]bool) (contents, Report, error) {
	var plan contents
	var required []string
	report := Report{Tags: len(c.roots)}
	for d, b := range c.seen {
		if since[d] {
			required = append(required, d.String())
			continue
		}
		plan.blobs = append(plan.blobs, b)
		report.Blobs++
		report.Bytes += b.desc.Size
	}
	report.Required = len(required)
	slices.SortFunc(plan.blobs, func(a, b blob) int { return cmp.Compare(a.desc.Digest, b.desc.Digest) })
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, name := range slices.Sorted(maps.Keys(c.roots)) {
		index.Manifests = append(index.Manifests, c.roots[name])
	}
	if len(required) > 0 {
		slices.Sort(required)
		index.Annotations = map[string]string{requires: strings.Join(required, " ")}
	}
	var err error
	plan.index, err = json.Marshal(index)
	return plan, report, err
}

// root adds the manifest of one tag and its referrers.
func (c *collector) root(ctx context.Context, item Item, tag string, check func(context.Context, string, oci.Manifest) error) error {
	m, err := item.Repo.Fetch(ctx, tag)
	if err != nil {
		return err
	}
	if err := check(ctx, tag, m); err != nil {
		return err
	}
	c.addRoot(m, item.Name+":"+tag)
	if err := c.manifest(ctx, item.Repo, m, 0); err != nil {
		return err
	}
	referrers, err := item.Repo.Referrers(ctx, m.Descriptor, "")
	if err != nil && !errors.Is(err, oci.ErrUnsupported) && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	for _, ref := range referrers {
		m, err := item.Repo.Fetch(ctx, ref.Digest.String())
		if err != nil {
			return err
		}
		// A referrer has no tag of its own; it is listed under the repository
		// alone, so that loading finds its repository.
		c.addRoot(m, item.Name+"@"+ref.Digest.String())
		if err := c.manifest(ctx, item.Repo, m, 0); err != nil {
			return err
		}
	}
	return nil
}

// manifest adds a manifest, its blobs and, for an index, its children.
func (c *collector) manifest(ctx context.Context, r *oci.Repo, m oci.Manifest, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	if !c.addBlob(blob{desc: m.Descriptor, repo: r, bytes: m.Bytes}) {
		return nil
	}
	children, blobs, err := neededContent(m)
	if err != nil {
		return err
	}
	for _, d := range blobs {
		c.addBlob(blob{desc: d, repo: r})
	}
	for _, d := range children {
		if c.hasCollected(d.Digest) {
			continue
		}
		child, err := r.Fetch(ctx, d.Digest.String())
		if err != nil {
			return err
		}
		if err := c.manifest(ctx, r, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}
