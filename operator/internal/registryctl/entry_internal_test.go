// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// TestEntryOfAVersion checks the entry of a Version without a target.
func TestEntryOfAVersion(t *testing.T) {
	v := &v1alpha1.Version{Spec: v1alpha1.VersionSpec{
		Address: "net/vpc/aws", Source: "github.com/acme/modules", Subdir: "modules/vpc", TagPrefix: "vpc-", Version: "1.0.0", DeletionPolicy: v1alpha1.DeletionYank,
	}}
	e := entryOf(v)
	if e.err != nil || len(e.set.Modules) != 1 {
		t.Fatalf("%v, %+v", e.err, e.set)
	}
	if m := e.set.Modules[0]; m.Subdir != "modules/vpc" || m.Source.TagPrefix != "vpc-" || e.run.DeletionPolicy != v1alpha1.DeletionYank {
		t.Errorf("%+v, %+v", m, e.run)
	}
	e = entryOf(&v1alpha1.Version{Spec: v1alpha1.VersionSpec{Address: "hashicorp/aws", Version: "1.0.0", Platforms: []string{"linux_amd64"}}})
	if e.err != nil || len(e.set.Providers) != 1 || len(e.set.Providers[0].Platforms) != 1 || e.set.Providers[0].Platforms[0].String() != "linux_amd64" {
		t.Errorf("%v, %+v", e.err, e.set)
	}
}

// TestOmittedIsSaid checks that a status says what a run left out.
func TestOmittedIsSaid(t *testing.T) {
	v := (&found{}).verdict()
	if got := addOmitted(v, nil); got.Message != v.Message {
		t.Errorf("got %q", got.Message)
	}
	got := addOmitted(v, []supply.Difference{{Version: "1.2.3.4", Reason: "no version"}, {Version: "1.0.0", Reason: "the origin has no package for plan9_arm"}})
	must.Equal(t, "value", got.Message, v.Message+"; left out: 1.2.3.4: no version; 1.0.0: the origin has no package for plan9_arm")
}

// TestFieldsReachTheEntry checks that each field of an object changes what is published. The secret
// of an origin is read at each run.
func TestFieldsReachTheEntry(t *testing.T) {
	count := new(int32(7))
	common := v1alpha1.EntrySpec{Versions: ">= 1.0.0", Limit: count, Keep: count, Pin: []string{"1.2.3"}, Approval: &v1alpha1.ApprovalPolicy{Mode: v1alpha1.ApprovalVersion}, Scan: &v1alpha1.ScanPolicy{Block: "High"}}
	module := v1alpha1.ModuleEntry{Address: "a/b/c", Source: "github.com/a/b", Subdir: "d", TagPrefix: "v", Releases: true, Policy: "Editions", Ignore: []string{"*.md"}, EntrySpec: common}
	provider := v1alpha1.ProviderEntry{Address: "a/b", Origin: "https://example.com/m/", Platforms: []string{"linux_amd64"}, AllowUnsigned: true, EntrySpec: common}
	changed := map[string]client.Object{}
	of := func(m v1alpha1.ModuleEntry) client.Object {
		return &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{ModuleEntry: m}}
	}
	ofProvider := func(p v1alpha1.ProviderEntry) client.Object {
		return &v1alpha1.Provider{Spec: v1alpha1.ProviderSpec{ProviderEntry: p}}
	}
	for field, m := range eachFieldCleared(t, module, "Auth") {
		changed["module "+field] = of(m)
	}
	for field, p := range eachFieldCleared(t, provider, "Auth") {
		changed["provider "+field] = ofProvider(p)
	}
	all := []supply.Set{entryOf(of(module)).set, entryOf(ofProvider(provider)).set}
	if !reflect.DeepEqual(all[0], entryOf(of(module)).set) {
		t.Fatal("two entries of one object are compared as different")
	}
	for field, o := range changed {
		if got := entryOf(o).set; reflect.DeepEqual(got, all[0]) || reflect.DeepEqual(got, all[1]) {
			t.Errorf("field %s changes nothing", field)
		}
	}
}

// eachFieldCleared returns a copy for each field, also of embedded structs, in which that is zero.
func eachFieldCleared[T any](t *testing.T, full T, apart ...string) map[string]T {
	all := map[string]T{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Anonymous || slices.Contains(apart, f.Name) {
			continue
		}
		if reflect.ValueOf(full).FieldByIndex(f.Index).IsZero() {
			t.Errorf("%s has no value in this test", f.Name)
		}
		cleared := full
		reflect.ValueOf(&cleared).Elem().FieldByIndex(f.Index).SetZero()
		all[f.Name] = cleared
	}
	return all
}
