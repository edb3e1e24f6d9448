// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// services returns base URLs, as a tool reads them.
func (f *front) services(t testing.TB, c *tofutest.Client) tofutest.Services {
	t.Helper()
	return must.Fixed(c.Discover(t.Context(), f.URL))
}

func (f *front) url(t testing.TB, path string) *url.URL {
	t.Helper()
	return must.Fixed(url.Parse(f.URL + path))
}

func (f *front) target() tofutest.Target { return tofutest.Target{Base: f.URL} }

// TestModule publishes versions in the forms of git tags and of users, and
// fetches each on every kind of registry.
//
// Shows: registries 2 | a version listed with `v` | PacoVK/tapir#455
func TestModule(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		f := newFrontAt(t, host, nil, nil)
		files := map[string]string{"main.tf": `output "x" { value = 1 }`, "sub/main.tf": ""}
		for _, v := range []string{"v1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1", "1.1.0+b.1"} {
			f.module(t, "net/vpc/aws", v, files)
		}
		tofutest.RunModules(t, f.target(), tofutest.Module{
			Address: "net/vpc/aws", Files: files,
			Versions: []string{"2.0.0-rc.1", "1.10.0", "1.2.0", "1.1.0+b.1", "1.0.0"},
		})
	})
}

// TestProvider installs three platforms with different archives. Each gets its
// own bytes, and the protocols are those of the provider.
//
// Shows: opendepot-defects 1 | one platform's package for all, protocol always 5.0
func TestProvider(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		f := newFrontAt(t, host, nil, nil)
		rel := f.provider(t, release{
			address: "acme/dns", version: "1.2.3", protocols: []string{"6.0"},
			platforms: []string{"linux_amd64", "linux_arm64", "darwin_arm64"},
		})
		tofutest.RunProviders(t, f.target(), "/v1/providers/", tofutest.Provider{
			Host: "example.com", Address: "acme/dns", Version: "1.2.3", Protocols: []string{"6.0"}, Zips: rel.zips,
		})
	})
}

// TestProviderDetail asks for what tfupdate reads.
func TestProviderDetail(t *testing.T) {
	f := newFront(t, nil)
	for _, v := range []string{"1.0.0", "1.1.0", "2.0.0-rc1"} {
		f.provider(t, release{address: "acme/dns", version: v})
	}
	for path, version := range map[string]string{"": "1.1.0", "/1.0.0": "1.0.0", "/2.0.0-rc1": "2.0.0-rc1", "/3.0.0": "", "/x": ""} {
		resp, body := ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns"+path))
		got := decode[struct {
			ID, Namespace, Name, Version string
			Versions                     []string
		}](t, body)
		if version == "" {
			if resp.StatusCode != 404 {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
			continue
		}
		if got.ID != "acme/dns/"+version || got.Namespace != "acme" || got.Name != "dns" || got.Version != version || len(got.Versions) != 3 {
			t.Errorf("%s: %d %+v", path, resp.StatusCode, got)
		}
	}
	if resp, body := ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/none")); resp.StatusCode != 404 {
		t.Errorf("without a version: %d %s", resp.StatusCode, body)
	}
}

