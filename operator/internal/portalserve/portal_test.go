// SPDX-License-Identifier: Apache-2.0

package portalserve_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
	"github.com/seed-141914ff/okara/operator/internal/portalserve"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// site is a portal for a namespace, with the rights of an account.
type site struct {
	t         *testing.T
	client    client.Client // of an administrator
	namespace string
	file      string
	portal    *portalserve.Portal
	operator  *instancectl.Controller
	url       string
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		must.Succeed(t, add(s))
	}
	return s
}

// newSite starts a portal with the rights of a configuration.
func newSite(t *testing.T, as func(namespace string) *rest.Config) *site {
	t.Helper()
	admin := cluster.Admin(t)
	rig.Install(t, admin)
	s := &site{t: t, namespace: cluster.Namespace(t, nil).Name, file: filepath.Join(t.TempDir(), "portal.hcl")}
	var err error
	if s.client, err = client.New(admin, client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "session.key")
	must.Succeed(t, os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600))
	s.configure(fmt.Sprintf("ui { session_key_files = [%q] }\n", key), "anna", "ben", "clara")
	config := as(s.namespace)
	cached := must.Get(cache.New(config, cache.Options{Scheme: scheme(t), DefaultNamespaces: map[string]cache.Config{s.namespace: {}}}))(t)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() { _ = cached.Start(ctx) }()
	for _, o := range []client.Object{&v1alpha1.Template{}, &v1alpha1.Instance{}, &v1alpha1.ModuleKind{}} {
		must.Get(cached.GetInformer(t.Context(), o))(t)
	}
	c := must.Get(client.New(config, client.Options{Scheme: scheme(t), Cache: &client.CacheOptions{Reader: cached}}))(t)
	s.portal, _ = must.GetBoth(portalserve.New(portalserve.Options{
		File: s.file, Namespace: s.namespace, Client: c, Clock: &instancectl.Clock{}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))(t)
	server := httptest.NewServer(s.portal)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// readable are the templates that users may see: clara sees all, and kinds.
var readable = map[bool]string{false: "sandbox/*", true: "**"}

// configure writes the file. The given users may launch and approve.
func (s *site) configure(more string, names ...string) {
	s.t.Helper()
	var text strings.Builder
	text.WriteString(more)
	for _, name := range names {
		fmt.Fprintf(&text, "token %q {\n sha256 = \"%x\"\n scopes = [\"use:instance:sandbox/*\", \"approve:instance:sandbox/*\", \"read:template:%s\"]\n}\n",
			name, sha256.Sum256([]byte(tokenOf(name))), readable[name == "clara"])
	}
	must.Succeed(s.t, os.WriteFile(s.file, []byte(text.String()), 0o600))
}

// template creates a Template that all have seen.
func (s *site) template(name string, change func(*v1alpha1.TemplateSpec)) {
	s.t.Helper()
	o := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1alpha1.TemplateSpec{
		Module: &v1alpha1.TemplateModule{Address: "net/vpc/aws"}, PerOwner: 2, TTL: &v1alpha1.TemplateTTL{Default: "8h", Max: "24h", Extend: "1h", Extends: 2},
		Parameters: []v1alpha1.TemplateParameter{{Name: "size"}}, Outputs: []string{"url"}, Connection: &v1alpha1.TemplateConnection{URL: "https://${outputs.url}/"},
	}}
	if change != nil {
		change(&o.Spec)
	}
	must.Succeed(s.t, s.client.Create(s.t.Context(), o))
	o.Status = v1alpha1.TemplateStatus{
		ObservedGeneration: o.Generation, Version: "1.0.0", Digest: "sha256:1", Versions: []v1alpha1.TemplateVersion{{Version: "1.0.0", Digest: "sha256:1"}},
		Inputs: &apiextensions.JSON{Raw: []byte(`{"properties":{"size":{"type":"string","default":"small"}}}`)}, Outputs: map[string]bool{"url": false},
		Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Synced", LastTransitionTime: metav1.Now()}},
	}
	must.Succeed(s.t, s.client.Status().Update(s.t.Context(), o))
	s.wait("the portal sees Template "+name, func() bool { return s.launches(strings.Replace(name, ".", "/", 1)) })
}

// wait waits until the condition is true.
func (s *site) wait(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it never came that %s", what)
		}
	}
}

// launches reports whether the portal shows a template to anna, and she may launch it.
func (s *site) launches(name string) bool {
	s.t.Helper()
	all, _ := s.ask("anna", "GET", "/api/v1/templates", "", 200)["templates"].([]any)
	for _, one := range all {
		if t, ok := one.(map[string]any); ok && t["name"] == name && t["invalid"] == nil {
			return true
		}
	}
	return false
}

// ask sends a request as a user, and requires a status.
func (s *site) ask(who, method, path, body string, want int) map[string]any {
	s.t.Helper()
	r := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader([]byte(body))))(s.t)
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(who))
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp := must.Get(http.DefaultClient.Do(r))(s.t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		s.t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.StatusCode, b, err, want)
	}
	var doc map[string]any
	_ = json.Unmarshal(b, &doc) // pages are not JSON
	return doc
}

