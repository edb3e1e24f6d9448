// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// moduleKind returns the smallest definition with the given name.
func moduleKind(plural string) *v1alpha1.ModuleKind {
	return &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: plural}, Spec: v1alpha1.ModuleKindSpec{
		Names: v1alpha1.KindNames{Kind: "VPC", Plural: plural}, Module: v1alpha1.KindModule{Address: "net/vpc/aws"},
	}}
}

// wholeModuleKind returns a definition with every field.
func wholeModuleKind(plural string) *v1alpha1.ModuleKind {
	k := moduleKind(plural)
	k.Spec = v1alpha1.ModuleKindSpec{
		Names: v1alpha1.KindNames{Kind: "VPC", Plural: plural, Singular: "vpc", ShortNames: []string{"v"}},
		Module: v1alpha1.KindModule{
			Repository: "platform/modules/net/vpc/aws", Version: "~> 1.4", Path: "./modules/vpc", Verify: &v1alpha1.KindVerify{Keys: []string{"-----BEGIN PUBLIC KEY-----"}},
		},
		Schema: v1alpha1.KindSchema{
			Inline: &apiextensions.JSON{Raw: []byte(`{"properties":{"cidr":{"type":"string"}}}`)}, Expose: []v1alpha1.InputName{"cidr"}, Immutable: []v1alpha1.InputName{"cidr"},
			Validations: []v1alpha1.KindValidation{{Rule: "self.cidr != ''", Message: "say which addresses"}},
		},
		Values: map[string]apiextensions.JSON{"zones": {Raw: []byte(`["a",{"b":1}]`)}, "count": {Raw: []byte(`3`)}},
		Run: v1alpha1.KindRun{
			Prefix: "vpc-", Namespace: v1alpha1.NamespaceObject, Interval: new(v1alpha1.Duration("1h")), Approval: v1alpha1.RunApproval{Mode: v1alpha1.ApprovalPlan}, ServiceAccountName: "aws-tofu-runner",
			AccountAnnotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/net"}, Labels: map[string]string{"sharding.fluxcd.io/key": "tenants"},
			Runner: &v1alpha1.Runner{
				Image: "registry.example.com/runner:1", NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
				Resources: &corev1.ResourceRequirements{}, Env: []v1alpha1.EnvVar{{Name: "AWS_REGION", Value: "eu-central-1"}},
			},
			VarsFrom: []v1alpha1.InputsFrom{{SecretRef: v1alpha1.SecretRef{Name: "net"}, Keys: map[string]v1alpha1.SecretKey{"token": "token"}}},
			Drift:    "Report", Encryption: &v1alpha1.RunEncryption{SecretRef: v1alpha1.SecretRef{Name: "encryption"}}, LockTimeout: new(v1alpha1.Duration("5m")), Retries: 3,
			HealthChecks: []v1alpha1.HealthCheck{{Name: "up", URL: "https://{{.host}}/"}, {Name: "port", Address: "{{.host}}:443", Timeout: new(v1alpha1.Duration("5s"))}},
		},
		Deletion: v1alpha1.KindDeletion{Destroy: new(false), Orphan: v1alpha1.OrphanKeep},
		Outputs: v1alpha1.KindOutputs{
			SecretName: "{singular}-{name}", Include: []v1alpha1.InputName{"vpc_id"}, Status: []v1alpha1.InputName{"vpc_id"}, Labels: map[string]string{"team": "net"},
			Readers: []v1alpha1.KindReader{{Kind: "Group", Name: "tenant-acme"}, {Kind: "ServiceAccount", Name: "app", Namespace: "tenant-acme"}},
		},
		Upgrade:   v1alpha1.KindUpgrade{Policy: v1alpha1.UpgradeMinor, MaxConcurrent: 2},
		Dashboard: v1alpha1.KindDashboard{Title: "VPC", Category: "Infrastructure", Icon: "network", Tags: []string{"aws"}, Description: "A network."},
	}
	return k
}

