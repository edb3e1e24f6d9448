// SPDX-License-Identifier: Apache-2.0

package kindrun_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// reported returns the next event, "" if there is none.
func (s *site) reported() string {
	select {
	case e := <-s.events.Events:
		return e
	default:
		return ""
	}
}

// failing checks that an object is not Ready, with a message, and one Warning was sent.
func (s *site) failing(o *unstructured.Unstructured, reason, message string) {
	s.t.Helper()
	s.says(o, false, reason)
	if c := s.ready(o); c.Message != message || s.condition(o, v1alpha1.ConditionReconciling) != "True" || s.condition(o, v1alpha1.ConditionStalled) != "" {
		s.t.Errorf("the status is %+v", o.Object["status"])
	}
	if e := s.reported(); !strings.HasPrefix(e, "Warning "+reason+" ") || !strings.Contains(e, message) {
		s.t.Errorf("the event is %q", e)
	}
	s.step(o)
	must.Equal(s.t, "told once more", s.reported(), "")
}

// condition returns the status of a condition, "" if there is none.
func (s *site) condition(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			is, _ := m["status"].(string)
			return is
		}
	}
	return ""
}

// source writes the status of source-controller.
func (s *site) source(o *unstructured.Unstructured, ready, reason, message string) {
	s.t.Helper()
	source := &unstructured.Unstructured{}
	source.SetAPIVersion("source.toolkit.fluxcd.io/v1")
	source.SetKind("OCIRepository")
	s.read(source, runs(o), "vpc-prod")
	source.Object["status"] = map[string]any{"observedGeneration": source.GetGeneration(), "conditions": []any{map[string]any{
		"type": "Ready", "status": ready, "reason": reason, "message": message, "observedGeneration": source.GetGeneration(), "lastTransitionTime": "2026-01-02T03:04:05Z",
	}}}
	must.Succeed(s.t, s.Status().Update(s.t.Context(), source))
}

// TestSaysWhatFails once, in the source's or tool's words.
func TestSaysWhatFails(t *testing.T) {
	s := newSite(t, nil)
	o := s.vpc(nil)
	s.step(o)
	s.controller(o, "False", "ArtifactFailed", "Source is not ready, artifact not found", nil)
	s.step(o)
	s.says(o, false, v1alpha1.ReasonRunning) // the source is being fetched
	must.Equal(t, "told", s.reported(), "")
	s.source(o, "False", "OCIArtifactPullFailed", "registry.example.com: no such host")
	s.step(o)
	s.failing(o, "OCIArtifactPullFailed", "registry.example.com: no such host")
	s.source(o, "True", "Succeeded", "stored")
	s.controller(o, "False", "TFExecPlanFailed", "error running Plan:\n\nError: no cidr\n  on main.tf line 1", nil)
	s.step(o)
	s.failing(o, "TFExecPlanFailed", "error running Plan:\nError: no cidr\n  on main.tf line 1")
	s.controller(o, "False", "TFExecApplyFailed", "Error: no money", nil)
	s.step(o)
	s.failing(o, "TFExecApplyFailed", "Error: no money")
	s.applied(o)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
	must.Succeed(t, s.Delete(t.Context(), o))
	for range 3 {
		s.step(o)
	}
	s.fails(o, 1)
	s.step(o)
	s.failing(o, "ApplyFailed", "destroying: no credentials\nmore")
}

// TestSaysThatItTries checks that an error of the operator itself is in the status, too.
func TestSaysThatItTries(t *testing.T) {
	s, o := newApplied(t)
	s.says(o, true, v1alpha1.ReasonApplied)
	away := errors.New("the registry is away")
	s.restart(interceptor.NewClient(s.operator, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, secret := object.(*corev1.Secret); secret {
				return away
			}
			return c.Get(ctx, key, object, opts...)
		},
	}))
	if err := s.try(o); !errors.Is(err, away) {
		t.Errorf("the error is %v", err)
	}
	s.there(o, o.GetNamespace(), o.GetName())
	s.says(o, false, v1alpha1.ReasonFailed)
	if c := s.ready(o); !strings.Contains(c.Message, away.Error()) || s.condition(o, v1alpha1.ConditionReconciling) != "True" || text(o, "status", "phase") != "Updating" {
		t.Errorf("the status is %+v", o.Object["status"])
	}
	if e := s.reported(); !strings.HasPrefix(e, "Warning Failed ") {
		t.Errorf("told %q", e)
	}
	s.restart(s.operator)
	s.step(o)
	s.says(o, true, v1alpha1.ReasonApplied)
}

// TestSaysThatASecretOfTheOperatorIsMissing: the error is not taken for a missing object.
func TestSaysThatASecretOfTheOperatorIsMissing(t *testing.T) {
	s := newSite(t, nil)
	s.pull = "registry"
	s.restart(s.operator)
	o := s.vpc(nil)
	if err := s.try(o); err == nil {
		t.Error("nothing is wrong")
	}
	s.there(o, o.GetNamespace(), o.GetName())
	s.says(o, false, v1alpha1.ReasonFailed)
	if c := s.ready(o); !strings.Contains(c.Message, "the pull Secret of the operator, registry, does not exist") || s.condition(o, v1alpha1.ConditionReconciling) != "True" {
		t.Errorf("the status is %+v", o.Object["status"])
	}
}

// TestSaysThatTheExecutorIsGone, and goes on.
func TestSaysThatTheExecutorIsGone(t *testing.T) {
	s, o := newApplied(t)
	s.says(o, true, v1alpha1.ReasonApplied)
	all := &unstructured.UnstructuredList{} // also those of other tests
	all.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
	all.SetKind("TerraformList")
	must.Succeed(t, s.List(t.Context(), all))
	for i := range all.Items {
		all.Items[i].SetFinalizers(nil)
		must.Succeed(t, client.IgnoreNotFound(s.Update(t.Context(), &all.Items[i])))
	}
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "terraforms.infra.contrib.fluxcd.io"}}
	must.Succeed(t, s.Delete(t.Context(), crd))
	for deadline := time.Now().Add(time.Minute); s.ready(o).Reason != v1alpha1.ReasonExecutorMissing; time.Sleep(100 * time.Millisecond) {
		err := s.try(o) // the API server may serve the kind a little longer
		if time.Now().After(deadline) {
			t.Fatalf("%v: the status is %+v", err, o.Object["status"])
		}
		s.there(o, o.GetNamespace(), o.GetName())
	}
	s.says(o, false, v1alpha1.ReasonExecutorMissing)
	rig.InstallFlux(t, cluster.Admin(t))
	s.step(o)
	s.says(o, false, v1alpha1.ReasonRunning)
}
