// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// A module of any tool that writes what OpenTofu reads; [oci.Repo] fetches such a manifest, and then the zip.
func ExampleParseModule() {
	zip := oci.BytesBlob(artifact.MediaZip, []byte("PK…"))
	manifest, err := oci.NewManifest(ocispec.Manifest{
		ArtifactType: artifact.ArtifactModule,
		Config:       oci.EmptyBlob().Descriptor,
		Layers:       []oci.Descriptor{zip.Descriptor},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	module, err := artifact.ParseModule(manifest)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(module.Zip.MediaType, module.Zip.Size, module.Description == nil)
	// Output: archive/zip 5 true
}
