// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// tlsFront serves with TLS at host, and records requests.
type tlsFront struct {
	*front
	tls  *httptest.Server
	host string // 127.0.0.1:PORT
	ca   string // file

	mu    sync.Mutex // guards asked
	asked []string   // "METHOD first/second User-Agent"
}

func newTLSFront(t testing.TB, change func(o *server.Options, url string)) *tlsFront {
	t.Helper()
	store := ocitest.Handler(t, ocitest.Quirks{})
	inner := httptest.NewServer(store)
	t.Cleanup(inner.Close)
	outer := httptest.NewUnstartedServer(nil)
	f := &tlsFront{tls: outer, host: outer.Listener.Addr().String()}
	f.front = newFrontAt(t, strings.TrimPrefix(inner.URL, "http://"), nil, func(o *server.Options) {
		o.Embedded = store
		change(o, "https://"+f.host)
	})
	outer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := strings.SplitN(r.URL.Path, "/", 4)
		f.mu.Lock()
		f.asked = append(f.asked, r.Method+" "+strings.Join(part[1:min(3, len(part))], "/")+" "+r.UserAgent())
		f.mu.Unlock()
		f.handler.ServeHTTP(w, r)
	})
	outer.StartTLS()
	t.Cleanup(outer.Close)
	f.ca = filepath.Join(t.TempDir(), "ca.pem")
	must.Succeed(t, os.WriteFile(f.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: outer.Certificate().Raw}), 0o600))
	return f
}

// keepStates makes a front-end serve states by all routes.
func keepStates(t testing.TB, o *server.Options) {
	t.Helper()
	store := must.Fixed(states.Open(o.Client, o.Layout, "acme", statebackend.Options{StrictReads: true}))
	o.TFE = &server.TFEOptions{Memory: 1 << 30}
	o.Stores = func(_ context.Context, name string) (*statebackend.Store, error) {
		if name != "acme" {
			return nil, fmt.Errorf("state %s: %w", name, oci.ErrNotFound)
		}
		return store, nil
	}
}

// take returns the requests since the last call.
func (f *tlsFront) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// TestTofuProtocols: every protocol with stock tools over TLS, with a token and without.
//
// Shows: opendepot 13 | module and provider registry protocols | both, and the network mirror, over
// TLS, with and without tokens; the same module serves `oci://` and Flux
// Shows: registries 1
// Shows: registries 4
// Shows: registries 13
// Shows: opendepot-defects 8
func TestTofuProtocols(t *testing.T) {
	tools := tofutest.StockTools(t)
	for _, answer := range []string{"portable", "oci", "direct"} {
		for _, token := range []string{"", readerToken} {
			name := answer + " for everybody"
			if token != "" {
				name = answer + " with a token"
			}
			t.Run(name, func(t *testing.T) {
				f := newTLSFront(t, func(o *server.Options, url string) {
					o.Modules = registry.Modules{Answer: answer, Registry: strings.TrimPrefix(url, "https://")}
					o.Access = access.Policy{Anonymous: rights.AnonymousRead()}
					if token != "" {
						private(t)(o)
					}
				})
				f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": "module \"sub\" {\n  source = \"./sub\"\n}\n", "sub/main.tf": ""})
				f.provider(t, release{address: "acme/dns", version: "1.2.3", platforms: []string{tofutest.Platform(), "plan9_mips"}})
				f.provider(t, release{address: "registry.opentofu.org/hashicorp/google-beta", version: "6.0.0-beta1", platforms: []string{tofutest.Platform()}})
				f.provider(t, release{address: "registry.example.com/acme/time", version: "1.0.0", platforms: []string{tofutest.Platform()}})
				for _, tool := range tools {
					t.Run(tool.Name, func(t *testing.T) { f.install(t, tool, answer, token) })
				}
			})
		}
	}
}

