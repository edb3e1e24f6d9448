// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/kindrun"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/plangate"
	"github.com/seed-141914ff/okara/operator/internal/records"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
	"github.com/seed-141914ff/okara/statebackend"
)

// kindSite is a server and its operator of one kind.
type kindSite struct {
	flux
	t       *testing.T
	config  *rest.Config
	tenant  string
	past    *runaccess.Issuer // the operator's issuer with expired tokens
	okara   string            // HOST:PORT
	admin   string            // token with all rights there
	module  depot.Published
	def     *v1alpha1.ModuleKind
	objects *kindrun.Objects
}

// newKindSite defines a kind, with the chart's rights.
func newKindSite(t *testing.T, module string, how func(*v1alpha1.ModuleKindSpec)) *kindSite {
	t.Helper()
	s := &kindSite{t: t, config: cluster.With(t, Manager, Source, Tofu), tenant: cluster.Namespace(t, nil).Name}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fluxobj.AddToScheme, v1alpha1.AddToScheme, apiextensions.AddToScheme} {
		must.Succeed(t, add(scheme))
	}
	admin, err := client.NewWithWatch(s.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s.flux = flux{admin}
	Install(t, s.config)
	operatorNamespace := cluster.Namespace(t, nil).Name
	c := must.Get(client.New(cluster.Account(t, operatorNamespace), client.Options{Scheme: scheme}))(t)
	issue := runaccess.IssuerOptions{Client: c, Namespace: operatorNamespace, Cluster: "prod"}
	issuer := must.Get(runaccess.NewIssuer(issue))(t)
	issue.Now = func() time.Time { return time.Now().Add(-runaccess.Lifetime - time.Minute) }
	if s.past, err = runaccess.NewIssuer(issue); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, issuer.Keep(t.Context()))
	keys := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: runaccess.IssuerConfigMap}}
	s.read(t, keys)
	tokens := s.token()
	s.okara = serve(t, "--token-file", tokens, "--config", serveConfig(t, issuer.Name(), keys.Data[runaccess.IssuerKey]))
	registry := s.registry()
	s.publish(registry, module)
	s.define()
	if how != nil {
		how(&s.def.Spec)
	}
	gate := httptest.NewServer(plangate.New(admin, func() ([]byte, error) { return []byte("key"), nil }, slog.New(slog.DiscardHandler)))
	t.Cleanup(gate.Close)
	stores := map[string]*statebackend.Store{}
	access := must.Get(runaccess.New(runaccess.Options{
		Client: c, Issuer: issuer, FrontEnd: &url.URL{Scheme: "http", Host: s.okara},
		Stores: func(name string) (*statebackend.Store, error) {
			if stores[name] == nil {
				r, err := registry.Repo("state/" + name)
				if err != nil {
					return nil, err
				}
				stores[name] = statebackend.New(r, statebackend.Options{Tool: "test"})
			}
			return stores[name], nil
		},
	}))(t)
	s.objects = kindrun.New(kindrun.Options{Records: records.Store{Client: c, Namespace: operatorNamespace}, Client: c, Access: access, Executor: &fluxexec.Executor{Client: c}, Want: s.want, Readers: kindspec.OutputsRole, Gate: gate.URL + plangate.Path})
	return s
}

// serveConfig returns the configuration for runs that the chart gives okara serve.
func serveConfig(t *testing.T, issuer, keys string) string {
	t.Helper()
	dir := t.TempDir()
	file, config := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(keys), 0o600))
	text := fmt.Sprintf(`
issuer %[1]q {
  audiences = ["okara"]
  jwks_file = %[2]q
}
rule "states of runs" {
  issuer = %[1]q
  allow  = ["write:state:prod.{namespace}/{workspace}", "read:mirror:**"]
}
rule "modules of runs" {
  issuer = %[1]q
  allow  = ["read:module:{module...}"]
}
`, issuer, file)
	must.Succeed(t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

// token creates the token of the operator for the registry.
func (s *kindSite) token() (file string) {
	s.t.Helper()
	dir := s.t.TempDir()
	file = filepath.Join(dir, "tokens")
	out, err := exec.CommandContext(s.t.Context(), okaraPath(), "admin", "token", "new", "operator", "admin:*:**", "write:state:**", "--token-file", file, "--write", filepath.Join(dir, "token")).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	b := must.Get(os.ReadFile(filepath.Join(dir, "token")))(s.t)
	s.admin = strings.TrimSpace(string(b))
	return file
}

// registry returns a client that reads and writes as the operator.
func (s *kindSite) registry() *oci.Client {
	s.t.Helper()
	return must.Get(oci.New(s.okara, oci.Options{PlainHTTP: true, Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{Username: "okara", Password: s.admin}, nil
	}}))(s.t)
}

func (s *kindSite) publish(c *oci.Client, module string) {
	s.t.Helper()
	s.module = must.Get(depot.New(depot.Options{Client: c, Layout: addr.Layout{}}).PublishModule(s.t.Context(), fstest.MapFS{"main.tf": {Data: []byte(module)}},
		depottest.MustModule(s.t, "acme/greeting/any", "1.0.0"), depot.ModuleOptions{}))(s.t)
}

