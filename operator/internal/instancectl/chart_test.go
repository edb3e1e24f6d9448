// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// chartTemplate creates a Template of a chart that is not resolved yet.
func (s *site) chartTemplate(change func(*v1alpha1.TemplateSpec)) *v1alpha1.Template {
	s.t.Helper()
	o := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: s.settings.Namespace, Name: "lab.web"}, Spec: v1alpha1.TemplateSpec{
		Executor: v1alpha1.ExecutorHelm, Chart: &v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: "https://git.test/web", Path: "charts/web", Branch: "main"}},
		Retries: new(int32(0)), TTL: &v1alpha1.TemplateTTL{Default: "8h"}, Connection: &v1alpha1.TemplateConnection{URL: "https://${id}.example.com/"},
		Parameters: []v1alpha1.TemplateParameter{
			{Name: "replicas", Default: &apiextensions.JSON{Raw: []byte("1")}, Maximum: "3", Update: true},
			{Name: "debug", Default: &apiextensions.JSON{Raw: []byte("false")}}, {Name: "motto", Default: &apiextensions.JSON{Raw: []byte(`""`)}, Pattern: "^[a-z]*$"},
		},
		Inputs: map[string]apiextensions.JSON{"ingress": {Raw: []byte(`{"host":"${id}.example.com"}`)}},
	}}
	if change != nil {
		change(&o.Spec)
	}
	must.Succeed(s.t, s.client.Create(s.t.Context(), o))
	return o
}

var foundOne = instancectl.FoundChart{Version: "0123456789ab", Digest: "sha1:0123456789abcdef0123456789abcdef01234567"}

// TestChart runs the life of an instance of a chart: its template once source-controller
// knows the chart, its values, another version, and its end.
//
// Shows: operator 22
func TestChart(t *testing.T) {
	s := newSite(t)
	o := s.chartTemplate(nil)
	ready := func() *metav1.Condition {
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	}
	pending := instancectl.FoundChart{Err: fmt.Errorf("%w: GitRepository lab.web", instancectl.ErrPending)}
	if again := instancectl.ResolvedChart(t, s.client, o, pending); again.RequeueAfter > 10*time.Second || ready().Status != metav1.ConditionFalse {
		t.Errorf("%+v %+v", again, o.Status)
	}
	missing := instancectl.FoundChart{Err: &fluxobj.MissingError{Kind: schema.GroupKind{Group: "source.toolkit.fluxcd.io", Kind: "GitRepository"}}}
	if instancectl.ResolvedChart(t, s.client, o, missing); ready().Reason != v1alpha1.ReasonExecutorMissing {
		t.Errorf("%+v", o.Status)
	}
	lacks := foundOne
	lacks.Lacks = &verdict.Problem{Reason: v1alpha1.ReasonExecutorMissing, Message: "no CRD", Retry: true}
	if instancectl.ResolvedChart(t, s.client, o, lacks); ready().Reason != v1alpha1.ReasonExecutorMissing {
		t.Errorf("%+v", o.Status)
	}
	instancectl.ResolvedChart(t, s.client, o, foundOne)
	if ready().Status != metav1.ConditionTrue || o.Status.Source != "https://git.test/web" || o.Status.Version != foundOne.Version || o.Status.Digest != foundOne.Digest {
		t.Fatalf("%+v", o.Status)
	}
	var schema struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	must.Succeed(t, json.Unmarshal(o.Status.Inputs.Raw, &schema))
	for name, want := range map[string]string{"replicas": "number", "debug": "boolean", "motto": "string", "ingress": ""} {
		must.Equal(t, name+": is a", schema.Properties[name].Type, want)
	}

	var ran []run.Attempt
	s.engine.fails = func(a run.Attempt) error { ran = append(ran, a); return nil }
	leader, p := s.leader(), s.portal()
	a := must.Get(s.create(p, "anna", "lab/web", ""))(t)
	id := a.Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	first := ran[0]
	if first.Source.Chart != "https://git.test/web" || first.Source.Path != "charts/web" || first.Source.Digest != foundOne.Digest || string(first.Variables["ingress"]) != `{"host":"`+id+`.example.com"}` {
		t.Errorf("%+v", first)
	}
	must.Equal(t, "URL", s.all()[id].Status.URL, "https://"+id+".example.com/")
	newer := instancectl.FoundChart{Version: "ba9876543210", Digest: "sha1:ba9876543210fedcba9876543210fedcba987654"}
	instancectl.ResolvedChart(t, s.client, o, newer)
	s.run(leader, "a newer one is offered", func() bool {
		return meta.IsStatusConditionTrue(s.all()[id].Status.Conditions, lifecycle.UpdateAvailable)
	})
	e := must.Get(instancectl.CatalogOf(p).Pin(t.Context(), "lab/web", ""))(t)
	must.Get(s.do(p, "anna", lifecycle.Update{ID: id, Template: e.Template, Digest: e.Digest, Source: &e.Source}))(t)
	s.run(leader, "it is updated", func() bool { return s.all()[id].Status.Module.Digest == newer.Digest && s.is(id, "Ready")() })
	s.clock.Step(9 * time.Hour)
	s.run(leader, "nothing is left", func() bool { return s.engine.left() == 0 })
	if last := ran[len(ran)-1]; last.Kind != lifecycle.RunDestroy || last.Source.Digest != newer.Digest {
		t.Errorf("destroyed as %+v", last)
	}
}

