// SPDX-License-Identifier: Apache-2.0

package registryctl_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/registryctl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// patience bounds each wait. Slow machines may need much of it; a passing test waits less.
const patience = time.Minute

// vpc is the module of most tests.
const vpc = "net/vpc/aws"

// gate is the access to a registry, which a test can close.
type gate struct {
	base   http.RoundTripper
	act    atomic.Pointer[ocitest.Act] // replaces each request; nil: none
	asked  atomic.Int64
	writes atomic.Int64

	mu      sync.Mutex // guards the field below
	headers []string   // Authorization
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.asked.Add(1)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		g.writes.Add(1)
	}
	g.mu.Lock()
	g.headers = append(g.headers, r.Header.Get("Authorization"))
	g.mu.Unlock()
	if act := g.act.Load(); act != nil {
		return (*act)(r, g.base)
	}
	return g.base.RoundTrip(r)
}

func (g *gate) close(act ocitest.Act) { g.act.Store(&act) }
func (g *gate) open()                 { g.act.Store(nil) }

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex // guards the field below
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// site is an operator with a cluster, an origin registry, and a registry to fill.
type site struct {
	client.Client
	t                     *testing.T
	config                *rest.Config // of the test
	account               *rest.Config // of the operator
	elect                 bool
	alsoInside            []string // further hosts inside that may be origins
	origin, fill          string   // HOST:PORT
	from, to              *depot.Depot
	out, in               gate // to the origin and to the registry that is filled
	runs                  atomic.Int64
	clock                 atomic.Int64 // how far the clock is ahead, in ns
	log                   buffer
	ns, operatorNamespace string // of the objects and of the operator
	issuers               []string
	scanner               registryctl.Scanner
	watched               []string
	stop                  func()
	asked                 int
}

// newSite sets up what an operator needs. It does not start the operator.
func newSite(t *testing.T, annotations map[string]string) *site {
	t.Helper()
	s := &site{t: t, config: cluster.Admin(t), origin: ocitest.New(t, ocitest.Quirks{}), fill: ocitest.New(t, ocitest.Quirks{})}
	rig.Install(t, s.config)
	s.from, _ = depottest.NewDepot(t, s.origin, oci.Options{})
	s.in.base = http.DefaultTransport
	s.to, _ = depottest.NewDepot(t, s.fill, oci.Options{Transport: &s.in, Retry: oci.Retry{MaxAttempts: 1}})
	var err error
	if s.Client, err = client.New(s.config, client.Options{Scheme: s.scheme()}); err != nil {
		t.Fatal(err)
	}
	s.ns, s.operatorNamespace, s.account = s.namespace(annotations), cluster.Namespace(t, nil).Name, s.config
	return s
}

func (s *site) scheme() *runtime.Scheme {
	s.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{registryctl.AddToScheme, eventsv1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(s.t, add(scheme))
	}
	return scheme
}

// namespace creates another namespace that the operator watches.
func (s *site) namespace(annotations map[string]string) string {
	ns := cluster.Namespace(s.t, annotations)
	s.watched = append(s.watched, ns.Name)
	s.tenant(ns.Name, true)
	return ns.Name
}

// tenant sets the label of a tenant on a namespace, or removes it.
func (s *site) tenant(name string, is bool) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.change(ns, func() {
		delete(ns.Labels, v1alpha1.LabelTenant)
		if is {
			metav1.SetMetaDataLabel(&ns.ObjectMeta, v1alpha1.LabelTenant, "")
		}
	})
}

// start starts the operator, without knowledge of an earlier one.
func (s *site) start() {
	s.t.Helper()
	namespaces := map[string]cache.Config{}
	for _, name := range s.watched {
		namespaces[name] = cache.Config{}
	}
	mgr := must.Get(ctrl.NewManager(s.account, ctrl.Options{
		Scheme: s.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		LeaderElection: s.elect, LeaderElectionID: "okara-operator", LeaderElectionNamespace: s.operatorNamespace, LeaderElectionReleaseOnCancel: true,
		Cache:  cache.Options{DefaultNamespaces: namespaces, ByObject: registryctl.Cached(s.operatorNamespace)},
		Logger: logr.FromSlogHandler(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})),
	}))(s.t)
	guard := upstream.NewGuard(append(s.alsoInside, s.origin))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext, transport.Proxy = guard.Dial, nil
	s.out.base = transport
	tenants := supply.NewTenants(supply.TenantsOptions{Guard: guard, Transport: &s.out, Registry: s.fill, Layout: s.to.Options().Layout})
	ctx, cancel := context.WithCancel(s.t.Context())
	must.Succeed(s.t, registryctl.Setup(ctx, mgr, registryctl.Options{
		Depot: s.to, Namespace: s.operatorNamespace, Issuers: s.issuers, Scanner: s.scanner, Now: s.now,
		Origins: func(ctx context.Context, secret supply.TenantSecret, may func(addr.Item) bool) (supply.Origins, error) {
			s.runs.Add(1)
			return tenants.Origins(ctx, secret, may)
		},
	}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		transport.CloseIdleConnections()
		upstream.InstallGit(http.DefaultClient)
	})
	s.t.Cleanup(s.stop)
}

func (s *site) now() time.Time { return time.Now().Add(time.Duration(s.clock.Load())) }

