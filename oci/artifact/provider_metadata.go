// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

// Layers of a provider's metadata manifest.
const (
	MediaShasums          = "application/vnd.okara.provider.shasums.v1"
	MediaShasumsSignature = "application/vnd.okara.provider.shasums-signature.v1"
	MediaSigningKeys      = "application/vnd.okara.provider.signing-keys.v1+json"
	mediaRegistryManifest = "application/vnd.okara.provider.registry-manifest.v1+json"
	mediaProviderDocs     = "application/vnd.okara.provider.docs.v1.tar+gzip"
)

const (
	// maxInlineLayer is the largest metadata layer repeated in its descriptor.
	maxInlineLayer = 8 << 10
	// maxMetadataLayer bounds a layer, in bytes. The largest SHA256SUMS has under 100 lines.
	maxMetadataLayer = 1 << 20
)

// MaxProviderDocs bounds the layer of MediaProviderDocs, in bytes.
const MaxProviderDocs = 16 << 20

// SigningKey is an OpenPGP public key as the provider protocol serves it.
type SigningKey struct {
	KeyID          string  `json:"key_id"`
	ASCIIArmor     string  `json:"ascii_armor"`
	Source         string  `json:"source"`
	SourceURL      *string `json:"source_url"`
	TrustSignature string  `json:"trust_signature"`
	Expires        string  `json:"expires,omitempty"` // RFC 3339
}

// SigningKeys is the document of MediaSigningKeys.
type SigningKeys struct {
	Keys []SigningKey `json:"gpg_public_keys"`
}

// ProviderMetadata authenticates the zips of a version: SHA256SUMS, its signature and the keys, as
// published. Signature is zero if the origin publishes no key.
type ProviderMetadata struct {
	Shasums, Signature oci.Descriptor
	ShasumsName        string
	ShasumsBytes       []byte
	SignatureBytes     []byte
	Keys               []SigningKey
	RegistryManifest   []byte // terraform-registry-manifest.json, nil if the provider has none

	Docs      *oci.Descriptor // the layer of MediaProviderDocs, which callers fetch on demand; nil: there is none
	DocsBytes []byte          // set to publish; never read back
}

// NewProviderMetadata encodes md as a manifest and the blobs it needs.
func NewProviderMetadata(md ProviderMetadata) (oci.Manifest, []oci.Blob, error) {
	blobs := []oci.Blob{oci.EmptyBlob()}
	var layers []oci.Descriptor
	add := func(mediaType, title string, b []byte) {
		blob := oci.BytesBlob(mediaType, b)
		d := oci.Descriptor{MediaType: mediaType, Digest: blob.Digest, Size: blob.Size, Annotations: map[string]string{AnnTitle: title}}
		if d.Size <= maxInlineLayer {
			d.Data = b
		}
		blobs = append(blobs, blob)
		layers = append(layers, d)
	}
	if md.ShasumsBytes != nil {
		add(MediaShasums, md.ShasumsName, md.ShasumsBytes)
	}
	if len(md.SignatureBytes) > 0 {
		add(MediaShasumsSignature, md.ShasumsName+".sig", md.SignatureBytes)
	}
	if len(md.Keys) > 0 {
		b, err := json.Marshal(SigningKeys{Keys: md.Keys})
		if err != nil {
			return oci.Manifest{}, nil, fmt.Errorf("encode signing keys: %w", err)
		}
		add(MediaSigningKeys, "signing-keys.json", b)
	}
	if md.RegistryManifest != nil {
		add(mediaRegistryManifest, "terraform-registry-manifest.json", md.RegistryManifest)
	}
	switch {
	case md.DocsBytes != nil:
		add(mediaProviderDocs, "docs.tar.gz", md.DocsBytes)
	case md.Docs != nil: // the repository has the blob
		layers = append(layers, *md.Docs)
	}
	m, err := NewImage(artifactProviderMetadata, nil, layers...)
	return m, blobs, err
}

