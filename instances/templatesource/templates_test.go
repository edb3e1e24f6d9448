// SPDX-License-Identifier: Apache-2.0

package templatesource_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/instances/templatesource"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// fixture is a registry with modules and templates, and a folder of templates.
type fixture struct {
	t      *testing.T
	depot  *depot.Depot
	server *httptest.Server
	dir    string
	later  atomic.Int64 // how far the catalog's clock is ahead
	o      templatesource.Options
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s := &fixture{t: t, dir: t.TempDir(), server: httptest.NewServer(ocitest.Handler(t, ocitest.Quirks{}))}
	t.Cleanup(s.server.Close)
	client := must.Get(oci.New(strings.TrimPrefix(s.server.URL, "http://"), oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	layout := addr.Layout{Prefix: "p"}
	s.depot = depot.New(depot.Options{Client: client, Layout: layout})
	now := func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) }
	s.o = templatesource.Options{Dir: s.dir, Catalog: catalog.New(catalog.Options{Client: client, Layout: layout, Now: now})}
	return s
}

// module publishes a version of net/vpc/aws, and returns its digest.
func (s *fixture) module(version, config string) string {
	s.t.Helper()
	return s.moduleAt("net/vpc/aws", version, config)
}

func (s *fixture) moduleAt(address, version, config string) string {
	s.t.Helper()
	return s.moduleOf(address, version, fstest.MapFS{"main.tf": {Data: []byte(config + "\n# " + version)}, "modules/small/main.tf": {Data: []byte("variable \"only\" {\n  type = string\n}\n")}})
}

func (s *fixture) moduleOf(address, version string, tree fstest.MapFS) string {
	s.t.Helper()
	m := addr.ModuleVersion{Module: must.Fixed(addr.ParseModule(address)), Version: must.Fixed(addr.ParseVersion(version))}
	out := must.Get(s.depot.PublishModule(s.t.Context(), tree, m, depot.ModuleOptions{}))(s.t)
	return out.Digest
}

