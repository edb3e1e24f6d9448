// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindctl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

// versions lists the versions that the objects a, b, c and d run.
func (s *site) versions(kind string) string {
	s.t.Helper()
	var all []string
	for _, name := range []string{"a", "b", "c", "d"} {
		o := s.object(kind, name, "")
		s.read(o)
		all = append(all, text(o, "status", "module", "version"))
	}
	return strings.Join(all, " ")
}

// four creates four objects of a kind, and waits until they are reconciled.
func (s *site) four(kind string) {
	s.t.Helper()
	for i, name := range []string{"a", "b", "c", "d"} {
		s.create(s.object(kind, name, fmt.Sprintf("10.%d.0.0/16", i)))
	}
	s.until("all run", func() (bool, any) {
		is := s.versions(kind)
		return !strings.Contains(" "+is+" ", "  "), is
	})
}

// TestRolloutBatch shows that an upgrade reaches as many objects at a time as the definition
// says, and none after the first that fails. The same holds for other changes of the
// definition; waiting objects are reconciled as they were.
//
// Shows: operator 26 | a change is rolled out to some objects at a time, and stops at the first
// failure; a schema that does not fit the existing objects is not written; a definition waits for
// its objects
func TestRolloutBatch(t *testing.T) {
	s, def := startKind(t, "waves", "Wave", "{spec: {upgrade: {policy: Minor, maxConcurrent: 1}, run: {interval: 10m}}}")
	s.four("Wave")

	s.runs.fail("b", "Broken")
	s.publish("1.1.0", network(""))
	c := s.says(def, metav1.ConditionFalse, v1alpha1.ReasonUpgradeStopped)
	if got := s.versions("Wave"); got != "1.1.0 1.1.0 1.0.0 1.0.0" || !strings.Contains(c.Message, s.tenant+"/b failed with the change, and 2 objects wait") {
		t.Errorf("they run %s; %s", got, c.Message)
	}
	if s.read(def); def.Status.Outdated != 2 || def.Status.Module.Version != "1.1.0" {
		t.Errorf("the status is %+v", def.Status)
	}
	fresh := s.object("Wave", "e", "10.9.0.0/16")
	s.create(fresh)
	s.until("a new one has the new version", func() (bool, any) {
		s.read(fresh)
		return text(fresh, "status", "module", "version") == "1.1.0", fresh
	})

	change(s, def, func(def *v1alpha1.ModuleKind) { def.Spec.Run.Interval = new(v1alpha1.Duration("1h")) })
	s.until("the next change reaches one", func() (bool, any) {
		by := s.runs.by("a")
		return *by.Spec.Run.Interval == "1h", by
	})
	s.says(def, metav1.ConditionFalse, v1alpha1.ReasonUpgradeStopped)
	if by := s.runs.by("d"); *by.Spec.Run.Interval != "10m" {
		t.Errorf("what waits is carried out every %s", *by.Spec.Run.Interval)
	}

	s.runs.fail("b", "")
	s.ready(def)
	s.until("the wave goes on", func() (bool, any) {
		is := s.versions("Wave")
		return is == "1.1.0 1.1.0 1.1.0 1.1.0", is
	})
	s.remove(def)
}

// damaged publishes a version of the module that lacks its content.
func (s *site) damaged(version string) {
	s.t.Helper()
	repo := must.Get(s.registry.Repo("modules/net/vpc/aws"))(s.t)
	is := must.Get(repo.Fetch(s.t.Context(), "1.0.0"))(s.t)
	image := must.Get(is.Image())(s.t)
	image.Layers = nil
	m := must.Get(oci.NewManifest(image))(s.t)
	must.Get(repo.Push(s.t.Context(), oci.Artifact{Root: m}))(s.t)
	must.Succeed(s.t, repo.PutTag(s.t.Context(), version, m))
}

// TestRolloutBatchGoesOn checks that an unreadable version, which one object would upgrade
// to, keeps no other object from a change.
//
// Shows: operator 26
func TestRolloutBatchGoesOn(t *testing.T) {
	s, def := startKind(t, "spoils", "Spoil", "{spec: {upgrade: {policy: Patch}, module: {version: '>= 1.0.0'}, run: {interval: 10m}}}")
	old, next := s.object("Spoil", "a", "10.0.0.0/16"), s.object("Spoil", "b", "10.1.0.0/16")
	has := func(o *unstructured.Unstructured, version string) {
		t.Helper()
		s.create(o)
		s.until("it runs "+version, func() (bool, any) { s.read(o); return text(o, "status", "module", "version") == version, o })
	}
	has(old, "1.0.0")
	s.publish("2.0.0", network(""))
	s.until("it is current", func() (bool, any) { s.read(def); return def.Status.Module.Version == "2.0.0", def.Status })
	has(next, "2.0.0")
	s.damaged("1.0.1")
	if c := s.says(def, metav1.ConditionFalse, v1alpha1.ReasonFailed); !strings.Contains(c.Message, "version 1.0.1: ") {
		t.Errorf("it says %s", c.Message)
	}
	change(s, def, func(def *v1alpha1.ModuleKind) { def.Spec.Run.Interval = new(v1alpha1.Duration("1h")) })
	s.until("the others have what changed", func() (bool, any) {
		by := s.runs.by("b")
		return *by.Spec.Run.Interval == "1h", by
	})
	s.remove(def)
}