// install runs init on a module that uses every protocol.
func (f *tlsFront) install(t *testing.T, tool tofutest.Stock, answer, token string) {
	f.take()
	root := strings.ReplaceAll(`terraform {
  required_providers {
    own      = { source = "HOST/acme/dns", version = "~> 1.2" }
    mirrored = { source = "registry.opentofu.org/hashicorp/google-beta", version = "6.0.0-beta1" }
    origin   = { source = "registry.example.com/acme/time" }
  }
}
module "vpc" {
  source  = "HOST/net/vpc/aws"
  version = ">= 1.0.0"
}
module "sub" {
  source  = "HOST/net/vpc/aws//sub"
  version = "1.0.0"
}
`, "HOST", f.host)
	config := strings.ReplaceAll(`provider_installation {
  network_mirror {
    url     = "https://HOST/mirror/"
    include = ["registry.opentofu.org/*/*"]
  }
  direct { exclude = ["registry.opentofu.org/*/*"] }
}
host "registry.example.com" {
  services = { "providers.v1" = "https://HOST/origin/registry.example.com/v1/providers/" }
}
`, "HOST", f.host)
	if token != "" { // on /origin/ the tools send the token of the host in the address
		config += fmt.Sprintf("credentials %q {\n  token = %q\n}\ncredentials \"registry.example.com\" {\n  token = %q\n}\n", f.host, token, token)
		if tool.Name == "tofu" {
			config += fmt.Sprintf("oci_credentials %q {\n  username = \"okara\"\n  password = %q\n}\n", f.host, token)
		}
	}
	dir, out, err := tool.Init(t, map[string]string{"main.tf": root}, config, "SSL_CERT_FILE="+f.ca)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lock := string(must.Fixed(os.ReadFile(filepath.Join(dir, ".terraform.lock.hcl"))))
	if n := strings.Count(lock, "\nprovider "); n != 3 {
		t.Errorf("%d providers in the lock file:\n%s", n, lock)
	}
	if again, err := tool.Run(t, dir, config, []string{"SSL_CERT_FILE=" + f.ca}, "init", "-no-color", "-lockfile=readonly"); err != nil {
		t.Errorf("init with the lock file: %v\n%s", err, again)
	}
	asked := strings.Join(f.take(), "\n") + "\n"
	newer := regexp.MustCompile(map[string]string{"oci": `OpenTofu/1\.1[0-9]\.`, "direct": `OpenTofu/1\.1[2-9]\.`}[answer]).MatchString(asked) && answer != "portable"
	for what, want := range map[string]bool{"GET archives/auth": newer && answer == "direct", "GET v2/": newer && answer == "oci", "GET mirror/": true, "GET origin/": true} {
		if strings.Contains(asked, what) != want {
			t.Errorf("asked for %s: %t, want %t, in\n%s", what, !want, want, asked)
		}
	}
	if token != "" {
		if _, out, err := tool.Init(t, map[string]string{"main.tf": root}, config[:strings.Index(config, "credentials")], "SSL_CERT_FILE="+f.ca); err == nil || !strings.Contains(out, "401") && !strings.Contains(out, "nauthorized") && !strings.Contains(out, "credentials") {
			t.Errorf("without the token: %v\n%s", err, out)
		}
	}
}

// TestTofuRefusesDamagedModule: no tool accepts it, OpenTofu by the link's checksum.
func TestTofuRefusesDamagedModule(t *testing.T) {
	lie := &ocitest.Fault{Match: ocitest.On("GET", "blob"), Times: -1, Do: ocitest.Corrupt}
	f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), lie, nil)
	f.moduleLink(t, 300_000)
	config := fmt.Sprintf("host \"okara.test\" {\n  services = { \"modules.v1\" = \"%s/v1/modules/\" }\n}\n", f.URL)
	root := map[string]string{"main.tf": "module \"vpc\" {\n  source  = \"okara.test/net/vpc/aws\"\n  version = \"1.0.0\"\n}\n"}
	for _, tool := range tofutest.StockTools(t) {
		_, out, err := tool.Init(t, root, config)
		if err == nil {
			t.Errorf("%s took a damaged module:\n%s", tool.Name, out)
		}
		if filepath.Base(tool.Path) == "tofu" && !strings.Contains(out, "Checksums did not match") {
			t.Errorf("tofu does not say that it compared the checksum:\n%s", out)
		}
	}
	lie.Times = 0
	for _, tool := range tofutest.StockTools(t) {
		if _, out, err := tool.Init(t, root, config); err != nil {
			t.Errorf("%s, when the registry is well again: %v\n%s", tool.Name, err, out)
		}
	}
}

