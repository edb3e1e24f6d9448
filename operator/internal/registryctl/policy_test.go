// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

// newNet returns a site whose namespace may use the address of the module.
func newNet(t *testing.T, versions ...string) *site {
	t.Helper()
	s := newSite(t, map[string]string{v1alpha1.AnnotationAddresses: "module:net/**"})
	s.publish(versions...)
	s.start()
	return s
}

func repository(t *testing.T, host string) *oci.Repo {
	t.Helper()
	_, c := depottest.NewDepot(t, host, oci.Options{})
	return depottest.MustRepo(t, c, "p/modules/"+vpc)
}

func (s *site) version(number string) *v1alpha1.Version {
	s.t.Helper()
	all := s.versions()
	i := slices.IndexFunc(all, func(v v1alpha1.Version) bool { return v.Spec.Version == number })
	if i < 0 {
		s.t.Fatalf("no Version %s", number)
	}
	return &all[i]
}

func (s *site) listing() *depot.Listing {
	s.t.Helper()
	return must.Get(depot.ReadListing(s.t.Context(), repository(s.t, s.fill), "", nil))(s.t)
}

func (s *site) yanked(number string) *evidence.StatusEvent {
	s.t.Helper()
	return s.listing().Status(depottest.MustVersion(s.t, number)).Yanked
}

// TestDriftIsReported moves a tag of the registry to other content.
//
// Shows: operator 9 | drift is reported, pinned versions outlive retention, versions wait for
// approval
func TestDriftIsReported(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	repo := repository(t, s.fill)
	was, other := depottest.MustFetch(t, repo, "1.0.0"), depottest.MustFetch(t, repo, "1.1.0")
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", other))
	s.again(m)
	s.says(m, false, v1alpha1.ReasonDrift)
	if stalled(m) || states(m) != "1.1.0 Published, 1.0.0 Drift" {
		t.Errorf("stalled %t, %s", stalled(m), states(m))
	}
	v := s.version("1.0.0")
	message := s.says(v, false, v1alpha1.ReasonDrift)
	if !strings.Contains(message, was.Digest.String()) || !strings.Contains(message, other.Digest.String()) || v.Status.Digest != was.Digest.String() {
		t.Errorf("%q names not %s and %s; status %+v", message, was.Digest, other.Digest, v.Status)
	}
	must.Equal(t, "it was overwritten", depottest.MustFetch(t, repo, "1.0.0").Digest, other.Digest)
	s.mustReport(m, v1alpha1.ReasonDrift)

	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", was))
	s.again(m)
	s.says(m, true, v1alpha1.ReasonSynced)
}

// TestPruneKeepsPins checks that retention removes only versions that are not pinned.
//
// Shows: operator 9
func TestPruneKeepsPins(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0", "1.2.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	s.change(m, func() { m.Spec.Keep, m.Spec.Pin = new(int32(1)), []string{"1.0.0"} })
	s.says(m, true, v1alpha1.ReasonSynced)
	l := s.listing()
	if got := join(l.Versions); got != "1.2.0 1.0.0" || m.Status.Published != 2 {
		t.Errorf("the registry has %s, the status says %d", got, m.Status.Published)
	}
	must.Equal(t, "pruned", s.mustReport(m, v1alpha1.ReasonPruned), "1.1.0")
	if all := s.versions(); slices.ContainsFunc(all, func(v v1alpha1.Version) bool {
		return v.Spec.Version == "1.1.0" && v.Status.State == v1alpha1.StatePublished
	}) {
		t.Errorf("there is a Version of what was pruned: %+v", all)
	}
	// What was removed is not published again, and pins have to be there.
	s.change(m, func() { m.Spec.Keep = nil })
	if message := s.says(m, true, v1alpha1.ReasonSynced); !strings.HasSuffix(message, "; removed versions are not published again unless a Version of them has state: Active: 1.1.0") {
		t.Error(message)
	}
	for pin, want := range map[string]string{
		"9.9.9": "pin 9.9.9 is not at the origin", "1.1.0": "pin 1.1.0 was removed from the registry: a Version of it with state: Active brings it back",
	} {
		s.change(m, func() { m.Spec.Pin = []string{"1.0.0", pin} })
		must.Equal(t, pin, s.says(m, false, v1alpha1.ReasonVersionMissing), want)
	}
	back := &v1alpha1.Version{Spec: v1alpha1.VersionSpec{Target: &v1alpha1.Target{Kind: "Module", Name: "m"}, Version: "1.1.0", State: v1alpha1.ListActive}}
	back.Namespace, back.Name = s.ns, "back"
	must.Succeed(t, s.Create(t.Context(), back))
	s.change(m, func() { m.Spec.Pin = []string{"1.1.0"} })
	s.says(m, true, v1alpha1.ReasonSynced)
}

