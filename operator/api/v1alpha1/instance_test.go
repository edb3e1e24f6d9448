// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// smallTemplate returns a Template with only the required fields.
func smallTemplate(name string) *v1alpha1.Template {
	return &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "net/vpc/aws"},
	}}
}

func value(json string) *apiextensions.JSON { return &apiextensions.JSON{Raw: []byte(json)} }

// wholeTemplate returns a Template with every field except pool and chart.
func wholeTemplate(name string) *v1alpha1.Template {
	o := smallTemplate(name)
	o.Spec = v1alpha1.TemplateSpec{
		Title: "VPC sandbox", Description: "A network\nfor tests.", Icon: "network", Category: "aws/network", Enabled: new(false), Visible: new(false),
		Module:   &v1alpha1.TemplateModule{Address: "net/vpc/aws", Version: "~> 1.4", Path: "modules/small"},
		Executor: v1alpha1.ExecutorTerraform, Owner: v1alpha1.TemplateOwner{Kind: "Group"}, Groups: []string{"team-*"}, PerOwner: 1, Max: 50, Approval: v1alpha1.TemplateApproval{Mode: v1alpha1.ApprovalPlan},
		TTL: &v1alpha1.TemplateTTL{Default: "8h", Max: "72h", Extend: "2h", Extends: 5, Failed: "4h", OnExpire: "Keep"},
		Parameters: []v1alpha1.TemplateParameter{
			{Name: "cidr", Title: "Range", Help: "of the network", Default: value(`"10.0.0.0/16"`), Pattern: "^10[.]", Update: true, Link: new(true)},
			{Name: "size", Enum: []apiextensions.JSON{*value(`1`), *value(`2`)}, Minimum: "1", Maximum: "2.5", Update: true, When: map[string][]apiextensions.JSON{"cidr": {*value(`"10.0.0.0/16"`), *value("true")}}},
		},
		Inputs: map[string]apiextensions.JSON{"name": *value(`"sandbox-${id}"`), "tags": *value(`{"a":["b"]}`)}, Outputs: []string{"url"},
		Connection:  &v1alpha1.TemplateConnection{Type: "Web", URL: "https://${id}.example.com", Message: "ssh admin@${outputs.url}"},
		Credentials: []string{"aws-sandbox"}, Timeout: "30m", Retries: new(int32(0)), Protection: true,
		Drift: &v1alpha1.TemplateDrift{Every: "24h", Remediate: true}, Update: "Auto", Notices: []v1alpha1.Duration{"24h", "30m"},
		Cost: &v1alpha1.TemplateCost{Hourly: "0.42", Currency: "EUR"},
	}
	return o
}

func instanceOf(name string) *v1alpha1.Instance {
	return &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.InstanceSpec{
		Template: "sandbox/vpc", Owner: &v1alpha1.Owner{Kind: "User", Issuer: "https://idp.example.com", ID: "anna"}, CreatedBy: "anna",
	}}
}

func approvalOf(name string) *v1alpha1.Approval {
	return &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ApprovalSpec{
		Target: v1alpha1.ApprovalTarget{Kind: "Instance", Name: "abcdefghjk"}, Plan: "1.4.0-14f2e7e131.9c41d07b55e2", Generation: 3, Approver: "ben",
	}}
}

