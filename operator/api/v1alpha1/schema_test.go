// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// newClient returns a client with strict field validation by the API server.
func newClient(t *testing.T) client.Client {
	t.Helper()
	config := cluster.Admin(t)
	rig.Install(t, config)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	c := must.Get(client.New(config, client.Options{Scheme: scheme}))(t)
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// TestObjects creates every object in its smallest and in its fullest form.
func TestObjects(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	for i, o := range objects() {
		o.SetNamespace(ns)
		o.SetName(fmt.Sprint("o", i))
		if err := c.Create(t.Context(), o); err != nil {
			t.Errorf("%T: %v", o, err)
		}
	}
	var m v1alpha1.Module
	must.Succeed(t, c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "o0"}, &m))
	must.Equal(t, "defaults", fmt.Sprintf("%s %s %d", *m.Spec.Interval, m.Spec.DeletionPolicy, *m.Spec.VersionObjects), "1h Keep 5")
	fill(&m.Status)
	if err := c.Status().Update(t.Context(), &m); err != nil {
		t.Errorf("status: %v", err)
	}
}

func fill(s *v1alpha1.EntryStatus) {
	*s = v1alpha1.EntryStatus{
		RunStatus: v1alpha1.RunStatus{
			ObservedGeneration: 1, LastHandledRequest: "now", LastHandledReconcileAt: "now",
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced, LastTransitionTime: metav1.Now()}},
		},
		Latest: "1.0.0", Published: 1, Truncated: true,
		Versions: []v1alpha1.VersionSummary{{Version: "1.0.0", Digest: "sha256:0", State: v1alpha1.StatePublished}},
	}
}

// objects returns the smallest object of each kind that users write, then the fullest.
func objects() []client.Object {
	entry := v1alpha1.EntrySpec{
		Versions: "~> 1.0", Limit: new(int32(3)), Keep: new(int32(2)), Pin: []string{"1.0.0"},
		Auth:     &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}},
		Scan:     &v1alpha1.ScanPolicy{Block: "High", MaxAge: new(v1alpha1.Duration("168h"))},
		Approval: &v1alpha1.ApprovalPolicy{Mode: v1alpha1.ApprovalVersion, Patch: true, SignedBy: []string{"0123456789ABCDEF"}, OlderThan: new(v1alpha1.Duration("72h"))},
	}
	run := v1alpha1.RunSpec{Interval: new(v1alpha1.Duration("1h30m")), Suspend: true, DeletionPolicy: v1alpha1.DeletionDelete, VersionObjects: new(int32(0))}
	module := v1alpha1.ModuleEntry{
		Address: "net/vpc/aws", Source: "github.com/acme/vpc", Subdir: "modules/vpc", TagPrefix: "vpc-", Releases: true, Policy: "Editions", Ignore: []string{"*.md"},
		EntrySpec: entry,
	}
	provider := v1alpha1.ProviderEntry{
		Address: "registry.opentofu.org/hashicorp/aws", Origin: "https://mirror.example.com/", Platforms: []string{"linux_amd64"}, AllowUnsigned: true, EntrySpec: entry,
	}
	depot := v1alpha1.DepotSpec{
		Interval: new(v1alpha1.Duration("0s")), Suspend: true, DeletionPolicy: v1alpha1.DeletionDelete,
		Defaults: v1alpha1.DepotDefaults{
			Auth: entry.Auth, Policy: "Immutable", Limit: entry.Limit, Keep: entry.Keep, Platforms: provider.Platforms, Ignore: module.Ignore, Scan: entry.Scan, Approval: entry.Approval,
		},
		Modules: []v1alpha1.ModuleEntry{module, {Address: "net/dns/aws", Source: "net/dns/aws"}}, Providers: []v1alpha1.ProviderEntry{provider},
	}
	return []client.Object{
		&v1alpha1.Module{Spec: smallModule()}, &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{ModuleEntry: module, RunSpec: run}},
		&v1alpha1.Provider{Spec: v1alpha1.ProviderSpec{ProviderEntry: v1alpha1.ProviderEntry{Address: "hashicorp/aws"}}},
		&v1alpha1.Provider{Spec: v1alpha1.ProviderSpec{ProviderEntry: provider, RunSpec: run}},
		&v1alpha1.Version{Spec: smallVersion()},
		&v1alpha1.Version{Spec: v1alpha1.VersionSpec{
			Target: &v1alpha1.Target{Kind: "Provider", Name: "aws"}, Version: "1.0.0-rc.1+build.5", State: v1alpha1.ListDeprecated, Message: "old", Replacement: "2.0.0",
		}},
		&v1alpha1.Version{Spec: v1alpha1.VersionSpec{Address: "registry.opentofu.org/hashicorp/aws", Version: "1.0.0"}},
		&v1alpha1.Version{Spec: v1alpha1.VersionSpec{
			Address: "registry.opentofu.org/hashicorp/aws", Platforms: provider.Platforms, Version: "1.0.0", DeletionPolicy: v1alpha1.DeletionYank,
		}},
		&v1alpha1.Version{Spec: v1alpha1.VersionSpec{
			Address: "net/vpc/aws", Source: "github.com/acme/vpc", Subdir: "modules/vpc", TagPrefix: "vpc-", Auth: entry.Auth, Version: "1.0.0",
			State: v1alpha1.ListYanked, DeletionPolicy: v1alpha1.DeletionDelete,
		}},
		&v1alpha1.Depot{}, &v1alpha1.Depot{Spec: depot},
		&v1alpha1.AccessRule{Spec: smallRule()},
		&v1alpha1.AccessRule{Spec: v1alpha1.AccessRuleSpec{
			Issuer: "https://idp.example.com", Groups: []string{"net"}, Claims: map[string]v1alpha1.ClaimGlob{"https://example.com/team": "net-*"},
			Allow: []v1alpha1.Right{"publish:module:net/{project}/*", "read:mirror:registry.opentofu.org/hashicorp/*", "read:provider:net/*"},
		}},
	}
}

