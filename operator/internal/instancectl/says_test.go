// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// says reports whether an Instance is not Ready with a message, and a condition is true.
func (s *site) says(id, kind, message string) func() bool {
	return func() bool {
		list := s.all()[id].Status.Conditions
		c := meta.FindStatusCondition(list, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, message) && meta.IsStatusConditionTrue(list, kind)
	}
}

// isReady reports whether an Instance is Ready, and not Stalled.
func (s *site) isReady(id string) func() bool {
	return func() bool {
		list := s.all()[id].Status.Conditions
		return meta.IsStatusConditionTrue(list, v1alpha1.ConditionReady) && meta.FindStatusCondition(list, v1alpha1.ConditionStalled) == nil
	}
}

// mustReport checks that an event was recorded, and drops it and those before it.
func (s *site) mustReport(event string) {
	s.t.Helper()
	for {
		select {
		case got := <-s.events.Events:
			if strings.HasPrefix(got, event) {
				return
			}
		default:
			s.t.Errorf("nobody told %q", event)
			return
		}
	}
}

// TestSaysWhatFails checks a failed attempt that is retried, and one that was the last.
func TestSaysWhatFails(t *testing.T) {
	s := newSite(t)
	s.events = events.NewFakeRecorder(1000)
	s.template("sandbox.vpc", func(spec *v1alpha1.TemplateSpec) { spec.Retries = new(int32(1)) })
	s.engine.fails = func(run.Attempt) error { return errBroken }
	leader := s.leader()
	a := must.Get(s.create(s.portal(), "anna", "sandbox/vpc", ""))(t)
	id := a.Record.ID
	s.run(leader, "it tells that it is tried again", s.says(id, v1alpha1.ConditionReconciling, errBroken.Error()))
	s.mustReport("Warning Retry attempt 1 of 2 failed: ")
	s.clock.Step(time.Hour)
	s.run(leader, "it has failed", s.says(id, v1alpha1.ConditionStalled, errBroken.Error()))
	s.mustReport("Warning Failed ")
}

// TestRefusedIsNotReady until the spec changes; annotations are no change.
func TestRefusedIsNotReady(t *testing.T) {
	s := newSite(t)
	s.events = events.NewFakeRecorder(1000)
	of := s.template("sandbox.vpc", nil)
	id := s.ready("anna")
	leader := s.leader()
	s.run(leader, "it is Ready", s.isReady(id))
	change := func(how func(*v1alpha1.Instance)) {
		t.Helper()
		o := s.all()[id]
		before := o.DeepCopy()
		how(o)
		must.Succeed(t, s.client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	ask := func(what string) {
		t.Helper()
		change(func(o *v1alpha1.Instance) {
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationRequest, what)
		})
		s.run(leader, "it heard", func() bool { return s.all()[id].Status.Handled.Request == what })
	}
	ask("now") // there is nothing to retry
	if !s.isReady(id)() {
		t.Errorf("%+v", s.all()[id].Status)
	}
	change(func(o *v1alpha1.Instance) { o.Spec.Version = "9.9.9" })
	const why = "does not accept this version"
	s.run(leader, "the version is refused", s.says(id, v1alpha1.ConditionStalled, why))
	s.mustReport("Warning Refused ")
	ask("again")
	if !s.says(id, v1alpha1.ConditionStalled, why)() {
		t.Errorf("%+v", s.all()[id].Status)
	}
	change(func(o *v1alpha1.Instance) { o.Spec.Version = "" })
	s.run(leader, "it is Ready again", s.isReady(id))
	change(func(o *v1alpha1.Instance) { o.Spec.Version = "1.9.0" })
	s.run(leader, "a version that the Template does not have yet is refused", s.says(id, v1alpha1.ConditionStalled, why))
	must.Succeed(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(of), of))
	newer := of.Status.Versions[0]
	newer.Version = "1.9.0"
	of.Status.Versions = append(of.Status.Versions, newer)
	must.Succeed(t, s.client.Status().Update(t.Context(), of))
	s.run(leader, "it is updated once the Template has it", func() bool { return s.isReady(id)() && s.all()[id].Status.Module.Version == "1.9.0" })
	ask("at last") // and no later request finds it refused
	if !s.isReady(id)() {
		t.Errorf("%+v", s.all()[id].Status)
	}
}
