// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// TestLife follows an instance from its launch by the portal to its end.
//
// Shows: operator 38
func TestLife(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	leader, p := s.leader(), s.portal()
	a, err := s.create(p, "anna", "sandbox/vpc", "key")
	if err != nil || a.Status != 201 || a.Record.Phase != lifecycle.Provisioning {
		t.Fatalf("%v %+v", err, a)
	}
	again, err := s.create(p, "anna", "sandbox/vpc", "key")
	if err != nil || !again.Repeat || again.Record.ID != a.Record.ID {
		t.Errorf("repeated: %v %+v", err, again)
	}
	id := a.Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	o := s.all()[id]
	if o.Status.URL != "https://"+id+".example.com/" || o.Status.Module.Version != "1.1.0" || o.Status.ExpiresAt == nil || o.Status.Namespace != "vpc-"+id {
		t.Errorf("%+v", o.Status)
	}
	var ns corev1.Namespace
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "vpc-" + id}, &ns); err != nil || ns.Labels[v1alpha1.LabelTemplate] != "sandbox.vpc" {
		t.Errorf("%v %v", err, ns.Labels)
	}

	end := o.Status.ExpiresAt.Time
	for i, want := range []error{nil, nil, lifecycle.ErrExtends} {
		if _, err := s.do(p, "anna", lifecycle.Extend{ID: id}); !errors.Is(err, want) {
			t.Fatalf("extension %d: %v", i, err)
		}
		if want == nil {
			end = end.Add(2 * time.Hour)
			s.run(leader, "it is extended", func() bool { return s.all()[id].Status.ExpiresAt.Time.Equal(end) })
		}
	}
	if _, err := s.do(p, "anna", lifecycle.Rename{ID: id, Name: "mine"}); err != nil {
		t.Error(err)
	}
	if _, err := s.do(p, "anna", lifecycle.Transfer{ID: id}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("transfer: %v", err)
	}
	s.run(leader, "it is renamed", func() bool { return s.all()[id].Status.Handled.Name == "mine" })

	s.clock.Step(13 * time.Hour)
	s.run(leader, "its end came", func() bool { return s.all()[id] == nil || s.all()[id].Status.Phase == "Destroying" })
	s.gone(leader, id)
}

// TestMembers makes 50 claims on 5 members.
//
// Shows: operator 36 | of 50 claims on the 5 members of a pool 5 succeed and 45 are refused, then
// the pool is refilled; of 20 Instances over a quota of 5, created without the portal, 5 are
// provisioned
func TestMembers(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) {
		o.Parameters, o.Pool = nil, &v1alpha1.TemplatePool{Size: 5, WhenEmpty: "Refuse"}
	})
	leader := s.leader()
	s.run(leader, "the pool is full", func() bool { return s.phases()["Available"] == 5 })
	portals := []*instancectl.Store{s.portal(), s.portal()}
	type claim struct {
		id  string
		err error
	}
	claims := make(chan claim)
	for i := range 50 {
		go func() {
			a, err := s.create(portals[i%2], fmt.Sprint("user", i), "sandbox/vpc", fmt.Sprint("key", i))
			c := claim{err: err}
			if err == nil {
				c.id = a.Record.ID
			}
			claims <- c
		}()
	}
	won := map[string]bool{}
	refused := 0
	for range 50 {
		c := <-claims
		switch {
		case c.err == nil && !won[c.id]:
			won[c.id] = true
		case errors.Is(c.err, lifecycle.ErrPoolEmpty):
			refused++
		default:
			t.Errorf("%s: %v", c.id, c.err)
		}
	}
	if len(won) != 5 || refused != 45 {
		t.Errorf("%d won, %d were refused", len(won), refused)
	}
	s.run(leader, "the pool is refilled", func() bool { n := s.phases(); return n["Available"] == 5 && n["Ready"] == 5 })
	for id := range won {
		if o := s.all()[id]; o.Status.Phase != "Ready" || o.Status.ExpiresAt == nil {
			t.Errorf("%s: %+v", id, o.Status)
		}
	}
}

