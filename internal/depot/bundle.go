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
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
	index []byte
	blobs []bundleBlob // by digest
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
	Warnings []string `json:"warnings,omitempty"`
}

// CreateBundle writes the items to file, with everything they need: children of
// indexes, blobs, signatures and other referrers. It resolves all manifests
// first. Until it is complete the file is named file+".part"; a rerun with the
// same content continues it after its last whole blob. Blobs that are listed in
// since are left out.
func CreateBundle(ctx context.Context, file string, items []BundleItem, since map[digest.Digest]bool) (BundleReport, error) {
	plan, report, err := planBundle(ctx, items, since)
	if err != nil {
		return BundleReport{}, err
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
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

type bundleCollector struct {
	seen  map[digest.Digest]bundleBlob
	roots []oci.Descriptor
}

func planBundle(ctx context.Context, items []BundleItem, since map[digest.Digest]bool) (bundlePlan, BundleReport, error) {
	c := bundleCollector{seen: map[digest.Digest]bundleBlob{}}
	for _, item := range items {
		for _, tag := range item.Tags {
			if err := c.root(ctx, item, tag); err != nil {
				return bundlePlan{}, BundleReport{}, fmt.Errorf("reading %s:%s: %w", item.Repo, tag, err)
			}
		}
	}
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
	slices.SortFunc(c.roots, compareRoots)
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: c.roots}
	if len(required) > 0 {
		slices.Sort(required)
		index.Annotations = map[string]string{bundleRequires: strings.Join(required, " ")}
	}
	var err error
	plan.index, err = json.Marshal(index)
	return plan, report, err
}

func compareRoots(a, b oci.Descriptor) int {
	return cmp.Compare(a.Annotations[ocispec.AnnotationRefName], b.Annotations[ocispec.AnnotationRefName])
}

// root adds what one tag names and what refers to it.
func (c *bundleCollector) root(ctx context.Context, item BundleItem, tag string) error {
	m, err := item.Repo.Fetch(ctx, tag)
	if err != nil {
		return err
	}
	d := oci.Descriptor{MediaType: m.Descriptor.MediaType, Digest: m.Descriptor.Digest, Size: m.Descriptor.Size}
	if tag != "" {
		named := d
		named.Annotations = map[string]string{ocispec.AnnotationRefName: item.Name + ":" + tag}
		c.roots = append(c.roots, named)
	}
	if err := c.manifest(ctx, item.Repo, m); err != nil {
		return err
	}
	referrers, err := item.Repo.Referrers(ctx, d, "")
	if err != nil && !errors.Is(err, oci.ErrUnsupported) && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	for _, ref := range referrers {
		if _, ok := c.seen[ref.Digest]; ok {
			continue
		}
		m, err := item.Repo.Fetch(ctx, ref.Digest.String())
		if err != nil {
			return err
		}
		// A referrer has no tag of its own; it is listed under the repository
		// alone, so that loading knows where it belongs.
		root := oci.Descriptor{MediaType: m.Descriptor.MediaType, Digest: m.Descriptor.Digest, Size: m.Descriptor.Size}
		root.Annotations = map[string]string{ocispec.AnnotationRefName: item.Name + "@" + ref.Digest.String()}
		c.roots = append(c.roots, root)
		if err := c.manifest(ctx, item.Repo, m); err != nil {
			return err
		}
	}
	return nil
}

// manifest adds a manifest, its blobs and, for an index, its children.
func (c *bundleCollector) manifest(ctx context.Context, r *oci.Repo, m oci.Manifest) error {
	if _, ok := c.seen[m.Descriptor.Digest]; ok {
		return nil
	}
	c.seen[m.Descriptor.Digest] = bundleBlob{desc: m.Descriptor, repo: r, bytes: m.Bytes}
	children, blobs, err := references(m)
	if err != nil {
		return err
	}
	for _, d := range blobs {
		if _, ok := c.seen[d.Digest]; !ok {
			c.seen[d.Digest] = bundleBlob{desc: d, repo: r}
		}
	}
	for _, d := range children {
		child, err := r.Fetch(ctx, d.Digest.String())
		if err != nil {
			return err
		}
		if err := c.manifest(ctx, r, child); err != nil {
			return err
		}
	}
	return nil
}

// references returns what a manifest needs: the manifests an index lists, or
// the config and layers of an image manifest.
func references(m oci.Manifest) (children, blobs []oci.Descriptor, err error) {
	if m.Descriptor.MediaType == ocispec.MediaTypeImageIndex {
		index, err := m.Index()
		return index.Manifests, nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, nil, err
	}
	return nil, append([]oci.Descriptor{image.Config}, image.Layers...), nil
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
	resumed, offset, err := p.resume(f, head.Bytes())
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
	for _, b := range p.blobs[resumed:] {
		if err := b.write(ctx, out); err != nil {
			return 0, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	return resumed, out.Close()
}

// resume finds how many blobs of an earlier run are whole. A file with another
// beginning is another bundle's: everything is written anew.
func (p bundlePlan) resume(f *os.File, head []byte) (blobs int, offset int64, err error) {
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
		if end > info.Size() || !blobIntact(f, offset+tarBlock, b.desc) {
			break
		}
		offset = end
		blobs++
	}
	return blobs, offset, nil
}

func blobIntact(f *os.File, at int64, d oci.Descriptor) bool {
	v := d.Digest.Verifier()
	n, err := io.Copy(v, io.NewSectionReader(f, at, d.Size))
	return err == nil && n == d.Size && v.Verified()
}

func (b bundleBlob) write(ctx context.Context, w *tar.Writer) error {
	if b.bytes != nil {
		return writeFile(w, blobName(b.desc.Digest), int64(len(b.bytes)), bytes.NewReader(b.bytes))
	}
	body, err := b.repo.Open(ctx, b.desc)
	if err != nil {
		return err
	}
	defer body.Close()
	return writeFile(w, blobName(b.desc.Digest), b.desc.Size, body)
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
