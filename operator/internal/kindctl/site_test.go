// SPDX-License-Identifier: Apache-2.0

package kindctl_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindctl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// patience bounds each wait. Slow machines may need much of it; a passing test waits less.
const patience = time.Minute

// site creates kinds with the chart's rights.
type site struct {
	client.WithWatch          // of an administrator
	t                         *testing.T
	admin                     *rest.Config
	operatorNamespace, tenant string
	registry                  *oci.Client
	runs                      runs
	forgot                    atomic.Int32 // requests to ask the registry anew
	stop                      func()       // of the operator
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxobj.AddToScheme, v1alpha1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	return scheme
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, admin: cluster.Admin(t), operatorNamespace: cluster.Namespace(t, nil).Name, tenant: cluster.Namespace(t, nil).Name, stop: func() {}}
	rig.Install(t, s.admin)
	c, err := client.NewWithWatch(s.admin, client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.WithWatch = c
	if s.registry, err = oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}); err != nil {
		t.Fatal(err)
	}
	s.runs = runs{t: t, says: map[string]string{}, seen: map[string]*v1alpha1.ModuleKind{}, client: c}
	return s
}

// startKind starts an operator with Flux and a kind whose module has the version 1.0.0.
func startKind(t *testing.T, plural, kind, more string) (*site, *v1alpha1.ModuleKind) {
	t.Helper()
	s := newSite(t)
	rig.InstallFlux(t, s.admin)
	s.publish("1.0.0", network(""))
	s.start(nil)
	def := s.define(plural, kind, more)
	s.ready(def)
	return s, def
}

// start starts the operator; wrap changes its client.
func (s *site) start(wrap func(client.Client) client.Client) {
	s.t.Helper()
	account := cluster.Account(s.t, s.operatorNamespace)
	scheme := newScheme(s.t)
	mgr := must.Get(ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: new(true)},
	}))(s.t)
	c := must.Get(client.New(account, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()}))(s.t)
	if wrap != nil {
		c = wrap(c)
	}
	must.Succeed(s.t, kindctl.Setup(mgr, kindctl.Options{Client: c, Modules: fresh{s.registry, &s.forgot}, Objects: &s.runs, Namespace: s.operatorNamespace, Tool: "opentofu", Every: time.Second}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.stop)
}

// fresh reads the registry without a cache.
type fresh struct {
	c      *oci.Client
	forgot *atomic.Int32
}

func (f fresh) ForgetVersions(v1alpha1.KindModule) { f.forgot.Add(1) }

func (f fresh) now() kindctl.Registry {
	return kindctl.Registry{Catalog: catalog.New(catalog.Options{Client: f.c}), Client: f.c}
}

func (f fresh) Versions(ctx context.Context, m v1alpha1.KindModule) ([]addr.Version, error) {
	return f.now().Versions(ctx, m)
}

func (f fresh) Version(ctx context.Context, m v1alpha1.KindModule, v addr.Version) (kindctl.Version, error) {
	return f.now().Version(ctx, m, v)
}

// network is a module with a variable for each argument.
func network(more string) string {
	return "variable \"cidr\" {\n  type = string\n  nullable = false\n}\n" + more + "\noutput \"vpc_id\" { value = var.cidr }\n"
}

func (s *site) publish(version, source string) depot.Published {
	s.t.Helper()
	return must.Get(depot.New(depot.Options{Client: s.registry}).PublishModule(s.t.Context(), fstest.MapFS{"main.tf": {Data: []byte(source)}}, depottest.MustModule(s.t, "net/vpc/aws", version), depot.ModuleOptions{}))(s.t)
}

// define creates a definition, and removes it when the test ends.
func (s *site) define(plural, kind, more string) *v1alpha1.ModuleKind {
	s.t.Helper()
	def := &v1alpha1.ModuleKind{}
	for _, text := range []string{fmt.Sprintf(`
metadata: {name: %[1]s}
spec:
  names: {kind: %[2]s, plural: %[1]s}
  module: {address: net/vpc/aws, version: "~> 1.0"}
  schema: {validations: [{rule: "isCIDR(self.cidr)", message: "no range of addresses"}]}
`, plural, kind), more} {
		must.Succeed(s.t, yaml.UnmarshalStrict([]byte(text), def))
	}
	must.Succeed(s.t, s.Create(s.t.Context(), def))
	return def
}