func join(versions []addr.Version) string {
	var all []string
	for _, v := range versions {
		all = append(all, v.String())
	}
	return strings.Join(all, " ")
}

// TestApprovalHoldsVersions checks that versions wait until a user approves one and the
// other is old enough.
//
// Shows: operator 9
func TestApprovalHoldsVersions(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0")
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) {
		m.Spec.Approval = &v1alpha1.ApprovalPolicy{Mode: v1alpha1.ApprovalVersion, OlderThan: new(v1alpha1.Duration("72h"))}
	})
	s.says(m, true, v1alpha1.ReasonSynced)
	if states(m) != "1.1.0 Waiting, 1.0.0 Waiting" || m.Status.Published != 0 || m.Status.Latest != "" {
		t.Errorf("%+v", m.Status)
	}
	s.says(s.version("1.0.0"), false, v1alpha1.ReasonHeld)
	must.Get(s.to.Approve(t.Context(), repository(t, s.fill), depottest.MustVersion(t, "1.0.0"), m.Status.Versions[1].Digest))(t)
	s.again(m)
	if states(m) != "1.1.0 Waiting, 1.0.0 Published" || m.Status.Latest != "1.0.0" {
		t.Errorf("approved: %+v", m.Status)
	}
	s.clock.Add(int64(73 * time.Hour))
	s.again(m)
	if states(m) != "1.1.0 Published, 1.0.0 Published" || m.Status.Latest != "1.1.0" {
		t.Errorf("old enough: %+v", m.Status)
	}
}

// TestApprovalPublishes checks that an Approval publishes exactly the content it names.
func TestApprovalPublishes(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0")
	m := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.Approval = &v1alpha1.ApprovalPolicy{Mode: v1alpha1.ApprovalVersion} })
	s.says(m, true, v1alpha1.ReasonSynced)
	v := s.version("1.0.0")
	s.says(v, false, v1alpha1.ReasonHeld)
	approve := func(name string, change func(*v1alpha1.ApprovalSpec)) *v1alpha1.Approval {
		a := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
		a.Spec = v1alpha1.ApprovalSpec{Target: v1alpha1.ApprovalTarget{Kind: "Version", Name: v.Name}, Plan: v.Status.Digest, Approver: "alice"}
		if change != nil {
			change(&a.Spec)
		}
		must.Succeed(t, s.Create(t.Context(), a))
		return a
	}
	becomes := func(a *v1alpha1.Approval, want v1alpha1.ApprovalResult) {
		s.until(string(want), func() (bool, any) { s.read(a); return a.Status.Result == want, a.Status })
	}
	becomes(approve("other", func(a *v1alpha1.ApprovalSpec) { a.Plan = s.version("1.1.0").Status.Digest }), v1alpha1.ApprovalStale)
	becomes(approve("old", func(a *v1alpha1.ApprovalSpec) { a.Generation = v.Generation + 1 }), v1alpha1.ApprovalStale)
	other := s.version("1.1.0")
	rejected := map[string]*v1alpha1.Version{"it was rejected by alice: too new": v, "it was rejected by bob": other}
	becomes(approve("no", func(a *v1alpha1.ApprovalSpec) { a.Decision, a.Reason = v1alpha1.DecisionReject, "too new" }), v1alpha1.ApprovalRejected)
	no := approve("no-other", func(a *v1alpha1.ApprovalSpec) {
		a.Decision, a.Approver, a.Target.Name, a.Plan = v1alpha1.DecisionReject, "bob", other.Name, other.Status.Digest
	})
	becomes(no, v1alpha1.ApprovalRejected)
	for message, v := range rejected {
		if got := s.says(v, false, v1alpha1.ReasonRejected); got != message || v.Status.State != v1alpha1.StateRejected || trying(v) {
			t.Errorf("rejected, it says %s, and %+v, not %s", got, v.Status, message)
		}
	}
	s.until("listed", func() (bool, any) { s.read(m); return states(m) == "1.1.0 Rejected, 1.0.0 Rejected", m.Status })
	if got := s.listing().Versions; len(got) != 0 {
		t.Fatalf("the registry has %v", got)
	}
	yes := approve("yes", func(a *v1alpha1.ApprovalSpec) { a.Generation = v.Generation })
	becomes(yes, v1alpha1.ApprovalApplied)
	s.says(v, true, v1alpha1.ReasonSynced)
	if got := join(s.listing().Versions); got != "1.0.0" || v.Status.State != v1alpha1.StatePublished {
		t.Errorf("the registry has %s, the Version says %+v", got, v.Status)
	}
	must.Equal(t, "told", s.mustReport(v, v1alpha1.ReasonPublished), "1.0.0, approved by alice")
	becomes(approve("again", nil), v1alpha1.ApprovalApplied)
	s.clock.Add(int64(31 * 24 * time.Hour))
	s.again(m)
	s.gone(yes)
	s.gone(no)
	s.again(m)
	s.says(other, false, v1alpha1.ReasonRejected)
	if states(m) != "1.1.0 Rejected, 1.0.0 Published" {
		t.Errorf("without the Approval: %+v", m.Status)
	}
	s.change(m, func() { m.Spec.Approval.OlderThan = new(v1alpha1.Duration("1h")) })
	s.says(m, true, v1alpha1.ReasonSynced)
	must.Equal(t, "older than the policy says, and rejected", states(m), "1.1.0 Rejected, 1.0.0 Published")
}