// TestInstanceKinds: the smallest and fullest of each.
func TestInstanceKinds(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	whole := instanceOf("abcdefghjm")
	whole.Spec.Version, whole.Spec.Name, whole.Spec.Claims = "1.4.2", "mine", map[string]v1alpha1.ClaimValue{"https://example.com/team": "net"}
	whole.Spec.Parameters = map[string]apiextensions.JSON{"cidr": *value(`"10.0.0.0/8"`), "size": *value(`{"a":[1,null]}`)}
	whole.Spec.TTL, whole.Spec.ExpiresAt, whole.Spec.Protected = "4h", new(metav1.NewTime(time.Now())), true
	helm := smallTemplate("sandbox.app")
	helm.Spec.Executor, helm.Spec.Module = v1alpha1.ExecutorHelm, nil
	helm.Spec.Chart = &v1alpha1.Chart{OCI: &v1alpha1.ChartOCI{URL: "oci://registry.example.com/charts/app", Version: "1.x"}}
	helm.Spec.TTL = &v1alpha1.TemplateTTL{Default: "None"}
	reject := approvalOf("two")
	reject.Spec.Plan, reject.Spec.Decision, reject.Spec.Reason = v1alpha1.PlanRequest, v1alpha1.DecisionReject, "too large"
	small := smallTemplate("sandbox.vpc")
	member := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Name: "abcdefghjn"}, Spec: v1alpha1.InstanceSpec{Template: "sandbox/vpc"}}
	for _, o := range []client.Object{small, wholeTemplate("sandbox.whole"), helm, instanceOf("abcdefghjk"), whole, member, approvalOf("one"), reject} {
		o.SetNamespace(ns)
		if err := c.Create(t.Context(), o); err != nil {
			t.Errorf("%T %s: %v", o, o.GetName(), err)
		}
	}
	s := small.Spec
	if !*s.Enabled || !*s.Visible || s.Executor != v1alpha1.ExecutorTerraform || s.Owner.Kind != "User" || s.Approval.Mode != "None" || s.Timeout != "1h" || *s.Retries != 2 || s.Update != "Manual" {
		t.Errorf("defaults: %+v", s)
	}
	whole.Status = v1alpha1.InstanceStatus{
		ObservedGeneration: 1, Phase: "Ready", Record: value(`{"id":"abcdefghjm","runs":[{"n":1}]}`), Namespace: "vpc-abcdefghjm", URL: "https://example.com",
		ExpiresAt: new(metav1.NewTime(time.Now())), Outputs: map[string]apiextensions.JSON{"vpc_id": *value(`"vpc-1"`)}, Snapshots: map[string]apiextensions.JSON{"sha256:0": *value(`{"name":"a/b"}`)},
		Module: &v1alpha1.RunningModule{Version: "1.4.2", Digest: "sha256:0"}, Handled: &v1alpha1.Handled{Name: "mine"},
	}
	must.Succeed(t, c.Status().Update(t.Context(), whole))
	if !strings.Contains(string(whole.Status.Record.Raw), `"runs":[{"n":1}]`) {
		t.Errorf("the record came back as %s", whole.Status.Record.Raw)
	}
}