func (s *site) publish(versions ...string) {
	s.t.Helper()
	for _, v := range versions {
		must.Get(s.from.PublishModule(s.t.Context(), depottest.NewModule("# "+v), depottest.MustModule(s.t, vpc, v), depot.ModuleOptions{}))(s.t)
	}
}

func (s *site) source() string { return "oci://" + s.origin + "/p/modules/" + vpc }

// module creates a Module of vpc.
func (s *site) module(ns, name string, change func(*v1alpha1.Module)) *v1alpha1.Module {
	s.t.Helper()
	m := &v1alpha1.Module{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	m.Spec.Address, m.Spec.Source = vpc, s.source()
	if change != nil {
		change(m)
	}
	must.Succeed(s.t, s.Create(s.t.Context(), m))
	return m
}

// until waits until a condition holds; on timeout it reports the last observation.
func (s *site) until(what string, is func() (bool, any)) {
	s.t.Helper()
	var last any
	if err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var ok bool
		ok, last = is()
		return ok, nil
	}); err != nil {
		s.t.Fatalf("never %s: %+v\n%s", what, last, s.log.String())
	}
}

func (s *site) read(o client.Object) {
	s.t.Helper()
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o))
}

// conditions returns the conditions of an object, and the generation they are about.
func conditions(o client.Object) ([]metav1.Condition, int64) {
	switch o := o.(type) {
	case *v1alpha1.Depot:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.Module:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.Provider:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.Version:
		return o.Status.Conditions, o.Status.ObservedGeneration
	case *v1alpha1.AccessRule:
		return o.Status.Conditions, o.Status.ObservedGeneration
	}
	return nil, 0
}

// says waits until an object is Ready, or not Ready, for a reason, and returns the message.
func (s *site) says(o client.Object, ready bool, reason string) string {
	s.t.Helper()
	var message string
	s.until(fmt.Sprintf("%s Ready=%t for %s", o.GetName(), ready, reason), func() (bool, any) {
		s.read(o)
		list, generation := conditions(o)
		c := meta.FindStatusCondition(list, v1alpha1.ConditionReady)
		if c == nil {
			return false, list
		}
		message = c.Message
		return generation == o.GetGeneration() && generation == c.ObservedGeneration && (c.Status == metav1.ConditionTrue) == ready && c.Reason == reason, list
	})
	return message
}

func stalled(o client.Object) bool {
	list, _ := conditions(o)
	return meta.IsStatusConditionTrue(list, v1alpha1.ConditionStalled)
}

// again requests a run of a Module and waits for it.
func (s *site) again(m *v1alpha1.Module) {
	s.t.Helper()
	s.clock.Add(int64(time.Minute))
	s.asked++
	request := fmt.Sprint(s.asked)
	s.change(m, func() {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationRequest, request)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, "reconcile.fluxcd.io/requestedAt", "flux")
	})
	s.until("run", func() (bool, any) {
		s.read(m)
		return m.Status.LastHandledRequest == request && m.Status.LastHandledReconcileAt == "flux", m.Status
	})
}

// change changes the current version of an object.
func (s *site) change(o client.Object, how func()) {
	s.t.Helper()
	s.read(o)
	before := o.DeepCopyObject().(client.Object)
	how()
	must.Succeed(s.t, s.Patch(s.t.Context(), o, client.MergeFrom(before)))
}

// states lists the versions of a status with their states.
func states(m *v1alpha1.Module) string {
	var all []string
	for _, v := range m.Status.Versions {
		all = append(all, v.Version+" "+string(v.State))
	}
	return strings.Join(all, ", ")
}

// reconciled is how many reconciles the controllers of this process have finished.
func reconciled(t *testing.T, controller string) int {
	t.Helper()
	families := must.Get(metrics.Registry.Gather())(t)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "controller" && l.GetValue() == controller {
						sum += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return int(sum)
}

// content returns every tag of repositories with its digest.
func content(t *testing.T, host string, names ...string) map[string]string {
	t.Helper()
	_, c := depottest.NewDepot(t, host, oci.Options{})
	all := map[string]string{}
	for _, name := range names {
		repo := depottest.MustRepo(t, c, name)
		for _, tag := range depottest.MustTags(t, repo) {
			all[name+":"+tag] = depottest.MustFetch(t, repo, tag).Digest.String()
		}
	}
	return all
}

// tags returns the tags of the module in the registry.
func (s *site) tags() []string {
	s.t.Helper()
	var all []string
	for name := range maps.Keys(content(s.t, s.fill, "p/modules/"+vpc)) {
		_, tag, _ := strings.Cut(name, ":")
		all = append(all, tag)
	}
	slices.Sort(all)
	return all
}

// mustReport waits for an event about an object.
func (s *site) mustReport(o client.Object, reason string) string {
	s.t.Helper()
	var note string
	s.until("an event "+reason, func() (bool, any) {
		var list eventsv1.EventList
		if err := s.List(s.t.Context(), &list, client.InNamespace(o.GetNamespace())); err != nil {
			return false, err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.UID == o.GetUID() {
				note = e.Note
				return true, nil
			}
		}
		return false, list.Items
	})
	return note
}

// clientset returns a client for what the client of objects cannot do.
func (s *site) clientset() *kubernetes.Clientset {
	s.t.Helper()
	return must.Get(kubernetes.NewForConfig(s.config))(s.t)
}
