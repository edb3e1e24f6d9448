// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestNameTakenBeside: if runs are beside their objects, a tenant can create the objects of
// a run before the operator does. They stay untouched, and nothing runs until they are
// gone.
//
// Shows: operator 18 | an existing object of another owner with a name that a run needs is not
// changed, and the run does not start: Terraform, source, Secrets, account, namespace
func TestNameTakenBeside(t *testing.T) {
	for _, c := range []struct{ kind, version, name string }{
		{"Secret", "v1", "vpc-prod-okara-run"},
		{"Secret", "v1", "vpc-prod-okara-cli"},
		{"OCIRepository", "source.toolkit.fluxcd.io/v1", "vpc-prod"},
		{"Terraform", "infra.contrib.fluxcd.io/v1alpha2", "vpc-prod"},
	} {
		t.Run(c.kind+" "+c.name, func(t *testing.T) {
			s := newSite(t, func(spec *v1alpha1.ModuleKindSpec) { spec.Run.Namespace = v1alpha1.NamespaceObject })
			theirs := &unstructured.Unstructured{Object: map[string]any{}}
			theirs.SetAPIVersion(c.version)
			theirs.SetKind(c.kind)
			theirs.SetNamespace(s.tenant)
			theirs.SetName(c.name)
			switch c.kind {
			case "OCIRepository":
				theirs.Object["spec"] = map[string]any{"url": "oci://registry.example.com/theirs", "interval": "1h"}
			case "Terraform":
				theirs.Object["spec"] = map[string]any{
					"interval": "1h", "approvePlan": "auto", "sourceRef": map[string]any{"kind": "OCIRepository", "name": "theirs"},
					"runnerPodTemplate": map[string]any{"spec": map[string]any{"image": "registry.example.com/theirs"}},
				}
			}
			must.Succeed(t, s.Create(t.Context(), theirs))
			o := s.vpc(nil)
			for range 2 {
				s.step(o)
				s.says(o, false, v1alpha1.ReasonNameTaken)
			}
			must.Equal(t, "it says", s.ready(o).Message, c.kind+" "+c.name+" exists and is not okara's: delete or rename it")
			made := &unstructured.Unstructured{}
			made.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
			made.SetKind("Terraform")
			if c.kind != "Terraform" && s.there(made, s.tenant, "vpc-prod") {
				t.Error("it runs")
			}
			s.untouched(theirs)
			must.Succeed(t, s.Delete(t.Context(), theirs))
			s.step(o)
			s.says(o, false, v1alpha1.ReasonRunning)
			if !s.there(made, s.tenant, "vpc-prod") || made.GetLabels()[v1alpha1.LabelUID] != string(o.GetUID()) {
				t.Errorf("it does not go on: %v", made.Object)
			}
		})
	}
}

// untouched checks that an object is as it was created.
func (s *site) untouched(theirs client.Object) {
	s.t.Helper()
	now := theirs.DeepCopyObject().(client.Object)
	s.read(now, theirs.GetNamespace(), theirs.GetName())
	if now.GetResourceVersion() != theirs.GetResourceVersion() {
		s.t.Errorf("%s of somebody else is written: %v", theirs.GetName(), now)
	}
}