func (s *fixture) file(name, text string) {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

func templateText(name, module, body string) string {
	return "template \"" + name + "\" {\n  module {\n    " + module + "\n  }\n" + body + "\n}\n"
}

func (s *fixture) publish(name, version, text string) {
	s.t.Helper()
	list := must.Fixed(template.Parse([]byte(text), "a.hcl", template.Known{}))
	must.Get(s.depot.PublishTemplate(s.t.Context(), name, must.Fixed(addr.ParseVersion(version)), must.Fixed(list[0].Canonical())))(s.t)
}

// load reloads everything with expired caches of the catalog.
func (s *fixture) load(t *templatesource.Templates) {
	s.later.Add(int64(10 * time.Minute))
	t.Load(s.t.Context())
	t.Load(s.t.Context()) // the first load may get cached lists while they are refreshed
}

func problems(t *templatesource.Templates) []string {
	var all []string
	for _, p := range t.Problems() {
		all = append(all, p.Text)
	}
	return all
}

const config = `variable "name" {
  type    = string
  default = "x"
}
output "url" {
  value = ""
}
`

// TestVersions resolves a constraint, an exact version and a digest, each to a digest.
//
// Shows: platform 6 | charts and modules of several engines | modules of the registry; templates as
// files or artifacts
// Shows: platform-mistakes 3 | a version only as a branch; settings that have no effect
func TestVersions(t *testing.T) {
	s := newFixture(t)
	digests := map[string]string{}
	for _, v := range []string{"1.4.0", "1.5.0", "2.0.0", "2.1.0-rc.1"} {
		digests[v] = s.module(v, config)
	}
	s.file("a.hcl", templateText("a/any", `address = "net/vpc/aws"`, "")+
		templateText("a/range", "address = \"net/vpc/aws\"\nversion = \"~> 1.4\"", "")+
		templateText("a/exact", "address = \"net/vpc/aws\"\nversion = \"2.1.0-rc.1\"", "")+
		templateText("a/pinned", "address = \"net/vpc/aws\"\nversion = \""+digests["1.4.0"]+"\"\npath = \"modules/small\"", "inputs = { only = \"y\" }")+
		templateText("a/none", "address = \"net/vpc/aws\"\nversion = \"~> 7.0\"", "")+
		templateText("a/gone", `address = "net/gone/aws"`, "")+
		templateText("a/below", "address = \"net/vpc/aws\"\npath = \"modules/large\"", ""))
	all := templatesource.New(s.o)
	s.load(all)
	got := map[string]string{}
	for _, e := range all.All() {
		got[e.Template.Name] = e.Source.Version
		if e.Problem == "" && (e.Source.Digest != digests[e.Source.Version] || !strings.HasPrefix(e.Source.Archive, "sha256:") || e.Schema == nil || e.Digest == "") {
			t.Errorf("%s: %+v", e.Template.Name, e)
		}
		if (e.Problem != "") != (e.Source == template.Source{}) {
			t.Errorf("%s: problem %q and source %+v", e.Template.Name, e.Problem, e.Source)
		}
	}
	want := map[string]string{"a/any": "2.0.0", "a/range": "1.5.0", "a/exact": "2.1.0-rc.1", "a/pinned": "1.4.0", "a/none": "", "a/gone": "", "a/below": ""}
	must.Match(t, "value", got, want)
	if e, ok := all.Current("a/pinned"); !ok || e.Source.Path != "modules/small" {
		t.Errorf("got %+v", e)
	}
	if e, _ := all.Current("a/none"); !strings.Contains(e.Problem, `no version matches "~> 7.0"`) {
		t.Errorf("got %q", e.Problem)
	}
	if e, _ := all.Current("a/below"); !strings.Contains(e.Problem, "no module modules/large") {
		t.Errorf("got %q", e.Problem)
	}

	for name, want := range map[string][]string{
		"a/any": {"2.0.0", "1.5.0", "1.4.0"}, "a/range": {"1.5.0", "1.4.0"}, "a/exact": {"2.1.0-rc.1"}, "a/pinned": nil, "a/none": nil,
	} {
		offered, err := all.Versions(t.Context(), name)
		if diff := cmp.Diff(want, offered); err != nil || diff != "" {
			t.Errorf("versions of %s: %v (-want +got)\n%s", name, err, diff)
		}
		for _, v := range offered {
			if e, err := all.Pin(t.Context(), name, v); err != nil || e.Source.Version != v {
				t.Errorf("%s %s: %+v, %v", name, v, e, err)
			}
		}
	}
	if _, err := all.Versions(t.Context(), "a/unheard"); !errors.Is(err, lifecycle.ErrNotFound) {
		t.Errorf("versions of what is not there: %v", err)
	}

	newest := s.module("1.6.0", config)
	s.load(all)
	if e, _ := all.Current("a/range"); e.Source.Digest != newest {
		t.Errorf("got %+v", e.Source)
	}
	s.server.Close() // what was resolved is kept
	s.load(all)
	if e, _ := all.Current("a/range"); e.Problem != "" || e.Source.Digest != newest {
		t.Errorf("without registry: %q, %+v", e.Problem, e.Source)
	}
}

// TestEphemeralOutput: what OpenTofu 1.12.6 and Terraform 1.11.4 refuse in a root module is found before a launch.
func TestEphemeralOutput(t *testing.T) {
	const ephemeral = "output \"a\" {\n  value     = 1\n  ephemeral = true\n}\n"
	for _, tool := range tofutest.StockTools(t) {
		dir, out, err := tool.Init(t, map[string]string{"main.tf": ephemeral}, "")
		if err == nil {
			out, err = tool.Run(t, dir, "", nil, "validate", "-no-color")
		}
		if err == nil || !strings.Contains(strings.ToLower(out), "ephemeral") {
			t.Errorf("%s: %v\n%s", tool.Name, err, out)
		}
	}
	s := newFixture(t)
	s.module("1.0.0", ephemeral)
	s.file("a.hcl", templateText("a/any", `address = "net/vpc/aws"`, ""))
	all := templatesource.New(s.o)
	s.load(all)
	if e := all.All()[0]; !strings.Contains(e.Problem, "the output a is ephemeral") {
		t.Errorf("problem %q", e.Problem)
	}
}

// TestOtherTool: a module that the tool of launches refuses is not ready; OpenTofu 1.12.6 and Terraform 1.11.4 say which.
func TestOtherTool(t *testing.T) {
	for name, config := range map[string]string{
		"enabled":    "resource \"terraform_data\" \"a\" {\n  lifecycle {\n    enabled = true\n  }\n}\n",
		"deprecated": "output \"a\" {\n  value = 1\n  deprecated = \"use b\"\n}\n",
		"type":       "output \"a\" {\n  value = 1\n  type = number\n}\n",
	} {
		s := newFixture(t)
		s.module("1.0.0", "locals {}\n")
		s.module("1.1.0", config)
		s.file("a.hcl", templateText("a/new", "address = \"net/vpc/aws\"\nversion = \"1.1.0\"", "")+templateText("a/any", `address = "net/vpc/aws"`, ""))
		for _, tool := range tofutest.StockTools(t) {
			dir, out, err := tool.Init(t, map[string]string{"main.tf": config}, "")
			if err == nil {
				out, err = tool.Run(t, dir, "", nil, "validate", "-no-color")
			}
			if s.o.Tool = map[string]string{"tofu": "opentofu", "terraform": "terraform"}[tool.Name]; name == "type" && tool.Name == "terraform" {
				err = nil // which takes it since 1.16
			}
			all := templatesource.New(s.o)
			s.load(all)
			exact, _ := all.Current("a/new")
			older, _ := all.Current("a/any")
			if (err != nil) != strings.Contains(exact.Problem, "runs "+s.o.Tool+", which refuses the module: ") || (err != nil) != (older.Behind != "") || older.Problem != "" {
				t.Errorf("%s with %s: %v, problem %q, behind %q\n%s", name, tool.Name, err, exact.Problem, older.Behind, out)
			}
		}
	}
}

// TestUnread: an unreachable registry's error is not the users' message.
func TestUnread(t *testing.T) {
	s := newFixture(t)
	s.server.Close()
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, ""))
	all := templatesource.New(s.o)
	s.load(all)
	host := strings.TrimPrefix(s.server.URL, "http://")
	if e, _ := all.Current("a/one"); e.Problem != "module net/vpc/aws cannot be read now" || !strings.Contains(e.Cause, host) {
		t.Errorf("problem %q, cause %q", e.Problem, e.Cause)
	}
}

