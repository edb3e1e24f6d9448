// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
)

func imagePlatforms() []string { return []string{"linux/amd64", "linux/arm64"} }

// seedCache puts an empty image for each platform into ko's cache, an OCI image layout, and
// returns the reference by which ko finds it there. The host in the reference does not
// exist, and no request is sent.
func seedCache(dir string) (reference string, err error) {
	put := func(b []byte) error {
		return writeNested(filepath.Join(dir, ocispec.ImageBlobsDir, "sha256", digest.FromBytes(b).Encoded()), b)
	}
	var base, listed ocispec.Index
	for _, platform := range imagePlatforms() {
		system, arch, _ := strings.Cut(platform, "/")
		p := ocispec.Platform{OS: system, Architecture: arch}
		config, err := json.Marshal(ocispec.Image{Platform: p, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{}}})
		if err != nil {
			return "", err
		}
		m, err := oci.NewManifest(ocispec.Manifest{Config: oci.BytesBlob(ocispec.MediaTypeImageConfig, config).Descriptor})
		if err != nil {
			return "", err
		}
		if err := errors.Join(put(config), put(m.Bytes)); err != nil {
			return "", err
		}
		d := m.Descriptor
		d.Platform = &p
		base.Manifests = append(base.Manifests, d)
	}
	m, err := oci.NewIndex(base)
	if err != nil {
		return "", err
	}
	listed.Manifests = append(base.Manifests, m.Descriptor)
	index, err := oci.NewIndex(listed)
	if err != nil {
		return "", err
	}
	layout := `{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`
	return "okara.invalid/empty@" + m.Digest.String(), errors.Join(put(m.Bytes),
		writeNested(filepath.Join(dir, ocispec.ImageIndexFile), index.Bytes), writeNested(filepath.Join(dir, ocispec.ImageLayoutFile), []byte(layout)))
}

func writeNested(file string, b []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o600))
}
