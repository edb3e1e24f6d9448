// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestBehindProxy shows that installation works behind a proxy that terminates
// TLS, strips a prefix and sends another Host and scheme.
//
// Shows: registries 10 | absolute URLs made from the request's Host | several
func TestBehindProxy(t *testing.T) {
	f := newFront(t, func(o *server.Options) { o.BasePath, o.Access.Anonymous = "/tf/", rights.AnonymousRead() })
	files := map[string]string{"main.tf": "# x"}
	f.module(t, "net/vpc/aws", "1.0.0", files)
	rel := f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	mirrored := f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0"})
	to := f.url(t, "/")
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/tf")
		if strings.HasPrefix(r.In.URL.Path, "/.well-known/") {
			r.Out.URL.Path = r.In.URL.Path
		}
		r.Out.Host = "internal.invalid"
		r.Out.Header.Set("X-Forwarded-Proto", "gopher")
		r.Out.Header.Set("X-Forwarded-Host", "evil.example.com")
	}})
	t.Cleanup(proxy.Close)
	server := tofutest.Target{Base: proxy.URL, HTTP: proxy.Client()}
	tofutest.RunModules(t, server, tofutest.Module{Address: "net/vpc/aws", Versions: []string{"1.0.0"}, Files: files})
	tofutest.RunProviders(t, server, "/tf/v1/providers/", tofutest.Provider{
		Host: "example.com", Address: "acme/dns", Version: "1.0.0", Protocols: []string{"5.0"}, Zips: rel.zips,
	})
	server.Base += "/tf"
	tofutest.RunMirror(t, server, tofutest.Provider{
		Host: "registry.opentofu.org", Address: "hashicorp/time", Version: "1.0.0", Zips: mirrored.zips,
	})
}

// TestGolden checks the exact form of every answer, with keys in lower case
// and no null that a client reads.
//
// Shows: registries 29 | capitalized JSON keys, null where a list is expected | otf, tapir
func TestGolden(t *testing.T) {
	f := newFront(t, nil)
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	rel := f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0", unsigned: true})
	zh := hexSum(rel.zips["linux_amd64"])
	tests := []struct{ path, want string }{
		{"/.well-known/terraform.json", `{"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/"}`},
		{"/v1/modules/net/vpc/aws/versions", `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`},
		{"/v1/providers/acme/dns/versions", `{"versions":[{"version":"1.0.0"}]}`},
		{"/v1/providers/acme/dns/1.0.0/download/linux/amd64", `{"protocols":["5.0"],"os":"linux","arch":"amd64",` +
			`"filename":"terraform-provider-dns_1.0.0_linux_amd64.zip","download_url":"URL","shasum":"` + zh + `",` +
			`"shasums_url":"URL","shasums_signature_url":"URL",` +
			`"signing_keys":{"gpg_public_keys":[{"key_id":"KEY","ascii_armor":"ARMOR","source":"","source_url":null,"trust_signature":""}]},` +
			`"packages":{"linux_amd64":{"hashes":["zh:` + zh + `","h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],"package_size":SIZE}}}`},
		{"/v1/providers/acme/dns/versions", `{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"}]}]}`},
		{"/mirror/registry.opentofu.org/hashicorp/time/index.json", `{"versions":{"1.0.0":{}}}`},
		{"/v1/providers/acme/none/versions", `{"errors":["provider acme/none: not found"]}`},
	}
	key := servedKey(must.Fixed(testSigner().Public()))
	armor := string(must.Fixed(json.Marshal(key.ASCIIArmor)))
	for _, tt := range tests {
		resp, body := ask(t, http.MethodGet, f.url(t, tt.path))
		got := strings.TrimSpace(string(body))
		for _, u := range urls(t, body) {
			got = strings.ReplaceAll(got, u, "URL")
		}
		got = strings.ReplaceAll(strings.ReplaceAll(got, armor, `"ARMOR"`), key.KeyID, "KEY")
		if i := strings.Index(got, `"package_size":`); i >= 0 {
			got = got[:i] + `"package_size":SIZE}}}`
		}
		if got != tt.want {
			t.Errorf("%s, got\n%s\nwant\n%s", tt.path, got, tt.want)
		}
		must.Equal(t, tt.path+": Content-Type", resp.Header.Get("Content-Type"), "application/json")
	}
}

// TestConditional checks that an unchanged answer is not sent again.
func TestConditional(t *testing.T) {
	f := newFront(t, nil)
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	for _, path := range []string{"/v1/providers/acme/dns/versions", "/v1/providers/acme/dns/1.0.0/download/linux/amd64", "/.well-known/terraform.json"} {
		ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/amd64"))
		first, _ := ask(t, http.MethodGet, f.url(t, path), "Accept-Encoding", "identity") // as HEAD of net/http
		again, body := ask(t, http.MethodGet, f.url(t, path), "Accept-Encoding", "identity", "If-None-Match", `"x", W/`+first.Header.Get("Etag"))
		if again.StatusCode != http.StatusNotModified || len(body) > 0 {
			t.Errorf("%s: %d with %d bytes, want 304", path, again.StatusCode, len(body))
		}
		head, body := ask(t, http.MethodHead, f.url(t, path))
		if head.StatusCode != 200 || len(body) > 0 || head.ContentLength != first.ContentLength {
			t.Errorf("HEAD %s: %d, length %d", path, head.StatusCode, head.ContentLength)
		}
	}
}

