// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// published are versions, highest first, with a required input, or with an action.
type published [][2]string

func (p published) Resolve(_ context.Context, ref template.ModuleRef) (template.Source, template.Module, error) {
	for _, v := range p {
		if ref.Version == "" || ref.Version == v[0] {
			required := ""
			if v[1] == "action" {
				return sourceAt(v[0]), template.Module{Refused: map[string]string{"opentofu": "it uses an action"}}, nil
			}
			if v[1] != "" {
				required = fmt.Sprintf(`,"required":[%q]`, v[1])
			}
			return sourceAt(v[0]), template.Module{Inputs: fmt.Appendf(nil, `{"properties":{"size":{"type":"string"},"zone":{"type":"string"}}%s}`, required)}, nil
		}
	}
	return template.Source{}, template.Module{}, fmt.Errorf("no version %s", ref.Version)
}

func (p published) Versions(context.Context, template.ModuleRef, int) (all []template.Source, _ error) {
	for _, v := range p {
		all = append(all, sourceAt(v[0]))
	}
	return all, nil
}

// TestTemplateResolves publishes a version with a new required input: a Template stays
// Ready at the version that fits, also after it was edited, and says why. One whose Secret is
// missing or does not allow the use is not Ready, nor one of a module that only Terraform runs.
func TestTemplateResolves(t *testing.T) {
	scheme := runtime.NewScheme()
	must.Succeed(t, v1alpha1.AddToScheme(scheme))
	must.Succeed(t, corev1.AddToScheme(scheme))
	o := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: "okara", Name: "sandbox.vpc", Generation: 1}}
	o.Spec.Executor = v1alpha1.ExecutorTerraform
	o.Spec.Module = &v1alpha1.TemplateModule{Address: "net/vpc/aws"}
	o.Spec.Parameters = []v1alpha1.TemplateParameter{{Name: "size"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(o).WithObjects(o).Build()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "okara-system", Name: "aws"}}
	settings := Settings{Namespace: o.Namespace}
	for _, step := range []struct {
		published     published
		edit          func()
		version, says string
		ready         bool
	}{
		{published{{"1.4.0", ""}}, nil, "1.4.0", "version 1.4.0", true},
		{published{{"1.5.0", "zone"}, {"1.4.0", ""}}, nil, "1.4.0", "it stays at version 1.4.0 of the module, since version 1.5.0 is not compatible", true},
		{published{{"1.6.0", "zone"}, {"1.5.0", "zone"}, {"1.4.0", ""}}, func() { o.Spec.Description = "newer" }, "1.4.0", "version 1.6.0 is not compatible", true},
		{published{{"1.7.0", ""}, {"1.6.0", "zone"}}, nil, "1.7.0", "version 1.7.0", true},
		{published{{"1.8.0", "action"}, {"1.7.0", ""}}, nil, "1.7.0", "since version 1.8.0 is not compatible with the template: the executor runs opentofu, which refuses the module: it uses an action", true},
		{published{{"1.7.0", "action"}}, nil, "1.7.0", "the executor runs opentofu, which refuses the module", false},
		{published{{"1.7.0", ""}}, func() { o.Spec.Parameters[0].Name = "sizes" }, "1.7.0", "sizes", false},
		{published{{"1.8.0", "zone"}, {"1.7.0", ""}}, func() {
			o.Spec.Parameters[0].Name = "size"
			o.Spec.Credentials = []string{"aws"}
		}, "1.7.0", "credentials: Secret aws of the operator's namespace does not exist", false},
		{published{{"1.7.0", ""}}, func() { must.Succeed(t, c.Create(t.Context(), secret)) }, "1.7.0", "credentials: Secret aws does not allow this use", false},
		{published{{"1.7.0", ""}}, func() {
			secret.Annotations = map[string]string{v1alpha1.AnnotationUse: "instances"}
			must.Succeed(t, c.Update(t.Context(), secret))
		}, "1.7.0", "version 1.7.0", true},
	} {
		if step.edit != nil {
			step.edit()
			o.Generation++
			must.Succeed(t, c.Update(t.Context(), o))
		}
		r := &resolver{Client: c, live: c, Options: Options{Settings: settings, Operator: secret.Namespace, Modules: step.published, Tool: "opentofu"}, events: &events.FakeRecorder{}}
		must.Get(r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}))(t)
		must.Succeed(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		is := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		if o.Status.Version != step.version || (is.Status == metav1.ConditionTrue) != step.ready || !strings.Contains(is.Message, step.says) {
			t.Errorf("%v: version %s, %+v", step.published, o.Status.Version, is)
		}
		e := settings.templateEntry(o)
		if (e.Problem == "") != step.ready || (e.Behind != "") != strings.Contains(is.Message, "is not compatible") {
			t.Errorf("%v: problem %q, behind %q", step.published, e.Problem, e.Behind)
		}
		if o.Status.Versions[0].Version != step.version {
			t.Errorf("%v: it offers %v", step.published, o.Status.Versions)
		}
	}
}
