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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/statefile"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec/helm"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/instancerun"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/operator/internal/runhome"
)

// siteModule is one that says where it is reached.
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

// stubborn is a module that is destroyed only once a file is there.
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

// states are those of an okara serve that lets everybody in.
type states struct{ url string }

func (s states) address(r runaccess.Run) string { return s.url + "/" + r.Workspace }

func (s states) Prepare(_ context.Context, r runaccess.Run) (runaccess.Ready, error) {
	return runaccess.Ready{State: fluxexec.State{Address: s.address(r)}}, nil
}

func (s states) Release(ctx context.Context, r runaccess.Run, _ bool) error {
	state, err := s.ask(ctx, http.MethodGet, s.address(r))
	if err != nil || state == nil {
		return err
	}
	if has, err := statefile.HasResources(state); err != nil || has {
		return &runaccess.KeptError{State: "rig", Workspace: r.Workspace, Why: "it has resources"}
	}
	_, err = s.ask(ctx, http.MethodDelete, s.address(r))
	return err
}

func (states) Clean(context.Context, runaccess.Run) (bool, error) { return true, nil }

func (states) ask(ctx context.Context, method, at string) ([]byte, error) {
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

// platform is an operator with instances, on real controllers, and a clock of its own.
type platform struct {
	*trial
	client.Client
	states states

	mu  sync.Mutex // guards the field below
	now time.Time
}

func (p *platform) time() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// later lets time go by, and has the operator look.
func (p *platform) later(d time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	p.now = p.now.Add(d)
	p.mu.Unlock()
	var all v1alpha1.TemplateList
	if err := p.Client.List(p.t.Context(), &all, client.InNamespace(p.ns)); err != nil {
		p.t.Fatal(err)
	}
	var list v1alpha1.InstanceList
	if err := p.Client.List(p.t.Context(), &list, client.InNamespace(p.ns)); err != nil {
		p.t.Fatal(err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		before := o.DeepCopy()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, "test.okara.dev/look", p.time().String())
		if err := p.Patch(p.t.Context(), o, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			p.t.Fatal(err)
		}
	}
}

// newPlatform has the controller that carries instances out: Tofu or Helm.
func newPlatform(t *testing.T, engine string) *platform {
	t.Helper()
	p := &platform{trial: newTrialWith(t, engine), now: time.Now()}
	p.states.url = strings.TrimSuffix(p.state, "/"+p.ns)
	admin := cluster.Admin(t)
	Install(t, admin)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, runhome.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if p.Client, err = client.New(admin, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{runhome.Account, "okara-operator-secrets"} {
		if err := p.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(admin, ctrl.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(slog.NewTextHandler(t.Output(), nil)), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(p.repository, "/")
	registry, err := oci.New(host, oci.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	layout := addr.Layout{Prefix: "p"} // as the trial has it
	options := instancerun.Options{
		Client: p.Client, Flux: &fluxexec.Executor{Client: p.Client, Live: p.Client}, Helm: &helm.Executor{Client: p.Client}, Access: p.states,
		Registry: host, Layout: layout, PlainHTTP: true, Instances: p.ns, Operator: p.ns,
	}
	if err := instancectl.Setup(mgr, p.Client, instancectl.Options{
		Settings: instancectl.Settings{Namespace: p.ns}, Clock: &instancectl.Clock{Here: p.time}, Observe: 500 * time.Millisecond,
		Executor: instancerun.Flux{Modules: instancerun.New(options), Charts: instancerun.NewHelm(options)},
		Charts:   instancerun.Charts{Helm: options.Helm, Registry: host, PlainHTTP: true},
		Modules:  instancerun.Modules{Catalog: catalog.New(catalog.Options{Client: registry, Layout: layout})},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// launch makes a Template of the published module, and an instance of it that is ready.
func (p *platform) launch(name string) *v1alpha1.Instance {
	p.t.Helper()
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "sandbox.greeting"}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "acme/greeting/any"}, Outputs: []string{"text"}, TTL: &v1alpha1.TemplateTTL{Default: "8h"}, Timeout: "10m",
		Parameters: []v1alpha1.TemplateParameter{{Name: "name"}}, Connection: &v1alpha1.TemplateConnection{URL: "https://${outputs.text}/"},
	}}
	if err := p.Create(p.t.Context(), template); err != nil {
		p.t.Fatal(err)
	}
	o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "abcdefghjk"}, Spec: v1alpha1.InstanceSpec{
		Template: "sandbox/greeting", Owner: &v1alpha1.Owner{Kind: "user", ID: "anna"}, CreatedBy: "anna",
		Parameters: map[string]apiextensions.JSON{"name": {Raw: []byte(`"` + name + `"`)}},
	}}
	if err := p.Create(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
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
	b, err := p.states.ask(p.t.Context(), http.MethodGet, p.states.url+"/instance."+o.Name)
	if err != nil {
		p.t.Fatal(err)
	}
	has, err := statefile.HasResources(b)
	return b != nil && err == nil && has
}

// TestInstance is N5 of kubernetes-tests.md: a Template, an instance that tofu made with a
// URL from an output, its end, and nothing that is left.
func TestInstance(t *testing.T) {
	p := newPlatform(t, Tofu)
	p.publish("1.1.0", siteModule)
	o := p.launch("okara")
	if o.Status.URL != "https://okara.example.com/" || !p.kept(o) {
		t.Errorf("%+v", o.Status)
	}
	template := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "sandbox.greeting"}}
	if err := p.Client.Delete(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Status.Namespace}}
	p.later(9 * time.Hour)
	for _, gone := range []client.Object{o, ns} {
		until(t, "nothing is left", func() (bool, any) {
			err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(gone), gone)
			return apierrors.IsNotFound(err), gone
		})
	}
	if p.kept(o) {
		t.Error("its state is left")
	}
}

// TestInstanceStays keeps the phase and the state of one that cannot be destroyed, until
// it can.
func TestInstanceStays(t *testing.T) {
	p := newPlatform(t, Tofu)
	p.publish("2.0.0", stubborn)
	file := filepath.Join(t.TempDir(), "go")
	o := p.launch(file)
	if err := p.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	until(t, "it failed for good", func() (bool, any) {
		p.later(time.Hour)
		err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return err == nil && o.Status.Phase == "DestroyFailed", []any{err, o.Status.Phase, o.Status.Reason, o.Status.Conditions}
	})
	if !p.kept(o) {
		t.Error("its state is gone")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() (bool, any) {
		p.later(25 * time.Hour)
		err := p.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), []any{err, o.Status.Phase, o.Status.Reason}
	})
	if p.kept(o) {
		t.Error("its state is left")
	}
}