// TestPruneKeepsWhatRuns, of Instances and kinds.
func TestPruneKeepsWhatRuns(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0", "1.2.0", "1.3.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	digest := func(number string) string {
		return depottest.MustFetch(t, repository(t, s.fill), number).Digest.String()
	}
	i := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "abcdefghjk"}, Spec: v1alpha1.InstanceSpec{Template: "net/vpc"}}
	must.Succeed(t, s.Create(t.Context(), i))
	i.Status.Module = &v1alpha1.RunningModule{Version: "1.0.0", Digest: digest("1.0.0")}
	must.Succeed(t, s.Status().Update(t.Context(), i))
	s.runsObject(digest("1.1.0"))
	s.change(m, func() { m.Spec.Keep = new(int32(1)) })
	s.says(m, true, v1alpha1.ReasonSynced)
	must.Equal(t, "the registry", join(s.listing().Versions), "1.3.0 1.1.0 1.0.0")
	must.Succeed(t, s.Delete(t.Context(), i))
	s.again(m)
	must.Equal(t, "nothing runs 1.0.0: the registry", join(s.listing().Versions), "1.3.0 1.1.0")
}

// runsObject creates a kind, as a ModuleKind does, with an object that runs a version.
func (s *site) runsObject(digest string) {
	s.t.Helper()
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vpcs.apps.okara.dev"}}
	crd.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: "apps.okara.dev", Scope: apiextensions.NamespaceScoped,
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "vpcs", Singular: "vpc", Kind: "Vpc", ListKind: "VpcList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1alpha1", Served: true, Storage: true,
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
		}},
	}
	k := &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "vpcs"}}
	k.Spec.Names = v1alpha1.KindNames{Kind: "Vpc", Plural: "vpcs", Singular: "vpc"}
	k.Spec.Module = v1alpha1.KindModule{Address: vpc}
	o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"module": map[string]any{"digest": digest}}}}
	o.SetAPIVersion("apps.okara.dev/v1alpha1")
	o.SetKind("Vpc")
	o.SetNamespace(s.ns)
	o.SetName("prod")
	for _, object := range []client.Object{crd, k} {
		must.Succeed(s.t, s.Create(s.t.Context(), object))
		s.t.Cleanup(func() {
			if err := s.Delete(context.WithoutCancel(s.t.Context()), object); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.until("served", func() (bool, any) {
		err := s.Create(s.t.Context(), o.DeepCopy())
		return err == nil, err
	})
}

// TestVersionSaysHowItIsListed yanks and deprecates by objects, and reverts both.
//
// Shows: operator 12 | the status of a Version shows how it is listed
func TestVersionSaysHowItIsListed(t *testing.T) {
	s := newNet(t, "1.0.0", "1.1.0")
	m := s.module(s.ns, "m", nil)
	s.says(m, true, v1alpha1.ReasonSynced)
	v := s.version("1.1.0")
	s.change(v, func() { v.Spec.State, v.Spec.Message, v.Spec.Replacement = v1alpha1.ListYanked, "loses data", "1.0.0" })
	s.says(v, true, v1alpha1.ReasonSynced)
	e := s.yanked("1.1.0")
	if e == nil || e.Message != "loses data" || e.Replacement != "1.0.0" || e.Actor != "kubernetes:"+s.ns+"/"+v.Name || v.Status.State != v1alpha1.StateYanked {
		t.Fatalf("yanked by %+v, the Version says %+v", e, v.Status)
	}
	s.until("no latest of it", func() (bool, any) { s.read(m); return m.Status.Latest == "1.0.0", m.Status })

	writes := s.in.writes.Load()
	s.again(m)
	if n := s.in.writes.Load() - writes; n != 0 {
		t.Errorf("said again with %d writes", n)
	}
	s.change(v, func() { v.Spec.State, v.Spec.Message, v.Spec.Replacement = v1alpha1.ListDeprecated, "old", "" })
	s.says(v, true, v1alpha1.ReasonSynced)
	if got := s.listing().Status(depottest.MustVersion(t, "1.1.0")); got.Yanked != nil || got.Deprecated == nil || got.Deprecated.Message != "old" || v.Status.State != v1alpha1.StateDeprecated {
		t.Errorf("deprecated: %+v, the Version says %+v", got, v.Status)
	}
	s.change(v, func() { v.Spec.State, v.Spec.Message = v1alpha1.ListActive, "" })
	s.says(v, true, v1alpha1.ReasonSynced)
	if got := s.listing().Status(depottest.MustVersion(t, "1.1.0")); got.Yanked != nil || got.Deprecated != nil || v.Status.State != v1alpha1.StatePublished {
		t.Errorf("active: %+v, the Version says %+v", got, v.Status)
	}
	// Withdrawn, its tag removed: the list has it, and a Version of somebody's.
	s.change(v, func() { v.Spec.State, v.Spec.Message = v1alpha1.ListYanked, "leaks" })
	s.says(v, true, v1alpha1.ReasonSynced)
	for _, number := range []string{"1.0.0", "1.1.0"} {
		must.GetBoth(s.to.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: number, Message: "leaks", DeleteTag: true}))(t)
	}
	s.again(m)
	if states(m) != "1.1.0 Withdrawn, 1.0.0 Withdrawn" || m.Status.Published != 0 || len(s.versions()) != 1 {
		t.Errorf("withdrawn: %+v, and Versions %+v", m.Status, s.versions())
	}
	if got := s.says(v, true, v1alpha1.ReasonSynced); got != "it was withdrawn and its tag removed: leaks" || v.Status.State != v1alpha1.StateWithdrawn {
		t.Errorf("the Version says %s, and %+v", got, v.Status)
	}
}

