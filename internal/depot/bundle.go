// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/diskfile"
	"github.com/seed-141914ff/okara/oci"
)

// bundleRequires is the annotation of index.json that lists, separated by
// spaces, the digests of blobs that an earlier bundle holds.
const bundleRequires = "vnd.okara.bundle.requires"

const layoutFile = `{"imageLayoutVersion":"1.0.0"}`

// A bundle is one tar of an OCI image layout: oci-layout, index.json, then the
// blobs in the order of their digests, all with fixed times and modes. Sizes
// and offsets follow from index.json and the blob list alone, so the same
// content is the same file, and a cut file can be continued.
//
// Reference: OCI image layout specification.
type bundlePlan struct {
	index    []byte
	blobs    []bundleBlob // by digest
	progress func(int64)  // bytes that are in the file
}

type bundleBlob struct {
	desc  oci.Descriptor
	repo  *oci.Repo
	bytes []byte // manifests, which are in memory already
}

// BundleItem is one repository that goes into a bundle and the tags of it that
// are wanted.
type BundleItem struct {
	Name string // repository without the prefix
	Repo *oci.Repo
	Tags []string
}

// BundleReport says what a bundle holds or what loading it did.
type BundleReport struct {
	Tags     int      `json:"tags"`
	Blobs    int      `json:"blobs"`
	Bytes    int64    `json:"bytes"`
	Resumed  int      `json:"resumed,omitempty"`  // blobs found in a cut file
	Required int      `json:"required,omitempty"` // blobs left out, since an earlier bundle has them
	Pushed   int      `json:"pushed,omitempty"`
	Conflict []string `json:"conflicts,omitempty"` // references that exist with another digest
	Refused  []string `json:"refused,omitempty"`   // what the policy keeps out or nobody vouches for, and why
	Warnings []string `json:"warnings,omitempty"`
}

// BundleOptions say what goes into a bundle.
type BundleOptions struct {
	Since  map[digest.Digest]bool // blobs that an earlier bundle has, which are left out
	Policy *VerifyOptions         // what every version has to fulfil; nil: nothing
}

// CreateBundle writes the items to file, with everything they need: children of
// indexes, blobs, signatures and other referrers. It resolves all manifests
// first; a version that does not fulfil the policy is an error that wraps
// ErrUntrusted. Until it is complete the file is named file+".part"; a rerun with
// the same content continues it after its last whole blob.
func (d *Depot) CreateBundle(ctx context.Context, file string, items []BundleItem, o BundleOptions) (BundleReport, error) {
	plan, report, err := d.planBundle(ctx, items, o)
	if err != nil {
		return BundleReport{}, err
	}
	plan.progress = d.Options().Progress.Of(filepath.Base(file), report.Bytes)
	part := file + ".part"
	if info, err := os.Lstat(part); err == nil && !info.Mode().IsRegular() {
		return BundleReport{}, fmt.Errorf("creating the bundle: %s is not a regular file", part)
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|diskfile.NoFollow, 0o644)
	if err != nil {
		return BundleReport{}, fmt.Errorf("creating the bundle: %w", err)
	}
	report.Resumed, err = plan.write(ctx, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return BundleReport{}, fmt.Errorf("writing %s: %w", part, err)
	}
	if err := os.Rename(part, file); err != nil {
		return BundleReport{}, fmt.Errorf("finishing the bundle: %w", err)
	}
	return report, nil
}

// bundleParallel is how many requests for one bundle run at a time.
const bundleParallel = 8

func (d *Depot) planBundle(ctx context.Context, items []BundleItem, o BundleOptions) (bundlePlan, BundleReport, error) {
	c := bundleCollector{seen: map[digest.Digest]bundleBlob{}, roots: map[string]oci.Descriptor{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(bundleParallel)
	for _, item := range items {
		check, err := d.bundleCheck(ctx, item, o.Policy)
		if err != nil {
			return bundlePlan{}, BundleReport{}, errors.Join(err, g.Wait())
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
		return bundlePlan{}, BundleReport{}, err
	}
	return c.plan(o.Since)
}

// bundleCheck returns what checks a version of the item against the policy.
func (d *Depot) bundleCheck(ctx context.Context, item BundleItem, policy *VerifyOptions) (func(context.Context, string, oci.Manifest) error, error) {
	if policy == nil {
		return func(context.Context, string, oci.Manifest) error { return nil }, nil
	}
	l, err := d.Listing(ctx, item.Repo)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tag string, m oci.Manifest) error {
		v, ok := addr.VersionFromTag(tag)
		if !ok {
			return nil
		}
		return d.Fulfils(ctx, l, v, m, policy)
	}, nil
}

// bundleCollector finds what the tags of a bundle need. It is safe for concurrent
// use.
type bundleCollector struct {
	mu    sync.Mutex // guards the fields below
	seen  map[digest.Digest]bundleBlob
	roots map[string]oci.Descriptor // by name
}

// add reports whether the blob is new.
func (c *bundleCollector) add(b bundleBlob) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.seen[b.desc.Digest]; ok {
		return false
	}
	c.seen[b.desc.Digest] = b
	return true
}

func (c *bundleCollector) has(d digest.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.seen[d]
	return ok
}

// addRoot lists a manifest in index.json under a name.
func (c *bundleCollector) addRoot(m oci.Manifest, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots[name] = oci.Descriptor{
		MediaType: m.MediaType, Digest: m.Digest, Size: m.Size, Annotations: map[string]string{ocispec.AnnotationRefName: name},
	}
}

// plan orders what was found.
func (c *bundleCollector) plan(since map[digest.Digest]bool) (bundlePlan, BundleReport, error) {
	var plan bundlePlan
	var required []string
	report := BundleReport{Tags: len(c.roots)}
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
	slices.SortFunc(plan.blobs, func(a, b bundleBlob) int { return cmp.Compare(a.desc.Digest, b.desc.Digest) })
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, name := range slices.Sorted(maps.Keys(c.roots)) {
		index.Manifests = append(index.Manifests, c.roots[name])
	}
	if len(required) > 0 {
		slices.Sort(required)
		index.Annotations = map[string]string{bundleRequires: strings.Join(required, " ")}
	}
	var err error
	plan.index, err = json.Marshal(index)
	return plan, report, err
}

// root adds what one tag names and what refers to it.
func (c *bundleCollector) root(ctx context.Context, item BundleItem, tag string, check func(context.Context, string, oci.Manifest) error) error {
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
		// alone, so that loading knows where it belongs.
		c.addRoot(m, item.Name+"@"+ref.Digest.String())
		if err := c.manifest(ctx, item.Repo, m, 0); err != nil {
			return err
		}
	}
	return nil
}