// TestInstanceKindsRefused checks that each rule refuses what it is about.
func TestInstanceKindsRefused(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	template := func(change func(*v1alpha1.TemplateSpec)) client.Object {
		o := smallTemplate("a.b")
		change(&o.Spec)
		return o
	}
	instance := func(change func(*v1alpha1.InstanceSpec)) client.Object {
		o := instanceOf("abcdefghjk")
		change(&o.Spec)
		return o
	}
	for want, o := range map[string]client.Object{
		"the name of a Template must be":   smallTemplate("vpc"),
		"tfe is reserved":                  smallTemplate("tfe.vpc"),
		"FluxTerraform requires module":    template(func(s *v1alpha1.TemplateSpec) { s.Executor = v1alpha1.ExecutorHelm }),
		"a pool excludes":                  template(func(s *v1alpha1.TemplateSpec) { s.Pool, s.Approval.Mode = &v1alpha1.TemplatePool{Size: 1}, "Plan" }),
		"there is no expiry":               template(func(s *v1alpha1.TemplateSpec) { s.TTL = &v1alpha1.TemplateTTL{Default: "None", Max: "1h"} }),
		"1m to 24h":                        template(func(s *v1alpha1.TemplateSpec) { s.Timeout = "25h" }),
		"must be at least 10m":             template(func(s *v1alpha1.TemplateSpec) { s.Drift = &v1alpha1.TemplateDrift{Every: "9m"} }),
		"claim is required for kind Claim": template(func(s *v1alpha1.TemplateSpec) { s.Owner.Kind = "Claim" }),
		"not allowed for other kinds":      template(func(s *v1alpha1.TemplateSpec) { s.Owner = v1alpha1.TemplateOwner{Kind: "Group", Claim: "team"} }),
		"spec.retries":                     template(func(s *v1alpha1.TemplateSpec) { s.Retries = new(int32(11)) }),
		"spec.cost.currency":               template(func(s *v1alpha1.TemplateSpec) { s.Cost = &v1alpha1.TemplateCost{Hourly: "1", Currency: "eur"} }),
		"exactly one of oci, helm": template(func(s *v1alpha1.TemplateSpec) {
			s.Executor, s.Module, s.Chart = v1alpha1.ExecutorHelm, nil, &v1alpha1.Chart{}
		}),
		"name of an Instance is a DNS label":          instanceOf("a.b"),
		"at most 63 lower case letters":               instanceOf(strings.Repeat("a", 64)),
		"set together":                                instance(func(s *v1alpha1.InstanceSpec) { s.Owner = nil }),
		"spec.template":                               instance(func(s *v1alpha1.InstanceSpec) { s.Template = "vpc" }),
		`supported values: "User", "Group", "Claim"`:  instance(func(s *v1alpha1.InstanceSpec) { s.Owner.Kind = "user" }),
		`supported values: "None", "Request", "Plan"`: template(func(s *v1alpha1.TemplateSpec) { s.Approval.Mode = "request" }),
		"spec.owner.kind":                             instance(func(s *v1alpha1.InstanceSpec) { s.Owner.Kind = "team" }),
	} {
		o.SetNamespace(ns)
		if err := c.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestInstanceKindsNeverChange checks that immutable fields cannot be changed.
func TestInstanceKindsNeverChange(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	made, member, approval := instanceOf("abcdefghjk"), instanceOf("abcdefghjm"), approvalOf("one")
	member.Spec.Owner, member.Spec.CreatedBy = nil, ""
	for _, o := range []client.Object{made, member, approval} {
		o.SetNamespace(ns)
		must.Succeed(t, c.Create(t.Context(), o))
	}
	refused := func(o client.Object, want string) {
		t.Helper()
		if err := c.Update(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, change := range map[string]func(*v1alpha1.InstanceSpec){
		"template of an Instance is immutable":  func(s *v1alpha1.InstanceSpec) { s.Template = "sandbox/app" },
		"an owner is set once":                  func(s *v1alpha1.InstanceSpec) { s.Owner.ID = "ben" },
		"createdBy is set once":                 func(s *v1alpha1.InstanceSpec) { s.CreatedBy = "ben" },
		"claims and ttl are set with the owner": func(s *v1alpha1.InstanceSpec) { s.TTL = "1h" },
	} {
		o := made.DeepCopy()
		change(&o.Spec)
		refused(o, want)
	}
	other := approval.DeepCopy()
	other.Spec.Plan = "another"
	refused(other, "is immutable")

	stale := member.DeepCopy()
	member.Spec.Owner, member.Spec.CreatedBy, member.Spec.TTL = made.Spec.Owner, "anna", "1h"
	if err := c.Update(t.Context(), member); err != nil {
		t.Errorf("claim: %v", err)
	}
	stale.Spec.Owner, stale.Spec.CreatedBy = &v1alpha1.Owner{Kind: "User", ID: "ben"}, "ben"
	if err := c.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("a second claim: %v", err)
	}
}

// TestTemplateScales sets the size of a pool as kubectl scale does.
func TestTemplateScales(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	o := smallTemplate("a.b")
	o.Namespace, o.Spec.Pool = ns, &v1alpha1.TemplatePool{Size: 1}
	must.Succeed(t, c.Create(t.Context(), o))
	o.Status.Pool = &v1alpha1.PoolStatus{Available: 1}
	must.Succeed(t, c.Status().Update(t.Context(), o))
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Get(t.Context(), o, scale); err != nil || scale.Status.Replicas != 1 {
		t.Fatalf("%v %+v", err, scale)
	}
	scale.Spec.Replicas = 3
	must.Succeed(t, c.SubResource("scale").Update(t.Context(), o, client.WithSubResourceBody(scale)))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.Spec.Pool.Size != 3 || o.Spec.Pool.WhenEmpty != "Create" {
		t.Errorf("%v %+v", err, o.Spec.Pool)
	}
}
