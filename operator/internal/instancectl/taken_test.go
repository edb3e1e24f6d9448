// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestNameTaken checks that an existing namespace with the name for an instance stays
// untouched, with its content, and nothing runs there.
//
// Shows: operator 18
func TestNameTaken(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	p := s.portal()
	a := must.Get(s.create(p, "nina", "sandbox/vpc", "taken"))(t)
	id := a.Record.ID
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vpc-" + id, Labels: map[string]string{"okara.dev/runs": ""}}}
	must.Succeed(t, s.client.Create(t.Context(), theirs))
	leader := s.leader()
	s.run(leader, "it fails", s.is(id, "Failed"))
	if o := s.all()[id]; o.Status.Reason != "Namespace "+theirs.Name+" exists and is not okara's: delete or rename it" {
		t.Errorf("it says %q", o.Status.Reason)
	}
	s.untouched(theirs)
	if s.engine.left() != 0 || len(s.engine.did) != 0 {
		t.Errorf("something ran: %v", s.engine.did)
	}
	must.Succeed(t, s.client.Delete(t.Context(), s.all()[id]))
	s.run(leader, "it gave up", func() bool { s.clock.Step(time.Hour); return s.is(id, "DestroyFailed")() })
	s.untouched(theirs)
	o := s.all()[id]
	o.Annotations = map[string]string{v1alpha1.AnnotationAbandon: id}
	must.Succeed(t, s.client.Update(t.Context(), o))
	s.run(leader, "it is gone", func() bool { return s.all()[id] == nil })
	s.untouched(theirs)
}

// untouched checks that a namespace is as it was created.
func (s *site) untouched(theirs *corev1.Namespace) {
	s.t.Helper()
	now := &corev1.Namespace{}
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(theirs), now); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		s.t.Errorf("somebody else's namespace is %+v, %v", now.ObjectMeta, err)
	}
}

// TestRetryOfTheEnd checks that a failed destroy is retried on request.
func TestRetryOfTheEnd(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	leader, p := s.leader(), s.portal()
	a := must.Get(s.create(p, "anna", "sandbox/vpc", ""))(t)
	id := a.Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	s.engine.fails = func(run.Attempt) error { return errBroken }
	must.Succeed(t, s.client.Delete(t.Context(), s.all()[id]))
	s.run(leader, "it failed for good", func() bool { s.clock.Step(time.Hour); return s.is(id, "DestroyFailed")() })
	s.engine.fails = nil
	o := s.all()[id]
	o.Annotations = map[string]string{v1alpha1.AnnotationRequest: "now"}
	must.Succeed(t, s.client.Update(t.Context(), o))
	s.run(leader, "nothing is left", func() bool { return s.engine.left() == 0 })
}