// TestModuleKinds creates the smallest and the fullest definition.
func TestModuleKinds(t *testing.T) {
	c := newClient(t)
	small, whole := moduleKind("smallvpcs"), wholeModuleKind("wholevpcs")
	for _, k := range []*v1alpha1.ModuleKind{small, whole} {
		must.Succeed(t, c.Create(t.Context(), k))
	}
	s := small.Spec
	if s.Run.Namespace != "Dedicated" || *s.Run.Interval != "10m" || s.Run.Approval.Mode != "None" || s.Run.Drift != "Repair" ||
		!*s.Deletion.Destroy || s.Deletion.Orphan != "Refuse" || s.Upgrade.Policy != "Manual" || s.Upgrade.MaxConcurrent != 5 {
		t.Errorf("defaults: %+v", s)
	}
	must.Equal(t, "a value", string(whole.Spec.Values["zones"].Raw), `["a",{"b":1}]`)
	whole.Status = v1alpha1.ModuleKindStatus{
		RunStatus: v1alpha1.RunStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionEstablished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEstablished, LastTransitionTime: metav1.Now()},
		}},
		Module: &v1alpha1.ResolvedModule{Version: "1.4.0", Digest: "sha256:0"}, Objects: 2, Outdated: 1,
	}
	if err := c.Status().Update(t.Context(), whole); err != nil {
		t.Errorf("status: %v", err)
	}
	whole.Spec.Names.ShortNames = []string{"w"}
	if err := c.Update(t.Context(), whole); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "create another ModuleKind") {
		t.Errorf("other names: %v", err)
	}
	for name, change := range map[string]func(*v1alpha1.KindRun){
		"a prefix":          func(r *v1alpha1.KindRun) { r.Prefix = "b-" },
		"another namespace": func(r *v1alpha1.KindRun) { r.Namespace = v1alpha1.NamespaceObject },
	} {
		next := small.DeepCopy()
		change(&next.Spec.Run)
		if err := c.Update(t.Context(), next); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "objects run under these names") {
			t.Errorf("%s: %v", name, err)
		}
	}
	small.Spec.Run.Interval = new(v1alpha1.Duration("1h"))
	if err := c.Update(t.Context(), small); err != nil {
		t.Errorf("another interval: %v", err)
	}
}

// TestModuleKindsRefused checks that each rule refuses what it is about.
func TestModuleKindsRefused(t *testing.T) {
	c := newClient(t)
	for _, r := range []struct {
		want   string
		change func(*v1alpha1.ModuleKind)
	}{
		{"metadata.name must equal", func(k *v1alpha1.ModuleKind) { k.Name = "others" }},
		{"is reserved for", func(k *v1alpha1.ModuleKind) { k.Name, k.Spec.Names.Plural = "instance", "instance" }},
		{"is reserved for the kind Instance", func(k *v1alpha1.ModuleKind) { k.Name, k.Spec.Names.Plural = "instances", "instances" }},
		{"spec.names.kind", func(k *v1alpha1.ModuleKind) { k.Spec.Names.Kind = "vpc" }},
		{"exactly one of", func(k *v1alpha1.ModuleKind) { k.Spec.Module.Repository = "net/vpc" }},
		{"exactly one of", func(k *v1alpha1.ModuleKind) { k.Spec.Module.Address = "" }},
		{"must be inside", func(k *v1alpha1.ModuleKind) { k.Spec.Module.Path = "modules/../../x" }},
		{"spec.module.path", func(k *v1alpha1.ModuleKind) { k.Spec.Module.Path = "/etc" }},
		{"spec.module.verify.keys", func(k *v1alpha1.ModuleKind) { k.Spec.Module.Verify = &v1alpha1.KindVerify{Keys: []string{}} }},
		{"expose or hide", func(k *v1alpha1.ModuleKind) {
			k.Spec.Schema = v1alpha1.KindSchema{Expose: []v1alpha1.InputName{"a"}, Hide: []v1alpha1.InputName{"b"}}
		}},
		{"spec.schema.immutable[0]", func(k *v1alpha1.ModuleKind) { k.Spec.Schema.Immutable = []v1alpha1.InputName{"A"} }},
		{"must be at least 1m", func(k *v1alpha1.ModuleKind) { k.Spec.Run.Interval = new(v1alpha1.Duration("59s")) }},
		{"spec.run.prefix", func(k *v1alpha1.ModuleKind) { k.Spec.Run.Prefix = "1-" }},
		{"are reserved for the operator", func(k *v1alpha1.ModuleKind) { k.Spec.Run.Labels = map[string]string{v1alpha1.LabelManaged: ""} }},
		{"the operator sets", func(k *v1alpha1.ModuleKind) {
			k.Spec.Run.Runner = &v1alpha1.Runner{Env: []v1alpha1.EnvVar{{Name: "TF_HTTP_PASSWORD"}}}
		}},
		{"exactly one of", func(k *v1alpha1.ModuleKind) { k.Spec.Run.HealthChecks = []v1alpha1.HealthCheck{{Name: "a"}} }},
		{"it must contain {name}", func(k *v1alpha1.ModuleKind) { k.Spec.Outputs.SecretName = "outputs" }},
		{"it must contain {name}", func(k *v1alpha1.ModuleKind) { k.Spec.Outputs.SecretName = "{name}-{kind}" }},
		{"may only name outputs", func(k *v1alpha1.ModuleKind) { k.Spec.Outputs.Status = []v1alpha1.InputName{"a"} }},
		{"is required for a ServiceAccount", func(k *v1alpha1.ModuleKind) {
			k.Spec.Outputs.Readers = []v1alpha1.KindReader{{Kind: "ServiceAccount", Name: "a"}}
		}},
		{"spec.upgrade.policy", func(k *v1alpha1.ModuleKind) { k.Spec.Upgrade.Policy = "Major" }},
	} {
		k := moduleKind("refusedvpcs")
		r.change(k)
		if err := c.Create(t.Context(), k); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %v", r.want, err)
		}
	}
}