func smallModule() v1alpha1.ModuleSpec {
	return v1alpha1.ModuleSpec{ModuleEntry: v1alpha1.ModuleEntry{Address: "net/vpc/aws", Source: "github.com/acme/vpc"}}
}

func smallVersion() v1alpha1.VersionSpec {
	return v1alpha1.VersionSpec{Target: &v1alpha1.Target{Kind: "Module", Name: "vpc"}, Version: "1.0.0"}
}

func smallRule() v1alpha1.AccessRuleSpec {
	return v1alpha1.AccessRuleSpec{Groups: []string{"net"}, Allow: []v1alpha1.Right{"read:module:net/**"}}
}

// TestObjectsRefused checks that each rule of the schemas refuses what it is about.
func TestObjectsRefused(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	module := func(change func(*v1alpha1.ModuleSpec)) client.Object {
		m := &v1alpha1.Module{Spec: smallModule()}
		change(&m.Spec)
		return m
	}
	version := func(change func(*v1alpha1.VersionSpec)) client.Object {
		v := &v1alpha1.Version{Spec: smallVersion()}
		change(&v.Spec)
		return v
	}
	rule := func(change func(*v1alpha1.AccessRuleSpec)) client.Object {
		r := &v1alpha1.AccessRule{Spec: smallRule()}
		change(&r.Spec)
		return r
	}
	both := version(func(s *v1alpha1.VersionSpec) { s.Address = "net/vpc/aws" })
	neither := version(func(s *v1alpha1.VersionSpec) { s.Target = nil })
	sourced := version(func(s *v1alpha1.VersionSpec) { s.Source = "github.com/acme/vpc" })
	kept := version(func(s *v1alpha1.VersionSpec) { s.DeletionPolicy = v1alpha1.DeletionDelete })
	folder := version(func(s *v1alpha1.VersionSpec) {
		*s = v1alpha1.VersionSpec{Address: "hashicorp/aws", Subdir: "modules", Version: "1.0.0"}
	})
	platforms := version(func(s *v1alpha1.VersionSpec) {
		*s = v1alpha1.VersionSpec{Address: "net/vpc/aws", Source: "github.com/acme/vpc", Platforms: []string{"linux_amd64"}, Version: "1.0.0"}
	})
	banana := module(func(s *v1alpha1.ModuleSpec) { s.Versions = "~> banana" })
	old := module(func(s *v1alpha1.ModuleSpec) { s.Policy = "editions" })
	for o, want := range map[client.Object]string{
		old:    `spec.policy: Unsupported value: "editions": supported values: "Immutable", "Editions"`,
		banana: `spec.versions: Invalid value: "~> banana"`,
		both:   "exactly one of", neither: "exactly one of", sourced: "a target has its own", kept: "a target has its own",
		folder: "are only allowed for a module", platforms: "are only allowed for a provider",
	} {
		o.SetNamespace(ns)
		o.SetGenerateName("o-")
		if err := c.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for name, o := range map[string]client.Object{
		"spec":               rule(func(s *v1alpha1.AccessRuleSpec) { s.Groups = nil }),
		"spec.allow":         rule(func(s *v1alpha1.AccessRuleSpec) { s.Allow = []v1alpha1.Right{} }),
		"spec.allow[0]":      rule(func(s *v1alpha1.AccessRuleSpec) { s.Allow[0] = "admin:module:net/**" }),
		"spec.allow[1]":      rule(func(s *v1alpha1.AccessRuleSpec) { s.Allow = append(s.Allow, "read:state:net") }),
		"spec.claims":        rule(func(s *v1alpha1.AccessRuleSpec) { s.Claims = map[string]v1alpha1.ClaimGlob{"": "x"} }),
		"spec.groups[0]":     rule(func(s *v1alpha1.AccessRuleSpec) { s.Groups[0] = "" }),
		"spec.interval":      module(func(s *v1alpha1.ModuleSpec) { s.Interval = new(v1alpha1.Duration("59s")) }),
		"spec.scan.block":    module(func(s *v1alpha1.ModuleSpec) { s.Scan = &v1alpha1.ScanPolicy{Block: "all"} }),
		"spec.approval.mode": module(func(s *v1alpha1.ModuleSpec) { s.Approval = &v1alpha1.ApprovalPolicy{Patch: true} }),
		"spec.scan.maxAge":   module(func(s *v1alpha1.ModuleSpec) { s.Scan = &v1alpha1.ScanPolicy{MaxAge: new(v1alpha1.Duration("59m"))} }),
		"spec.limit":         module(func(s *v1alpha1.ModuleSpec) { s.Limit = new(int32(-1)) }),
		"spec.keep":          module(func(s *v1alpha1.ModuleSpec) { s.Keep = new(int32(-1)) }),
		"spec.auth.secretRef.name": version(func(s *v1alpha1.VersionSpec) {
			*s = v1alpha1.VersionSpec{Address: "hashicorp/aws", Auth: &v1alpha1.Auth{}, Version: "1.0.0"}
		}),
		"spec.address":        module(func(s *v1alpha1.ModuleSpec) { s.Address = "vpc" }),
		"spec.pin[1]":         module(func(s *v1alpha1.ModuleSpec) { s.Pin = []string{"1.0.0", "1.0.0"} }),
		"spec.source":         module(func(s *v1alpha1.ModuleSpec) { s.Source = "" }),
		"spec.deletionPolicy": module(func(s *v1alpha1.ModuleSpec) { s.DeletionPolicy = "Forget" }),
		"spec.versionObjects": module(func(s *v1alpha1.ModuleSpec) { s.VersionObjects = new(int32(101)) }),
		"spec.version":        version(func(s *v1alpha1.VersionSpec) { s.Version = "v1.0" }),
		"spec.state":          version(func(s *v1alpha1.VersionSpec) { s.State = "Gone" }),
		"spec.target.kind":    version(func(s *v1alpha1.VersionSpec) { s.Target.Kind = "Depot" }),
		"spec.platforms[1]": &v1alpha1.Provider{Spec: v1alpha1.ProviderSpec{ProviderEntry: v1alpha1.ProviderEntry{
			Address: "hashicorp/aws", Platforms: []string{"linux_amd64", "linux_amd64"},
		}}},
		"spec.platforms[0]": &v1alpha1.Provider{Spec: v1alpha1.ProviderSpec{ProviderEntry: v1alpha1.ProviderEntry{
			Address: "hashicorp/aws", Platforms: []string{"linux"},
		}}},
		"spec.modules[1]": &v1alpha1.Depot{Spec: v1alpha1.DepotSpec{Modules: []v1alpha1.ModuleEntry{
			{Address: "net/vpc/aws", Source: "net/vpc/aws"}, {Address: "net/vpc/aws", Source: "net/vpc/aws"},
		}}},
	} {
		o.SetNamespace(ns)
		o.SetGenerateName("o-")
		if err := c.Create(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImmutable checks that an address, and the target of a Version, cannot be changed.
func TestImmutable(t *testing.T) {
	c, ns := newClient(t), cluster.Namespace(t, nil).Name
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vpc"}, Spec: smallModule()}
	v := &v1alpha1.Version{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vpc"}, Spec: smallVersion()}
	alone := &v1alpha1.Version{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "alone"}, Spec: v1alpha1.VersionSpec{
		Address: "net/vpc/aws", Source: "github.com/acme/vpc", Version: "1.0.0",
	}}
	other, targeted, provider := alone.DeepCopy(), alone.DeepCopy(), alone.DeepCopy()
	for _, o := range []client.Object{m, v, alone} {
		must.Succeed(t, c.Create(t.Context(), o))
	}
	m.Spec.Address, v.Spec.Version = "net/other/aws", "2.0.0"
	for _, o := range []*v1alpha1.Version{other, targeted, provider} {
		o.ResourceVersion = alone.ResourceVersion
	}
	other.Spec.Address, provider.Spec.Source = "net/other/aws", ""
	targeted.Spec = smallVersion()
	for o, want := range map[client.Object]string{
		m: "create another Module", v: "create another Version",
		other: "create another Version", targeted: "create another Version", provider: "create another Version",
	} {
		if err := c.Update(t.Context(), o); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v", o, err)
		}
	}
	alone.Spec.Source, alone.Spec.State = "github.com/acme/moved", v1alpha1.ListYanked
	must.Succeed(t, c.Update(t.Context(), alone))
}

// TestKindsEstablished: the API server finds no fault, which it tells only in a condition.
func TestKindsEstablished(t *testing.T) {
	c := newClient(t)
	var list apiextensions.CustomResourceDefinitionList
	must.Succeed(t, c.List(t.Context(), &list))
	for _, crd := range list.Items {
		for _, cond := range crd.Status.Conditions {
			wrong := cond.Type == apiextensions.NonStructuralSchema || cond.Type == apiextensions.KubernetesAPIApprovalPolicyConformant
			if wrong == (cond.Status == apiextensions.ConditionTrue) {
				t.Errorf("%s: %s is %s: %s", crd.Name, cond.Type, cond.Status, cond.Message)
			}
		}
	}
	if len(list.Items) == 0 {
		t.Error("there is no CRD")
	}
}
