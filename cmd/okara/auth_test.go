// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

const (
	testUser   = "octocat"
	testSecret = "s3cr3t-pa55word"
)

// person is a user with a home directory and an environment of their own.
type person struct {
	t    *testing.T
	home string
	env  map[string]string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	home := t.TempDir()
	return &person{t: t, home: home, env: map[string]string{"PATH": os.Getenv("PATH"), "XDG_RUNTIME_DIR": filepath.Join(home, "run")}}
}

// outcome is the result of a command line.
type outcome struct {
	code     int
	out, err string
}

func (u *person) okara(in string, args ...string) outcome {
	u.t.Helper()
	var out, errOut bytes.Buffer
	code := runCommand(u.t.Context(), args, strings.NewReader(in), &out, &errOut, func(name string) string {
		if name == "HOME" {
			return u.home
		}
		return u.env[name]
	})
	return outcome{code, out.String(), errOut.String()}
}

func (u *person) mustOkara(args ...string) string {
	u.t.Helper()
	r := u.okara("", args...)
	if r.code != 0 {
		u.t.Fatalf("okara %q: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

func (u *person) file(name, content string) string {
	u.t.Helper()
	full := filepath.Join(u.home, filepath.FromSlash(name))
	must.Succeed(u.t, os.MkdirAll(filepath.Dir(full), 0o700))
	must.Succeed(u.t, os.WriteFile(full, []byte(content), 0o600))
	return full
}

func eachGuard(t *testing.T, f func(t *testing.T, g *ocitest.Guard)) {
	users := map[string]string{testUser: testSecret}
	t.Run("htpasswd", func(t *testing.T) { f(t, ocitest.NewHTPasswd(t, users)) })
	t.Run("tokens", func(t *testing.T) { f(t, ocitest.NewTokens(t, users)) })
}

// TestDeniedSaysItOnce expects the registry's message once, and exit code 5.
func TestDeniedSaysItOnce(t *testing.T) {
	words := map[string]string{"htpasswd": "authentication required", "tokens": "the issuer does not know this user name and password"}
	eachGuard(t, func(t *testing.T, g *ocitest.Guard) {
		u := newPerson(t)
		if r := u.okara("wr0ng-pa55word", "login", g.Host, "-u", testUser, "--password-stdin", "--no-check", "--json"); r.code != 0 || !strings.Contains(r.out, `"checked": false`) {
			t.Fatalf("login: %+v", r)
		}
		u.file("m/main.tf", "")
		word := words[filepath.Base(t.Name())]
		for _, args := range [][]string{
			{"publish", "module", filepath.Join(u.home, "m"), "acme/net/any", "1.0.0", "--registry", g.Host},
			{"state", "locks", g.Host + "/acme/state"},
			{"login", g.Host, "-u", testUser, "--password-stdin"},
		} {
			r := u.okara("wr0ng-pa55word", args...)
			if r.code != cli.ExitDenied || strings.Count(r.err, word) != 1 || strings.Contains(r.err, "wr0ng") {
				t.Errorf("okara %q: exit %d, want 5 and %q once:\n%s", args, r.code, word, r.err)
			}
		}
	})
}

// TestEmitServesOpenTofu installs with the printed block.
func TestEmitServesOpenTofu(t *testing.T) {
	tofu := tofutest.Tofu(t)
	g := ocitest.NewHTPasswd(t, map[string]string{testUser: testSecret})
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: g.Host})
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}})
	t.Cleanup(front.Close)
	host := strings.TrimPrefix(front.URL, "https://")
	u := newPerson(t)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	ca := u.file("ca.pem", string(authority))
	if r := u.okara(testSecret, "login", host, "-u", testUser, "--password-stdin"); r.code != cli.ExitFailure || !strings.Contains(r.err, "certificate") {
		t.Errorf("login to a registry that nobody trusts: %+v", r)
	}
	u.file(".config/containers/certs.d/"+host+"/ca.crt", string(authority))
	if r := u.okara(testSecret, "login", host, "-u", testUser, "--password-stdin"); r.code != 0 {
		t.Fatalf("login: %+v", r)
	}
	u.file("m/main.tf", `output "hello" { value = "world" }`)
	repository := strings.Split(u.mustOkara("publish", "module", filepath.Join(u.home, "m"), "acme/net/any", "1.0.0", "--registry", host+"/mods", "--ca-file", ca), "@")[0]
	repository, _, _ = strings.Cut(strings.TrimPrefix(repository, host), ":")
	if out := u.mustOkara("auth", "explain", host+repository, "--ca-file", ca); !strings.HasSuffix(out, "registry: accepted\n") {
		t.Errorf("explain: %s", out)
	}
	if out := u.mustOkara("auth", "explain", host+"/no/such", "--ca-file", ca); !strings.Contains(out, "registry: accepted, but ") {
		t.Errorf("explain of a repository that does not exist: %s", out)
	}
	root := filepath.Dir(u.file("root/main.tf", fmt.Sprintf("module \"net\" {\n  source = \"oci://%s%s?tag=1.0.0\"\n}\n", host, repository)))
	install := func(config string) (string, error) {
		cmd := exec.Command(tofu, "init", "-input=false", "-no-color")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "DOCKER_CONFIG=", "SSL_CERT_FILE="+ca, "TF_CLI_CONFIG_FILE="+u.file("tofurc", config))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := install(""); err == nil {
		t.Fatalf("tofu got in without credentials: %s", out)
	}
	if out, err := install(u.mustOkara("auth", "emit", host+repository)); err != nil {
		t.Errorf("tofu init with the block: %v\n%s", err, out)
	}
}

