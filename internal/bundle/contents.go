// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Entry is one entry of the index of a bundle.
type Entry struct {
	Repository string        `json:"repository"`    // without a prefix
	Tag        string        `json:"tag,omitempty"` // "": a referrer
	Kind       string        `json:"kind"`          // version, image, signature, status, referrer; other: not loaded
	Digest     digest.Digest `json:"digest"`
	Bytes      int64         `json:"bytes"`            // size of all that it needs and the bundle contains
	Detail     string        `json:"detail,omitempty"` // the platforms of a provider, the content of a status, the type of a referrer
}

func (k rootKind) String() string {
	return [...]string{rootReferrer: "referrer", rootSignature: "signature", rootStatus: "status", rootVersion: "version", rootImage: "image"}[k]
}

// Signed returns the signature file beside the bundle, or ""; [File.VerifySignature] checks it.
func (b *File) Signed() (string, error) {
	_, err := os.Stat(b.signatureFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return b.signatureFile(), err
}

// Entries lists the declared entries in the index's order; [File.Verify] checks all bytes.
func (b *File) Entries(ctx context.Context) ([]Entry, error) {
	entries := make([]Entry, 0, len(b.Index.Manifests))
	refCount := 0
	for _, root := range b.Index.Manifests {
		ref, err := parseReference(root)
		if err != nil {
			return nil, err
		}
		e := Entry{Repository: ref.repository, Tag: ref.tag, Kind: "other", Digest: root.Digest}
		kind, ok := kindOfTag(ref.tag)
		if strings.HasPrefix(ref.repository, images) {
			kind, ok = kindOfImageTag(ref.tag)
		}
		if ok {
			e.Kind = kind.String()
		}
		reached, err := b.measure(ctx, root, &e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", root.Annotations[ocispec.AnnotationRefName], err)
		}
		if refCount += reached; refCount > maxBlobRefs {
			return nil, checkRefCount(refCount)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// measure fills in properties below a root, and returns how many blobs it reached.
func (b *File) measure(ctx context.Context, root oci.Descriptor, e *Entry) (reached int, err error) {
	w := walk{b: b, seen: map[digest.Digest]bool{}}
	seen := map[digest.Digest]bool{}
	w.visit = func(m oci.Manifest, blobs []oci.Descriptor) error {
		for _, d := range append(blobs, m.Descriptor) {
			if s, ok := b.blobs[d.Digest]; ok && !seen[d.Digest] {
				seen[d.Digest] = true
				e.Bytes += s.size
			}
		}
		if m.Digest == root.Digest {
			e.Detail = describeTag(e.Tag, m)
		}
		return checkRefCount(len(seen))
	}
	if _, ok := b.blobs[root.Digest]; !ok {
		e.Detail = "in an earlier bundle"
	}
	err = w.walkFrom(ctx, root)
	return len(seen), err
}

// describeTag describes a tag's manifest in one line, or "".
func describeTag(tag string, m oci.Manifest) string {
	if evidence.IsStatusTag(tag) {
		e, err := evidence.ParseStatusEvent(tag, m)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", e.Action, e.Version, e.Message), ": ")
	}
	if index, err := artifact.ParseProviderIndex(m); err == nil {
		var platforms []string
		for _, p := range index.Platforms {
			platforms = append(platforms, p.Platform.String())
		}
		return strings.Join(platforms, ", ")
	}
	if image, err := m.Image(); err == nil && image.Subject != nil {
		return image.ArtifactType + " of " + image.Subject.Digest.String()
	}
	return ""
}
