// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// TestPage creates the objects that the page about instances shows.
//
// Shows: operator 40 | the page about instances shows objects that the API server accepts and the
// operator executes
func TestPage(t *testing.T) {
	s := newSite(t)
	src := must.Get(os.ReadFile(filepath.Join(rig.Root(), "docs", "kubernetes", "portal-kubernetes.md")))(t)
	strict, made := client.WithFieldValidation(s.client, metav1.FieldValidationStrict), map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```yaml[^\n]*\n(.*?)```").FindAllSubmatch(src, -1) {
		o := &unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal(block[1], &o.Object))
		if o.GetKind() == "" {
			continue // these are values of the chart
		}
		o.SetNamespace(s.settings.Namespace)
		if err := strict.Create(t.Context(), o); err != nil {
			t.Errorf("%s: %v", block[1], err)
			continue
		}
		made[o.GetKind()]++
		if o.GetKind() == "Template" {
			template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
			instancectl.Resolved(t, s.client, template)
			if !meta.IsStatusConditionTrue(template.Status.Conditions, v1alpha1.ConditionReady) {
				t.Errorf("%s: %+v", o.GetName(), template.Status.Conditions)
			}
		}
	}
	if made["Template"] != 2 || made["Instance"] != 1 || made["Approval"] != 1 {
		t.Errorf("the page shows %v", made)
	}
	s.run(s.leader(), "it is ready, and the pool is full", func() bool {
		return s.is("abcdefghjk", "Ready")() && s.phases()["Available"] == 5
	})
}
