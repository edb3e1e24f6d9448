// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// asked is an Instance that a user created with kubectl.
type asked struct {
	*site
	id string
}

// ask creates an Instance with kubectl, as a user of the cluster.
func (s *asked) ask(user string) {
	s.t.Helper()
	s.assign(user, user)
}

func (s *asked) assign(user, owner string) {
	s.t.Helper()
	o := &v1alpha1.Instance{Spec: v1alpha1.InstanceSpec{
		Template: "sandbox/vpc", Owner: &v1alpha1.Owner{Kind: "User", ID: owner}, CreatedBy: user,
	}}
	o.Namespace, o.Name = s.settings.Namespace, s.id
	must.Succeed(s.t, s.client.Create(s.t.Context(), o))
}

func (s *asked) change(user string, edit func(*v1alpha1.InstanceSpec)) {
	s.t.Helper()
	o := s.all()[s.id]
	next := o.DeepCopy()
	next.Spec.ChangedBy = user
	edit(&next.Spec)
	must.Succeed(s.t, s.client.Patch(s.t.Context(), next, client.MergeFrom(o)))
}

// approve approves the plan of an Instance as a user, and returns the result.
func (s *asked) approve(c *instancectl.Controller, who string) v1alpha1.ApprovalStatus {
	s.t.Helper()
	return s.decide(c, who, v1alpha1.DecisionApprove)
}

func (s *asked) decide(c *instancectl.Controller, who string, d v1alpha1.Decision) v1alpha1.ApprovalStatus {
	s.t.Helper()
	s.clock.Step(time.Minute) // the API server's clock sets the creation time, and runs on
	o := s.all()[s.id]
	a := &v1alpha1.Approval{Spec: v1alpha1.ApprovalSpec{
		Target: v1alpha1.ApprovalTarget{Kind: "Instance", Name: s.id}, Plan: o.Status.Plan, Generation: o.Generation, Approver: who, Decision: d,
	}}
	return s.hear(c, a)
}

// hear creates an Approval, and returns its result.
func (s *asked) hear(c *instancectl.Controller, a *v1alpha1.Approval) v1alpha1.ApprovalStatus {
	s.t.Helper()
	a.Namespace, a.GenerateName = cmp.Or(a.Namespace, s.settings.Namespace), "a-"
	must.Succeed(s.t, s.client.Create(s.t.Context(), a))
	s.run(c, "the approval of "+a.Spec.Approver+" is heard", func() bool {
		must.Succeed(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(a), a))
		return a.Status.Result != "" && a.Status.Result != v1alpha1.ApprovalAccepted
	})
	return a.Status
}

// refuses checks that an approval is refused, and that it starts no attempt.
func (s *asked) refuses(c *instancectl.Controller, who, why string) {
	s.t.Helper()
	before, _ := s.engine.attempts(s.id)
	if got := s.approve(c, who); got.Result != v1alpha1.ApprovalRefused || !strings.Contains(got.Message, why) {
		s.t.Errorf("%s: %+v", who, got)
	}
	if after, _ := s.engine.attempts(s.id); after != before {
		s.t.Errorf("%s: %d attempts became %d", who, before, after)
	}
}

// TestApprovalDoors: by no door may requester or owner approve.
func TestApprovalDoors(t *testing.T) {
	s := &asked{newSite(t), "pppppppppa"}
	var err error
	if s.settings.Users, err = instancectl.ParseUsers([]string{"oidc:=https://idp"}); err != nil {
		t.Fatal(err)
	}
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.Approval.Mode = "Request" })
	leader := s.leader()

	s.assign("oidc:anna", "oidc:dora")
	s.run(leader, "one that is read waits", s.is(s.id, "Requested"))
	read := s.all()[s.id].Status.Plan
	must.Succeed(t, s.client.Delete(t.Context(), s.all()[s.id]))
	s.run(leader, "it is gone", func() bool { return s.all()[s.id] == nil })
	s.ask("oidc:anna")
	s.run(leader, "it waits", s.is(s.id, "Requested"))
	s.refuses(leader, "oidc:anna", "someone other than")
	s.refuses(leader, "portal:https://idp#anna", "someone other than")
	of := v1alpha1.ApprovalTarget{Kind: "Instance", Name: s.id}
	if got := s.hear(leader, &v1alpha1.Approval{Spec: v1alpha1.ApprovalSpec{Target: of, Plan: read, Generation: 1, Approver: "oidc:ben"}}); got.Result != v1alpha1.ApprovalStale {
		t.Errorf("what nobody has read is approved: %+v", got)
	}
	if got := s.hear(leader, &v1alpha1.Approval{Spec: v1alpha1.ApprovalSpec{Target: of, Plan: v1alpha1.PlanRequest, Approver: "oidc:ben"}}); got.Result != v1alpha1.ApprovalStale || !strings.Contains(got.Message, "spec.generation is missing") {
		t.Errorf("%+v", got)
	}
	if got := s.approve(leader, "portal:https://idp#ben"); got.Result != v1alpha1.ApprovalApplied {
		t.Fatalf("%+v", got)
	}
	s.run(leader, "it is ready", s.is(s.id, "Ready"))

	launched, _ := s.engine.attempts(s.id)
	s.change("oidc:carl", func(o *v1alpha1.InstanceSpec) {
		o.Parameters = map[string]apiextensionsv1.JSON{"size": {Raw: json.RawMessage(`"large"`)}}
	})
	s.run(leader, "the update waits", func() bool { return s.all()[s.id].Status.Plan != "" })
	if n, _ := s.engine.attempts(s.id); n != launched {
		t.Errorf("an update ran that nobody approved: %d attempts became %d", launched, n)
	}
	s.refuses(leader, "portal:https://idp#carl", "someone other than") // asked for it
	s.refuses(leader, "portal:https://idp#anna", "someone other than") // owns it
	if got := s.approve(leader, "oidc:ben"); got.Result != v1alpha1.ApprovalApplied {
		t.Fatalf("%+v", got)
	}
	if n, _ := s.engine.attempts(s.id); n != launched+1 {
		t.Errorf("%d attempts became %d", launched, n)
	}

	end := s.all()[s.id].Status.ExpiresAt.Time
	later := metav1.NewTime(end.Add(2 * time.Hour).Truncate(time.Second))
	s.change("oidc:anna", func(o *v1alpha1.InstanceSpec) { o.ExpiresAt = &later })
	s.run(leader, "the later end waits", func() bool { return s.all()[s.id].Status.Plan != "" })
	if got := s.all()[s.id].Status.ExpiresAt.Time; !got.Equal(end) {
		t.Errorf("it ends at %s, and nobody approved that", got)
	}
	s.refuses(leader, "portal:https://idp#anna", "someone other than")
	if got := s.approve(leader, "portal:https://idp#ben"); got.Result != v1alpha1.ApprovalApplied {
		t.Fatalf("%+v", got)
	}
	s.run(leader, "it ends later", func() bool { return s.all()[s.id].Status.ExpiresAt.Time.Equal(later.Time) })
}