// TestTofuHashes: published hashes are those that the tools compute.
//
// Shows: registries 11 | `h1:` hashes missing or wrong | sethbacon/terraform-registry-backend
// Shows: registries 20 | a lock file for one platform | opentofu/opentofu#1442, #2563, #3868, #3885
func TestTofuHashes(t *testing.T) {
	f := newTLSFront(t, func(o *server.Options, _ string) { o.Hostname = "okara.test" })
	platforms := []string{"darwin_arm64", "linux_amd64", "windows_386"}
	files := map[string][]byte{}
	sums := signing.Sums{}
	for _, p := range platforms {
		name := "terraform-provider-dns_1.0.0_" + p + ".zip"
		files[name] = depottest.ZipOf(t, map[string]string{"terraform-provider-dns_v1.0.0": "binary for " + p, "LICENSE": "free", "a/b": p})
		sums[name] = hexSum(files[name])
	}
	files["terraform-provider-dns_1.0.0_SHA256SUMS"] = sums.Bytes()
	files["terraform-provider-dns_1.0.0_SHA256SUMS.sig"] = must.Fixed(testSigner().Sign(sums.Bytes(), time.Now()))
	f.publishProvider(t, "/v1/providers/acme/dns/1.0.0", "", files)

	_, body := ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/1.0.0/download/linux/amd64"))
	var want []string
	for _, p := range platforms {
		for _, h := range decode[tofutest.Package](t, body).Packages[p].Hashes {
			if strings.HasPrefix(h, "h1:") {
				want = append(want, h)
			}
		}
	}
	slices.Sort(want)
	for _, tool := range tofutest.StockTools(t) {
		// No mirror supports an address with a port: the tools build a wrong URL.
		for host, args := range map[string][]string{f.host: nil, "okara.test": {"-net-mirror=https://" + f.host + "/mirror/"}} {
			dir := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(tofutest.UseProvider(host + "/acme/dns")["main.tf"]), 0o600))
			args = append([]string{"providers", "lock", "-no-color"}, args...)
			for _, p := range platforms {
				args = append(args, "-platform="+p)
			}
			out, err := tool.Run(t, dir, "", []string{"SSL_CERT_FILE=" + f.ca}, args...)
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", tool.Name, host, err, out)
				continue
			}
			got := regexp.MustCompile(`h1:[^"]+`).FindAllString(string(must.Fixed(os.ReadFile(filepath.Join(dir, ".terraform.lock.hcl")))), -1)
			slices.Sort(got)
			if diff := cmp.Diff(got, want); len(got) != len(platforms) || diff != "" {
				t.Errorf("%s, %s: computed - recorded +:\n%s", tool.Name, host, diff)
			}
		}
	}
}

// publishProvider uploads the files of a release and publishes it.
func (f *front) publishProvider(t testing.TB, base, token string, files map[string][]byte) {
	t.Helper()
	if !f.tryPublishProvider(t, base, token, files) {
		t.Fatalf("%s is not published", base)
	}
}

func (f *front) tryPublishProvider(t testing.TB, base, token string, files map[string][]byte) bool {
	t.Helper()
	var receipts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		status, body := f.send(t, http.MethodPut, base+"/files/"+name, token, files[name])
		if status/100 != 2 {
			return false
		}
		receipts = append(receipts, decode[struct{ Receipt string }](t, body).Receipt)
	}
	request := must.Fixed(json.Marshal(map[string]any{"receipts": receipts, "keys": []string{must.Fixed(testSigner().Public()).Armor}}))
	status, _ := f.send(t, http.MethodPost, base, token, request)
	return status/100 == 2
}

