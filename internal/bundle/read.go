// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"

	"github.com/seed-141914ff/okara/oci"
)

// Bounds of a bundle: at 250 bytes per tag, a quarter of a million tags.
const (
	maxIndex = 64 << 20 // bytes of index.json
	maxBlobs = 1 << 20
)

// ErrCut means that a bundle ends early, for example after an interrupted copy.
var ErrCut = fmt.Errorf("the file is truncated: %w", oci.ErrCorrupt)

// ErrNone means that a file is no bundle at all.
var ErrNone = errors.New("not a bundle")

// File is an open bundle, its blobs located and not checked.
type File struct {
	Index    ocispec.Index
	IndexRaw []byte
	file     *os.File
	blobs    map[digest.Digest]span
}

type span struct{ offset, size int64 }

// Open reads a bundle's index and locates its blobs. The caller must close it. An error about what
// is no bundle wraps oci.ErrCorrupt.
func Open(file string) (*File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle: %w", err)
	}
	b := &File{file: f, blobs: map[digest.Digest]span{}}
	if err := b.scan(); err != nil {
		defer f.Close()
		return nil, fmt.Errorf("reading the bundle %s: %w", file, err)
	}
	return b, nil
}

// Close closes the file.
func (b *File) Close() error { return b.file.Close() }

// Digests returns the blobs contained or required, for a bundle that builds on it.
func (b *File) Digests() map[digest.Digest]bool {
	out := b.requiredBlobs()
	for d := range b.blobs {
		out[d] = true
	}
	return out
}

func (b *File) requiredBlobs() map[digest.Digest]bool {
	out := map[digest.Digest]bool{}
	for d := range strings.FieldsSeq(b.Index.Annotations[requires]) {
		out[digest.Digest(d)] = true
	}
	return out
}

func (b *File) scan() error {
	r := tar.NewReader(b.file)
	layout := false
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) && len(b.blobs) == 0 && !layout {
			return ErrNone
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrCut
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, oci.ErrCorrupt)
		}
		switch {
		case h.Typeflag == tar.TypeDir:
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%q is not a regular file: %w", h.Name, oci.ErrCorrupt)
		case h.Name == "oci-layout":
			layout = true
		case h.Name == "index.json" && b.IndexRaw != nil:
			return fmt.Errorf("duplicate index.json: %w", oci.ErrCorrupt)
		case h.Name == "index.json":
			if err := b.readIndex(r, h.Size); err != nil {
				return err
			}
		default:
			d, ok := blobDigest(h.Name)
			if !ok {
				return fmt.Errorf("unexpected file %q in an OCI layout: %w", h.Name, oci.ErrCorrupt)
			}
			offset, err := b.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			if b.blobs[d] = (span{offset, h.Size}); len(b.blobs) > maxBlobs {
				return fmt.Errorf("more than %d blobs: %w", maxBlobs, oci.ErrTooLarge)
			}
		}
	}
	if err := b.checkComplete(); err != nil {
		return err
	}
	if !layout || b.IndexRaw == nil {
		return fmt.Errorf("not an OCI image layout: %w", oci.ErrCorrupt)
	}
	return nil
}

// checkComplete fails without the two final blocks of zeros: nothing else tells that a part, a
// valid archive, is incomplete.
func (b *File) checkComplete() error {
	end := make([]byte, 2*tarBlock)
	size, err := b.file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err // for an empty file another error is clearer
	}
	if size < int64(len(end)) {
		return ErrCut
	}
	if _, err := b.file.ReadAt(end, size-int64(len(end))); err != nil {
		return err
	}
	if !bytes.Equal(end, make([]byte, len(end))) {
		return ErrCut
	}
	return nil
}

func (b *File) readIndex(r io.Reader, size int64) error {
	if size > maxIndex {
		return fmt.Errorf("index.json has %d bytes: %w", size, oci.ErrTooLarge)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%w: %w", err, oci.ErrCorrupt)
	}
	b.IndexRaw = raw
	if err := json.Unmarshal(raw, &b.Index); err != nil {
		return fmt.Errorf("index.json: %w: %w", err, oci.ErrCorrupt)
	}
	for _, d := range b.Index.Manifests {
		if _, err := parseReference(d); err != nil {
			return err
		}
	}
	return nil
}

func blobDigest(name string) (digest.Digest, bool) {
	hex, ok := strings.CutPrefix(name, "blobs/sha256/")
	d := digest.NewDigestFromEncoded(digest.SHA256, hex)
	return d, ok && d.Validate() == nil
}

// reference is an entry of index.json: a tag, or without one a referrer.
type reference struct {
	repository, tag string
}

func parseReference(d oci.Descriptor) (reference, error) {
	name := d.Annotations[ocispec.AnnotationRefName]
	if repo, hex, ok := strings.Cut(name, "@"); ok && hex == d.Digest.String() && repo != "" {
		return reference{repository: repo}, nil
	}
	repo, tag, ok := strings.Cut(name, ":")
	if !ok || repo == "" || (registry.Reference{Reference: tag}).ValidateReferenceAsTag() != nil {
		return reference{}, fmt.Errorf("index.json: %q is not REPOSITORY:TAG: %w", name, oci.ErrCorrupt)
	}
	return reference{repo, tag}, nil
}

// openChecked returns a function that reads a blob. It checks the bytes first.
func (b *File) openChecked(ctx context.Context, d oci.Descriptor) (func() io.ReadCloser, error) {
	s, ok := b.blobs[d.Digest]
	if !ok {
		return nil, fmt.Errorf("blob %s is neither in the bundle nor in the registry; load the earlier bundle first: %w", d.Digest, oci.ErrNotFound)
	}
	if s.size != d.Size {
		return nil, fmt.Errorf("blob %s has %d bytes, expected %d: %w", d.Digest, s.size, d.Size, oci.ErrCorrupt)
	}
	if err := blobIntact(ctx, b.file, s.offset, d); err != nil {
		return nil, fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	return func() io.ReadCloser { return io.NopCloser(io.NewSectionReader(b.file, s.offset, s.size)) }, nil
}

// manifest reads a manifest; of the untrusted descriptor only the media type counts.
func (b *File) manifest(d oci.Descriptor) (oci.Manifest, error) {
	s, ok := b.blobs[d.Digest]
	if !ok {
		return oci.Manifest{}, fmt.Errorf("the bundle has no manifest %s: %w", d.Digest, oci.ErrNotFound)
	}
	if s.size > oci.MaxManifest {
		return oci.Manifest{}, fmt.Errorf("manifest %s has %d bytes: %w", d.Digest, s.size, oci.ErrTooLarge)
	}
	d = oci.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: s.size}
	raw, err := content.ReadAll(io.NewSectionReader(b.file, s.offset, s.size), d)
	if err != nil {
		return oci.Manifest{}, fmt.Errorf("manifest %s: %w: %w", d.Digest, err, oci.ErrCorrupt)
	}
	return oci.Manifest{Descriptor: d, Bytes: raw}, nil
}