// TestApprovalUnknown refuses who may be the requester, or the owner of what an account asked for.
func TestApprovalUnknown(t *testing.T) {
	s := &asked{newSite(t), "pppppppppc"}
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.Approval.Mode = "Request" })
	leader := s.leader()
	s.ask("anna@example.com")
	s.run(leader, "it waits", s.is(s.id, "Requested"))
	s.refuses(leader, "portal:https://idp#4711", "--user-issuer")
	if got := s.approve(leader, "ben@example.com"); got.Result != v1alpha1.ApprovalApplied {
		t.Errorf("%+v, and it says %s", got, s.all()[s.id].Status.Reason)
	}
	s.id = "pppppppppd"
	s.assign("system:serviceaccount:flux-system:apps", "carl@example.com")
	s.run(leader, "it waits", s.is(s.id, "Requested"))
	s.refuses(leader, "portal:https://idp#4711", "the owner, carl@example.com")
	s.refuses(leader, "carl@example.com", "someone other than")
}

// TestAskedForIsNotReady until the spec matches the instance.
func TestAskedForIsNotReady(t *testing.T) {
	s := &asked{newSite(t), "pppppppppd"}
	s.template("sandbox.vpc", func(o *v1alpha1.TemplateSpec) { o.Approval.Mode = "Request" })
	leader := s.leader()
	s.ask("anna")
	s.run(leader, "it waits", s.is(s.id, "Requested"))
	if got := s.approve(leader, "ben"); got.Result != v1alpha1.ApprovalApplied {
		t.Fatalf("%+v", got)
	}
	s.run(leader, "it is ready", s.isReady(s.id))
	large := func(o *v1alpha1.InstanceSpec) {
		o.Parameters = map[string]apiextensionsv1.JSON{"size": {Raw: json.RawMessage(`"large"`)}}
	}
	none := func(o *v1alpha1.InstanceSpec) { o.Parameters = nil }

	s.change("anna", large)
	s.run(leader, "the update waits", s.says(s.id, v1alpha1.ConditionReconciling, "waiting for an Approval"))
	waits := meta.FindStatusCondition(s.all()[s.id].Status.Conditions, v1alpha1.ConditionAwaitingApproval)
	if waits == nil || waits.Status != metav1.ConditionTrue || waits.Reason != "Requested" || waits.Message == "" {
		t.Errorf("%+v", waits)
	}
	if got := s.decide(leader, "ben", v1alpha1.DecisionReject); got.Result != v1alpha1.ApprovalRejected || got.Message != "it was rejected by ben" {
		t.Fatalf("%+v", got)
	}
	s.run(leader, "it is rejected", s.says(s.id, v1alpha1.ConditionStalled, "it was rejected"))
	s.run(s.leader(), "the next operator says so, too", s.says(s.id, v1alpha1.ConditionStalled, "it was rejected"))
	s.change("anna", none)
	s.run(leader, "it asks for what it is", s.isReady(s.id))

	s.change("anna", large)
	s.run(leader, "the update waits again", s.says(s.id, v1alpha1.ConditionReconciling, "waiting for an Approval"))
	o := s.all()[s.id]
	before := o.DeepCopy()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, v1alpha1.AnnotationCancel, "now")
	must.Succeed(t, s.client.Patch(t.Context(), o, client.MergeFrom(before)))
	s.run(leader, "it is withdrawn", s.says(s.id, v1alpha1.ConditionStalled, "it was withdrawn"))
	s.change("anna", none)
	s.run(leader, "it asks for what it is once more", s.isReady(s.id))
}