// TestPortal launches with the API of okara serve, backed by objects.
func TestPortal(t *testing.T) {
	s := newSite(t, func(string) *rest.Config { return cluster.Admin(t) })
	s.template("sandbox.vpc", func(t *v1alpha1.TemplateSpec) { t.Approval.Mode = "Request" })
	made := s.ask("anna", "POST", "/api/v1/instances", `{"template":"sandbox/vpc","name":"mine","parameters":{"size":"large"}}`, 202)
	id, _ := made["id"].(string)
	if made["phase"] != "requested" {
		t.Errorf("made: %v", made)
	}
	var o v1alpha1.Instance
	key := client.ObjectKey{Namespace: s.namespace, Name: id}
	must.Succeed(t, s.client.Get(t.Context(), key, &o))
	if o.Spec.CreatedBy != "portal:okara:static#anna" || o.Spec.Owner.ID != "anna" || string(o.Spec.Parameters["size"].Raw) != `"large"` || o.Spec.Name != "mine" {
		t.Errorf("%+v", o.Spec)
	}
	s.ask("anna", "GET", "/api/v1/instances/"+id, "", 200)
	s.ask("anna", "POST", "/api/v1/instances", `{"template":"sandbox/vpc","parameters":{"size":1}}`, 422)
	s.ask("anna", "POST", "/api/v1/templates/sandbox/vpc/pause", `{}`, 403)
	s.ask("", "GET", "/api/v1/instances", "", 401)
	s.ask("", "GET", "/ui/", "", 200)
	s.ask("", "GET", "/ui/modules/a/b/c", "", 404)
	s.ask("", "GET", "/readyz", "", 200)
	s.ask("", "GET", "/healthz", "", 200)
}

// TestPortalRereads a changed file, not an invalid one.
func TestPortalRereads(t *testing.T) {
	s := newSite(t, func(string) *rest.Config { return cluster.Admin(t) })
	src := must.Get(os.ReadFile(s.file))(t)
	keys, _, _ := strings.Cut(string(src), "token")
	s.configure("what = 1\n")
	s.portal.Again()
	s.ask("anna", "GET", "/api/v1/me", "", 200)
	s.configure(keys, "ben")
	s.portal.Again()
	s.ask("anna", "GET", "/api/v1/me", "", 401)
	s.ask("ben", "GET", "/api/v1/me", "", 200)
}

func TestSettings(t *testing.T) {
	for text, want := range map[string]string{
		"listen = 1\nwhat = 2":                                              "portal.hcl:2: ",
		"instances {\n quota {}\n}":                                         "portal.hcl:2: a quota must have",
		"instances {\n ttl {\n  default = \"1m\"\n }\n}":                    "portal.hcl:3: ttl: must be at least 10m",
		"instances {\n config = { \"a b\" = \"c\" }\n}":                     "config:",
		"quota \"a\" {}":                                                    "portal.hcl:1: quota \"a\": must have user, group or both, each at least 1",
		"instances {\n connection { type = \"web\" }\n}":                    "portal.hcl:2: a connection of type web needs a url",
		"instances {\n ttl {\n  default = \"8h\"\n  extend = \"2h\"\n }\n}": "portal.hcl:4: ttl: extend requires extends, the number of extensions",
		"instances {\n rate = -1\n}":                                        "portal.hcl:1: rate -1",
		"quota \"a\" {\n user = 1\n}\nquota \"a\" {\n user = 2\n}":          "portal.hcl:4: quota \"a\": duplicate",
		"instances {\n templates = \"here\"\n}":                             "portal.hcl:2: An argument named \"templates\" is not expected here",
		"executor \"local\" {}":                                             "portal.hcl:1: Blocks of type \"executor\" are not expected here",
		"instances {\n group_age = \"soon\"\n}":                             `group_age "soon"`,
		"ui { session_key_files = [\"a\"]\n foo = true }":                   "portal.hcl:",
	} {
		if _, err := portalserve.Parse([]byte(text), "portal.hcl"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s := must.Get(portalserve.Parse([]byte("instances {\n ttl {\n  default = \"8h\"\n  max = \"72h\"\n }\n quota { user = 5 }\n config = { domain = \"example.com\" }\n}\nquota \"students\" {\n groups = [\"students\"]\n user = 1\n}"), "portal.hcl"))(t)
	about, err := s.Instance()
	if err != nil || about.Defaults.TTL.Default.Hours() != 8 || len(about.Limits.Quotas) != 2 || about.Config["domain"] != "example.com" || s.Listen != "127.0.0.1:8080" {
		t.Errorf("%v %+v", err, about)
	}
}

// FuzzParse parses arbitrary files.
func FuzzParse(f *testing.F) {
	f.Add([]byte("ui { session_key_files = [\"a\"] }\ninstances { quota { user = 1 } }"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if s, err := portalserve.Parse(b, "portal.hcl"); err == nil {
			_, _ = s.Instance()
		}
	})
}

func tokenOf(name string) string { return "oks_" + name + "_" + strings.Repeat("a", 43) }
