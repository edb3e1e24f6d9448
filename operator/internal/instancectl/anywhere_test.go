// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// team makes a namespace beside that of Templates, whose Instances later operators see.
func (s *site) team() string {
	s.teams = append(s.teams, cluster.Namespace(s.t, nil).Name)
	return s.teams[len(s.teams)-1]
}

// launchIn creates an Instance of a user in a namespace.
func (s *site) launchIn(namespace, name, user, template string) {
	s.t.Helper()
	must.Succeed(s.t, s.client.Create(s.t.Context(), &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.InstanceSpec{
		Template: template, Owner: &v1alpha1.Owner{Kind: "User", Issuer: "https://idp", ID: user}, CreatedBy: "portal:https://idp#" + user,
	}}))
}

// begin creates an Instance of anna by the portal, or in a namespace of hers, and returns its name.
func (s *site) begin(inTeam bool) string {
	s.t.Helper()
	if !inTeam {
		return must.Get(s.create(s.portal(), "anna", "sandbox/vpc", ""))(s.t).Record.ID
	}
	s.launchIn(s.team(), "web", "anna", "sandbox/vpc")
	return "web"
}

// TestAnyNamespace: Instances of one name in two namespaces are two, with IDs of their own;
// limits count people, whatever the namespace; the portal shows them, and leaves them alone.
//
// Shows: operator 45 | Instances in any namespace, with any name: each has its own ID, which a lost
// status and a name that another chose do not change; limits count people over all namespaces
func TestAnyNamespace(t *testing.T) {
	s := newSite(t)
	a, b := s.team(), s.team()
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.PerOwner = 3 })
	leader, p := s.leader(), s.portal()
	s.launchIn(a, "web", "anna", "sandbox/vpc")
	s.launchIn(b, "web", "anna", "sandbox/vpc")
	old := s.begin(false)
	get := func(namespace, name string) *v1alpha1.Instance {
		o := &v1alpha1.Instance{}
		must.Succeed(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o))
		return o
	}
	ids := map[string]bool{}
	for _, of := range []client.ObjectKey{{Namespace: a, Name: "web"}, {Namespace: b, Name: "web"}, {Namespace: s.settings.Namespace, Name: old}} {
		s.run(leader, of.String()+" is ready", func() bool { return get(of.Namespace, of.Name).Status.Phase == "Ready" })
		is := get(of.Namespace, of.Name).Status
		if ids[is.ID] || addr.CheckInstance(is.ID) != nil || is.Namespace != "vpc-"+is.ID || is.URL != "https://"+is.ID+".example.com/" {
			t.Errorf("%s: %+v", of, is)
		}
		ids[is.ID] = true
	}
	if !ids[old] {
		t.Errorf("the name of an Instance beside Templates is its ID: %v", ids)
	}
	s.launchIn(b, "fourth", "anna", "sandbox/vpc")
	s.launchIn(b, "bens", "ben", "sandbox/vpc")
	s.run(leader, "a fourth of anna is too many", s.is("fourth", "Rejected"))
	s.run(leader, "the first of ben is not", s.is("bens", "Ready"))

	web := get(a, "web")
	id := web.Status.ID
	for end := 200; must.Get(p.View(t.Context()))(t).Document.Records[id] == nil; end-- {
		if end == 0 {
			t.Fatal("the portal does not know " + id)
		}
		must.Get(leader.Reconcile(t.Context()))(t)
	}
	if _, err := s.do(p, "anna", lifecycle.DestroyNow{ID: id}); !errors.Is(err, lifecycle.ErrDenied) || !strings.Contains(err.Error(), "namespace "+a) {
		t.Errorf("its end by the portal: %v", err)
	}
	_, err := s.create(p, "anna", "sandbox/vpc", "")
	if _, is := errors.AsType[*lifecycle.QuotaError](err); !is {
		t.Errorf("a fourth by the portal: %v", err)
	}
}

// TestIDOfAnother: who chooses another's ID as a name gets nothing of it, even while that has lost
// its status; once that is gone it begins.
func TestIDOfAnother(t *testing.T) {
	s := newSite(t)
	s.template("sandbox.vpc", nil)
	name := s.begin(true)
	s.run(s.leader(), "it is ready", s.is(name, "Ready"))
	id := s.all()[name].Status.ID
	s.launchIn(s.settings.Namespace, id, "eve", "sandbox/vpc")
	for _, lose := range []func(*site, string){func(*site, string) {}, (*site).empties, (*site).anew} {
		lose(s, name)
		leader := s.leader()
		s.run(leader, "eve's says why it waits", s.says(id, v1alpha1.ConditionStalled, "another Instance has the ID "+id))
		s.run(leader, "anna's is ready", s.is(name, "Ready"))
		if n, uid := s.engine.attempts(id); n != 1 || uid != s.all()[name].Status.UID || s.all()[id].Status.Record != nil || len(s.all()[id].Finalizers) > 0 {
			t.Errorf("%d attempts, the last of %s: %+v", n, uid, s.all()[id].Status)
		}
	}
	must.Succeed(t, s.client.Delete(t.Context(), s.all()[name]))
	s.run(s.leader(), "eve's begins", func() bool { s.ended("vpc-" + id); return s.is(id, "Ready")() })
	if _, uid := s.engine.attempts(id); uid != s.all()[id].UID {
		t.Errorf("it runs as %s", uid)
	}
}

// TestApprovalOfNamespace: an Approval is of an Instance beside it.
func TestApprovalOfNamespace(t *testing.T) {
	s := &asked{newSite(t), "web"}
	a, b := s.team(), s.team()
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.Approval.Mode = "Request" })
	s.launchIn(a, "web", "anna", "sandbox/vpc")
	leader := s.leader()
	s.run(leader, "it waits", s.is("web", "Requested"))
	for _, c := range []struct {
		namespace string
		want      v1alpha1.ApprovalResult
	}{{b, v1alpha1.ApprovalStale}, {s.settings.Namespace, v1alpha1.ApprovalStale}, {a, v1alpha1.ApprovalApplied}} {
		s.clock.Step(time.Minute) // the API server's clock sets the creation time, and runs on
		got := s.hear(leader, &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}, Spec: v1alpha1.ApprovalSpec{
			Target: v1alpha1.ApprovalTarget{Kind: "Instance", Name: "web"}, Plan: v1alpha1.PlanRequest, Generation: 1, Approver: "portal:https://idp#ben",
		}})
		if got.Result != c.want {
			t.Errorf("in %s: %+v", c.namespace, got)
		}
	}
}
