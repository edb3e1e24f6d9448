// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
)

const describedModule = `
variable "name" {
  type        = string
  description = "whom to greet"
}
variable "count_of" {
  default = 3
}
output "text" {
  value       = "hello"
  description = "what to say"
}
resource "terraform_data" "x" {}
module "sub" {
  source = "./modules/sub"
}
terraform {
  required_providers {
    null = {
      source  = "hashicorp/null"
      version = ">= 3.0"
    }
  }
}
`

type modulePage struct {
	Meta struct {
		Limit      int
		NextURL    string `json:"next_url"`
		PrevURL    string `json:"prev_url"`
		NextOffset *int   `json:"next_offset"`
	}
	Modules []struct{ ID, Provider, Source string }
}

// ids follows the pages of a list, starting at a path.
func (f *front) ids(t testing.TB, path, token string) []string {
	t.Helper()
	ids := []string{}
	at := f.url(t, path)
	for range 20 {
		resp, body := ask(t, http.MethodGet, at, "Authorization", "Bearer "+token)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", at, resp.StatusCode, body)
		}
		page := decode[modulePage](t, body)
		for _, m := range page.Modules {
			ids = append(ids, m.ID)
		}
		if page.Meta.NextURL == "" {
			return ids
		}
		if !strings.HasPrefix(page.Meta.NextURL, at.Path+"?") { // a path from the root, as clients of the public registry expect
			t.Errorf("%s: the next page is %s", at, page.Meta.NextURL)
		}
		at = must.Fixed(at.Parse(page.Meta.NextURL))
	}
	t.Fatalf("%s has no last page", path)
	return nil
}

