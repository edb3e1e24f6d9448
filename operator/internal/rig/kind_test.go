// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

// page returns the files on a page of the documentation, by name.
func page(t *testing.T, name string) map[string]string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(Root(), "docs", name)))(t)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```[a-z]+ ([a-z.]+)\n(.*?)```\n").FindAllStringSubmatch(string(b), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// newOperatorSite starts okara serve, and an operator whose runs have their states in it.
func newOperatorSite(t *testing.T) *kindSite {
	t.Helper()
	operator := filepath.Join(Root(), "bin", "okara-operator")
	if _, err := os.Stat(operator); errors.Is(err, fs.ErrNotExist) {
		t.Skip("okara-operator is not built: make interop-kube builds it")
	}
	s := &kindSite{t: t, config: cluster.With(t, Manager, Source, Tofu)}
	Install(t, s.config)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxobj.AddToScheme, v1alpha1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	c := must.Get(client.NewWithWatch(s.config, client.Options{Scheme: scheme}))(t)
	s.flux = flux{c}
	operatorNamespace := cluster.Namespace(t, nil).Name
	issuer := must.Get(runaccess.NewIssuer(runaccess.IssuerOptions{Client: c, Namespace: operatorNamespace, Cluster: "prod"}))(t)
	if err := issuer.Keep(t.Context()); err != nil { // with the chart, okara serve gets the keys
		t.Fatal(err)
	}
	keys := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: runaccess.IssuerConfigMap}}
	s.read(t, keys)
	tokens := s.token()
	s.okara = serve(t, "--token-file", tokens, "--config", serveConfig(t, issuer.Name(), keys.Data[runaccess.IssuerKey]))
	s.operate(operator, operatorNamespace)
	return s
}

func (s *kindSite) operate(path, operatorNamespace string) {
	s.t.Helper()
	dir := s.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must.Succeed(s.t, WriteConfig(kubeconfig, cluster.Account(s.t, operatorNamespace)))
	login := must.Get(json.Marshal(map[string]any{"auths": map[string]any{s.okara: map[string]string{"username": "okara", "password": s.admin}}}))(s.t)
	must.Succeed(s.t, os.WriteFile(filepath.Join(dir, "config.json"), login, 0o600))
	p := must.Get(Launch(dir, path, append(os.Environ(), "DOCKER_CONFIG="+dir), "run", "--kubeconfig", kubeconfig, "--namespace", operatorNamespace, "--registry", s.okara, "--plain-http",
		"--serve", "http://"+s.okara, "--cluster", "prod", "--unsafe-no-policies", "--flux-namespace", fluxNamespace, "--metrics-address", "0", "--health-address", "0", "--lease", "9s"))(s.t)
	s.t.Cleanup(func() {
		p.Kill()
		if s.t.Failed() {
			s.t.Log(p.LogTail())
		}
	})
}

// apply creates an object of a page.
func (s *kindSite) apply(file string) *unstructured.Unstructured {
	s.t.Helper()
	return s.create(s.t, object(s.t, file))
}

// comes waits until the condition Ready of an object has the given reason.
func (s *kindSite) comes(o *unstructured.Unstructured, reason string) {
	s.t.Helper()
	until(s.t, o.GetName()+" is "+reason, func() (bool, any) {
		s.read(s.t, o)
		return s.reason(o) == reason, o.Object["status"]
	})
}

