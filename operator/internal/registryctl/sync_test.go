// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

const dns = "registry.example.com/acme/dns"

// offer publishes a provider at the origin.
func (s *site) offer() {
	s.t.Helper()
	src := depottest.NewRelease(s.t, depottest.NewKey(s.t, signing.KeyOptions{Name: "Test"}), "linux_amd64", "darwin_arm64")
	src.Offers = []addr.Version{depottest.MustVersion(s.t, "1.2.3")}
	apply(s.t, s.from, supply.Origins{Provider: func(string, addr.Provider) (depot.Source, error) { return src, nil }},
		supply.Set{Providers: []supply.ProviderEntry{providerEntry(s.t, "")}})
}

func providerEntry(t *testing.T, origin string, platforms ...string) supply.ProviderEntry {
	t.Helper()
	return must.Get(supply.ProviderSpec{Address: dns, Origin: origin, Platforms: platforms}.Entry("provider"))(t)
}

// apply runs the engine without an operator.
func apply(t *testing.T, d *depot.Depot, from supply.Origins, set supply.Set) {
	t.Helper()
	r := supply.NewSyncer(d, supply.SyncOptions{Set: &set, Origins: func(string) (supply.Origins, error) { return from, nil }})
	p := must.Get(r.Plan(t.Context()))(t)
	results := must.Get(r.Apply(t.Context(), p, nil))(t)
	for _, res := range results {
		if res.Err() != nil {
			t.Fatal(res.Err())
		}
	}
}

// TestDepotSyncs lets a Depot fill a registry: its content is that of a run without the
// operator, and an operator that starts anew writes nothing. Platforms that the Depot then asks
// for are added.
//
// Shows: operator 1 | a Depot creates Modules, and these create Versions; the same bytes as without
// the operator; a second run writes nothing
func TestDepotSyncs(t *testing.T) {
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**, mirror:" + dns})
	s.publish("1.0.0", "1.1.0")
	s.offer()
	without := ocitest.New(t, ocitest.Quirks{})
	other, _ := depottest.NewDepot(t, without, oci.Options{})
	entry := must.Get(supply.ModuleSpec{Address: vpc, Source: s.source()}.Entry("module"))(t)
	apply(t, other, supply.Origins{
		Open: func(reference string) (*oci.Repo, error) { return oci.OpenRepo(reference, oci.Options{}) },
		Provider: func(origin string, _ addr.Provider) (depot.Source, error) {
			c, err := oci.New(s.origin, oci.Options{})
			return supply.RepositorySource(c, addr.Layout{Prefix: "p"}, ""), err
		},
	}, supply.Set{Modules: []supply.ModuleEntry{entry}, Providers: []supply.ProviderEntry{providerEntry(t, "oci://"+s.origin+"/p", "linux_amd64")}})

	s.start()
	d := &v1alpha1.Depot{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "d"}, Spec: v1alpha1.DepotSpec{
		Modules:   []v1alpha1.ModuleEntry{{Address: vpc, Source: s.source()}},
		Providers: []v1alpha1.ProviderEntry{{Address: dns, Origin: "oci://" + s.origin + "/p", Platforms: []string{"linux_amd64"}}},
	}}
	must.Succeed(t, s.Create(t.Context(), d))
	s.says(d, true, v1alpha1.ReasonSynced)
	if d.Status.Modules != 1 || d.Status.Providers != 1 || d.Status.Failed != 0 || len(d.Status.Entries) != 2 || d.Status.Entries[0].Latest != "1.1.0" {
		t.Errorf("the Depot says %+v", d.Status)
	}
	repositories := []string{"p/modules/" + vpc, "p/mirror/" + dns}
	want, got := content(t, without, repositories...), content(t, s.fill, repositories...)
	if !maps.Equal(want, got) || len(want) < 3 {
		t.Errorf("the registry has\n%v, without the operator\n%v", got, want)
	}
	versions := s.versions()
	if len(versions) != 3 {
		t.Errorf("Versions %v", versions)
	}
	for _, v := range versions {
		it, label := "p/modules/"+vpc, v1alpha1.LabelModule
		if v.Spec.Target.Kind == "Provider" {
			it, label = "p/mirror/"+dns, v1alpha1.LabelProvider
		}
		if v.Labels[label] != v.Spec.Target.Name {
			t.Errorf("Version %s of %+v has the labels %v", v.Name, v.Spec.Target, v.Labels)
		}
		if v.Status.State != v1alpha1.StatePublished || v.Status.Digest != got[it+":"+v.Spec.Version] || v.Status.SizeBytes == 0 {
			t.Errorf("Version %s is %+v", v.Name, v.Status)
		}
	}

	m := &v1alpha1.Module{}
	must.Succeed(t, s.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: d.Status.Entries[0].Name}, m))
	if m.Status.LastSyncTime == nil {
		t.Errorf("the Module says %+v", m.Status)
	}
	s.stop()
	before, everything := s.revisions(), s.everything()
	modules, providers, depots := reconciled(t, "module"), reconciled(t, "provider"), reconciled(t, "depot")
	writes, runs, asked := s.in.writes.Load(), s.runs.Load(), s.out.asked.Load()
	s.start()
	s.until("looked at by the next operator", func() (bool, any) {
		return reconciled(t, "module") > modules && reconciled(t, "provider") > providers && reconciled(t, "depot") > depots, nil
	})
	s.stop()
	if s.runs.Load() != runs+2 {
		t.Errorf("%d runs, not one for each entry", s.runs.Load()-runs)
	}
	must.Equal(t, "requests to origins", s.out.asked.Load()-asked, 0)
	must.Equal(t, "writes to the registry", s.in.writes.Load()-writes, 0)
	if after := s.revisions(); !maps.Equal(before, after) {
		t.Errorf("objects were written:\n%v\n%v", before, after)
	}
	if after := s.everything(); !maps.Equal(everything, after) {
		t.Errorf("the registry changed:\n%v\n%v", everything, after)
	}

	s.start()
	s.read(d)
	d.Spec.Providers[0].Platforms = []string{"linux_amd64", "darwin_arm64"}
	must.Succeed(t, s.Update(t.Context(), d))
	s.until("with both platforms", func() (bool, any) {
		versions := s.versions()
		return slices.ContainsFunc(versions, func(v v1alpha1.Version) bool {
			return slices.Equal(slices.Sorted(slices.Values(v.Status.Platforms)), []string{"darwin_arm64", "linux_amd64"})
		}), versions
	})
}

