// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of a signature for cosign and Flux, both under the tag "sha256-<hex>.sig" and a referrer.
const (
	artifactCosign = "application/vnd.dev.cosign.artifact.sig.v1+json"
	mediaCosign    = "application/vnd.dev.cosign.simplesigning.v1+json"

	annCosign        = "dev.cosignproject.cosign/signature"
	cosignType       = "cosign container image signature"
	maxCosignPayload = 64 << 10
	maxCosignLayers  = 100
)

// CosignSignature is a signed payload, not yet verified.
type CosignSignature struct {
	Payload   []byte // JSON: see CosignPayload; in a bundle, an in-toto statement
	Signature []byte // over Payload; in a bundle, over Envelope
	Envelope  []byte // the signed bytes of a bundle, which include the type of Payload
	Certified []byte // of a bundle that no long-lived key can check: its verificationMaterial, JSON
}

// Signed returns the bytes that the signature covers.
func (s CosignSignature) Signed() []byte {
	if s.Envelope != nil {
		return s.Envelope
	}
	return s.Payload
}

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

// CosignPayload returns the payload to sign for a manifest of the repository, given as host/name.
func CosignPayload(repository string, manifest digest.Digest) ([]byte, error) {
	var p cosignPayload
	p.Critical.Identity.Reference = repository
	p.Critical.Image.Digest = manifest
	p.Critical.Type = cosignType
	return json.Marshal(p)
}

// Names returns an error unless the payload is about this manifest and a repository of this name,
// on any host below any prefix, since a copy stays valid. A bundle names only the manifest, so the
// caller has to check the address in the manifest.
func (s CosignSignature) Names(repositoryName string, manifest digest.Digest) error {
	if s.Envelope != nil {
		return statementNames(s.Payload, manifest)
	}
	var p cosignPayload
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		return fmt.Errorf("cosign payload: %v: %w", err, oci.ErrCorrupt)
	}
	switch {
	case p.Critical.Type != cosignType:
		return fmt.Errorf("cosign payload of type %q: %w", text.Excerpt(p.Critical.Type), oci.ErrCorrupt)
	case p.Critical.Image.Digest != manifest:
		return fmt.Errorf("cosign payload is for %q: %w", text.Excerpt(p.Critical.Image.Digest.String()), artifact.ErrSignsOther)
	case !strings.HasSuffix(p.Critical.Identity.Reference, "/"+repositoryName):
		return fmt.Errorf("cosign payload is for the repository %q: %w", text.Excerpt(p.Critical.Identity.Reference), artifact.ErrSignsOther)
	}
	return nil
}

func cosignTag(d digest.Digest) string { return d.Algorithm().String() + "-" + d.Encoded() + ".sig" }

// IsCosignTag reports whether tag is the signature tag of a manifest.
func IsCosignTag(tag string) bool {
	hex, ok := strings.CutPrefix(strings.TrimSuffix(tag, ".sig"), "sha256-")
	return ok && strings.HasSuffix(tag, ".sig") && digest.NewDigestFromEncoded(digest.SHA256, hex).Validate() == nil
}

// ReadCosignSignatures returns the signatures, but no bundles: see [Referrers.Signatures].
func ReadCosignSignatures(ctx context.Context, r *oci.Repo, manifest digest.Digest) ([]CosignSignature, error) {
	layers, err := cosignLayers(ctx, r, manifest)
	if err != nil {
		return nil, err
	}
	return readCosign(ctx, r, manifest, layers)
}

