// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestServeRefuses gives wrong settings to a start and to --check: one message with the line
// or the flag, the exit code of usage errors, nothing created, no secret in it. Good settings
// pass --check.
//
// Shows: mistakes 29 | wrong settings were reported only at a start | `okara serve --check` reads
// settings and their files; a command creates tokens
func TestServeRefuses(t *testing.T) {
	const hookSecret, acmeToken = "s3cret-of-the-webhook", "ghp_s3cretOfAcme"
	c := newPerson(t)
	storage := filepath.Join(c.home, "storage")
	secret, token := c.file("secret", hookSecret), c.file("token", acmeToken)
	open := c.file("open", acmeToken)
	must.Succeed(t, os.Chmod(open, 0o644))
	cert := c.file("cert.pem", "no certificate\n")
	owner := func(lines ...string) string {
		return "\ngithub \"acme\" {\n secret_files = [\"" + secret + "\"]\n" + strings.Join(lines, "\n") + "\n}\n"
	}
	github := owner("token_file = \"" + token + "\"")
	tokens := func(text string) []string {
		return []string{"--token-file", c.file("tokens-"+fmt.Sprint(len(text)), text)}
	}
	pulling := func(providers, body string) string {
		return fmt.Sprintf("hostname = \"okara.test\"\n\npull_through %q {\n%s\n}\n", providers, body)
	}
	for _, tt := range []struct {
		name, config string
		args         []string
		want         string
	}{
		{"open to the network", "", []string{"--listen", "0.0.0.0:0"}, "hint: set --token-file"},
		{"every address", "", []string{"--listen", ":0"}, "no setting grants access"},
		{"no address", "", []string{"--listen", "nonsense"}, "--listen"},
		{"no such token file", "", []string{"--token-file", filepath.Join(c.home, "none")}, "none"},
		{"empty token file", "", tokens("\n# nothing\n"), "no token"},
		{"token without scope", "", tokens("\n" + serveToken + "\n"), ":2: token ci has no scope"},
		{"bad scope", "", tokens(serveToken + " eat:module:**\n"), ":1: scope"},
		{"short token", "", tokens("oks_ci_x read:module:**\n"), ":1: a static token has the form"},
		{"certificate without key", "", []string{"--tls-cert", "x"}, "must be set together"},
		{"both certificates", "", []string{"--tls-cert", "x", "--tls-key", "y", "--tls-self-signed"}, "tls-self-signed"},
		{"redirect", "", []string{"--archive-redirect", "sometimes"}, "redirect"},
		{"registry", "", []string{"--registry", "https://registry.example.com"}, "registry.example.com"},
		{"pass-through", "", []string{"--pass-through"}, "--pass-through requires a registry"},
		{"depot file", "", []string{"--depot", c.file("depot.hcl", "module \"x\" {}\n")}, "depot.hcl:1"},
		{"syntax", "listen = \n", nil, "okara.hcl:1"},
		{"unknown attribute", "listn = \"x\"\n", nil, "okara.hcl:1: An argument named \"listn\""},
		{"type", "proxies = 7\n", nil, "okara.hcl:1"},
		{"scope", "\ntoken \"ci\" {\n sha256 = \"" + strings.Repeat("ab", 32) + "\"\n scopes = [\"reed:module:**\"]\n}\n", nil, "okara.hcl:2: scope \"reed:module"},
		{"hash", "token \"ci\" {\n sha256 = \"abc\"\n scopes = []\n}\n", nil, "okara.hcl:1: sha256"},
		{"network", "\n\nproxies = [\"10\"]\n", nil, "okara.hcl:3"},
		{"two mistakes", "\ngrace = \"soon\"\ndrain = \"later\"\n", nil, "okara.hcl:2: grace \"soon\".*okara.hcl:3: drain \"later\""},
		{"log format", "log_format = \"xml\"\n", nil, "invalid log format \"xml\": must be text or json"},
		{"login", "login {\n issuer = \"https://i\"\n client_id = \"x\"\n}\n", nil, "okara.hcl:1: login needs public_url"},
		{"login mode", "\nlogin {\n mode = \"x\"\n issuer = \"https://i\"\n client_id = \"x\"\n}\n", nil, "okara.hcl:2: invalid login mode"},
		{"direct login", "login {\n mode = \"direct\"\n issuer = \"https://i\"\n client_id = \"x\"\n}\n", nil, "okara.hcl:1: a direct login requires an issuer block \"https://i\""},
		{"direct login with a lifetime", "login {\n mode = \"direct\"\n issuer = \"https://i\"\n client_id = \"x\"\n token_ttl = \"1h\"\n}\n", nil, "okara.hcl:1: a direct login must not set"},
		{"requirement", "\nrequire \"module\" {\n checks = [\"openpgp\"]\n}\n", nil, "okara.hcl:2: require module: modules have no OpenPGP"},
		{"requirement twice", "require \"module\" {\n block = \"high\"\n}\nrequire \"module\" {\n block = \"high\"\n}\n", nil, "okara.hcl:4: duplicate require block"},
		{"requirement without its key", "require \"provider\" {\n checks = [\"openpgp\"]\n openpgp_keys = [\"none.asc\"]\n}\n", nil, "none.asc"},
		{"requirement of nothing", "require \"mirror\" {}\n", nil, "okara.hcl:1: require mirror: no requirement given"},
		{"revoked key", "\nrevoked_keys = [\"DEADBEEF\"]\n", nil, "okara.hcl:2: revoked key \"DEADBEEF\" must be an ID of 16"},
		{"layout", "layout {\n modules = \"x/{name}\"\n}\n", nil, "okara.hcl:1"},
		{"broken rules", "rules_file = \"" + c.file("broken.json", `{"rules": [{}]}`) + "\"\n", nil, "okara.hcl:1.*broken.json"},
		{"no rules", "rules_file = \"none.json\"\n", nil, "okara.hcl:1.*none.json"},

		// The blocks github and hook.
		{"no secret", "github \"acme\" {\n token_file = \"" + token + "\"\n}\n", nil, "okara.hcl:1: github \"acme\": requires a webhook secret"},
		{"short secret", "github \"acme\" {\n token_file = \"" + token + "\"\n secret_env = \"SHORT\"\n}\n", nil, "okara.hcl:1: github \"acme\": a webhook secret"},
		{"secret in the file", "github \"acme\" {\n token = \"x\"\n}\n", nil, "okara.hcl:2"},
		{"no token", owner(), nil, "okara.hcl:2: github \"acme\": one of token_env, token_file and app_id is required"},
		{"two tokens", owner("token_file = \""+token+"\"", "token_env = \"T\""), nil, "okara.hcl:2: github \"acme\": one of token_env, token_file and app_id is required"},
		{"no such variable", owner("token_env = \"NONE\""), nil, "okara.hcl:2: github \"acme\": the variable NONE is empty"},
		{"no such file", owner("token_file = \"" + c.home + "/none\""), nil, "none"},
		{"file for all", owner("token_file = \"" + open + "\""), nil, "hint: chmod 600"},
		{"half an app", owner("app_id = 1"), nil, "okara.hcl:2: github \"acme\": app_id needs"},
		{"no key", owner("app_id = 1", "installation_id = 2", "private_key_file = \""+token+"\""), nil, "not a PEM file"},
		{"plain http", owner("token_file = \""+token+"\"", "api_url = \"http://github.example.com\""), nil, "api_url"},
		{"twice", github + github, nil, "okara.hcl:7: github \"acme\" appears twice"},
		{"hook of nobody", github + "hook \"other/x\" {\n module = \"a/b/c\"\n}\n", nil, "okara.hcl:6: hook \"other/x\": no github block"},
		{"hook without owner", github + "hook \"x\" {\n module = \"a/b/c\"\n}\n", nil, "okara.hcl:6: hook \"x\": must be OWNER/REPOSITORY"},
		{"hook address", github + "hook \"acme/x\" {\n module = \"a/b\"\n}\n", nil, "okara.hcl:6: repository x: "},

		// The block pull_through.
		{"two segments", pulling("hashicorp/*", ""), nil, `okara.hcl:3: .*"hashicorp/\*" is not HOSTNAME/NAMESPACE/TYPE`},
		{"any depth", pulling("registry.opentofu.org/**", ""), nil, "okara.hcl:3: .*is not HOSTNAME"},
		{"any depth, in three", pulling("registry.opentofu.org/**/x", ""), nil, "okara.hcl:3: .*is not HOSTNAME"},
		{"an empty segment", pulling("/hashicorp/aws", ""), nil, "okara.hcl:3: .*is not HOSTNAME"},
		{"capitals", pulling("registry.opentofu.org/HashiCorp/*", ""), nil, "okara.hcl:3: .*capital letters"},
		{"no host name", pulling("registry_opentofu/hashicorp/*", ""), nil, "okara.hcl:3: .*provider host"},
		{"versions", pulling("*/hashicorp/*", `versions = "new"`), nil, "okara.hcl:3: .*version constraint"},
		{"platform", pulling("*/hashicorp/*", `platforms = ["linux"]`), nil, "okara.hcl:3: .*OS_ARCH"},
		{"from a path", pulling("*/hashicorp/*", `from = "/srv/mirror"`), nil, "okara.hcl:3: .*must be the HOST"},
		{"from http", pulling("*/hashicorp/*", `from = "http://mirror.example.com/"`), nil, "okara.hcl:3: .*must be the HOST"},
		{"from nowhere", pulling("*/hashicorp/*", `from = "https:///x"`), nil, "okara.hcl:3: .*not the address of a network mirror"},
		{"from with a password", pulling("*/hashicorp/*", `from = "https://a:b@example.com/"`), nil, "okara.hcl:3: .*not the address of a network mirror"},
		{"private address", pulling("*/hashicorp/*", `private = ["https://10.0.0.1"]`), nil, "okara.hcl:3: .*must be HOST or HOST:PORT"},
		{"all private addresses", pulling("*/hashicorp/*", `private = ["*"]`), nil, "okara.hcl:3: .*must be HOST or HOST:PORT"},
		{"a policy that comes too late", pulling("*/hashicorp/*", "}\nrequire \"mirror\" {\n checks = [\"scan\"]"), nil, "before it can be"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.env = map[string]string{"SHORT": "x"}
			args := append([]string{"serve"}, tt.args...)
			if tt.config != "" {
				args = append(args, "--config", c.file("okara.hcl", tt.config))
			}
			for _, how := range [][]string{{"--storage", filepath.Join(t.TempDir(), "s")}, {"--check", "--storage", storage}} {
				code, out, errOut := c.run(t, append(args, how...)...)
				if code != cli.ExitUsage || !matches(t, tt.want, errOut) || out != "" || strings.Contains(errOut, acmeToken) || strings.Contains(errOut, hookSecret) {
					t.Errorf("%v: exit %d, stdout %q, stderr %q; want %q", how, code, out, errOut, tt.want)
				}
			}
		})
	}
	for want, args := range map[string][]string{"read the certificate": {"--tls-cert", cert, "--tls-key", cert}, `--metrics-listen "9090"`: {"--metrics-listen", "9090"}} { // a start notices later
		if code, out, errOut := c.run(t, append([]string{"serve", "--check", "--storage", storage}, args...)...); code != cli.ExitUsage || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, out, errOut, want)
		}
	}
	for config, want := range map[string]string{"": "the configuration is valid", "audit_log = \"audit.log\"\ncache {\n  blobs = \"1GiB\"\n}\n": "okara.hcl is valid"} {
		args := []string{"serve", "--check", "--storage", storage}
		if config != "" {
			args = append(args, "--config", c.file("okara.hcl", config))
		}
		for _, form := range [][2]string{{"--json", `"valid": true`}, {"--json=false", want}} {
			if code, out, errOut := c.run(t, append(args, form[0])...); code != cli.ExitOK || !strings.Contains(out, form[1]) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, out, errOut, form[1])
			}
		}
	}
	if _, err := os.Stat(storage); !os.IsNotExist(err) {
		t.Error("checking made the storage:", err)
	}
}