// TestModuleLists reads all pages, for all rights and for some.
func TestModuleLists(t *testing.T) {
	const partly, publisher = "oks_partly_0123456789abcdefghij", "oks_all_0123456789abcdefghij"
	f := newFront(t, func(o *server.Options) {
		o.Access.Anonymous = nil
		o.Access.Tokens = []statictoken.Token{newToken(t, publisher, "publish:module:**"), newToken(t, partly, "read:module:net/**")}
	})
	archive := depottest.ZipOf(t, map[string]string{"main.tf": describedModule, "modules/sub/main.tf": "", "README.md": "# hi"})
	for _, v := range []string{"net/vpc/aws/1.0.0", "net/vpc/aws/1.1.0", "net/vpc/aws/2.0.0-rc.1", "net/vpc/gcp/0.1.0", "net/dns/aws/1.0.0", "app/web/aws/3.0.0", "app/pre/aws/1.0.0-beta"} {
		if status, body := f.send(t, http.MethodPut, "/v1/modules/"+v+"?source=https://git.example.com/x", publisher, archive); status != 201 {
			t.Fatalf("%s: %d %s", v, status, body)
		}
	}
	all := []string{"app/pre/aws/1.0.0-beta", "app/web/aws/3.0.0", "net/dns/aws/1.0.0", "net/vpc/aws/1.1.0", "net/vpc/gcp/0.1.0"}
	tests := []struct {
		path, token string
		want        []string
	}{
		{"/v1/modules", publisher, all},
		{"/v1/modules/", publisher, all},
		{"/v1/modules?limit=2", publisher, all},
		{"/v1/modules?limit=0&offset=-3", publisher, all},
		{"/v1/modules?offset=99", publisher, []string{}},
		{"/v1/modules?provider=gcp", publisher, all[4:]},
		{"/v1/modules", partly, all[2:]},
		{"/v1/modules/net", publisher, all[2:]},
		{"/v1/modules/net/vpc", publisher, all[3:]},
		{"/v1/modules/search?q=VPC+aws", publisher, all[3:4]},
		{"/v1/modules/search?q=web", partly, []string{}},
		{"/v1/modules/search?q=nothing", publisher, []string{}},
	}
	for _, tt := range tests {
		must.Match(t, tt.path, f.ids(t, tt.path, tt.token), tt.want)
	}
	for path, want := range map[string]int{"/v1/modules/none": 404, "/v1/modules/app": 404, "/v1/modules/net/vpc/azure": 404, "/v1/modules/app/web/aws": 403} {
		if resp, _ := ask(t, http.MethodGet, f.url(t, path), "Authorization", "Bearer "+partly); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/download"), "Authorization", "Bearer "+publisher)
	if to := must.Fixed(resp.Location()); resp.StatusCode != 302 || !strings.HasSuffix(to.Path, "/v1/modules/net/vpc/aws/1.1.0/download") {
		t.Errorf("latest archive: %d to %s", resp.StatusCode, to)
	}
}

func TestModuleDetail(t *testing.T) {
	f := newFront(t, nil)
	archive := depottest.ZipOf(t, map[string]string{"main.tf": describedModule, "modules/sub/main.tf": "output \"y\" {\n  value = 1\n}\n", "README.md": "# hi"})
	for _, v := range []string{"1.0.0", "1.1.0"} {
		f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/"+v+"?source=https://git.example.com/x&revision=abc", "", archive)
	}
	f.module(t, "net/foreign/aws", "1.0.0", map[string]string{"main.tf": ""})
	type dir struct {
		Path, Name, Readme string
		Empty              bool
		Inputs             []struct {
			Name, Type, Description string
			Default                 string
			Required                bool
		}
		Outputs      []struct{ Name, Description string }
		Dependencies []struct{ Name, Source string }
		Providers    []struct{ Name, Source, Version string } `json:"provider_dependencies"`
		Resources    []struct{ Mode, Type, Name string }
	}
	type detail struct {
		ID, Version, Source string
		Root                dir
		Submodules          []dir
		Versions            []string
	}
	for path, version := range map[string]string{"/v1/modules/net/vpc/aws": "1.1.0", "/v1/modules/net/vpc/aws/1.0.0": "1.0.0"} {
		resp, body := ask(t, http.MethodGet, f.url(t, path))
		if resp.StatusCode != 200 || strings.Contains(string(body), "null,") {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		got := decode[detail](t, body)
		if got.ID != "net/vpc/aws/"+version || got.Source != "https://git.example.com/x" || len(got.Versions) != 2 {
			t.Errorf("%s: %+v", path, got)
		}
		r := got.Root
		if r.Readme != "# hi" || len(r.Inputs) != 2 || len(r.Outputs) != 1 || len(r.Resources) != 1 || len(r.Dependencies) != 1 || len(r.Providers) != 2 || r.Empty {
			t.Errorf("root: %+v", r)
		}
		if in := r.Inputs[0]; in.Name != "name" || in.Type != "string" || in.Default != "" || in.Description != "whom to greet" || !in.Required {
			t.Errorf("input: %+v", in)
		}
		if in := r.Inputs[1]; in.Name != "count_of" || in.Default != "3" || in.Type != "any" || in.Required {
			t.Errorf("input: %+v", in)
		}
		if r.Providers[0].Version != ">= 3.0" || len(got.Submodules) != 1 || got.Submodules[0].Name != "sub" {
			t.Errorf("%+v, %+v", r.Providers, got.Submodules)
		}
	}
	resp, body := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/foreign/aws"))
	if got := decode[detail](t, body); resp.StatusCode != 200 || !got.Root.Empty || got.Root.Inputs == nil {
		t.Errorf("without a description: %d %s", resp.StatusCode, body)
	}
}

// TestListNamesWhatIsNotOffered, and that a cache answered, by a server too.
func TestListNamesWhatIsNotOffered(t *testing.T) {
	o := oci.Options{Transport: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{CachedList: true})}, PlainHTTP: true}
	w := newWalk(t, depottest.VPC().Item(), nil, o.Transport, t.TempDir(), "list")
	w.rnd = rand.New(rand.NewPCG(1, 1))
	w.publishPair()
	l := must.Fixed(w.server.Versions(t.Context(), w.item))
	warnings := strings.Join(l.Warnings(), "\n")
	if len(l.Versions) != 1 || len(l.Hidden) != 1 || !strings.HasPrefix(warnings, "version "+slices.Collect(maps.Keys(l.Hidden))[0].String()+" is not available: ") || !strings.Contains(warnings, "\nthe response came from a cache of the registry: ") {
		t.Errorf("%v, hidden %v: %s", l.Versions, l.Hidden, warnings)
	}
	var log bytes.Buffer
	prefix, _, _ := strings.Cut(w.repo.Name(), "/")
	now := time.Now()
	o.Transport = &ocitest.Fault{Base: o.Transport, Match: ocitest.On(http.MethodGet, "tags"), Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		resp.Header.Del("Age")
		return resp, err
	}}
	c := catalog.New(catalog.Options{Client: newClient(t, "registry.test", o), Layout: addr.Layout{Prefix: prefix}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	for n := range 3 {
		if l := must.Fixed(c.Versions(t.Context(), w.item)); l.Listing.Cached != (n > 0) {
			t.Errorf("list %d: a cache answered: %t", n, l.Listing.Cached)
		}
		now = now.Add(time.Hour)
	}
	if strings.Count(log.String(), "the response came from a cache of the registry") != 1 {
		t.Error(log.String())
	}
}