// TestBehind: a template of any version stays at the last that fits, and says so; one that names a
// version has a problem.
func TestBehind(t *testing.T) {
	s := newFixture(t)
	s.module("1.4.0", config)
	s.module("1.5.0", config)
	s.moduleOf("net/vpc/aws", "1.6.0", fstest.MapFS{"main.tf": {Data: []byte(config + "variable \"zone\" {\n  type = string\n}\n")}})
	s.file("a.hcl", templateText("a/any", `address = "net/vpc/aws"`, "")+
		templateText("a/below", "address = \"net/vpc/aws\"\npath = \"modules/small\"", `inputs = { only = "y" }`)+
		templateText("a/exact", "address = \"net/vpc/aws\"\nversion = \"1.6.0\"", "")+
		templateText("a/fits", `address = "net/vpc/aws"`, `inputs = { zone = "a" }`))
	all := templatesource.New(s.o)
	s.load(all)
	for name, want := range map[string]string{"a/any": "1.5.0", "a/below": "1.5.0", "a/exact": "", "a/fits": "1.6.0"} {
		e, _ := all.Current(name)
		if e.Source.Version != want || (e.Problem != "") != (want == "") || (e.Behind != "") != (want == "1.5.0") {
			t.Errorf("%s: version %q, problem %q, behind %q", name, e.Source.Version, e.Problem, e.Behind)
		}
	}
	if e, _ := all.Current("a/any"); !strings.Contains(e.Behind, "it stays at version 1.5.0") || !strings.Contains(e.Behind, "1.6.0") || !strings.Contains(e.Behind, "zone") {
		t.Errorf("behind: %s", e.Behind)
	}
}

