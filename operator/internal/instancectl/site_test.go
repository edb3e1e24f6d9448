// SPDX-License-Identifier: Apache-2.0

package instancectl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// site is a namespace for instances with its own clock.
type site struct {
	t                 *testing.T
	operator          *rest.Config // has the chart's rights
	operatorNamespace string       // namespace of the operator
	teams             []string     // other namespaces with Instances
	settings          instancectl.Settings
	client            client.Client // of an administrator, without a cache
	engine            *engine
	events            *events.FakeRecorder // of leaders
	clock             *clocktesting.FakeClock
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, engine: &engine{did: map[lifecycle.Ref]int{}}, events: &events.FakeRecorder{}, clock: clocktesting.NewFakeClock(time.Now())}
	rig.Install(t, cluster.Admin(t))
	s.settings.Namespace = cluster.Namespace(t, nil).Name
	s.operatorNamespace = cluster.Namespace(t, nil).Name
	s.operator = cluster.Account(t, s.operatorNamespace)
	s.client = s.newClient(cluster.Admin(t), nil)
	return s
}

func (s *site) newClient(config *rest.Config, reader client.Reader) client.Client {
	s.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		must.Succeed(s.t, add(scheme))
	}
	o := client.Options{Scheme: scheme}
	if reader != nil {
		o.Cache = &client.CacheOptions{Reader: reader}
	}
	return must.Get(client.New(config, o))(s.t)
}

// cached returns a client with its own cache, as each process has.
func (s *site) cached(config *rest.Config) client.Client {
	s.t.Helper()
	c := must.Get(cache.New(config, cache.Options{Scheme: s.client.Scheme(), DefaultNamespaces: s.watched()}))(s.t)
	ctx, stop := context.WithCancel(context.Background())
	s.t.Cleanup(stop)
	go func() { _ = c.Start(ctx) }()
	for _, o := range []client.Object{&v1alpha1.Template{}, &v1alpha1.Instance{}, &v1alpha1.Approval{}} {
		must.Get(c.GetInformer(s.t.Context(), o))(s.t)
	}
	return s.newClient(config, c)
}

// watched are the namespaces of the Instances of a site: tests share an API server.
func (s *site) watched() map[string]cache.Config {
	all := map[string]cache.Config{s.settings.Namespace: {}}
	for _, name := range s.teams {
		all[name] = cache.Config{}
	}
	return all
}

// leader returns an operator that leads.
func (s *site) leader() *instancectl.Controller {
	s.t.Helper()
	return instancectl.NewController(s.cached(s.operator), s.newClient(s.operator, nil), s.events, instancectl.Options{
		Settings: s.settings, Operator: s.operatorNamespace, Executor: s.engine, Clock: &instancectl.Clock{Here: s.clock.Now}, Concurrency: 100, Observe: time.Hour,
	})
}

// portal returns one process of the portal.
func (s *site) portal() *instancectl.Store {
	c := s.cached(cluster.Admin(s.t))
	return instancectl.NewStore(c, instancectl.NewCatalog(c, s.settings), s.settings, s.clock.Now)
}

// run lets an operator reconcile until a condition holds.
func (s *site) run(c *instancectl.Controller, what string, until func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := c.Reconcile(s.t.Context()); err != nil && s.t.Context().Err() == nil {
			s.t.Errorf("pass: %v", err)
		}
		if until() {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("it never came that %s: %v", what, s.phases())
		}
	}
}

// gone lets an operator reconcile until nothing is left of an instance.
func (s *site) gone(c *instancectl.Controller, id string) {
	s.t.Helper()
	operatorNamespace := s.all()[id].Status.Namespace
	s.run(c, "it says what it waits for", func() bool {
		return s.all()[id] == nil || s.says(id, v1alpha1.ConditionReconciling, "waiting for what is in namespace "+operatorNamespace)()
	})
	s.run(c, "nothing is left of "+id, func() bool { return s.ended(operatorNamespace) && s.all()[id] == nil })
	must.Equal(s.t, "resources are left", s.engine.left(), 0)
}

// ended plays the namespace controller.
func (s *site) ended(name string) bool {
	s.t.Helper()
	set := must.Get(kubernetes.NewForConfig(cluster.Admin(s.t)))(s.t)
	ns, err := set.CoreV1().Namespaces().Get(s.t.Context(), name, metav1.GetOptions{})
	if err == nil && ns.DeletionTimestamp != nil {
		ns.Spec.Finalizers = nil
		_, err = set.CoreV1().Namespaces().Finalize(s.t.Context(), ns, metav1.UpdateOptions{})
	}
	if client.IgnoreNotFound(err) != nil {
		s.t.Log(err)
	}
	return apierrors.IsNotFound(err)
}

// template creates a Template that the operator has resolved.
func (s *site) template(name string, change func(*v1alpha1.TemplateSpec)) *v1alpha1.Template {
	s.t.Helper()
	o := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: s.settings.Namespace, Name: name}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "net/vpc/aws"}, Outputs: []string{"url"}, Retries: new(int32(0)),
		TTL:        &v1alpha1.TemplateTTL{Default: "8h", Max: "72h", Extend: "2h", Extends: 2},
		Connection: &v1alpha1.TemplateConnection{URL: "https://${outputs.url}/"},
		Parameters: []v1alpha1.TemplateParameter{{Name: "size", Update: true}},
	}}
	if change != nil {
		change(&o.Spec)
	}
	must.Succeed(s.t, s.client.Create(s.t.Context(), o))
	instancectl.Resolved(s.t, s.client, o)
	return o
}

