// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// Types of a provider.
const (
	ArtifactProvider         = "application/vnd.opentofu.provider"
	ArtifactProviderTarget   = "application/vnd.opentofu.provider-target"
	artifactProviderMetadata = "application/vnd.okara.provider.metadata.v1"
)

// DefaultProtocol is the plugin protocol of a provider that declares none.
const DefaultProtocol = "5.0"

// maxInlineMetadata is the largest metadata manifest, in bytes, that is repeated in the index, so
// that one GET answers every question about the version.
const maxInlineMetadata = 32 << 10

// ProviderPlatform is one zip of a version. Of another tool, Filename, Zh, H1 and Size are zero.
type ProviderPlatform struct {
	Platform addr.Platform
	Filename string
	Zh       string // SHA-256 of the zip in hex, and so of the layer
	H1       string // "h1:…" over the files in the zip
	Size     int64
	Manifest oci.Descriptor
}

// ProviderIndex is one version of a provider.
type ProviderIndex struct {
	Index       oci.Descriptor
	Version     addr.Version
	Protocols   []string
	Signature   string // SignatureVerified, SignatureNone, or "" if okara did not make the index
	Platforms   []ProviderPlatform
	Metadata    *oci.Descriptor // nil: no SHA256SUMS in the registry
	Annotations map[string]string
}

// NewProviderTarget returns the manifest of one platform's zip. Tools such as `oras pull` write the
// layer into filename. The name also distinguishes platforms with the same zip: registries identify
// an index's children by digest, and OpenTofu 1.12 may panic on two equal ones.
func NewProviderTarget(zip oci.Descriptor, filename string) (oci.Manifest, error) {
	zip.MediaType = MediaZip
	zip.Annotations = map[string]string{AnnTitle: filename}
	return NewImage(ArtifactProviderTarget, nil, zip)
}

// NewProviderIndex encodes x for an address of kind addr.KindProvider or addr.KindMirror. A
// manifest descriptor that already has annotations keeps them byte for byte; x.Index is ignored.
func NewProviderIndex(kind string, address addr.Provider, x ProviderIndex, metadata oci.Manifest) (oci.Manifest, error) {
	annotations := map[string]string{
		AnnTitle:        address.String(),
		AnnVersion:      x.Version.String(),
		AnnKind:         kind,
		annAddress:      address.String(),
		AnnOkaraVersion: x.Version.String(),
		annProtocols:    strings.Join(x.Protocols, ","),
		annSignature:    x.Signature,
	}
	maps.Copy(annotations, x.Annotations)
	index := ocispec.Index{ArtifactType: ArtifactProvider, Annotations: annotations}
	for _, p := range x.Platforms {
		index.Manifests = append(index.Manifests, p.descriptor())
	}
	d := metadata.Descriptor
	d.MediaType = ocispec.MediaTypeImageManifest
	d.ArtifactType = artifactProviderMetadata
	d.Annotations = nil
	if d.Size <= maxInlineMetadata {
		d.Data = metadata.Bytes
	}
	index.Manifests = append(index.Manifests, d)
	return oci.NewIndex(index)
}

func (p ProviderPlatform) descriptor() oci.Descriptor {
	d := p.Manifest
	if d.Platform != nil {
		return d
	}
	d.MediaType = ocispec.MediaTypeImageManifest
	d.ArtifactType = ArtifactProviderTarget
	d.Data = nil
	d.Platform = &ocispec.Platform{OS: p.Platform.OS, Architecture: p.Platform.Arch}
	d.Annotations = map[string]string{
		annFilename: p.Filename,
		annZh:       p.Zh,
		annH1:       p.H1,
		annSize:     strconv.FormatInt(p.Size, 10),
	}
	return d
}