// TestCompare: versions of module and submodule; one replaced is refused.
func TestCompare(t *testing.T) {
	s := newFixture(t)
	was := api.Source{Module: "net/vpc/aws", Version: "1.4.0", Digest: s.module("1.4.0", config)}
	is := api.Source{Module: "net/vpc/aws", Version: "1.5.0", Digest: s.module("1.5.0", config+"variable \"zone\" {\n  type = string\n}\n")}
	all := templatesource.New(s.o)
	got, err := all.Compare(t.Context(), was, is)
	if err != nil || len(got) != 1 || got[0].Name != "zone" || !got[0].Breaking {
		t.Errorf("%v: %+v", err, got)
	}
	was.Path, is.Path = "modules/small", "modules/small"
	if got, err := all.Compare(t.Context(), was, is); err != nil || len(got) != 0 {
		t.Errorf("below: %v: %+v", err, got)
	}
	for name, wrong := range map[string]api.Source{
		"another digest": {Module: was.Module, Version: was.Version, Digest: is.Digest}, "no such version": {Module: was.Module, Version: "9.9.9"},
		"no module": {Module: "oci://charts.example.com/web", Version: "1.4.0"}, "no such path": {Module: was.Module, Version: was.Version, Digest: was.Digest, Path: "modules/none"},
	} {
		if got, err := all.Compare(t.Context(), wrong, is); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFiles: a broken file keeps its last content, a removed one nothing.
func TestFiles(t *testing.T) {
	s := newFixture(t)
	s.module("1.0.0", config)
	one, two := templateText("a/one", `address = "net/vpc/aws"`, ""), templateText("a/two", `address = "net/vpc/aws"`, "")
	s.file("a.hcl", one)
	s.file("b.hcl", two)
	s.file("c.txt", "no template")
	s.file(".d.hcl", "{")
	all := templatesource.New(s.o)
	s.load(all)
	names := func() string {
		var list []string
		for _, e := range all.All() {
			list = append(list, e.Template.Name+"="+e.Template.Title+e.Problem)
		}
		return strings.Join(list, " ")
	}
	if got := names(); got != "a/one= a/two=" || len(all.Problems()) != 0 {
		t.Errorf("got %s, %v", got, problems(all))
	}
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, "\n  owner = \"robot\""))
	s.load(all)
	want := []string{"template a/one: " + filepath.Join(s.dir, "a.hcl") + `:6: owner "robot" must be user, group or claim:NAME`}
	if diff := cmp.Diff(want, problems(all)); diff != "" || names() != "a/one= a/two=" {
		t.Errorf("%s %s", diff, names())
	}
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, "title = \"T\""))
	s.file("b.hcl", templateText("a/one", `address = "net/vpc/aws"`, "title = \"other\""))
	s.load(all)
	if got := names(); got != "a/one=T" || len(all.Problems()) != 1 || !strings.Contains(all.Problems()[0].Text, "duplicate of the one in use in") {
		t.Errorf("got %s, %v", got, problems(all))
	}
	must.Succeed(t, os.Remove(filepath.Join(s.dir, "a.hcl")))
	s.load(all)
	if got := names(); got != "a/one=other" || len(all.Problems()) != 0 {
		t.Errorf("got %s, %v", got, problems(all))
	}
	must.Succeed(t, os.RemoveAll(s.dir))
	s.load(all)
	if got := names(); got != "a/one=other" || len(all.Problems()) != 1 {
		t.Errorf("without folder: %s, %v", got, problems(all))
	}
}

// TestUnreadableFile keeps its templates, and recovers unchanged.
func TestUnreadableFile(t *testing.T) {
	s := newFixture(t)
	s.module("1.0.0", config)
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, ""))
	all := templatesource.New(s.o)
	s.load(all)
	name, aside := filepath.Join(s.dir, "a.hcl"), filepath.Join(s.dir, "aside")
	must.Succeed(t, errors.Join(os.Rename(name, aside), os.Symlink(os.DevNull, name)))
	s.load(all)
	if got := problems(all); len(all.All()) != 1 || len(got) != 1 || !strings.Contains(got[0], "not a regular file") {
		t.Fatalf("%d templates, problems %q", len(all.All()), got)
	}
	must.Succeed(t, os.Rename(aside, name))
	s.load(all)
	if got := problems(all); len(all.All()) != 1 || len(got) != 0 {
		t.Errorf("%d templates, problems %q", len(all.All()), got)
	}
}

// TestServerDefaults: the server's defaults apply if a template sets no value, and are
// part of the digest.
//
// Shows: platform 8
func TestServerDefaults(t *testing.T) {
	s := newFixture(t)
	s.module("1.0.0", config)
	s.file("a.hcl", templateText("a/one", `address = "net/vpc/aws"`, "outputs = [\"url\"]")+templateText("a/two", `address = "net/vpc/aws"`, ""))
	s.o.Known.Config = []string{}
	plain := templatesource.New(s.o)
	s.load(plain)
	s.o.Defaults = template.Defaults{TTL: &template.TTL{Default: time.Hour, OnExpire: "destroy"}, Connection: &template.Connection{Type: "instructions", Message: "see ${outputs.url}"}}
	all := templatesource.New(s.o)
	s.load(all)
	before, _ := plain.Current("a/one")
	e, _ := all.Current("a/one")
	if e.Template.TTL == nil || e.Template.TTL.Default != time.Hour || e.Template.Connection == nil || e.Digest == before.Digest {
		t.Errorf("got %+v", e.Template)
	}
	if e, _ := all.Current("a/two"); !strings.Contains(e.Problem, "outputs.url") {
		t.Errorf("got %q", e.Problem)
	}
}