// TestRolloutBatchMeetsOthers checks that a concurrent write to an object whose update
// begins is not reported as an error of the definition.
//
// Shows: operator 26
func TestRolloutBatchMeetsOthers(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	var met atomic.Bool
	s.start(func(c client.Client) client.Client {
		return interceptor.NewClient(withWatch{c}, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, opts ...client.SubResourceUpdateOption) error {
				if o, is := object.(*unstructured.Unstructured); is && text(o, "status", "rollout") != "" && met.CompareAndSwap(false, true) {
					change(s, o.DeepCopy(), func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"example.com/a": "b"}) })
				}
				return c.SubResource(sub).Update(ctx, object, opts...)
			},
		})
	})
	def := s.define("meets", "Meet", "{spec: {upgrade: {policy: Minor}}}")
	s.ready(def)
	s.four("Meet")
	s.publish("1.1.0", network(""))
	s.until("all have it", func() (bool, any) { is := s.versions("Meet"); return is == "1.1.0 1.1.0 1.1.0 1.1.0", is })
	s.ready(def)
	set := must.Get(kubernetes.NewForConfig(s.admin))(t)
	list := must.Get(set.EventsV1().Events("").List(t.Context(), metav1.ListOptions{}))(t)
	for _, e := range list.Items {
		if e.Regarding.UID == def.UID && e.Reason == v1alpha1.ReasonFailed {
			t.Errorf("told: %s", e.Note)
		}
	}
	if !met.Load() {
		t.Error("they did not meet")
	}
	s.remove(def)
}

// TestVersions checks that the policy decides which versions objects upgrade to by
// themselves. Others are reported, and an object may ask for any allowed one.
//
// Shows: operator 26
func TestVersions(t *testing.T) {
	s, def := startKind(t, "asks", "Ask", "{spec: {upgrade: {policy: Patch}, module: {version: '>= 1.0.0'}}}")
	o := s.object("Ask", "one", "10.0.0.0/16")
	s.create(o)
	is := func(version, available string) {
		t.Helper()
		s.until("it runs "+version, func() (bool, any) {
			s.read(o)
			_, tells := fluxobj.Conditions(o)[v1alpha1.ConditionUpdateAvailable]
			return text(o, "status", "module", "version") == version && text(o, "status", "updateAvailable") == available && tells == (available != ""), o.Object["status"]
		})
	}
	is("1.0.0", "")
	s.publish("1.0.1", network(""))
	is("1.0.1", "")
	s.publish("2.0.0", network(""))
	is("1.0.1", "2.0.0")
	change(s, o, func(o *unstructured.Unstructured) { ask(o, "2.0.0") })
	is("2.0.0", "")
	change(s, o, func(o *unstructured.Unstructured) { ask(o, "1.0.0") })
	is("1.0.0", "")
	s.remove(def)
}

// TestNarrowed shows that a schema under which an object would be invalid is not written, and
// its version is not used; a wider schema is written at once.
//
// Shows: operator 26
func TestNarrowed(t *testing.T) {
	s, def := startKind(t, "narrows", "Narrow", "{spec: {upgrade: {policy: Any}}}")
	o := s.object("Narrow", "one", "10.0.0.0/16")
	s.create(o)
	s.until("it runs", func() (bool, any) { s.read(o); return text(o, "status", "module", "version") == "1.0.0", o })

	s.publish("1.1.0", network("variable \"region\" {\n  type = string\n  nullable = false\n}"))
	c := s.says(def, metav1.ConditionFalse, v1alpha1.ReasonSchemaNarrowed)
	if want := "1 object would become invalid (" + s.tenant + "/one: spec.region: Required value"; !strings.HasPrefix(c.Message, want) {
		t.Errorf("it says %s", c.Message)
	}
	s.read(o)
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "narrows.apps.okara.dev"}}
	s.read(crd)
	if _, there := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["region"]; there || text(o, "status", "module", "version") != "1.0.0" || def.Status.Module.Version != "1.0.0" {
		t.Errorf("it was written; the object runs %v", o.Object["status"])
	}
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(o)
	s.until("it still waits", func() (bool, any) {
		s.read(def)
		c := meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady)
		return c.Reason == v1alpha1.ReasonSchemaNarrowed && strings.Contains(c.Message, "change spec.module.version"), c
	})
	o = s.object("Narrow", "two", "10.0.0.0/16")
	s.create(o)
	s.publish("1.2.0", network("variable \"region\" {\n  type = string\n  default = \"x\"\n}"))
	s.ready(def)
	s.until("the wider one is taken", func() (bool, any) {
		s.read(o)
		return text(o, "status", "module", "version") == "1.2.0", o
	})
	s.remove(def)
}

