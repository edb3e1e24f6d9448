// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// alone creates a Version of vpc without a target.
func (s *site) alone(ns, name, version string, change func(*v1alpha1.VersionSpec)) *v1alpha1.Version {
	s.t.Helper()
	v := &v1alpha1.Version{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	v.Spec = v1alpha1.VersionSpec{Address: vpc, Source: s.source(), Version: version}
	if change != nil {
		change(&v.Spec)
	}
	must.Succeed(s.t, s.Create(s.t.Context(), v))
	return v
}

// older waits until a new object would be younger. The API server counts seconds.
func (s *site) older(o client.Object) {
	s.t.Helper()
	s.until("older", func() (bool, any) { return metav1.Now().Unix() > o.GetCreationTimestamp().Unix(), nil })
}

// TestVersionWithoutTarget takes one of several versions: the registry gets what the engine
// writes without an operator, and the next operator writes nothing.
//
// Shows: operator 13 | a Version without a target is fetched by itself, under the rules of Modules;
// those of one namespace share an address and update its record in turn
func TestVersionWithoutTarget(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	s.publish("1.0.0", "1.1.0")
	without := ocitest.New(t, ocitest.Quirks{})
	other, _ := depottest.NewDepot(t, without, oci.Options{})
	entry := must.Get(supply.ModuleSpec{Address: vpc, Source: s.source(), EntrySpec: supply.EntrySpec{Versions: "1.0.0"}}.Entry("module"))(t)
	apply(t, other, supply.Origins{Open: func(reference string) (*oci.Repo, error) { return oci.OpenRepo(reference, oci.Options{}) }},
		supply.Set{Modules: []supply.ModuleEntry{entry}})

	s.start()
	v := s.alone(s.ns, "v", "1.0.0", nil)
	s.says(v, true, v1alpha1.ReasonSynced)
	must.Equal(t, "published", s.mustReport(v, v1alpha1.ReasonPublished), "1.0.0")
	repository := "p/modules/" + vpc
	want, got := content(t, without, repository), content(t, s.fill, repository)
	if !maps.Equal(want, got) || want[repository+":1.0.0"] == "" || want[repository+":1.1.0"] != "" {
		t.Errorf("the registry has\n%v, without the operator\n%v", got, want)
	}
	if is := v.Status; is.State != v1alpha1.StatePublished || is.Digest != want[repository+":1.0.0"] || is.ContentDigest == "" || is.SizeBytes == 0 {
		t.Errorf("the Version says %+v", is)
	}
	if all := s.versions(); len(all) != 1 {
		t.Errorf("Versions %v", all)
	}

	s.stop()
	before, everything, looks := s.revisions(), s.everything(), reconciled(t, "version")
	writes, runs := s.in.writes.Load(), s.runs.Load()
	s.start()
	s.until("looked at by the next operator", func() (bool, any) { return reconciled(t, "version") > looks, nil })
	s.stop()
	must.Equal(t, "runs", s.runs.Load()-runs, 1)
	if n := s.in.writes.Load() - writes; n != 0 || !maps.Equal(everything, s.everything()) {
		t.Errorf("%d writes to the registry", n)
	}
	if after := s.revisions(); !maps.Equal(before, after) {
		t.Errorf("objects were written:\n%v\n%v", before, after)
	}
}

// TestVersionWithoutTargetIsListed yanks a version by its own object, and reverts that.
//
// Shows: operator 13
func TestVersionWithoutTargetIsListed(t *testing.T) {
	s := newNet(t, "1.0.0")
	v := s.alone(s.ns, "v", "1.0.0", func(spec *v1alpha1.VersionSpec) {
		spec.State, spec.Message, spec.Replacement = v1alpha1.ListYanked, "loses data", "1.1.0"
	})
	s.says(v, true, v1alpha1.ReasonSynced)
	e := s.yanked("1.0.0")
	if e == nil || e.Message != "loses data" || e.Replacement != "1.1.0" || e.Actor != "kubernetes:"+s.ns+"/v" || v.Status.State != v1alpha1.StateYanked {
		t.Fatalf("yanked by %+v, the Version says %+v", e, v.Status)
	}
	s.change(v, func() { v.Spec.State, v.Spec.Message, v.Spec.Replacement = v1alpha1.ListActive, "", "" })
	s.says(v, true, v1alpha1.ReasonSynced)
	if e := s.yanked("1.0.0"); e != nil || v.Status.State != v1alpha1.StatePublished {
		t.Errorf("active, but yanked by %+v, the Version says %+v", e, v.Status)
	}
	must.Succeed(t, s.Delete(t.Context(), v))
	s.gone(v)
	must.Equal(t, "deleted: the registry", join(s.listing().Versions), "1.0.0")
}

// TestVersionsOfOneAddress checks that Versions of one namespace share an address, and
// that no other object gets it.
//
// Shows: operator 13
func TestVersionsOfOneAddress(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0", "1.2.0")
	first := s.alone(s.ns, "first", "1.0.0", nil)
	s.older(first)
	beside, duplicate := s.alone(s.ns, "beside", "1.1.0", nil), s.alone(s.ns, "twin", "1.0.0", nil)
	m := s.module(s.ns, "m", nil)
	s.says(first, true, v1alpha1.ReasonSynced)
	s.says(beside, true, v1alpha1.ReasonSynced)
	want := "module net/vpc/aws belongs to Version " + s.ns + "/first"
	if message := s.says(duplicate, false, v1alpha1.ReasonAddressTaken); message != want || !stalled(duplicate) {
		t.Errorf("%q, stalled %t", message, stalled(duplicate))
	}
	if message := s.says(m, false, v1alpha1.ReasonAddressTaken); message != want || !stalled(m) {
		t.Errorf("%q, stalled %t", message, stalled(m))
	}
	must.Equal(t, "the registry", join(s.listing().Versions), "1.1.0 1.0.0")
	rec := must.Get(supply.ReadEntryRecord(t.Context(), s.to, "module "+vpc))(t)
	if got := rec.Versions("module " + vpc); !slices.Equal(got, []string{"1.1.0", "1.0.0"}) {
		t.Errorf("the record has %v", got)
	}
	for _, v := range []*v1alpha1.Version{first, beside, duplicate} {
		must.Succeed(t, s.Delete(t.Context(), v))
	}
	s.says(m, true, v1alpha1.ReasonSynced)
	s.older(m)
	late := s.alone(s.ns, "late", "1.0.0", nil)
	must.Equal(t, "value", s.says(late, false, v1alpha1.ReasonAddressTaken), "module net/vpc/aws belongs to Module "+s.ns+"/m")
}

// TestVersionWithoutTargetIsDeleted withdraws its own only.
func TestVersionWithoutTargetIsDeleted(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0", "1.2.0")
	policy := func(p v1alpha1.DeletionPolicy) func(*v1alpha1.VersionSpec) {
		return func(spec *v1alpha1.VersionSpec) { spec.DeletionPolicy = p }
	}
	all := []*v1alpha1.Version{
		s.alone(s.ns, "keep", "1.0.0", policy(v1alpha1.DeletionKeep)),
		s.alone(s.ns, "yank", "1.1.0", policy(v1alpha1.DeletionYank)),
		s.alone(s.ns, "delete", "1.2.0", policy(v1alpha1.DeletionDelete)),
	}
	for _, v := range all {
		s.says(v, true, v1alpha1.ReasonSynced)
	}
	for i, want := range []string{"1.2.0 1.1.0 1.0.0", "1.2.0 1.1.0 1.0.0", "1.1.0 1.0.0"} {
		must.Succeed(t, s.Delete(t.Context(), all[i]))
		s.gone(all[i])
		must.Equal(t, all[i].Name+": the registry", join(s.listing().Versions), want)
	}
	for version, yanked := range map[string]bool{"1.0.0": false, "1.1.0": true, "1.2.0": true} {
		if e := s.yanked(version); (e != nil) != yanked {
			t.Errorf("%s is yanked by %+v", version, e)
		}
	}
}

// TestVersionWithoutTargetIsRefused checks that the rules of Modules hold for Versions, and
// that a version missing at the origin is reported.
//
// Shows: operator 13
func TestVersionWithoutTargetIsRefused(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	other := s.namespace(nil)
	s.publish("1.0.0")
	s.start()
	foreign := s.alone(other, "foreign", "1.0.0", nil)
	want := "namespace " + other + " may use module:" + other + "/** only: an administrator can set okara.dev/addresses on it"
	if message := s.says(foreign, false, v1alpha1.ReasonAddressNotAllowed); message != want || !stalled(foreign) {
		t.Errorf("%q, stalled %t", message, stalled(foreign))
	}
	must.Succeed(t, s.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "forge"}}))
	auth := s.alone(s.ns, "auth", "1.0.0", func(spec *v1alpha1.VersionSpec) {
		spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	})
	s.says(auth, false, v1alpha1.ReasonSecretNotAllowed)
	if got := s.tags(); len(got) != 0 {
		t.Errorf("the registry has %v", got)
	}
	missing := s.alone(s.ns, "missing", "9.9.9", nil)
	if message := s.says(missing, false, v1alpha1.ReasonFailed); message != "version not found at the origin" || missing.Status.State != v1alpha1.StateUnknown {
		t.Errorf("%q, the Version says %+v", message, missing.Status)
	}
	for _, v := range []*v1alpha1.Version{auth, missing} {
		must.Succeed(t, s.Delete(t.Context(), v))
		s.gone(v)
	}
	s.annotate(other, "module:net/**")
	s.says(foreign, true, v1alpha1.ReasonSynced)
}

// TestVersionOfAProvider takes one version of a provider from the registry that its
// address names.
//
// Shows: operator 13
func TestVersionOfAProvider(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "mirror:registry.opentofu.org/hashicorp/null"})
	f := newForge(t)
	s.out.close(f.answer)
	s.start()
	v := s.alone(s.ns, "null", "1.1.0", func(spec *v1alpha1.VersionSpec) {
		spec.Address, spec.Source, spec.Platforms = "hashicorp/null", "", []string{"darwin_arm64"}
	})
	s.says(v, true, v1alpha1.ReasonSynced)
	repository := "p/mirror/registry.opentofu.org/hashicorp/null"
	got := content(t, s.fill, repository)
	if is := v.Status; is.State != v1alpha1.StatePublished || is.Digest != got[repository+":1.1.0"] || is.SizeBytes == 0 || !slices.Equal(is.Platforms, []string{"darwin_arm64"}) {
		t.Errorf("the registry has %v, the Version says %+v", got, is)
	}
	if got[repository+":1.0.0"] != "" || got[repository+":1.2.0"] != "" {
		t.Errorf("the registry has %v", got)
	}
}