// TestPoolOfBrokenTemplate: a mistake does not drain its pool.
func TestPoolOfBrokenTemplate(t *testing.T) {
	s := newSite(t)
	o := s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) {
		o.Parameters, o.Pool = nil, &v1alpha1.TemplatePool{Size: 2, WhenEmpty: "Refuse"}
	})
	leader := s.leader()
	s.run(leader, "the pool is full", func() bool { return s.phases()["Available"] == 2 })
	set := func(url string) {
		t.Helper()
		patch := []byte(`{"spec":{"connection":{"url":"` + url + `"}}}`)
		must.Succeed(t, s.client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)))
	}
	set("https://${nothing.url}/")
	passes := 0 // enough for the cache to show the mistake
	s.run(leader, "it has looked often", func() bool { passes++; return passes == 100 })
	if got := s.phases(); got["Available"] != 2 || len(s.all()) != 2 {
		t.Errorf("with a mistake in its template the pool has %v", got)
	}
	must.Succeed(t, s.client.Delete(t.Context(), o))
	s.run(leader, "the pool is drained", func() bool { return s.phases()["Destroyed"] == 2 })
}

// TestQuota creates 20 instances over a quota of 5, past the portal.
//
// Shows: operator 36
func TestQuota(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.PerOwner = 5 })
	for i := range 20 {
		o := &v1alpha1.Instance{Spec: v1alpha1.InstanceSpec{
			Template: "sandbox/vpc", Owner: &v1alpha1.Owner{Kind: "User", ID: "anna"}, CreatedBy: "anna",
		}}
		o.Namespace = s.settings.Namespace
		o.Name = "qqqqqqqqq" + string("abcdefghjkmnpqrstvwxyz"[i])
		must.Succeed(t, s.client.Create(t.Context(), o))
	}
	leader := s.leader()
	s.run(leader, "all are judged", func() bool { n := s.phases(); return n["Ready"]+n["Rejected"] == 20 })
	if n := s.phases(); n["Ready"] != 5 {
		t.Errorf("%v", n)
	}
	must.Equal(t, "provisioned", s.engine.left(), 5)
	// A deleted one makes room under the next leader.
	p := s.portal()
	if _, err := s.create(p, "anna", "sandbox/vpc", ""); err != nil { // an owner of another issuer
		t.Error(err)
	}
	for id, o := range s.all() {
		if o.Status.Phase == "Ready" {
			if err := s.client.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
			leader := s.leader()
			s.run(leader, "one goes, and one that was rejected takes its place", func() bool {
				gone := s.all()[id] == nil || s.all()[id].Status.Phase == "Destroying" || s.all()[id].Status.Phase == "Destroyed"
				return gone && s.phases()["Rejected"] == 14 && s.phases()["Ready"] == 6
			})
			break
		}
	}
}

// TestExpiresAlone shows that an instance expires although its Template is gone, the operator
// was down and a new one leads.
//
// Shows: operator 38 | an instance ends although its Template is deleted, the operator was down and
// another one leads; one that cannot be destroyed keeps its phase
func TestExpiresAlone(t *testing.T) {
	s := newSite(t)
	o := s.template("sandbox.vpc", nil)
	a := must.Get(s.create(s.portal(), "anna", "sandbox/vpc", ""))(t)
	s.run(s.leader(), "it is ready", s.is(a.Record.ID, "Ready"))
	must.Succeed(t, s.client.Delete(t.Context(), o))
	s.clock.Step(9 * time.Hour)
	s.gone(s.leader(), a.Record.ID)
}

// TestDestroyFails checks that the phase and the object stay, and the destroy is retried.
//
// Shows: operator 38
func TestDestroyFails(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	leader, p := s.leader(), s.portal()
	a := must.Get(s.create(p, "anna", "sandbox/vpc", ""))(t)
	id := a.Record.ID
	s.run(leader, "it is ready", s.is(id, "Ready"))
	s.engine.fails = func(a run.Attempt) error {
		if a.Kind == lifecycle.RunDestroy {
			return errBroken
		}
		return nil
	}
	must.Get(s.do(p, "anna", lifecycle.DestroyNow{ID: id}))(t)
	s.run(leader, "it failed for good", func() bool { s.clock.Step(time.Hour); return s.is(id, "DestroyFailed")() })
	if o := s.all()[id]; o.DeletionTimestamp == nil || o.Status.Namespace == "" || s.engine.left() != 1 {
		t.Errorf("%+v", o)
	}
	s.engine.fails = nil
	s.clock.Step(25 * time.Hour)
	s.gone(leader, id)
}
