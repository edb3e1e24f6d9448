// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/catalog"
)

// TestItemOfRepository: what is verified is what was asked for, below any prefix.
func TestItemOfRepository(t *testing.T) {
	r := Registry{Catalog: catalog.New(catalog.Options{})}
	for repository, want := range map[string]string{
		"modules/net/vpc/aws": "net/vpc/aws", "platform/modules/net/vpc/aws": "net/vpc/aws", "other/vpc": "//",
	} {
		if got := r.item(repository).String(); got != want {
			t.Errorf("%s is of %q, want %q", repository, got, want)
		}
	}
}