// TestTofuLogin: stock tools log in, by front-end and issuer, install, and store a state.
//
// Shows: cloud 20 | login with a browser, with a pasted token, with an invalid token
// Shows: opendepot 14
// Shows: registries 21 | a login document that no tool can use | terrakube, OpenDepot
func TestTofuLogin(t *testing.T) {
	for _, direct := range []bool{false, true} {
		for _, tool := range tofutest.StockTools(t) {
			t.Run(fmt.Sprintf("%s, direct %t", tool.Name, direct), func(t *testing.T) {
				i := newIssuer(t)
				i.public = direct
				f := newTLSFront(t, func(o *server.Options, url string) {
					o.Access = i.access("read:module:net/**", access.Rule{Groups: []string{"platform"}})
					o.Access.Rules[0].Allow = append(o.Access.Rules[0].Allow, must.Fixed(rights.ParseScope("write:state:acme")))
					o.PublicURL = url
					keepStates(t, o)
					o.Login = &access.Login{Direct: direct, Issuer: access.Issuer{URL: i.URL}, ClientID: "okara-web", PublicURL: url}
					if direct {
						o.Login.Scopes = []string{"openid", "okara"}
					} else {
						o.Login.ClientSecret = "s3cret"
					}
				})
				f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
				env := []string{"SSL_CERT_FILE=" + f.ca}
				root := map[string]string{"main.tf": fmt.Sprintf("module \"vpc\" {\n  source  = \"%s/net/vpc/aws\"\n  version = \"1.0.0\"\n}\n", f.host)}
				if _, out, err := tool.Init(t, root, "", env...); err == nil {
					t.Errorf("nobody installed a private module:\n%s", out)
				}
				tool.Home = t.TempDir()
				if err := os.Mkdir(filepath.Join(tool.Home, ".terraform.d"), 0o700); err != nil { // Terraform requires it
					t.Fatal(err)
				}
				browser := f.tls.Client()
				out, err := tool.Login(t, f.host, env, func(at string) {
					if direct != strings.HasPrefix(at, i.URL) || direct && !strings.Contains(at, "scope=openid+okara") {
						t.Errorf("the tool sends the browser to %s", at)
					}
					if resp, err := browser.Get(at); err == nil {
						resp.Body.Close()
					} else if !strings.Contains(err.Error(), "http://localhost:100") { // a tool that has its code may exit during the answer
						t.Error(err)
					}
				})
				if err != nil {
					t.Fatalf("login: %v\n%s", err, out)
				}
				rc := filepath.Join(tool.Home, ".terraformrc")
				must.Succeed(t, os.WriteFile(rc, []byte("disable_checkpoint = true\n"), 0o600))
				if _, out, err := tool.Init(t, root, "", env...); err != nil {
					t.Errorf("init with the token: %v\n%s", err, out)
				}
				if _, out, err := tool.Init(t, root, "disable_checkpoint = true\n", env...); err == nil {
					t.Errorf("a file that TF_CLI_CONFIG_FILE names leaves the token in use, which the docs deny:\n%s", out)
				}
				cloud := func(organization string) (string, string, error) {
					const text = "terraform {\n  cloud {\n    hostname     = %q\n    organization = %q\n    workspaces {\n      name = \"shop\"\n    }\n  }\n}\nresource \"terraform_data\" \"one\" {}\n"
					return tool.Init(t, map[string]string{"main.tf": fmt.Sprintf(text, f.host, organization)}, "", env...)
				}
				dir, out, err := cloud("acme")
				if err == nil {
					out, err = tool.Run(t, dir, "", env, "apply", "-no-color", "-auto-approve")
				}
				if err != nil {
					t.Errorf("an apply with the token: %v\n%s", err, out)
				}
				if _, out, err := cloud("other"); err == nil {
					t.Errorf("the token is good for a state that its rule does not name:\n%s", out)
				}
			})
		}
	}
}