// TestTwoClusters lets two operators, each with a registry of its own, fetch a module and a provider
// by links that their origin signs anew for each: the manifests are equal.
func TestTwoClusters(t *testing.T) {
	f := newForge(t)
	var filled []map[string]string
	for range 2 {
		s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**, mirror:registry.opentofu.org/hashicorp/null"})
		s.out.close(f.answer)
		s.start()
		m := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Source = "registry.opentofu.org/acme/vpc/aws" })
		v := s.alone(s.ns, "null", "1.1.0", func(spec *v1alpha1.VersionSpec) {
			spec.Address, spec.Source, spec.Platforms = "hashicorp/null", "", []string{"darwin_arm64"}
		})
		s.says(m, true, v1alpha1.ReasonSynced)
		s.says(v, true, v1alpha1.ReasonSynced)
		filled = append(filled, content(t, s.fill, "p/modules/"+vpc, "p/mirror/registry.opentofu.org/hashicorp/null"))
		s.stop()
	}
	if !maps.Equal(filled[0], filled[1]) || len(filled[0]) < 4 || f.links.Load() < 8 {
		t.Errorf("by %d links:\n%v\n%v", f.links.Load(), filled[0], filled[1])
	}
}

// everything returns the whole content of the registry.
func (s *site) everything() map[string]string {
	s.t.Helper()
	_, c := depottest.NewDepot(s.t, s.fill, oci.Options{})
	names := must.Get(c.Repositories(s.t.Context()))(s.t)
	return content(s.t, s.fill, names...)
}

// versions returns the Versions of the namespace.
func (s *site) versions() []v1alpha1.Version {
	s.t.Helper()
	var list v1alpha1.VersionList
	must.Succeed(s.t, s.List(s.t.Context(), &list, client.InNamespace(s.ns)))
	return list.Items
}

// revisions returns the resource versions of all objects of the namespace.
func (s *site) revisions() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, list := range []client.ObjectList{&v1alpha1.DepotList{}, &v1alpha1.ModuleList{}, &v1alpha1.ProviderList{}, &v1alpha1.VersionList{}} {
		must.Succeed(s.t, s.List(s.t.Context(), list, client.InNamespace(s.ns)))
		must.Succeed(s.t, meta.EachListItem(list, func(o runtime.Object) error {
			is := o.(client.Object)
			all[string(is.GetUID())+" "+is.GetName()] = is.GetResourceVersion()
			return nil
		}))
	}
	return all
}