// TestPassThroughServesTools install with auth token's output.
func TestPassThroughServesTools(t *testing.T) {
	eachGuard(t, func(t *testing.T, g *ocitest.Guard) {
		u := newPerson(t)
		if r := u.okara(testSecret, "login", g.Host, "-u", testUser, "--password-stdin"); r.code != 0 {
			t.Fatalf("login: %+v", r)
		}
		u.file("m/main.tf", `output "hello" { value = "world" }`)
		u.mustOkara("publish", "module", filepath.Join(u.home, "m"), "acme/net/any", "1.0.0", "--registry", g.Host+"/mods")
		token := strings.TrimSpace(u.mustOkara("auth", "token", g.Host))
		nobody := newPerson(t)
		if r := nobody.okara("", "serve", "--pass-through", "--listen", "127.0.0.1:0", "--storage", t.TempDir()); r.code != cli.ExitUsage {
			t.Errorf("pass-through to the registry in this program: %+v", r)
		}
		base, _, _ := newServer(t, "--storage", t.TempDir(), "--registry", g.Host+"/mods", "--pass-through")
		config := u.file("okara.tfrc", u.mustOkara("cli-config", "--hostname", "okara.test", base))
		root := filepath.Dir(u.file("root/main.tf", "module \"net\" {\n  source  = \"okara.test/acme/net/any\"\n  version = \"1.0.0\"\n}\n"))
		for _, tool := range tofutest.StockTools(t) {
			for token, want := range map[string]bool{token: true, "basic.b2N0b2NhdDp3cm9uZw": false, "": false} {
				cmd := exec.Command(tool.Path, "init", "-input=false", "-no-color")
				cmd.Dir = root
				cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+config, "TF_TOKEN_okara_test="+token)
				out, err := cmd.CombinedOutput()
				if (err == nil) != want {
					t.Errorf("%s init with token %q: %v\n%s", tool.Name, token, err, out)
				}
				must.Succeed(t, os.RemoveAll(filepath.Join(root, ".terraform")))
			}
		}
	})
}

// TestExplainWorkload logs in as a pod of GKE, whose metadata server is on loopback here.
func TestExplainWorkload(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"access_token": "`+testSecret+`", "expires_in": 3599, "token_type": "Bearer"}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("GCE_METADATA_HOST", server.Listener.Addr().String())
	out := newPerson(t).mustOkara("auth", "explain", "europe-docker.pkg.dev/acme/net", "--offline")
	if !strings.Contains(out, "->  default  workload identity") || !strings.Contains(out, "password oauth2accesstoken") || strings.Contains(out, testSecret) {
		t.Errorf("explained as %s", out)
	}
}