// TestDeletionPolicies deletes a Module under each policy.
//
// Shows: operator 14 | effects of deletion
func TestDeletionPolicies(t *testing.T) {
	for policy, want := range map[v1alpha1.DeletionPolicy]struct {
		versions string
		yanked   bool
	}{
		v1alpha1.DeletionKeep: {"1.1.0 1.0.0", false}, v1alpha1.DeletionYank: {"1.1.0 1.0.0", true}, v1alpha1.DeletionDelete: {"", true},
	} {
		t.Run(string(policy), func(t *testing.T) {
			s := newNet(t, "1.0.0", "1.1.0")
			m := s.module(s.ns, "m", func(m *v1alpha1.Module) { m.Spec.DeletionPolicy = policy })
			s.says(m, true, v1alpha1.ReasonSynced)
			if held := len(m.Finalizers) == 1; held != want.yanked {
				t.Errorf("finalizers %v", m.Finalizers)
			}
			if want.yanked { // the version stays while the registry is down
				s.in.close(ocitest.Refuse)
			}
			must.Succeed(t, s.Delete(t.Context(), m))
			if want.yanked {
				s.mustReport(m, v1alpha1.ReasonFailed)
				s.says(m, false, v1alpha1.ReasonFailed)
				if !trying(m) {
					t.Errorf("while the registry is down: %+v", m.Status)
				}
				s.in.open()
			}
			s.gone(m)
			l := s.listing()
			must.Equal(t, "the registry", join(l.Versions), want.versions)
			for _, v := range []string{"1.0.0", "1.1.0"} {
				if e := s.yanked(v); (e != nil) != want.yanked {
					t.Errorf("version %s is yanked by %+v", v, e)
				}
			}
			for _, v := range s.versions() { // no garbage collector runs
				s.says(&v, false, v1alpha1.ReasonTargetMissing)
			}
		})
	}
}