// readCosign reads the payloads of layers, except the usual one, which its digest shows.
func readCosign(ctx context.Context, r *oci.Repo, manifest digest.Digest, layers []oci.Descriptor) ([]CosignSignature, error) {
	var out []CosignSignature
	usual, err := CosignPayload(r.String(), manifest)
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[annCosign])
		if err != nil {
			continue // a signature that cannot be checked
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

// cosignLayers returns the signatures under the tag, or without tag those among the referrers:
// tools such as `oras copy --recursive` copy only these.
func cosignLayers(ctx context.Context, r *oci.Repo, manifest digest.Digest) ([]oci.Descriptor, error) {
	layers, err := layersOfSignature(ctx, r, cosignTag(manifest))
	if !errors.Is(err, oci.ErrNotFound) {
		return layers, err
	}
	refs := Referrers{Repo: r, Subject: oci.Descriptor{Digest: manifest}}
	layers, _, err = refs.layers(ctx, artifactCosign)
	return layers, err
}

// maxCosignReferrers bounds the search. Who can hide a signature could also replace its tag.
const maxCosignReferrers = 20

// likelySignatures returns the referrers with one of these types, then those listed with the type
// of the config instead, the newest of each first: cosign adds a bundle at each signing, and older
// bundles must not displace the relevant one.
func likelySignatures(referrers []oci.Descriptor, types []string) []oci.Descriptor {
	of := func(types ...string) []oci.Descriptor {
		some := slices.DeleteFunc(slices.Clone(referrers), func(d oci.Descriptor) bool { return !slices.Contains(types, d.ArtifactType) || !signs(d.Annotations) })
		slices.SortFunc(some, func(a, b oci.Descriptor) int {
			return cmp.Or(createdAt(b).Compare(createdAt(a)), cmp.Compare(a.Digest, b.Digest))
		})
		return some
	}
	likely := slices.Concat(of(types...), of(ocispec.MediaTypeEmptyJSON, ""))
	return likely[:min(len(likely), maxCosignReferrers)]
}

// createdAt returns when a manifest says it was created; zero, which sorts first, if it does not.
func createdAt(d oci.Descriptor) time.Time {
	at, _ := time.Parse(time.RFC3339, d.Annotations[artifact.AnnCreated])
	return at
}

func layersOfSignature(ctx context.Context, r *oci.Repo, reference string) ([]oci.Descriptor, error) {
	image, err := fetchImage(ctx, r, reference)
	if err != nil {
		return nil, err
	}
	return signatureLayers(image, reference)
}

func fetchImage(ctx context.Context, r *oci.Repo, reference string) (ocispec.Manifest, error) {
	m, err := r.Fetch(ctx, reference)
	if err != nil {
		return ocispec.Manifest{}, err
	}
	return m.Image()
}

func signatureLayers(image ocispec.Manifest, reference string) ([]oci.Descriptor, error) {
	layers := slices.DeleteFunc(slices.Clone(image.Layers), func(d oci.Descriptor) bool { return d.MediaType != mediaCosign })
	if len(layers) > maxCosignLayers {
		return nil, fmt.Errorf("%d signatures in %s: %w", len(layers), reference, oci.ErrTooLarge)
	}
	return layers, nil
}

func sameSignature(as oci.Descriptor) func(oci.Descriptor) bool {
	return func(d oci.Descriptor) bool {
		return d.Digest == as.Digest && d.Annotations[annCosign] == as.Annotations[annCosign]
	}
}

// MergeCosignSignatures adds the signatures in m, whose blobs must be in the repository, to those
// under tag. Of two concurrent writers one may be lost.
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

// AddCosignSignature stores a signature beside those of subject. Of two concurrent writers one may
// be lost: the signature tag is read, extended and written, and read back.
func AddCosignSignature(ctx context.Context, r *oci.Repo, subject oci.Descriptor, s CosignSignature) (oci.Descriptor, error) {
	layers, err := cosignLayers(ctx, r, subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	blob := oci.BytesBlob(mediaCosign, s.Payload)
	layer := blob.Descriptor
	layer.Annotations = map[string]string{annCosign: base64.StdEncoding.EncodeToString(s.Signature)}
	m, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: artifactCosign, Config: artifact.EmptyConfig(), Layers: append(layers, layer),
		Subject: &oci.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size},
	})
	if err != nil {
		return oci.Descriptor{}, err
	}
	if err := artifact.EnsureBlobs(ctx, r, blob); err != nil {
		return oci.Descriptor{}, err
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

// OnlySignatures reports whether a manifest holds only signatures in the form that has a tag.
func OnlySignatures(m oci.Manifest) bool {
	image, err := m.Image()
	return err == nil && image.ArtifactType == artifactCosign &&
		!slices.ContainsFunc(image.Layers, func(d oci.Descriptor) bool { return d.MediaType != mediaCosign })
}

// Signed reports whether a referrer declares that it is a signature, unverified.
func (f *Referrers) Signed(ctx context.Context) (bool, error) {
	all, err := f.list(ctx)
	return slices.ContainsFunc(all, isSignature), err
}

func isSignature(d oci.Descriptor) bool {
	return d.ArtifactType == artifactCosign || d.ArtifactType == artifactBundle && signs(d.Annotations)
}

// Signatures yields the signatures of the manifest: first those under its tag, or without tag those
// among the referrers, then the bundles. Unreadable referrers are skipped.
func (f *Referrers) Signatures(ctx context.Context) iter.Seq2[CosignSignature, error] {
	return func(yield func(CosignSignature, error) bool) {
		layers, err := layersOfSignature(ctx, f.Repo, cosignTag(f.Subject.Digest))
		tagged := !errors.Is(err, oci.ErrNotFound)
		if tagged && !f.yieldCosign(ctx, layers, err, yield) {
			return
		}
		types := []string{artifactCosign, artifactBundle}
		if tagged {
			types = types[1:]
		}
		layers, bundles, err := f.layers(ctx, types...)
		if tagged {
			layers = nil // layers of referrers that declared no type
		}
		if !f.yieldCosign(ctx, layers, err, yield) {
			return
		}
		for _, d := range bundles {
			s, err := readBundle(ctx, f.Repo, d)
			if isUnreadable(err) {
				continue
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func (f *Referrers) yieldCosign(ctx context.Context, layers []oci.Descriptor, err error, yield func(CosignSignature, error) bool) bool {
	var all []CosignSignature
	if err == nil {
		all, err = readCosign(ctx, f.Repo, f.Subject.Digest, layers)
	}
	if err != nil {
		yield(CosignSignature{}, err)
		return false
	}
	for _, s := range all {
		if !yield(s, nil) {
			return false
		}
	}
	return true
}

// layers returns the signature layers and the bundles among the referrers of these types.
func (f *Referrers) layers(ctx context.Context, types ...string) (cosign, bundles []oci.Descriptor, err error) {
	all, err := f.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range likelySignatures(all, types) {
		image, err := fetchImage(ctx, f.Repo, d.Digest.String())
		var more []oci.Descriptor
		if err == nil {
			more, err = signatureLayers(image, d.Digest.String())
		}
		if isUnreadable(err) {
			continue // deleted meanwhile, or not written by okara or cosign
		}
		if err != nil {
			return nil, nil, err
		}
		for _, layer := range more {
			if len(cosign) < maxCosignLayers && !slices.ContainsFunc(cosign, sameSignature(layer)) {
				cosign = append(cosign, layer)
			}
		}
		if len(image.Layers) == 1 && strings.HasPrefix(image.Layers[0].MediaType, bundlePrefix) && signs(image.Annotations) {
			bundles = append(bundles, image.Layers[0])
		}
	}
	return cosign, bundles, nil
}

func isUnreadable(err error) bool {
	return errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrTooLarge) || errors.Is(err, oci.ErrCorrupt)
}