func (s *site) all() map[string]*v1alpha1.Instance {
	s.t.Helper()
	var list v1alpha1.InstanceList
	must.Succeed(s.t, s.client.List(s.t.Context(), &list))
	all := map[string]*v1alpha1.Instance{}
	for i := range list.Items {
		if _, is := s.watched()[list.Items[i].Namespace]; is {
			all[list.Items[i].Name] = &list.Items[i]
		}
	}
	return all
}

// phases counts the Instances of each phase.
func (s *site) phases() map[v1alpha1.InstancePhase]int {
	n := map[v1alpha1.InstancePhase]int{}
	for _, o := range s.all() {
		n[o.Status.Phase]++
	}
	return n
}

func (s *site) is(id string, p v1alpha1.InstancePhase) func() bool {
	return func() bool { o := s.all()[id]; return o != nil && o.Status.Phase == p }
}

// create has a portal launch a template for a user.
func (s *site) create(p *instancectl.Store, who, tmpl, key string) (lifecycle.Answer, error) {
	e, err := instancectl.CatalogOf(p).Pin(s.t.Context(), tmpl, "")
	if err != nil {
		return lifecycle.Answer{}, err
	}
	return p.Do(s.t.Context(), lifecycle.Command{
		Event: lifecycle.Create{
			Template: e.Template, Digest: e.Digest, Source: e.Source, Owner: template.Owner{Kind: "user", Issuer: "https://idp", ID: who, Label: who},
		},
		Actor: lifecycle.Actor{Issuer: "https://idp", Subject: who}, Key: key, Caller: who, Digest: "body",
	})
}

func (s *site) do(p *instancectl.Store, who string, e lifecycle.Event) (lifecycle.Answer, error) {
	return p.Do(s.t.Context(), lifecycle.Command{Event: e, Actor: lifecycle.Actor{Issuer: "https://idp", Subject: who}})
}

// engine is an executor of this process that outlives operators, as Flux does.
type engine struct {
	mu     sync.Mutex
	did    map[lifecycle.Ref]int // how often an attempt began
	made   map[string]int        // resources, by instance
	fails  func(run.Attempt) error
	holds  bool                 // attempts do not end
	keeps  map[string]error     // errors of releasing what an instance made, by instance
	known  map[string]types.UID // UID by which an instance was known last
	planID string
}

func (e *engine) begin(a run.Attempt, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.did[a.Ref]++
	if e.known == nil {
		e.known = map[string]types.UID{}
	}
	e.known[a.ID] = types.UID(a.UID)
	if e.fails != nil {
		if err := e.fails(a); err != nil {
			return err
		}
	}
	if e.made == nil {
		e.made = map[string]int{}
	}
	e.made[a.ID] = n
	return nil
}

func (e *engine) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, made := range e.made {
		n += made
	}
	return n
}

func (e *engine) Advance(_ context.Context, a run.Attempt) (run.Status, error) {
	if a.Kind == lifecycle.RunDestroy {
		return e.destroy(a)
	}
	if a.Kind == lifecycle.RunPlan {
		return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Done, Plan: e.planID, Counts: &lifecycle.Counts{Add: 1}, Resources: -1}}, nil
	}
	if err := e.begin(a, 1); err != nil {
		return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.RunFailed, Error: err.Error(), Resources: -1}}, nil
	}
	if e.held() {
		return run.Status{State: run.Running}, nil
	}
	return run.Status{State: run.Ended, Result: lifecycle.Result{
		Outcome: lifecycle.Done, Resources: 1, State: true, Outputs: map[string]json.RawMessage{"url": json.RawMessage(fmt.Sprintf("%q", a.ID+".example.com"))},
	}}, nil
}

func (e *engine) destroy(a run.Attempt) (run.Status, error) {
	if err := e.begin(a, 0); err != nil {
		return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.RunFailed, Error: err.Error(), Resources: 1, State: true}}, nil
	}
	return run.Status{State: run.Ended, Result: lifecycle.Result{Outcome: lifecycle.Done}}, nil
}

func (e *engine) Cancel(context.Context, run.Attempt, bool) error { return nil }

func (e *engine) Release(_ context.Context, a run.Attempt) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keeps[a.ID] == nil, e.keeps[a.ID]
}

func (e *engine) held() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holds
}

// hold keeps attempts from ending, or lets them end.
func (e *engine) hold(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds = on
}

// keep makes releasing an instance fail with an error; nil: it succeeds.
func (e *engine) keep(id string, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keeps = map[string]error{id: why}
}

// attempts returns the number of attempts of an instance that began, and its UID in them.
func (e *engine) attempts(id string) (n int, uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ref := range e.did {
		if ref.ID == id {
			n++
		}
	}
	return n, e.known[id]
}

var errBroken = errors.New("the cloud is down")