// TestServeCheckBeside checks the settings of a running server, with its port and its storage,
// and leaves the storage unchanged.
//
// Shows: mistakes 29
func TestServeCheckBeside(t *testing.T) {
	c, storage := newPerson(t), t.TempDir()
	url, _, _ := newServer(t, "--storage", storage)
	before := filesBelow(t, storage)
	code, out, errOut := c.run(t, "serve", "--check", "--storage", storage, "--listen", strings.TrimPrefix(url, "http://"))
	if code != cli.ExitOK || errOut != "" {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	must.Match(t, "value", filesBelow(t, storage), before)
}

func filesBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.Succeed(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		all = append(all, fmt.Sprint(path, info.Mode(), info.ModTime()))
		return err
	}))
	return all
}

// TestServeCheckTool names a program that does not run as the tool of an executor, which a
// check starts, like a server.
//
// Shows: mistakes 29
func TestServeCheckTool(t *testing.T) {
	c := newPerson(t)
	for script, want := range map[string]string{"echo OpenTofu v1.12.6": " is valid", "echo exec format error >&2; exit 3": "okara.hcl:6: executor local: .*exec format error"} {
		tool := c.file("tofu", "#!/bin/sh\n"+script+"\n")
		must.Succeed(t, os.Chmod(tool, 0o755))
		config := c.file("okara.hcl", fmt.Sprintf("anonymous = []\ninstances {\n  templates = %q\n  unsealed = true\n}\nexecutor \"local\" {\n  program = %q\n  isolation = \"wrap\"\n  wrap = [\"env\"]\n}\n", t.TempDir(), tool))
		cmd := exec.CommandContext(t.Context(), "okara", "serve", "--check", "--config", config, "--storage", filepath.Join(c.home, "s"))
		cmd.Env = []string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if !matches(t, want, string(out)) || (err == nil) != strings.HasPrefix(script, "echo O") {
			t.Errorf("%s: %v, %s", script, err, out)
		}
	}
}