// FuzzPath sends arbitrary paths to a front-end with one private module: none
// causes a server error, and only the open routes answer without a token.
//
// Shows: registries 23
func FuzzPath(f *testing.F) {
	front := newFront(f, private(f))
	front.module(f, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for _, path := range []string{
		"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download", "/v1/providers/a/b/1.0.0+x/download/l/a", "/mirror/h:1/a/b/1.json",
		"/archives/k.1.m/r/" + strings.Repeat("a", 64) + "/f", "/origin/xn--bcher-kva.example/v1/providers/a/b/versions", "/v1/modules/%2e%2e/x", "/v2/x/manifests/y", "//", "/%00", "/archives/0",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := must.Fixed(http.NewRequest(http.MethodGet, "http://okara.invalid", nil))
		u, err := r.URL.Parse(path)
		if err != nil || u.Host != "okara.invalid" {
			return
		}
		r.URL = u
		w := httptest.NewRecorder()
		front.handler.ServeHTTP(w, r)
		open := u.Path == "/healthz" || u.Path == "/readyz" || u.Path == "/.well-known/terraform.json" || u.Path == "/v1/modules" || u.Path == "/v1/modules/" ||
			u.Path == "/v1/modules/search"
		if w.Code >= 500 || w.Code < 400 && !open {
			t.Errorf("%q: %d %s", path, w.Code, w.Body)
		}
	})
}

// FuzzToken accepts issued tokens only.
func FuzzToken(f *testing.F) {
	i := newIssuer(f)
	front := newFront(f, func(o *server.Options) {
		private(f)(o)
		o.Access.Issuers = []access.Issuer{{URL: i.URL, Audiences: []string{"okara"}}}
		o.Login = &access.Login{Issuer: access.Issuer{URL: i.URL}, ClientID: "okara-web", PublicURL: "http://okara.invalid"}
	})
	claims := i.claims(time.Now())
	claims["exp"] = time.Now().Add(time.Hour).Unix()
	good := i.sign(claims)
	for _, token := range []string{readerToken, good, unsigned(claims), "oks_", "oks__", "okl_k.AAAA", "a.b.c", "eyJpc3MiOiJ4In0.eyJpc3MiOiJ4In0.x", ""} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/providers/acme/none/versions", nil)
		r.Header["Authorization"] = []string{"Bearer " + token}
		w := httptest.NewRecorder()
		front.handler.ServeHTTP(w, r)
		token = strings.TrimSpace(token)
		known := token == readerToken || token == publisherToken || sameToken(token, good)
		if (w.Code != http.StatusUnauthorized) != known {
			t.Errorf("%q: %d", token, w.Code)
		}
	})
}

// sameToken compares JWTs; base64 leaves some bits of the signature unused.
func sameToken(a, b string) bool {
	texta, siga, _ := cutSignature(a)
	textb, sigb, ok := cutSignature(b)
	return ok && texta == textb && siga == sigb
}

func cutSignature(token string) (text, signature string, ok bool) {
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return "", "", false
	}
	b, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	return token[:i], string(b), err == nil
}

// TestOriginDiscovery follows an origin's discovery document.
func TestOriginDiscovery(t *testing.T) {
	f := newFront(t, private(t))
	for _, path := range []string{"/origin/registry.opentofu.org/.well-known/terraform.json", "/origin/Registry.OpenTofu.org/.well-known/terraform.json"} {
		u := f.url(t, path)
		resp, body := ask(t, http.MethodGet, u)
		var doc map[string]string
		if err := json.Unmarshal(body, &doc); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		at := must.Fixed(u.Parse(doc["providers.v1"]))
		if at.Path != "/origin/registry.opentofu.org/v1/providers/" || at.Host != u.Host {
			t.Errorf("%s leads to %s", path, at)
		}
	}
	if resp, body := ask(t, http.MethodGet, f.url(t, "/origin/a..b/.well-known/terraform.json")); resp.StatusCode != http.StatusNotFound {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestAbsoluteAddresses: only the public URL, in any case, gives absolute addresses, those of the
// settings, whatever proxies say.
func TestAbsoluteAddresses(t *testing.T) {
	const public = "https://okara.test/tf"
	for given, proxies := range map[string][]netip.Prefix{public: nil, public + "/": {netip.MustParsePrefix("127.0.0.0/8")}} {
		f := newFront(t, func(o *server.Options) { o.PublicURL, o.Local, o.Proxies = given, true, proxies })
		f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
		f.provider(t, release{address: "acme/dns", version: "1.0.0"})
		f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0"})
		for host, want := range map[string]string{"okara.test": public + "/archives/", "OKARA.test": public + "/archives/", "localhost": "../archives/", "127.0.0.1:1": "../archives/"} {
			for _, path := range []string{
				"/v1/modules/net/vpc/aws/1.0.0/download", "/v1/providers/acme/dns/1.0.0/download/linux/amd64", "/mirror/registry.opentofu.org/hashicorp/time/1.0.0.json",
			} {
				r := must.Fixed(http.NewRequest(http.MethodGet, f.URL+path, nil))
				r.Host = host
				if proxies == nil {
					r.Header.Set("X-Forwarded-Host", "evil.example.com")
					r.Header.Set("X-Forwarded-Proto", "gopher")
				} else {
					r.Host = "127.0.0.1:1"
					r.Header.Set("X-Forwarded-Host", host)
					r.Header.Set("X-Forwarded-Proto", "https")
				}
				resp := must.Fixed(http.DefaultClient.Do(r))
				text := resp.Header.Get("X-Terraform-Get") + string(must.Fixed(io.ReadAll(resp.Body)))
				resp.Body.Close()
				links, good := strings.Count(text, "archives/"), strings.Count(text, want)
				if links == 0 || good != links || strings.Contains(text, "evil") || strings.Contains(text, "gopher") {
					t.Errorf("%s %s: %d of %d addresses begin as they should: %s", host, path, good, links, text)
				}
			}
		}
	}
}
