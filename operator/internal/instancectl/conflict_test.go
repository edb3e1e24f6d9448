// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"context"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// contested is a client whose first deletions meet a change of the operator.
type contested struct {
	client.Client
	conflicts int
}

func (c *contested) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if c.conflicts > 0 {
		c.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Group: "okara.dev", Resource: "instances"}, o.GetName(), nil)
	}
	return c.Client.Delete(ctx, o, options...)
}

// TestConflictIsRepeated checks that a request does not fail because the operator changed
// the object in the same moment, and that it ends where that goes on.
func TestConflictIsRepeated(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	id := s.ready("anna")
	c := &contested{Client: s.cached(cluster.Admin(t)), conflicts: 5}
	p := instancectl.NewStore(c, instancectl.NewCatalog(c, s.settings), s.settings, s.clock.Now)
	if _, err := s.do(p, "anna", lifecycle.DestroyNow{ID: id}); err == nil || !strings.Contains(err.Error(), "Operation cannot be fulfilled") {
		t.Errorf("five conflicts: %v", err)
	}
	c.conflicts = 4
	if _, err := s.do(p, "anna", lifecycle.DestroyNow{ID: id}); err != nil {
		t.Errorf("four conflicts: %v", err)
	}
	if o := s.all()[id]; o != nil && o.DeletionTimestamp == nil {
		t.Error("the instance stays")
	}
}

// TestNewerFieldsAreKept has a CRD of a later version, whose fields this version does not know:
// no write of the operator or of the portal drops them.
func TestNewerFieldsAreKept(t *testing.T) {
	s := newSite(t)
	set := must.Get(clientset.NewForConfig(cluster.Admin(t)))(t)
	crds := set.ApiextensionsV1().CustomResourceDefinitions()
	crd := must.Get(crds.Get(t.Context(), "instances.okara.dev", metav1.GetOptions{}))(t)
	top := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	for _, part := range []string{"spec", "status"} {
		top[part].Properties["newer"] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	must.Get(crds.Update(t.Context(), crd, metav1.UpdateOptions{}))(t)

	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) {
		o.Parameters = []v1alpha1.TemplateParameter{{Name: "size", Update: true}}
	})
	leader, p := s.leader(), s.portal()
	id := must.Get(s.create(p, "anna", "sandbox/vpc", ""))(t).Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	newer := func(part string) string {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Instance"))
		must.Succeed(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.settings.Namespace, Name: id}, o))
		text, _, _ := unstructured.NestedString(o.Object, part, "newer")
		return text
	}
	value := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"newer":"s"},"status":{"newer":"t"}}`))
	s.run(leader, "the API server knows the newer fields", func() bool {
		must.Succeed(t, s.client.Patch(t.Context(), s.all()[id], value))
		must.Succeed(t, s.client.Status().Patch(t.Context(), s.all()[id], value))
		return newer("spec") == "s" && newer("status") == "t"
	})
	must.Get(s.do(p, "anna", lifecycle.Rename{ID: id, Name: "mine"}))(t)
	s.run(leader, "it is renamed", func() bool { return s.all()[id].Status.Handled.Name == "mine" })
	if newer("spec") != "s" || newer("status") != "t" {
		t.Errorf("spec.newer is %q, status.newer is %q", newer("spec"), newer("status"))
	}
}