// define creates the kind directly, and marks the namespace as a tenant's.
func (s *kindSite) define() {
	s.t.Helper()
	s.def = &v1alpha1.ModuleKind{ObjectMeta: metav1.ObjectMeta{Name: "greetings"}}
	s.def.Spec.Names = v1alpha1.KindNames{Kind: "Greeting", Plural: "greetings", Singular: "greeting"}
	s.def.Spec.Run.Prefix = "greeting-"
	s.def.Spec.Outputs = v1alpha1.KindOutputs{SecretName: "{name}-outputs", Include: []v1alpha1.InputName{"text", "list"}, Status: []v1alpha1.InputName{"text"}, Readers: []v1alpha1.KindReader{{Kind: "Group", Name: "tenant-acme"}}}
	of := func(kind string, properties map[string]apiextensions.JSONSchemaProps) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: kind, Properties: properties}
	}
	name := apiextensions.JSONSchemaProps{Type: "string", Pattern: "^[a-z]+$"}
	status := apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	root := of("object", map[string]apiextensions.JSONSchemaProps{"spec": of("object", map[string]apiextensions.JSONSchemaProps{"name": name}), "status": status})
	crd := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "greetings.apps.okara.dev"}, Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "apps.okara.dev", Scope: apiextensions.NamespaceScoped, Names: apiextensions.CustomResourceDefinitionNames{Kind: "Greeting", Plural: "greetings", Singular: "greeting", ListKind: "GreetingList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &root},
			Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
		}},
	}}
	if err := s.Create(s.t.Context(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	until(s.t, "the kind is served", func() (bool, any) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("apps.okara.dev/v1alpha1")
		list.SetKind("GreetingList")
		err := s.List(s.t.Context(), list)
		return err == nil, err
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.tenant}}
	s.change(s.t, ns, func() { metav1.SetMetaDataLabel(&ns.ObjectMeta, v1alpha1.LabelTenant, "") })
}

func (s *kindSite) want(def *v1alpha1.ModuleKind, o *unstructured.Unstructured) (kindrun.Wanted, error) {
	w := kindrun.Wanted{Address: "acme/greeting/any"}
	w.Run.Module = fluxexec.Module{Repository: s.module.Repository, Digest: s.module.Digest, Version: "1.0.0", PlainHTTP: true}
	w.Run.Labels = map[string]string{v1alpha1.LabelKind: o.GetKind(), v1alpha1.LabelObject: o.GetName()}
	if def.Spec.Run.Approval.Mode == v1alpha1.ApprovalPlan {
		w.Run.Approval = fluxexec.ApprovalManual
	}
	w.Run.RetryInterval = metav1.Duration{Duration: 2 * time.Second}
	name, err := json.Marshal(text(s.t, o, "spec", "name"))
	w.Run.Variables = map[string]json.RawMessage{"name": name}
	return w, err
}

func (s *kindSite) greet(name string) *unstructured.Unstructured {
	s.t.Helper()
	return object(s.t, fmt.Sprintf("apiVersion: apps.okara.dev/v1alpha1\nkind: Greeting\nmetadata: {namespace: %s, name: hello}\nspec: {name: %q}\n", s.tenant, name))
}

// carry reconciles an object until the condition is true.
func (s *kindSite) carry(o *unstructured.Unstructured, what string, is func() bool) {
	s.t.Helper()
	until(s.t, what, func() (bool, any) {
		err := s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o)
		if err == nil {
			_, err = s.objects.Reconcile(s.t.Context(), s.def, o)
		}
		if client.IgnoreNotFound(err) == nil {
			err = client.IgnoreNotFound(s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o))
		}
		return is(), []any{err, o.Object["status"], s.terraform(o)}
	})
}

func (s *kindSite) terraform(o *unstructured.Unstructured) any {
	run := object(s.t, "apiVersion: infra.contrib.fluxcd.io/v1alpha2\nkind: Terraform\n")
	if err := s.Get(s.t.Context(), client.ObjectKey{Namespace: "okara-run-" + string(o.GetUID()), Name: "greeting-hello"}, run); err != nil {
		return err
	}
	return run.Object["status"]
}

func (s *kindSite) reason(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return fmt.Sprint(m["reason"])
		}
	}
	return ""
}

// state runs an okara state command on the state of the object.
func (s *kindSite) state(args ...string) string {
	s.t.Helper()
	okara := exec.CommandContext(s.t.Context(), okaraPath(), append([]string{"state"}, args...)...)
	okara.Env = append(os.Environ(), "OKARA_REGISTRY="+s.okara, "OKARA_USERNAME=okara", "OKARA_PASSWORD="+s.admin)
	out, err := okara.CombinedOutput()
	if err != nil {
		s.t.Fatalf("okara state %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *kindSite) set(o *unstructured.Unstructured, name string) {
	s.t.Helper()
	s.change(s.t, o, func() { o.Object["spec"] = map[string]any{"name": name} })
}

// gone reports whether an object does not exist.
func (s *kindSite) gone(o client.Object) bool {
	s.t.Helper()
	return apierrors.IsNotFound(s.Get(context.WithoutCancel(s.t.Context()), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
}

// pull returns the state, read with all rights.
func (s *kindSite) pull() string {
	s.t.Helper()
	_, state := s.ask(s.admin, http.MethodGet, "")
	return state
}

// ask sends a request for the state of the object with a token, and returns the response.
func (s *kindSite) ask(token, method, body string) (status int, answer string) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), method, "http://"+s.okara+"/state/prod."+s.tenant+"/greetings.hello", strings.NewReader(body)))(s.t)
	req.SetBasicAuth("okara", token)
	resp := must.Get(http.DefaultClient.Do(req))(s.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, string(b)
}