// manifest adds a manifest, its blobs and, for an index, its children.
func (c *bundleCollector) manifest(ctx context.Context, r *oci.Repo, m oci.Manifest, depth int) error {
	if depth > maxBundleDepth {
		return errDepth
	}
	if !c.add(bundleBlob{desc: m.Descriptor, repo: r, bytes: m.Bytes}) {
		return nil
	}
	children, blobs, err := references(m)
	if err != nil {
		return err
	}
	for _, d := range blobs {
		c.add(bundleBlob{desc: d, repo: r})
	}
	for _, d := range children {
		if c.has(d.Digest) {
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

func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644,
		ModTime: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), Format: tar.FormatUSTAR,
	}
}

func blobName(d digest.Digest) string { return path.Join("blobs", d.Algorithm().String(), d.Encoded()) }

const tarBlock = 512

// padded is the room of a file of this size in a tar, header included.
func padded(size int64) int64 { return tarBlock + (size+tarBlock-1)/tarBlock*tarBlock }

// write completes the tar in f and returns how many blobs were there already.
func (p bundlePlan) write(ctx context.Context, f *os.File) (resumed int, err error) {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	for _, file := range []struct {
		name string
		body []byte
	}{{"oci-layout", []byte(layoutFile)}, {"index.json", p.index}} {
		if err := writeFile(w, file.name, int64(len(file.body)), bytes.NewReader(file.body)); err != nil {
			return 0, err
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	resumed, offset, err := p.resume(ctx, f, head.Bytes())
	if err != nil {
		return 0, err
	}
	if err := f.Truncate(offset); err != nil {
		return 0, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	if offset == 0 {
		if _, err := f.Write(head.Bytes()); err != nil {
			return 0, err
		}
	}
	out := tar.NewWriter(f)
	for _, b := range p.blobs[:resumed] {
		p.progress(b.desc.Size)
	}
	for _, b := range p.blobs[resumed:] {
		if err := b.write(ctx, out, p.progress); err != nil {
			return 0, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	return resumed, out.Close()
}

// resume finds how many blobs of an earlier run are whole. A file with another
// beginning is another bundle's: everything is written anew.
func (p bundlePlan) resume(ctx context.Context, f *os.File, head []byte) (blobs int, offset int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	have := make([]byte, len(head))
	if _, err := f.ReadAt(have, 0); err != nil || !bytes.Equal(have, head) {
		return 0, 0, nil
	}
	offset = int64(len(head))
	for _, b := range p.blobs {
		end := offset + padded(b.desc.Size)
		if end > info.Size() {
			break
		}
		if err := blobIntact(ctx, f, offset+tarBlock, b.desc); ctx.Err() != nil {
			return 0, 0, err
		} else if err != nil {
			break
		}
		offset = end
		blobs++
	}
	return blobs, offset, nil
}

// blobIntact checks the bytes of a blob in the file.
func blobIntact(ctx context.Context, f *os.File, at int64, d oci.Descriptor) error {
	v := d.Digest.Verifier()
	n, err := io.Copy(v, Interruptible(ctx, io.NewSectionReader(f, at, d.Size)))
	if err == nil && (n != d.Size || !v.Verified()) {
		err = fmt.Errorf("%w: %w", errOtherDigest, oci.ErrCorrupt)
	}
	return err
}

func (b bundleBlob) write(ctx context.Context, w *tar.Writer, progress func(int64)) error {
	body := io.NopCloser(bytes.NewReader(b.bytes))
	if b.bytes == nil {
		var err error
		if body, err = b.repo.Open(ctx, b.desc); err != nil {
			return err
		}
	}
	defer body.Close()
	return writeFile(w, blobName(b.desc.Digest), b.desc.Size, Watch(body, progress))
}

func writeFile(w *tar.Writer, name string, size int64, body io.Reader) error {
	if err := w.WriteHeader(tarHeader(name, size)); err != nil {
		return err
	}
	if _, err := io.Copy(w, body); err != nil {
		return err
	}
	return w.Flush()
}
