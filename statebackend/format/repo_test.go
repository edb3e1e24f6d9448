// SPDX-License-Identifier: Apache-2.0

package format_test

import (
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func mustManifest(t *testing.T, m ocispec.Manifest) oci.Manifest {
	t.Helper()
	return must.Get(oci.NewManifest(m))(t)
}
