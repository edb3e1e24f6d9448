// SPDX-License-Identifier: Apache-2.0

package oci

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
		return fmt.Errorf("cosign payload: %v: %w", err, ErrCorrupt)
	}
	switch {
	case p.Critical.Type != cosignType:
		return fmt.Errorf("cosign payload of type %q: %w", plainText(p.Critical.Type), ErrCorrupt)
	case p.Critical.Image.Digest != manifest:
		return fmt.Errorf("cosign payload is about %q: %w", plainText(p.Critical.Image.Digest.String()), ErrCorrupt)
	case !strings.HasSuffix(p.Critical.Identity.Reference, "/"+repositoryName):
		return fmt.Errorf("cosign payload is about the repository %q: %w", plainText(p.Critical.Identity.Reference), ErrCorrupt)
	}
	return nil
}

func cosignTag(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() + ".sig" }

// IsCosignTag reports whether tag is that of the signatures of a manifest.
func IsCosignTag(tag string) bool {
	hex, ok := strings.CutPrefix(strings.TrimSuffix(tag, ".sig"), "sha256-")
	return ok && strings.HasSuffix(tag, ".sig") && digest.NewDigestFromEncoded(digest.SHA256, hex).Validate() == nil
}

// CosignSignatures returns the signatures of a manifest, none if it has none.
func (r *Repo) CosignSignatures(ctx context.Context, manifest digest.Digest) ([]CosignSignature, error) {
	layers, err := r.cosignLayers(ctx, manifest)
	if err != nil {
		return nil, err
	}
	var out []CosignSignature
	for _, layer := range layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[annCosign])
		if err != nil {
			continue // not one that anybody could check
		}
		payload, err := r.ReadBlob(ctx, layer, maxCosignPayload)
		if err != nil {
			return nil, err
		}
		out = append(out, CosignSignature{Payload: payload, Signature: signature})
	}
	return out, nil
}

func (r *Repo) cosignLayers(ctx context.Context, manifest digest.Digest) ([]Descriptor, error) {
	m, err := r.Fetch(ctx, cosignTag(manifest))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, err
	}
	layers := slices.DeleteFunc(image.Layers, func(d Descriptor) bool { return d.MediaType != MediaCosign })
	if len(layers) > maxCosignLayers {
		return nil, fmt.Errorf("%d signatures of %s: %w", len(layers), manifest, ErrTooLarge)
	}
	return layers, nil
}

// MergeCosignSignatures adds the signatures in m, whose blobs must be in the
// repository, to those under tag. As with AddCosignSignature, of two writers at the
// same time one may be lost.
func (r *Repo) MergeCosignSignatures(ctx context.Context, tag string, m Manifest) error {
	image, err := m.Image()
	if err != nil {
		return err
	}
	have, err := r.Fetch(ctx, tag)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if err == nil {
		layers := image.Layers
		if image, err = have.Image(); err != nil {
			return err
		}
		n := len(image.Layers)
		for _, layer := range layers {
			same := func(d Descriptor) bool {
				return d.Digest == layer.Digest && d.Annotations[annCosign] == layer.Annotations[annCosign]
			}
			if !slices.ContainsFunc(image.Layers, same) {
				image.Layers = append(image.Layers, layer)
			}
		}
		if len(image.Layers) == n {
			return nil
		}
		if m, err = NewManifest(image); err != nil {
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
func (r *Repo) AddCosignSignature(ctx context.Context, subject Descriptor, s CosignSignature) (Descriptor, error) {
	layers, err := r.cosignLayers(ctx, subject.Digest)
	if err != nil {
		return Descriptor{}, err
	}
	blob := BytesBlob(MediaCosign, s.Payload)
	layer := blob.Descriptor
	layer.Annotations = map[string]string{annCosign: base64.StdEncoding.EncodeToString(s.Signature)}
	m, err := NewManifest(ocispec.Manifest{
		ArtifactType: ArtifactCosign, Config: emptyConfig(), Layers: append(layers, layer),
		Subject: &Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return Descriptor{}, err
	}
	for _, b := range []Blob{EmptyBlob(), blob} {
		if _, err := r.EnsureBlob(ctx, b); err != nil {
			return Descriptor{}, err
		}
	}
	if err := r.PutReferrer(ctx, m, subject); err != nil {
		return Descriptor{}, err
	}
	tag := cosignTag(subject.Digest)
	if err := r.PutTag(ctx, tag, m); err != nil && !errors.Is(err, ErrUncertain) {
		return Descriptor{}, err
	}
	back, err := r.Resolve(ctx, tag)
	if err == nil && back.Digest != m.Digest {
		err = fmt.Errorf("another signature of %s was written at the same time, sign again: %w", subject.Digest, ErrExists)
	}
	return m.Descriptor, err
}
