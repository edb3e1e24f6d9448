// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Types of a signature that cosign and Flux check. One manifest serves both ways
// of finding it: by the tag "sha256-<hex>.sig" and as a referrer. cosign itself
// judges it in TestCosign of internal/e2e.
const (
	ArtifactCosign = "application/vnd.dev.cosign.artifact.sig.v1+json"
	MediaCosign    = "application/vnd.dev.cosign.simplesigning.v1+json"

	// ArtifactSigstoreBundle is a signature in a form that okara lists and does
	// not check.
	ArtifactSigstoreBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"

	annCosign        = "dev.cosignproject.cosign/signature"
	cosignType       = "cosign container image signature"
	maxCosignPayload = 64 << 10
	maxCosignLayers  = 100
)

// CosignSignature is a signed payload. Whether it is valid is for the caller to
// check.
type CosignSignature struct {
	Payload   []byte // JSON, see CosignPayload
	Signature []byte // over Payload
}

// cosignPayload is the simple-signing document.
type cosignPayload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest digest.Digest `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// CosignPayload returns what is signed for a manifest of the repository, which
// is written host/name.
func CosignPayload(repository string, manifest digest.Digest) ([]byte, error) {
	var p cosignPayload
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = repository, manifest, cosignType
	return json.Marshal(p)
}

// Names reports whether the payload is about this manifest and a repository of
// this name, below any prefix. Host and prefix are not compared, since a copy in
// another registry stays what was signed.
func (s CosignSignature) Names(repositoryName string, manifest digest.Digest) error {
	var p cosignPayload
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		return fmt.Errorf("cosign payload: %v: %w", err, oci.ErrCorrupt)
	}
	switch {
	case p.Critical.Type != cosignType:
		return fmt.Errorf("cosign payload of type %q: %w", text.Excerpt(p.Critical.Type), oci.ErrCorrupt)
	case p.Critical.Image.Digest != manifest:
		return fmt.Errorf("cosign payload is about %q: %w", text.Excerpt(p.Critical.Image.Digest.String()), oci.ErrCorrupt)
	case !strings.HasSuffix(p.Critical.Identity.Reference, "/"+repositoryName):
		return fmt.Errorf("cosign payload is about the repository %q: %w", text.Excerpt(p.Critical.Identity.Reference), oci.ErrCorrupt)
	}
	return nil
}

func cosignTag(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() + ".sig" }

// IsCosignTag reports whether tag is that of the signatures of a manifest.
func IsCosignTag(tag string) bool {
	hex, ok := strings.CutPrefix(strings.TrimSuffix(tag, ".sig"), "sha256-")
	return ok && strings.HasSuffix(tag, ".sig") && digest.NewDigestFromEncoded(digest.SHA256, hex).Validate() == nil
}

// ReadCosignSignatures returns the signatures of a manifest, none if it has none. A
// payload that is the one that okara and cosign write for this repository is known
// by its digest, and not fetched.
func ReadCosignSignatures(ctx context.Context, r *oci.Repo, manifest digest.Digest) ([]CosignSignature, error) {
	layers, err := cosignLayers(ctx, r, manifest)
	if err != nil {
		return nil, err
	}
	var out []CosignSignature
	usual, err := CosignPayload(r.String(), manifest)
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[annCosign])
		if err != nil {
			continue // not one that anybody could check
		}
		if layer.Digest == digest.FromBytes(usual) && layer.Size == int64(len(usual)) {
			layer.Data = usual
		}
		payload, err := r.ReadBlob(ctx, layer, maxCosignPayload)
		if err != nil {
			return nil, err
		}
		out = append(out, CosignSignature{Payload: payload, Signature: signature})
	}
	return out, nil
}

// cosignLayers are the signatures under the tag, or where there is no such tag those
// among the referrers: tools such as `oras copy --recursive` copy nothing else.
func cosignLayers(ctx context.Context, r *oci.Repo, manifest digest.Digest) ([]oci.Descriptor, error) {
	layers, err := layersOfSignature(ctx, r, cosignTag(manifest))
	if !errors.Is(err, oci.ErrNotFound) {
		return layers, err
	}
	referrers, err := r.Referrers(ctx, oci.Descriptor{Digest: manifest}, "")
	if err != nil {
		return nil, err
	}
	layers = nil
	for _, d := range likelySignatures(referrers) {
		more, err := layersOfSignature(ctx, r, d.Digest.String())
		if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrTooLarge) || errors.Is(err, oci.ErrCorrupt) {
			continue // gone meanwhile, or nothing that okara or cosign made
		}
		if err != nil {
			return nil, err
		}
		for _, layer := range more {
			if len(layers) < maxCosignLayers && !slices.ContainsFunc(layers, sameSignature(layer)) {
				layers = append(layers, layer)
			}
		}
	}
	return layers, nil
}

// maxCosignReferrers bounds how many referrers are looked into. Who may push others before
// a signature could as well replace its tag.
const maxCosignReferrers = 20

// likelySignatures are the referrers that say they are signatures, and then those that may
// be: some registries tell the type of the config instead.
func likelySignatures(referrers []oci.Descriptor) []oci.Descriptor {
	of := func(types ...string) []oci.Descriptor {
		return slices.DeleteFunc(slices.Clone(referrers), func(d oci.Descriptor) bool { return !slices.Contains(types, d.ArtifactType) })
	}
	likely := slices.Concat(of(ArtifactCosign), of(ocispec.MediaTypeEmptyJSON, ""))
	return likely[:min(len(likely), maxCosignReferrers)]
}

func layersOfSignature(ctx context.Context, r *oci.Repo, reference string) ([]oci.Descriptor, error) {
	m, err := r.Fetch(ctx, reference)
	if err != nil {
		return nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, err
	}
	layers := slices.DeleteFunc(image.Layers, func(d oci.Descriptor) bool { return d.MediaType != MediaCosign })
	if len(layers) > maxCosignLayers {
		return nil, fmt.Errorf("%d signatures in %s: %w", len(layers), reference, oci.ErrTooLarge)
	}
	return layers, nil
}

// sameSignature finds the layer of one signature among others.
func sameSignature(as oci.Descriptor) func(oci.Descriptor) bool {
	return func(d oci.Descriptor) bool {
		return d.Digest == as.Digest && d.Annotations[annCosign] == as.Annotations[annCosign]
	}
}

// MergeCosignSignatures adds the signatures in m, whose blobs must be in the
// repository, to those under tag. As with AddCosignSignature, of two writers at the
// same time one may be lost.
func MergeCosignSignatures(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) error {
	image, err := m.Image()
	if err != nil {
		return err
	}
	have, err := r.Fetch(ctx, tag)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	if err == nil {
		layers := image.Layers
		if image, err = have.Image(); err != nil {
			return err
		}
		n := len(image.Layers)
		for _, layer := range layers {
			if !slices.ContainsFunc(image.Layers, sameSignature(layer)) {
				image.Layers = append(image.Layers, layer)
			}
		}
		if len(image.Layers) == n {
			return nil
		}
		if m, err = oci.NewManifest(image); err != nil {
			return err
		}
	}
	if image.Subject != nil {
		err = r.PutReferrer(ctx, m, *image.Subject)
	} else {
		err = r.PutManifest(ctx, m)
	}
	if err != nil {
		return err
	}
	return r.PutTag(ctx, tag, m)
}

// AddCosignSignature stores a signature beside those that subject has. Of two
// writers at the same time one may be lost: the signature tag is read, extended
// and written, and read back.
func AddCosignSignature(ctx context.Context, r *oci.Repo, subject oci.Descriptor, s CosignSignature) (oci.Descriptor, error) {
	layers, err := cosignLayers(ctx, r, subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	blob := oci.BytesBlob(MediaCosign, s.Payload)
	layer := blob.Descriptor
	layer.Annotations = map[string]string{annCosign: base64.StdEncoding.EncodeToString(s.Signature)}
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactCosign, Config: EmptyConfig(), Layers: append(layers, layer),
		Subject: &oci.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return oci.Descriptor{}, err
	}
	for _, b := range []oci.Blob{oci.EmptyBlob(), blob} {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return oci.Descriptor{}, err
		}
	}
	if err := r.PutReferrer(ctx, m, subject); err != nil {
		return oci.Descriptor{}, err
	}
	tag := cosignTag(subject.Digest)
	if err := r.PutTag(ctx, tag, m); err != nil && !errors.Is(err, oci.ErrUncertain) {
		return oci.Descriptor{}, err
	}
	back, err := r.Resolve(ctx, tag)
	if err == nil && back.Digest != m.Digest {
		err = fmt.Errorf("another signature of %s was written at the same time, sign again: %w", subject.Digest, oci.ErrExists)
	}
	return m.Descriptor, err
}
