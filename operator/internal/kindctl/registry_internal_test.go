// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestItemOfRepository checks the item that is verified, below any prefix of a repository.
func TestItemOfRepository(t *testing.T) {
	r := Registry{Catalog: catalog.New(catalog.Options{})}
	for repository, want := range map[string]string{
		"modules/net/vpc/aws": "net/vpc/aws", "platform/modules/net/vpc/aws": "net/vpc/aws", "other/vpc": "//",
	} {
		must.Equal(t, repository+": is", r.item(repository).String(), want)
	}
}

// TestRevisionKeepsDefinition: the rest comes from the definition.
func TestRevisionKeepsDefinition(t *testing.T) {
	def := &v1alpha1.ModuleKind{Spec: v1alpha1.ModuleKindSpec{
		Module: v1alpha1.KindModule{Address: "net/vpc/aws", Version: "~> 1.4", Verify: &v1alpha1.KindVerify{Keys: []string{"key"}}},
		Run:    v1alpha1.KindRun{Prefix: "vpc-"},
	}}
	r, _, _, err := revisionOf(def)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.applyRevision(def); !equality.Semantic.DeepEqual(got, def) {
		t.Errorf("%+v", got.Spec)
	}
}