// TestRoundOfAKind follows the page docs/kubernetes/kinds.md with the real programs: the
// definition is applied, an invalid range is refused before anything is created, and a
// valid one is run. One group reads the outputs, the state is in okara serve, and in the
// end nothing is left of the object or the kind.
//
// Shows: kinds 2 | the whole life of an object: refused, applied with its state in `okara serve`
// and a token of its own, its outputs, including a list, readable by one group only, changed,
// destroyed; nothing is left
// Shows: rig 8 | the page of [kinds](kubernetes/kinds.md) with `okara-operator run`: the kind, a
// refusal, an applied object, its outputs for one group, its state in `okara serve`, its end, the
// end of the kind
func TestRoundOfAKind(t *testing.T) {
	s, files := newOperatorSite(t), page(t, "kubernetes/kinds.md")
	must.Get(depot.New(depot.Options{Client: s.registry()}).PublishModule(t.Context(), fstest.MapFS{"main.tf": {Data: []byte(files["main.tf"])}},
		depottest.MustModule(t, "net/vpc/aws", "1.4.0"), depot.ModuleOptions{}))(t)
	def := s.apply(files["kind.yaml"])
	s.comes(def, v1alpha1.ReasonEstablished)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-acme", Labels: map[string]string{v1alpha1.LabelTenant: ""}}}
	must.Succeed(t, s.Create(t.Context(), ns))
	s.tenant = ns.Name

	wrong := object(t, strings.Replace(files["vpc.yaml"], "10.10.0.0/16", "ten", 1))
	if err := s.Create(t.Context(), wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cidr is no range") {
		t.Errorf("what is no range is %v", err)
	}
	runs := &corev1.NamespaceList{}
	if err := s.List(t.Context(), runs, client.HasLabels{v1alpha1.LabelRuns}); err != nil || len(runs.Items) > 0 {
		t.Errorf("something runs for it: %v, %v", runs.Items, err)
	}

	o := s.apply(files["vpc.yaml"])
	s.comes(o, v1alpha1.ReasonApplied)
	id := text(t, o, "status", "outputValues", "vpc_id")
	if !strings.HasPrefix(id, "vpc-") || text(t, o, "status", "module", "version") != "1.4.0" || text(t, o, "status", "outputsSecret") != "prod-outputs" {
		t.Errorf("the status is %v", o.Object["status"])
	}
	s.outputs(id)
	where := s.okara + "/state/prod.tenant-acme"
	if got := s.state("list", where); !strings.Contains(got, "vpcs.prod") {
		t.Errorf("okara state list says %s", got)
	}
	if got := s.state("locks", where); strings.Contains(got, "vpcs.prod") {
		t.Errorf("okara state locks says %s", got)
	}
	fixed := o.DeepCopy()
	fixed.Object["spec"].(map[string]any)["cidr"] = "10.11.0.0/16"
	if err := s.Update(t.Context(), fixed); !apierrors.IsInvalid(err) {
		t.Errorf("another cidr is %v", err)
	}

	s.delete(t, o)
	s.flux.gone(t, o)
	for _, left := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "okara-run-" + string(o.GetUID())}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: "prod-outputs"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: "okara-vpcs-prod-outputs"}},
	} {
		if !s.gone(left) {
			t.Errorf("%T %s is left", left, left.GetName())
		}
	}
	if got := s.state("list", where); strings.Contains(got, "vpcs.prod") {
		t.Errorf("okara state list says %s", got)
	}
	s.delete(t, def)
	s.flux.gone(t, def)
	if !s.gone(&apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "vpcs.apps.okara.dev"}}) {
		t.Error("the kind is left")
	}
}

// outputs requires that only the group in the definition can read the outputs.
func (s *kindSite) outputs(id string) {
	s.t.Helper()
	for group, may := range map[string]bool{"tenant-acme": true, "tenant-other": false} {
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "eve", Groups: []string{group, "system:authenticated"}}
		c, err := client.New(config, client.Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		secret := &corev1.Secret{}
		err = c.Get(s.t.Context(), client.ObjectKey{Namespace: s.tenant, Name: "prod-outputs"}, secret)
		got := fmt.Sprintf("%s %s", secret.Data["vpc_id"], secret.Data["subnet_ids"])
		if may && (err != nil || got != id+` ["subnet-eu-central-1a","subnet-eu-central-1b"]`) || !may && !apierrors.IsForbidden(err) {
			s.t.Errorf("%s gets %s, %v", group, got, err)
		}
	}
}