// change changes the current version of an object.
func change[O client.Object](s *site, o O, how func(O)) {
	s.t.Helper()
	s.read(o)
	before := o.DeepCopyObject().(client.Object)
	how(o)
	must.Succeed(s.t, s.Patch(s.t.Context(), o, client.MergeFrom(before)))
}

func ask(o *unstructured.Unstructured, version string) {
	spec, _ := o.Object["spec"].(map[string]any)
	spec["runOptions"] = map[string]any{"version": version}
}

func (s *site) read(o client.Object) {
	s.t.Helper()
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o))
}

func (s *site) there(o client.Object) bool {
	s.t.Helper()
	err := s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		s.t.Fatal(err)
	}
	return err == nil
}

// until waits until a condition holds; on timeout it reports the last observation.
func (s *site) until(what string, is func() (bool, any)) {
	s.t.Helper()
	var last any
	if err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var ok bool
		ok, last = is()
		return ok, nil
	}); err != nil {
		s.t.Fatalf("never: %s: %+v", what, last)
	}
}

// says waits until a definition is Ready, or not, for a reason.
func (s *site) says(def *v1alpha1.ModuleKind, status metav1.ConditionStatus, reason string) *metav1.Condition {
	s.t.Helper()
	var c *metav1.Condition
	s.until(fmt.Sprintf("%s is %s for %s", def.Name, status, reason), func() (bool, any) {
		s.read(def)
		c = meta.FindStatusCondition(def.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == status && c.Reason == reason && c.ObservedGeneration == def.Generation, def.Status
	})
	return c
}

func (s *site) ready(def *v1alpha1.ModuleKind) {
	s.t.Helper()
	s.says(def, metav1.ConditionTrue, v1alpha1.ReasonEstablished)
}

// object returns an object of a kind, which is not created yet.
func (s *site) object(kind, name, cidr string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"cidr": cidr}}}
	o.SetAPIVersion("apps.okara.dev/v1alpha1")
	o.SetKind(kind)
	o.SetNamespace(s.tenant)
	o.SetName(name)
	return o
}

func (s *site) create(o client.Object) {
	s.t.Helper()
	must.Succeed(s.t, s.Create(s.t.Context(), o))
}

// remove deletes a definition with its objects, and waits for that.
func (s *site) remove(def *v1alpha1.ModuleKind) {
	s.t.Helper()
	change(s, def, func(def *v1alpha1.ModuleKind) { def.Spec.Deletion.Orphan = v1alpha1.OrphanKeep })
	if err := s.Delete(s.t.Context(), def); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	s.gone(def)
}

func (s *site) gone(o client.Object) {
	s.t.Helper()
	s.until(o.GetName()+" is gone", func() (bool, any) { return !s.there(o), o })
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// runs writes the results that a test wants.
type runs struct {
	t      *testing.T
	client client.Client

	mu   sync.Mutex                      // guards the fields below
	says map[string]string               // reason of Ready=False, by name of the object; "": Ready=True
	seen map[string]*v1alpha1.ModuleKind // definition that each object was last reconciled with
	made int                             // objects that got their finalizer
}

func (r *runs) fail(name, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.says[name] = reason
}

// by returns the definition that an object was last reconciled with.
func (r *runs) by(name string) *v1alpha1.ModuleKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[name]
}

func (*runs) Report(_ context.Context, _ *unstructured.Unstructured, err error) error { return err }

func (r *runs) Reconcile(ctx context.Context, def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[o.GetName()] = def
	o = o.DeepCopy()
	if o.GetDeletionTimestamp() != nil {
		if controllerutil.RemoveFinalizer(o, v1alpha1.FinalizerRun) {
			return 0, client.IgnoreNotFound(r.client.Update(ctx, o))
		}
		return 0, nil
	}
	if controllerutil.AddFinalizer(o, v1alpha1.FinalizerRun) {
		r.made++
		if err := r.client.Update(ctx, o); err != nil {
			return 0, err
		}
	}
	kind, status, reason := "Stalled", "False", r.says[o.GetName()]
	if reason == "" {
		kind, status, reason = "Reconciling", "True", "Applied"
	}
	condition := func(kind, status string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "", "observedGeneration": o.GetGeneration(), "lastTransitionTime": "2026-01-02T03:04:05Z"}
	}
	list := []any{condition("Ready", status)}
	if kind == "Stalled" {
		list = append(list, condition(kind, "True"))
	}
	was, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if fmt.Sprint(was) == fmt.Sprint(list) {
		return time.Second, nil
	}
	if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
		return 0, err
	}
	return time.Second, r.client.Status().Update(ctx, o)
}