// TestPassedOver publishes versions that the executor does not run: a definition that upgrades
// automatically stays Ready with the highest that it runs, and says which one it does not take.
//
// Shows: operator 26
func TestPassedOver(t *testing.T) {
	s, def := startKind(t, "passes", "Pass", "{spec: {upgrade: {policy: Patch}, module: {version: '>= 1.0.0'}}}")
	o := s.object("Pass", "one", "10.0.0.0/16")
	s.create(o)
	is := func(kind, version, available string) {
		t.Helper()
		s.until("it runs "+version, func() (bool, any) {
			s.read(o)
			s.read(def)
			return def.Status.Module.Version == kind && text(o, "status", "module", "version") == version && text(o, "status", "updateAvailable") == available, o.Object["status"]
		})
	}
	const want = "; version 1.0.1 is passed over: the executor runs opentofu, which refuses the module: it uses "
	s.publish("1.0.1", network("action \"local_command\" \"a\" {}"))
	if c := s.says(def, metav1.ConditionTrue, v1alpha1.ReasonBehind); !strings.HasPrefix(c.Message, "objects run version 1.0.0"+want) || def.Status.UpdateAvailable != "" {
		t.Errorf("it says %s, and %+v", c.Message, def.Status)
	}
	is("1.0.0", "1.0.0", "")
	s.publish("2.0.0", network("")) // no patch of 1.0.0
	is("2.0.0", "1.0.0", "2.0.0")
	if c := s.says(def, metav1.ConditionTrue, v1alpha1.ReasonBehind); !strings.HasPrefix(c.Message, "objects run version 2.0.0"+want) {
		t.Errorf("it says %s", c.Message)
	}
	s.publish("1.0.2", network(""))
	is("2.0.0", "1.0.2", "2.0.0")
	s.ready(def)
	s.remove(def)
}

// TestManual publishes a version with a new required input: under the policy Manual the kind
// keeps its version and schema until somebody changes the definition.
//
// Shows: operator 26
func TestManual(t *testing.T) {
	s, def := startKind(t, "keeps", "Keep", "{spec: {module: {version: '>= 1.0.0'}}}")
	s.publish("1.1.0", network("variable \"region\" {\n  type = string\n  nullable = false\n}"))
	s.until("it is available", func() (bool, any) { s.read(def); return def.Status.UpdateAvailable == "1.1.0", def.Status })
	s.ready(def)
	cached := kindctl.Registry{Catalog: catalog.New(catalog.Options{Client: s.registry}), Client: s.registry}
	for _, n := range []int{2, 3} { // a request looks for versions that a cache does not have yet
		if all := must.Get(cached.Versions(t.Context(), def.Spec.Module))(t); len(all) != n {
			t.Errorf("%v, not %d versions", all, n)
		}
		s.publish(fmt.Sprintf("0.%d.0", n), network(""))
		cached.ForgetVersions(def.Spec.Module)
	}
	change(s, def, func(def *v1alpha1.ModuleKind) {
		metav1.SetMetaDataAnnotation(&def.ObjectMeta, v1alpha1.AnnotationRequest, "now")
	})
	s.until("the request asks the registry", func() (bool, any) {
		s.read(def)
		return def.Status.LastHandledRequest == "now" && s.forgot.Load() > 0, def.Status
	})
	if def.Status.Module.Version != "1.0.0" {
		t.Errorf("the kind has %+v", def.Status)
	}
	o := s.object("Keep", "one", "10.0.0.0/16")
	s.create(o)
	must.Succeed(t, s.Delete(t.Context(), o))
	s.gone(o)
	change(s, def, func(def *v1alpha1.ModuleKind) { def.Spec.Module.Version = ">= 1.1.0" })
	s.until("it has the newer version", func() (bool, any) {
		s.read(def)
		return def.Status.Module.Version == "1.1.0" && def.Status.UpdateAvailable == "", def.Status
	})
	s.ready(def)
	if err := s.Create(t.Context(), s.object("Keep", "two", "10.0.0.0/16")); !apierrors.IsInvalid(err) {
		t.Errorf("an object without the new input: %v", err)
	}
	s.remove(def)
}