// TestDepotLetsItsEntriesGo deletes Depots under both policies.
//
// Shows: operator 14
func TestDepotLetsItsEntriesGo(t *testing.T) {
	s := newNet(t, "1.0.0")
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionKeep} {
		d := &v1alpha1.Depot{Spec: v1alpha1.DepotSpec{DeletionPolicy: policy, Modules: []v1alpha1.ModuleEntry{{Address: vpc, Source: s.source()}}}}
		d.Namespace, d.Name = s.ns, "d"
		must.Succeed(t, s.Create(t.Context(), d))
		s.says(d, true, v1alpha1.ReasonSynced)
		must.Succeed(t, s.Delete(t.Context(), d))
		s.gone(d)
		m := &v1alpha1.Module{}
		err := s.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: d.Status.Entries[0].Name}, m)
		if kept := err == nil; kept != (policy == v1alpha1.DeletionKeep) || client.IgnoreNotFound(err) != nil {
			t.Errorf("%s: the Module is there: %t, %v", policy, kept, err)
		}
		if got := join(s.listing().Versions); got != "1.0.0" {
			t.Errorf("%s: the registry has %q", policy, got)
		}
	}
}

// TestDepotReleases checks that entries removed from a Depot, and those of a deleted Depot,
// become independent objects of the tenant. An entry that comes back is taken back.
//
// Shows: operator 30 | entries removed from a Depot become independent objects of the tenant, and
// are taken back when the entry returns
func TestDepotReleases(t *testing.T) {
	s := newNet(t, "1.0.0")
	entries := []v1alpha1.ModuleEntry{{Address: vpc, Source: s.source()}}
	d := &v1alpha1.Depot{Spec: v1alpha1.DepotSpec{Modules: entries}}
	d.Namespace, d.Name = s.ns, "d"
	must.Succeed(t, s.Create(t.Context(), d))
	s.says(d, true, v1alpha1.ReasonSynced)
	m := &v1alpha1.Module{}
	m.Namespace, m.Name = s.ns, d.Status.Entries[0].Name
	labelled := func(what string, of string) {
		t.Helper()
		s.until(what, func() (bool, any) {
			s.read(m)
			_, managed := m.Labels[v1alpha1.LabelManaged]
			return m.Labels[v1alpha1.LabelDepot] == of && managed == (of != ""), m.Labels
		})
	}
	labelled("it is the Depot's", "d")
	s.change(d, func() { d.Spec.Modules = nil })
	labelled("it is the tenant's", "")
	s.change(d, func() { d.Spec.Modules = entries })
	labelled("it is the Depot's again", "d")
	s.says(d, true, v1alpha1.ReasonSynced)
	must.Succeed(t, s.Delete(t.Context(), d))
	labelled("it is the tenant's when the Depot is gone", "")

	other := &v1alpha1.Depot{Spec: v1alpha1.DepotSpec{Modules: entries}}
	other.Namespace, other.Name = s.ns, "other"
	must.Succeed(t, s.Create(t.Context(), other))
	message := s.says(other, false, v1alpha1.ReasonEntriesFailed)
	if !strings.Contains(message, m.Name+" is "+v1alpha1.ReasonNameTaken) {
		t.Errorf("another Depot says %q", message)
	}
}
