// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

const siteModule = `
variable "name" {
  type = string
}

resource "terraform_data" "site" {
  input = "${var.name}.example.com"
}

output "text" {
  value = terraform_data.site.output
}
`

// stubborn is a module that can be destroyed only once a file exists.
const stubborn = `
variable "name" {
  type = string
}

resource "terraform_data" "stubborn" {
  input = var.name

  provisioner "local-exec" {
    when    = destroy
    command = "test -e ${self.output}"
  }
}

output "text" {
  value = "x"
}
`

// stateStore gives access to the states of an okara serve without access control.
type stateStore struct{ url string }

func (s stateStore) address(r runaccess.Run) string { return s.url + "/" + r.Workspace }

func (s stateStore) Prepare(_ context.Context, r runaccess.Run) (runaccess.Ready, error) {
	return runaccess.Ready{State: fluxexec.State{Address: s.address(r)}}, nil
}

func (s stateStore) Release(ctx context.Context, r runaccess.Run) error {
	state, err := s.ask(ctx, http.MethodGet, s.address(r))
	if err != nil || state == nil {
		return err
	}
	if has, err := states.HasResources(state); err != nil || has {
		return &runaccess.KeptError{State: "rig", Workspace: r.Workspace, Why: "it has resources"}
	}
	_, err = s.ask(ctx, http.MethodDelete, s.address(r))
	return err
}

func (stateStore) Check(context.Context, runaccess.Run) error { return nil }

func (stateStore) ListLeaves(context.Context, runaccess.Run) ([]string, error) { return nil, nil }

func (stateStore) Clean(context.Context, runaccess.Run) (bool, error) { return true, nil }

func (stateStore) ask(ctx context.Context, method, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || len(b) == 0 {
		return nil, err
	}
	return b, err
}

// platform is an operator with instances on real controllers, with its own clock.
type platform struct {
	*trial
	client.Client
	states stateStore

	mu  sync.Mutex // guards the field below
	now time.Time
}

func (p *platform) time() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// later advances the clock, and makes the operator reconcile.
func (p *platform) later(d time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	p.now = p.now.Add(d)
	p.mu.Unlock()
	var all v1alpha1.TemplateList
	must.Succeed(p.t, p.Client.List(p.t.Context(), &all, client.InNamespace(p.ns)))
	var list v1alpha1.InstanceList
	must.Succeed(p.t, p.Client.List(p.t.Context(), &list, client.InNamespace(p.ns)))
	for i := range list.Items {
		o := &list.Items[i]
		before := o.DeepCopy()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, "test.okara.dev/look", p.time().String())
		if err := p.Patch(p.t.Context(), o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			p.t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // continuous writes would keep the operator from writing
}

// newPlatform starts the controller that carries out instances: Tofu or Helm.
func newPlatform(t *testing.T, engine string) *platform {
	t.Helper()
	p := &platform{trial: newTrialWith(t, engine), now: time.Now()}
	p.states.url = strings.TrimSuffix(p.state, "/"+p.ns)
	admin := cluster.Admin(t)
	Install(t, admin)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, fluxobj.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	var err error
	if p.Client, err = client.New(admin, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	cluster.Account(t, p.ns) // its roles are shared by all tests, in any order
	if err := p.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fluxobj.Account}}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return p
}