// TestAbsoluteLocations: absolute on this machine, for Trivy, Renovate and Terragrunt, relative
// behind a proxy.
func TestAbsoluteLocations(t *testing.T) {
	f := newFront(t, func(o *server.Options) { o.Local = true })
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for _, c := range []struct{ name, via, want, caches string }{
		{"Via", "", f.URL + "/archives/", "private"}, {"Via", "1.1 proxy", "../../", "public"}, {"X-Real-IP", "192.0.2.1", "../../", "public"},
	} {
		resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/1.0.0/download"), c.name, c.via)
		_, body := ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/amd64"), c.name, c.via)
		got := decode[struct {
			URL string `json:"download_url"`
		}](t, body).URL
		for _, at := range []string{got, resp.Header.Get("X-Terraform-Get")} {
			if !strings.HasPrefix(at, c.want) {
				t.Errorf("%s %q: %q, want %s", c.name, c.via, at, c.want)
			}
		}
		if who, _, _ := strings.Cut(resp.Header.Get("Cache-Control"), ","); who != c.caches {
			t.Errorf("%s %q: Cache-Control %q, want %s", c.name, c.via, who, c.caches) // the Host that one client sent is for no other
		}
		archive, _ := ask(t, http.MethodGet, must.Fixed(f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/").Parse(got)), c.name, c.via)
		if archive.StatusCode != 200 {
			t.Errorf("%s %q: the archive is %d", c.name, c.via, archive.StatusCode)
		}
	}
}

// TestMirror shows that a mirrored provider with a hyphen in its name and a
// pre-release version keeps its address in both ways to install it.
//
// Shows: registries 13 | hyphens and pre-releases in names | hermitcrab
// Shows: opendepot-defects 8 | mirrored providers under another address
func TestMirror(t *testing.T) {
	f := newFront(t, nil)
	const source = "registry.opentofu.org/hashicorp/google-beta"
	rel := f.provider(t, release{address: source, version: "6.0.0-beta1", platforms: []string{"linux_amd64", "windows_386"}})
	bare := f.provider(t, release{address: source, version: "5.9.0", bare: true})
	for _, p := range []release{rel, bare} {
		want := tofutest.Provider{
			Host: "registry.opentofu.org", Address: "hashicorp/google-beta", Version: p.version, Protocols: []string{"5.0"}, Zips: p.zips,
		}
		t.Run(p.version+" mirror", func(t *testing.T) { tofutest.RunMirror(t, f.target(), want) })
		t.Run(p.version+" origin", func(t *testing.T) {
			tofutest.RunProviders(t, f.target(), "/origin/registry.opentofu.org/v1/providers/", want)
		})
	}
}

// TestUnknown: missing is 404 with JSON, never an empty 200; wrong base URLs are told.
//
// Shows: registries 3 | a registry used as a mirror, or the reverse | hashicorp/terraform#31804,
// artifact-keeper#1566
// Shows: registries 9 | 500 or an empty 200 for objects that do not exist | OpenDepot, terrakube
func TestUnknown(t *testing.T) {
	f := newFront(t, nil)
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	base := map[string]string{
		"/registry.opentofu.org/hashicorp/aws/index.json":               "/mirror/",
		"/v1/providers/registry.opentofu.org/hashicorp/aws/index.json":  "/mirror/",
		"/mirror/hashicorp/aws/versions":                                "/v1/providers/",
		"/hashicorp/aws/versions":                                       "/v1/providers/",
		"/modules/net/vpc/aws/1.0.0/download":                           "/v1/modules/",
		"/mirror/v1/providers/hashicorp/aws/1.0.0/download/linux/amd64": "/v1/providers/",
	}
	for _, path := range append(slices.Collect(maps.Keys(base)),
		"/v1/modules/net/vpc/azure/versions", "/v1/modules/net/vpc/aws/1.0.1/download", "/v1/modules/net/vpc/aws/latest/download",
		"/v1/modules/net/v_-pc/aws/versions", "/v1/modules/net/vpc%2Faws/x/versions",
		"/v1/providers/acme/none/versions", "/v1/providers/acme/dns/2.0.0/download/linux/amd64",
		"/v1/providers/acme/dns/1.0.0/download/linux/arm", "/v1/providers/acme/dns/1.0/download/linux/amd64",
		"/v1/providers/ac__me/dns/versions", "/mirror/other.example.com/acme/dns/index.json",
		"/mirror/registry.opentofu.org/hashicorp/aws/1.0.0.json", "/mirror/registry.opentofu.org/hashicorp/aws/index.html",
		"/origin/registry.opentofu.org/v1/providers/hashicorp/aws/versions", "/nothing", "/v1/modules//vpc/aws/versions",
		"/archives/x", "/archives/x/y/z", "/state/shop", "/",
	) {
		resp := must.Fixed(http.Get(f.URL + path))
		body := must.Fixed(io.ReadAll(resp.Body))
		resp.Body.Close()
		var doc struct{ Errors []string }
		want := http.StatusNotFound
		if path == "/state/shop" {
			want = http.StatusBadRequest // the tools take 404 for an empty state
		}
		if resp.StatusCode != want || json.Unmarshal(body, &doc) != nil || len(doc.Errors) != 1 || !strings.Contains(doc.Errors[0], base[path]) {
			t.Errorf("%s: %d %s, want %d with a reason that names %q", path, resp.StatusCode, body, want, base[path])
		}
	}
}

// TestRequestCount checks the number of requests to the registry for a cold
// and a warm client, before the archive.
//
// Shows: registries 14 | the storage listed on every request | boring-registry#194,
// ar-terraform-registry
// Shows: opendepot-defects 5 | everything listed and decoded on each request
func TestRequestCount(t *testing.T) {
	f := newFront(t, nil)
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		f.provider(t, release{address: "acme/dns", version: v, platforms: []string{"linux_amd64", "darwin_arm64"}})
	}
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	s := f.services(t, c)
	f.count.Take() // the probe for TLS
	module := func() {
		must.Fixed(c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws"))
		must.Fixed(c.ModuleLocation(t.Context(), s.Modules, "net/vpc/aws", "1.0.0"))
	}
	provider := func() {
		must.Fixed(c.ProviderVersions(t.Context(), s.Providers, "acme/dns"))
		resp := must.Fixed(http.Get(s.Providers.String() + "acme/dns/1.2.0/download/linux/amd64"))
		resp.Body.Close()
	}
	for _, tt := range []struct {
		name string
		run  func()
		want map[string]int
	}{
		{"module cold", module, map[string]int{"GET tags": 1, "GET manifest": 1}},
		{"module warm", module, nil},
		{"provider cold", provider, map[string]int{"GET tags": 1, "GET manifest": 1}},
		{"provider warm", provider, nil},
	} {
		tt.run()
		got := f.count.Take()
		if len(got) == 0 {
			got = nil
		}
		must.Match(t, tt.name, got, tt.want)
	}
}

// urls returns all strings in a JSON document that look like references.
func urls(t testing.TB, body []byte) []string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var found []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case string:
			if strings.Contains(v, "/archives/") {
				found = append(found, v)
			}
		}
	}
	walk(doc)
	return found
}
