// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// pulling returns a configuration file with one pull_through block.
func pulling(t *testing.T, providers, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	text := fmt.Sprintf("hostname = \"okara.test\"\n\npull_through %q {\n%s\n}\n", providers, body)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestServePullThroughConfig uses every setting of the block.
func TestServePullThroughConfig(t *testing.T) {
	url, _, _ := newServer(t, "--storage", t.TempDir(), "--config", pulling(t, "registry.opentofu.org/hashicorp/*", `
  versions          = ">= 3.0"
  platforms         = ["linux_amd64", "darwin_arm64"]
  from              = "https://10.1.2.3:8443/v1/providers/"
  private           = ["mirror.example.com", "10.1.2.4:8443"]
  allow_unsigned    = true
  allow_expired_key = true`))
	for path, want := range map[string]int{
		"/mirror/registry.opentofu.org/hashicorp/aws/index.json": 502, // refused: the address is not listed
		"/mirror/registry.opentofu.org/hashicorp/aws/2.9.0.json": 404,
		"/mirror/registry.opentofu.org/other/aws/index.json":     404,
	} {
		if got := status(t, http.DefaultClient, http.MethodGet, url+path, ""); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// TestServePullThroughPrivate shows that with a rule for any host, clients cannot make the
// server send requests to internal addresses, by any name.
//
// Shows: registries 23 | requests to internal addresses | artifact-keeper#2094
func TestServePullThroughPrivate(t *testing.T) {
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/terraform.json":
			io.WriteString(w, `{"providers.v1":"/p/"}`)
		case "/p/acme/dns/versions":
			io.WriteString(w, `{"versions":[{"version":"1.2.0"}]}`)
		case "/p/acme/away/versions":
			http.Redirect(w, r, "https://169.254.169.254/latest/meta-data/", http.StatusFound)
		}
	}))
	t.Cleanup(inside.Close)
	host := inside.Listener.Addr().String()
	_, port := must.GetBoth(net.SplitHostPort(host))(t)
	ask := func(url, path string) (int, string) {
		resp := must.Get(http.Get(url + path))(t)
		defer resp.Body.Close()
		b := must.Get(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, string(b)
	}
	closed, _, _ := newServer(t, "--storage", t.TempDir(), "--config", pulling(t, "*/*/*", ""))
	for _, origin := range []string{host, "localhost:" + port, "169.254.169.254"} {
		for _, path := range []string{"/mirror/" + origin + "/acme/dns/index.json", "/mirror/" + origin + "/acme/dns/1.2.0.json"} {
			code, text := ask(closed, path)
			if code/100 == 2 || !strings.Contains(text, "not at a public address") || asked.Load() != 0 {
				t.Errorf("%s: %d %s, asked %d times", path, code, text, asked.Load())
			}
		}
	}
	open, _, _ := newServer(t, "--storage", t.TempDir(), "--config", pulling(t, "*/*/*", fmt.Sprintf("private = [%q]", host)))
	if code, text := ask(open, "/mirror/"+host+"/acme/dns/index.json"); code != 200 || !strings.Contains(text, "1.2.0") {
		t.Errorf("a listed origin: %d %s", code, text)
	}
	before := asked.Load()
	if code, text := ask(open, "/mirror/localhost:"+port+"/acme/dns/index.json"); code/100 == 2 || asked.Load() != before {
		t.Errorf("another name of a listed origin: %d %s", code, text)
	}
	if code, text := ask(open, "/mirror/"+host+"/acme/away/index.json"); code/100 == 2 || !strings.Contains(text, "not at a public address") {
		t.Errorf("a redirect to the metadata of a cloud: %d %s", code, text)
	}
	if code, text := ask(open, "/metrics"); code != 200 || !strings.Contains(text, `okara_origin_requests_total{code="200",rule="*/*/*"}`) {
		t.Errorf("metrics: %d, %s", code, text)
	}
}