// operate starts an operator, and returns a function that stops it.
func (p *platform) operate(c client.Client) (stop func()) {
	p.t.Helper()
	mgr := must.Get(ctrl.NewManager(cluster.Admin(p.t), ctrl.Options{
		Scheme: p.Scheme(), Logger: logr.FromSlogHandler(slog.NewTextHandler(p.t.Output(), nil)), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, NewClient: func(*rest.Config, client.Options) (client.Client, error) { return Within(c, p.ns), nil },
	}))(p.t)
	host, _, _ := strings.Cut(p.repository, "/")
	registry := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(p.t)
	layout := addr.Layout{Prefix: "p"} // as in the trial
	options := instancerun.Options{
		Client: c, Flux: &fluxexec.Executor{Client: c}, Access: p.states,
		Registry: host, Layout: layout, PlainHTTP: true, Instances: p.ns, Operator: p.ns,
	}
	must.Succeed(p.t, instancectl.Setup(mgr, c, instancectl.Options{
		Settings: instancectl.Settings{Namespace: p.ns}, Operator: p.ns, Clock: &instancectl.Clock{Here: p.time}, Observe: 500 * time.Millisecond,
		Executor: instancerun.New(options),
		Charts:   instancerun.Charts{Flux: options.Flux, Registry: host, PlainHTTP: true},
		Modules:  instancerun.Modules{Catalog: catalog.New(catalog.Options{Client: registry, Layout: layout})},
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
	}
}

// launch makes a Template and an instance, until ready.
func (p *platform) launch(name string) *v1alpha1.Instance {
	p.t.Helper()
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "sandbox.greeting"}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "acme/greeting/any"}, Outputs: []string{"text"}, TTL: &v1alpha1.TemplateTTL{Default: "8h"}, Timeout: "10m",
		Parameters: []v1alpha1.TemplateParameter{{Name: "name"}}, Connection: &v1alpha1.TemplateConnection{URL: "https://${outputs.text}/"},
	}}
	must.Succeed(p.t, p.Create(p.t.Context(), template))
	o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "abcdefghjk"}, Spec: v1alpha1.InstanceSpec{
		Template: "sandbox/greeting", Owner: &v1alpha1.Owner{Kind: "User", ID: "anna"}, CreatedBy: "anna",
		Parameters: map[string]apiextensions.JSON{"name": {Raw: []byte(`"` + name + `"`)}},
	}}
	must.Succeed(p.t, p.Create(p.t.Context(), o))
	p.phase(o, "Ready")
	return o
}

func (p *platform) phase(o *v1alpha1.Instance, want v1alpha1.InstancePhase) {
	p.t.Helper()
	until(p.t, "it is "+string(want), func() (bool, any) {
		err := p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.Status.Phase == want, []any{err, o.Status.Phase, o.Status.Reason, o.Status.Conditions, o.Status.Handled}
	})
}

func (p *platform) kept(o *v1alpha1.Instance) bool {
	p.t.Helper()
	b := must.Get(p.states.ask(p.t.Context(), http.MethodGet, p.states.url+"/instance."+o.Name))(p.t)
	has, err := states.HasResources(b)
	return b != nil && err == nil && has
}

// TestInstance checks a Template and an instance that tofu created, with a URL from an
// output, its end, and that nothing is left.
//
// Shows: rig 5 | a Template and an Instance become what tofu created, with an address from an
// output; after its expiry nothing is left, including the state; one that cannot be destroyed keeps
// its phase and its state until it can
func TestInstance(t *testing.T) {
	p := newPlatform(t, Tofu)
	t.Cleanup(p.operate(p.Client))
	p.publish("1.1.0", siteModule)
	o := p.launch("okara")
	if o.Status.URL != "https://okara.example.com/" || !p.kept(o) {
		t.Errorf("%+v", o.Status)
	}
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "sandbox.greeting"}}
	must.Succeed(t, p.Client.Delete(t.Context(), template))
	p.expires(o)
}

// expires goes beyond an instance's end, until nothing is left.
func (p *platform) expires(o *v1alpha1.Instance) {
	p.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Status.Namespace}}
	p.later(9 * time.Hour)
	for _, gone := range []client.Object{o, ns} {
		until(p.t, "nothing is left", func() (bool, any) {
			err := p.Client.Get(p.t.Context(), client.ObjectKeyFromObject(gone), gone)
			return apierrors.IsNotFound(err), gone
		})
	}
	if p.kept(o) {
		p.t.Error("its state is left")
	}
}

// TestInstanceStays checks that an instance that cannot be destroyed keeps its phase and
// its state until it can.
//
// Shows: rig 5
func TestInstanceStays(t *testing.T) {
	p := newPlatform(t, Tofu)
	t.Cleanup(p.operate(p.Client))
	p.publish("2.0.0", stubborn)
	file := filepath.Join(t.TempDir(), "go")
	o := p.launch(file)
	must.Succeed(t, p.Client.Delete(t.Context(), o))
	until(t, "it failed for good", func() (bool, any) {
		p.later(time.Hour)
		err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.Status.Phase == "DestroyFailed", []any{err, o.Status.Phase, o.Status.Reason, o.Status.Conditions}
	})
	if !p.kept(o) {
		t.Error("its state is gone")
	}
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	until(t, "nothing is left", func() (bool, any) {
		p.later(25 * time.Hour)
		err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), []any{err, o.Status.Phase, o.Status.Reason}
	})
	if p.kept(o) {
		t.Error("its state is left")
	}
}