// TestArtifacts admits templates of the registry, within the limits of their source.
//
// Shows: platform 6
// Shows: platform-attacks 12 | templates outside their `template_source`, or not signed
func TestArtifacts(t *testing.T) {
	s := newFixture(t)
	for _, m := range []string{"acme/vpc/aws", "acme/db/aws", "other/vpc/aws"} {
		s.moduleAt(m, "1.0.0", config)
	}
	good := `address = "acme/vpc/aws"`
	s.publish("acme/vpc", "1.0.0", templateText("acme/vpc", good, "title = \"one\"\nmax = 5"))
	s.publish("acme/vpc", "1.1.0", templateText("acme/vpc", good, "title = \"new\""))
	s.publish("acme/vpc", "2.0.0", templateText("acme/vpc", good, "title = \"too new\""))
	s.publish("acme/foreign", "1.0.0", templateText("acme/foreign", `address = "other/vpc/aws"`, ""))
	s.publish("acme/thief", "1.0.0", templateText("acme/thief", good, `credentials = ["prod"]`))
	s.publish("acme/lent", "1.0.0", templateText("acme/lent", good, `credentials = ["aws"]`))
	s.publish("acme/other", "1.0.0", templateText("acme/vpc", good, ""))
	s.publish("acme/file", "1.0.0", templateText("acme/file", good, "title = \"artifact\""))
	s.publish("rest/vpc", "1.0.0", templateText("rest/vpc", good, ""))
	s.file("a.hcl", templateText("acme/file", good, "title = \"file\""))
	s.o.Known.Credentials = []string{"aws", "prod"}
	s.o.Sources = []templatesource.Source{{Templates: "acme/*", Versions: must.Fixed(addr.ParseConstraint("~> 1.0")), Credentials: []string{"aws"}, Max: 20}}
	all := templatesource.New(s.o)
	s.load(all)
	got := map[string]string{}
	for _, e := range all.All() {
		got[e.Template.Name] = e.Template.Title + e.Problem
	}
	must.Match(t, "value", got, map[string]string{"acme/vpc": "new", "acme/lent": "", "acme/file": "file"})
	if e, _ := all.Current("acme/vpc"); e.Template.Max != 20 || !strings.Contains(e.From, "/p/templates/acme/vpc:1.1.0@sha256:") {
		t.Errorf("max %d, from %s", e.Template.Max, e.From)
	}
	want := []string{
		`template acme/foreign: template_source "acme/*" does not allow the module other/vpc/aws`,
		"template acme/other: contains template acme/vpc",
		`template acme/thief: template.tf.json:1: unknown credential "prod"`,
	}
	must.Match(t, "value", problems(all), want)

	s.o.Sources[0].Modules = []string{"*/vpc/*"}
	all = templatesource.New(s.o)
	s.load(all)
	if e, ok := all.Current("acme/foreign"); !ok || e.Problem != "" {
		t.Errorf("a module that the source names: %v, %v", e, problems(all))
	}
	it := addr.Item{Kind: addr.KindTemplate, Template: "acme/vpc"}
	event := depot.Announcement{Action: evidence.ActionYank, Version: "1.1.0", Message: "wrong"}
	if _, _, err := s.depot.Announce(t.Context(), it, event); err != nil {
		t.Fatal(err)
	}
	s.load(all)
	if e, ok := all.Current("acme/vpc"); !ok || e.Template.Title != "one" || e.Template.Max != 5 {
		t.Errorf("a withdrawn version is used: %+v", e)
	}
	if _, err := s.depot.PublishTemplate(t.Context(), "acme/vpc", must.Fixed(addr.ParseVersion("1.1.0")), []byte("{}")); err == nil {
		t.Error("a withdrawn number was used again")
	}
}