// TestMoved checks that a version is refused after its tag was moved.
//
// Shows: operator 27
func TestMoved(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	was := s.publish("1.0.0", network(""))
	s.start(nil)
	def := s.define("moves", "Move", "")
	s.ready(def)
	repo := must.Get(s.registry.Repo("modules/net/vpc/aws"))(t)
	s.publish("1.0.1-other", network("variable \"more\" { default = 1 }"))
	m := must.Get(repo.Fetch(t.Context(), "1.0.1-other"))(t)
	must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", m))
	c := s.says(def, metav1.ConditionFalse, v1alpha1.ReasonDigestMismatch)
	if !strings.Contains(c.Message, was.Digest+" was resolved") || def.Status.Module.Digest != was.Digest {
		t.Errorf("it says %s", c.Message)
	}
	s.remove(def)
}

// TestTaken leaves a foreign CRD unchanged, and continues once that is deleted.
//
// Shows: operator 27
func TestTaken(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	theirs := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "takens.apps.okara.dev"}}
	theirs.Spec = apiextensions.CustomResourceDefinitionSpec{
		Group: "apps.okara.dev", Scope: apiextensions.NamespaceScoped, Names: apiextensions.CustomResourceDefinitionNames{Kind: "Taken", Plural: "takens"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object"}}}},
	}
	s.create(theirs)
	s.start(nil)
	def := s.define("takens", "Taken", "")
	s.says(def, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if s.read(theirs); theirs.Spec.Versions[0].Name != "v1" {
		t.Error("somebody else's CRD is written")
	}
	must.Succeed(t, s.Delete(t.Context(), theirs))
	s.ready(def)
	s.remove(def)
}

// TestNameOfAnother checks that a definition reports that its kind belongs to another one,
// and that its deletion, with any policy, does not touch the objects of the other one.
//
// Shows: operator 27
func TestNameOfAnother(t *testing.T) {
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	s.start(nil)
	first := s.define("ones", "Shared", "")
	s.ready(first)
	o := s.object("Shared", "a", "10.0.0.0/16")
	s.create(o)
	s.until("it runs", func() (bool, any) { s.read(o); return s.runs.by("a") != nil, o })
	uid := o.GetUID()
	for _, orphan := range []v1alpha1.OrphanPolicy{"Refuse", v1alpha1.OrphanKeep} {
		second := s.define("others", "Shared", fmt.Sprintf("{spec: {deletion: {orphan: %s}}}", orphan))
		s.says(second, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
		must.Succeed(t, s.Delete(t.Context(), second))
		s.gone(second)
		s.gone(&apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "others.apps.okara.dev"}})
	}
	if s.read(o); o.GetUID() != uid || o.GetDeletionTimestamp() != nil {
		t.Errorf("the object of the other definition is %+v", o)
	}
	if by := s.runs.by("a"); by.Name != first.Name {
		t.Errorf("it was carried out by %s", by.Name)
	}
	s.remove(first)
}

// TestExecutorMissing checks that the kind exists without tofu-controller, and its
// definition reports that as missing until it is installed.
//
// Shows: operator 27
func TestExecutorMissing(t *testing.T) {
	s := newSite(t)
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "terraforms.infra.contrib.fluxcd.io"}}
	if err := s.Delete(t.Context(), crd); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	s.gone(crd)
	s.until("it is not served", func() (bool, any) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
		o.SetKind("Terraform")
		o.SetNamespace(s.tenant)
		o.SetName("none")
		err := s.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return err != nil && !apierrors.IsServiceUnavailable(err), err
	})
	s.publish("1.0.0", network(""))
	s.start(nil)
	def := s.define("waits", "Wait", "")
	s.says(def, metav1.ConditionFalse, v1alpha1.ReasonExecutorMissing)
	s.create(s.object("Wait", "one", "10.0.0.0/16"))
	rig.InstallFlux(t, s.admin)
	s.ready(def)
	s.read(def)
	def.Spec.Run.Approval.Mode = v1alpha1.ApprovalPlan
	must.Succeed(t, s.Update(t.Context(), def))
	s.says(def, metav1.ConditionFalse, fluxexec.PlanGateMissing)
	s.remove(def)
}
