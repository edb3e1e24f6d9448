// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"unicode"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
)

// Types of a module. OpenTofu uses the only layer of MediaZip, Flux the first layer, okara's
// front-end the zip and the description.
const (
	ArtifactModule         = "application/vnd.opentofu.modulepkg"
	MediaModuleTar         = "application/vnd.cncf.flux.content.v1.tar+gzip"
	MediaZip               = "archive/zip"
	MediaModuleDescription = "application/vnd.okara.module.v1+json"
)

// TagLatest names the highest release, the default of oci:// sources. Other tags do not move.
const TagLatest = "latest"

// ModuleManifest is one version of a module. If another tool built the package, Tar and Description
// are nil, and Address and Version are zero.
type ModuleManifest struct {
	Manifest              oci.Descriptor
	Address               addr.Module
	Version               addr.Version
	Tar, Zip, Description *oci.Descriptor
	ContentDigest         string // "sha256:…" of the uncompressed tar
	H1                    string // of golang.org/x/mod/sumdb/dirhash over the files; "": published before it was kept
	Annotations           map[string]string
}

// NewModule encodes m, whose three layers must be set. m.Annotations are added to those derived
// from the other fields; m.Manifest is ignored.
func NewModule(m ModuleManifest) (oci.Manifest, error) {
	annotations := map[string]string{
		AnnTitle:         m.Address.String(),
		AnnVersion:       m.Version.String(),
		AnnKind:          addr.KindModule,
		annAddress:       m.Address.String(),
		AnnOkaraVersion:  m.Version.String(),
		annContentDigest: m.ContentDigest,
	}
	if m.H1 != "" {
		annotations[annModuleH1] = m.H1
	}
	maps.Copy(annotations, m.Annotations)
	tar := *m.Tar
	zip := *m.Zip
	description := *m.Description
	tar.MediaType = MediaModuleTar
	zip.MediaType = MediaZip
	description.MediaType = MediaModuleDescription
	return NewImage(ArtifactModule, annotations, tar, zip, description)
}

// ErrOther means that a manifest is that of another artifact. It is ErrCorrupt.
var ErrOther = fmt.Errorf("%w", oci.ErrCorrupt)

// ParseModule reads a module manifest, also one without okara's layers and annotations that
// OpenTofu would install: with exactly one layer of MediaZip. Anything else wraps ErrCorrupt, and
// ErrOther if it is no damaged module.
func ParseModule(m oci.Manifest) (ModuleManifest, error) {
	image, err := m.Image()
	if err != nil {
		return ModuleManifest{}, errors.Join(err, ErrOther)
	}
	if image.ArtifactType != ArtifactModule {
		return ModuleManifest{}, fmt.Errorf("manifest %s has artifact type %q, expected %s: %w",
			m.Descriptor.Digest, image.ArtifactType, ArtifactModule, ErrOther)
	}
	out := ModuleManifest{Manifest: m.Descriptor, Annotations: image.Annotations, ContentDigest: image.Annotations[annContentDigest], H1: image.Annotations[annModuleH1]}
	for _, layer := range image.Layers {
		place := map[string]**oci.Descriptor{MediaModuleTar: &out.Tar, MediaZip: &out.Zip, MediaModuleDescription: &out.Description}[layer.MediaType]
		if place == nil {
			continue
		}
		if *place != nil {
			return ModuleManifest{}, fmt.Errorf("module %s has two layers of type %s: %w", m.Descriptor.Digest, layer.MediaType, oci.ErrCorrupt)
		}
		*place = &layer
	}
	if out.Zip == nil {
		return ModuleManifest{}, fmt.Errorf("module %s has no layer of type %s: %w", m.Descriptor.Digest, MediaZip, oci.ErrCorrupt)
	}
	if err := CheckSHA256(*out.Zip); err != nil {
		return ModuleManifest{}, fmt.Errorf("module %s: %w", m.Descriptor.Digest, err)
	}
	out.Address, _ = addr.ParseModule(image.Annotations[annAddress])
	out.Version, _ = addr.ParseVersion(image.Annotations[AnnOkaraVersion])
	return out, nil
}

// Dir returns the module's directory in the package; "" if it is the package, or not recorded.
func (m ModuleManifest) Dir() string {
	return cmp.Or(m.Annotations[AnnModulePath], m.Annotations[AnnModuleDir])
}

// Suffix returns the suffix "//DIR" of addresses of the package that leads to the module; "" if the
// module is the package, or no address can name its directory.
func (m ModuleManifest) Suffix() string {
	dir := m.Annotations[AnnModulePath]
	if dir == "." || !fs.ValidPath(dir) || strings.ContainsFunc(dir, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		return ""
	}
	return "//" + dir
}

// CheckSHA256 refuses other digest algorithms, which OpenTofu and zh: hashes do not have.
func CheckSHA256(d oci.Descriptor) error {
	if d.Digest.Validate() != nil || d.Digest.Algorithm() != "sha256" {
		return fmt.Errorf("layer digest %q is not sha256: %w", d.Digest, oci.ErrCorrupt)
	}
	return nil
}

// EmptyConfig is "no config" (OCI image specification 1.1, "Guidance for an empty descriptor").
func EmptyConfig() oci.Descriptor {
	d := oci.EmptyBlob().Descriptor
	d.Data = nil
	return d
}