// ReadProviderMetadata reads a version's metadata, without a request for layers in the index. Each
// of instead replaces that of its media type; without it, no metadata is ErrNotFound.
func ReadProviderMetadata(ctx context.Context, r *oci.Repo, x ProviderIndex, instead ...oci.Descriptor) (ProviderMetadata, error) {
	var layers []oci.Descriptor
	switch {
	case x.Metadata != nil:
		image, err := metadataImage(ctx, r, *x.Metadata)
		if err != nil {
			return ProviderMetadata{}, err
		}
		layers = image.Layers
	case len(instead) == 0:
		return ProviderMetadata{}, fmt.Errorf("provider index %s has no SHA256SUMS: %w", x.Index.Digest, oci.ErrNotFound)
	}
	for _, layer := range instead {
		layers = slices.DeleteFunc(layers, func(d oci.Descriptor) bool { return d.MediaType == layer.MediaType })
		layers = append(layers, layer)
	}
	return metadataLayers(ctx, r, layers)
}

func metadataImage(ctx context.Context, r *oci.Repo, d oci.Descriptor) (ocispec.Manifest, error) {
	m, err := inlineManifest(ctx, r, d)
	if err != nil {
		return ocispec.Manifest{}, err
	}
	image, err := m.Image()
	if err == nil && image.ArtifactType != artifactProviderMetadata {
		err = fmt.Errorf("manifest %s has artifact type %q: %w", d.Digest, image.ArtifactType, oci.ErrCorrupt)
	}
	return image, err
}

func metadataLayers(ctx context.Context, r *oci.Repo, layers []oci.Descriptor) (ProviderMetadata, error) {
	var md ProviderMetadata
	var err error
	for _, d := range layers {
		var b []byte
		switch d.MediaType {
		case MediaShasums, MediaShasumsSignature, MediaSigningKeys, mediaRegistryManifest:
			if b, err = r.ReadBlob(ctx, d, maxMetadataLayer); err != nil {
				return ProviderMetadata{}, err
			}
		}
		switch d.MediaType {
		case mediaProviderDocs:
			md.Docs = &d
		case MediaShasums:
			md.Shasums = d
			md.ShasumsBytes = b
			md.ShasumsName = d.Annotations[AnnTitle]
		case MediaShasumsSignature:
			md.Signature = d
			md.SignatureBytes = b
		case mediaRegistryManifest:
			md.RegistryManifest = b
		case MediaSigningKeys:
			var keys SigningKeys
			if err := json.Unmarshal(b, &keys); err != nil {
				return ProviderMetadata{}, fmt.Errorf("signing keys %s: %v: %w", d.Digest, err, oci.ErrCorrupt)
			}
			md.Keys = keys.Keys
		}
	}
	if md.ShasumsBytes == nil {
		return ProviderMetadata{}, fmt.Errorf("provider metadata has no SHA256SUMS: %w", oci.ErrCorrupt)
	}
	return md, nil
}

// inlineManifest returns the manifest d from its data field if intact, else from the registry.
func inlineManifest(ctx context.Context, r *oci.Repo, d oci.Descriptor) (oci.Manifest, error) {
	if int64(len(d.Data)) == d.Size && d.Digest.Validate() == nil && d.Digest.Algorithm().FromBytes(d.Data) == d.Digest {
		b := d.Data
		d.Data = nil
		return oci.Manifest{Descriptor: d, Bytes: b}, nil
	}
	return r.Fetch(ctx, d.Digest.String())
}

// NewSignatureLayers returns the layers of a resign event: signature, keys, and SHA256SUMS if
// withShasums is set because the index has none.
func NewSignatureLayers(md ProviderMetadata, withShasums bool) ([]oci.Descriptor, []oci.Blob, error) {
	if !withShasums {
		md.ShasumsBytes = nil
	}
	md.RegistryManifest = nil
	md.Docs = nil
	md.DocsBytes = nil
	m, blobs, err := NewProviderMetadata(md)
	if err != nil {
		return nil, nil, err
	}
	image, err := m.Image()
	return image.Layers, blobs, err
}