// ParseProviderIndex reads a provider index as OpenTofu does: a violation of its rules wraps
// ErrCorrupt, and children of other artifact types are ignored.
func ParseProviderIndex(m oci.Manifest) (ProviderIndex, error) {
	index, err := m.Index()
	if err != nil {
		return ProviderIndex{}, errors.Join(err, ErrOther)
	}
	fail := func(format string, args ...any) (ProviderIndex, error) {
		return ProviderIndex{}, fmt.Errorf("provider index %s: %s: %w", m.Descriptor.Digest, fmt.Sprintf(format, args...), oci.ErrCorrupt)
	}
	if kind := index.Annotations[AnnKind]; index.ArtifactType == "" && (kind == addr.KindProvider || kind == addr.KindMirror) {
		return fail("the copy lost its artifact type, as with skopeo 1.9: copy it again with `regctl image copy`, `oras cp` or `crane copy`")
	}
	if index.ArtifactType != ArtifactProvider {
		return ProviderIndex{}, fmt.Errorf("provider index %s: artifact type %q is not %s: %w", m.Descriptor.Digest, index.ArtifactType, ArtifactProvider, ErrOther)
	}
	out := ProviderIndex{
		Index: m.Descriptor, Annotations: index.Annotations,
		Signature: index.Annotations[annSignature], Protocols: []string{DefaultProtocol},
	}
	out.Version, _ = addr.ParseVersion(index.Annotations[AnnOkaraVersion])
	if s := index.Annotations[annProtocols]; s != "" {
		out.Protocols = strings.Split(s, ",")
	}
	seen := map[addr.Platform]bool{}
	for _, d := range index.Manifests {
		switch d.ArtifactType {
		case artifactProviderMetadata:
			out.Metadata = &d
		case ArtifactProviderTarget:
			p, err := parsePlatform(d)
			if err != nil {
				return fail("%v", err)
			}
			if seen[p.Platform] {
				return fail("duplicate platform %s", p.Platform)
			}
			seen[p.Platform] = true
			out.Platforms = append(out.Platforms, p)
		}
	}
	return out, nil
}

func parsePlatform(d oci.Descriptor) (ProviderPlatform, error) {
	switch {
	case d.MediaType != ocispec.MediaTypeImageManifest:
		return ProviderPlatform{}, fmt.Errorf("child %s has media type %q", d.Digest, d.MediaType)
	case d.Platform == nil || d.Platform.OS == "" || d.Platform.Architecture == "":
		return ProviderPlatform{}, fmt.Errorf("child %s has no platform", d.Digest)
	case d.Platform.OSVersion != "":
		return ProviderPlatform{}, fmt.Errorf("child %s has an os.version", d.Digest)
	}
	p := ProviderPlatform{
		Platform: addr.Platform{OS: d.Platform.OS, Arch: d.Platform.Architecture},
		Filename: d.Annotations[annFilename],
		Zh:       d.Annotations[annZh],
		H1:       d.Annotations[annH1],
		Manifest: d,
	}
	if s := d.Annotations[annSize]; s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return ProviderPlatform{}, fmt.Errorf("child %s has size %q", d.Digest, s)
		}
		p.Size = n
	}
	if p.Zh != "" && digest.NewDigestFromEncoded(digest.SHA256, p.Zh).Validate() != nil {
		return ProviderPlatform{}, fmt.Errorf("child %s has zh %q", d.Digest, p.Zh)
	}
	return p, nil
}

// ResolveProviderZip returns the platform's zip, without a request if okara made the index.
func ResolveProviderZip(ctx context.Context, r *oci.Repo, p ProviderPlatform) (oci.Descriptor, error) {
	if p.Zh != "" && p.Size > 0 {
		return oci.Descriptor{MediaType: MediaZip, Digest: digest.NewDigestFromEncoded(digest.SHA256, p.Zh), Size: p.Size}, nil
	}
	m, err := r.Fetch(ctx, p.Manifest.Digest.String())
	if err != nil {
		return oci.Descriptor{}, err
	}
	image, err := m.Image()
	if err != nil {
		return oci.Descriptor{}, err
	}
	var zips []oci.Descriptor
	for _, layer := range image.Layers {
		if layer.MediaType == MediaZip {
			zips = append(zips, layer)
		}
	}
	if image.ArtifactType != ArtifactProviderTarget || len(zips) != 1 {
		return oci.Descriptor{}, fmt.Errorf("manifest %s of %s is not a provider package with one zip: %w", m.Descriptor.Digest, p.Platform, oci.ErrCorrupt)
	}
	return zips[0], CheckSHA256(zips[0])
}