// TestChartRefused checks that a Template reports the features that charts do not have.
//
// Shows: operator 22
func TestChartRefused(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.TemplateSpec){
		"approval: a chart has no plan":    func(o *v1alpha1.TemplateSpec) { o.Approval.Mode = "Plan" },
		"update: a chart has no plan":      func(o *v1alpha1.TemplateSpec) { o.Update = "Auto" },
		"outputs: not supported by charts": func(o *v1alpha1.TemplateSpec) { o.Outputs = []string{"url"} },
		"parameter replicas":               func(o *v1alpha1.TemplateSpec) { o.Parameters[0].Maximum, o.Parameters[0].Minimum = "", "2" },
	} {
		s := newSite(t)
		o := s.chartTemplate(change)
		instancectl.ResolvedChart(t, s.client, o, foundOne)
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionStalled)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, want) {
			t.Errorf("%s: %+v", want, o.Status.Conditions)
		}
		if _, err := s.create(s.portal(), "anna", "lab/web", ""); err == nil {
			t.Errorf("%s: it is launched", want)
		}
	}
}

// TestChartKept checks that the namespace of a chart to be kept is orphaned, because it
// holds what was installed.
//
// Shows: operator 22
func TestChartKept(t *testing.T) {
	s := newSite(t)
	o := s.chartTemplate(func(o *v1alpha1.TemplateSpec) { o.TTL.OnExpire = "Keep" })
	instancectl.ResolvedChart(t, s.client, o, foundOne)
	leader := s.leader()
	a := must.Get(s.create(s.portal(), "anna", "lab/web", ""))(t)
	id := a.Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	s.clock.Step(9 * time.Hour)
	s.run(leader, "it is left", s.is(id, "Orphaned"))
	must.Succeed(t, s.client.Delete(t.Context(), s.all()[id]))
	s.run(leader, "its object is gone", func() bool { return s.all()[id] == nil })
	ns := &corev1.Namespace{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "web-" + id}, ns); err != nil || ns.DeletionTimestamp != nil {
		t.Fatalf("%v %+v", err, ns.ObjectMeta)
	}
	for _, label := range []string{v1alpha1.LabelManaged, v1alpha1.LabelUID, v1alpha1.LabelRuns} {
		if _, has := ns.Labels[label]; has {
			t.Errorf("it has the label %s still", label)
		}
	}
}

// TestChartDocs launches the example of the page about charts.
func TestChartDocs(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/kubernetes/kubernetes-charts.md"))(t)
	_, text, _ := strings.Cut(string(page), "```yaml apply\n")
	text, _, _ = strings.Cut(text, "```")
	s := newSite(t)
	o := &v1alpha1.Template{}
	must.Succeed(t, yaml.UnmarshalStrict([]byte(text), o))
	o.Namespace = s.settings.Namespace
	must.Succeed(t, s.client.Create(t.Context(), o))
	instancectl.ResolvedChart(t, s.client, o, foundOne)
	if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", o.Status.Conditions)
	}
	if _, _, err := s.settings.Preview(o, &v1alpha1.Instance{}, template.Source{}, template.Module{}); err == nil || !strings.Contains(err.Error(), "installs a chart") {
		t.Errorf("it is rendered: %v", err)
	}
}
