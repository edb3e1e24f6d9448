// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// run is okara that may print no token of its environment.
func (u *person) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	o := u.okara("", args...)
	for k, v := range u.env {
		if strings.Contains(k, "TOKEN") && !strings.Contains(k, "URL") && v != "" && strings.Contains(o.out+o.err, v) {
			t.Errorf("%v prints %s", args, k)
		}
	}
	return o.code, o.out, o.err
}

// TestPublishModulesExits: exit codes, and how many modules.
func TestPublishModulesExits(t *testing.T) {
	t.Parallel()
	c, registry := newPerson(t), ocitest.New(t, ocitest.Quirks{})
	for _, name := range []string{"a/main.tf", "alone/modules/x/x.tf", "b/main.tf", "docs/modules/README.md"} {
		c.file("all/"+name, "")
	}
	const plain, sibling = "locals {}\n", `module "s" { source = "../a" }`
	for i, step := range []struct {
		changed         string // file that changes before
		folder, more    string
		code, published int
	}{
		{"", "all", "--dry-run", cli.ExitOK, 0},
		{"", "all", "", cli.ExitOK, 3},
		{"", "all", "", cli.ExitOK, 3},
		{"all/a/main.tf", "all", "--dry-run", cli.ExitPartly, 0},
		{"all/new/main.tf", "all", "", cli.ExitPartly, 0},
		{"", "all", "--keep-going", cli.ExitPartly, 3},
		{"one/a/main.tf", "one", "", cli.ExitConflict, 0},
		{"", "one", "--keep-going", cli.ExitConflict, 0},
		{"", "all/docs", "", cli.ExitUsage, 0},
		{"", "all", "--bump minor --dry-run", cli.ExitOK, 0},
		{"all/b/sibling.tf", "all", "--bump minor --dry-run", cli.ExitPartly, 0},
		{"", "all", "--bump minor", cli.ExitPartly, 0},
		{"all/later/sibling.tf", "all", "--bump minor --keep-going", cli.ExitPartly, 1},
		{"", "all", "--bump minor --keep-going --dry-run", cli.ExitPartly, 0},
		{"", "all", "--bump minor --keep-going", cli.ExitPartly, 0},
		{"", "all", "--bump minor --package-root " + filepath.Join(c.home, "all"), cli.ExitOK, 5},
	} {
		if step.changed != "" {
			c.file(step.changed, map[bool]string{false: plain, true: sibling}[strings.HasSuffix(step.changed, "/sibling.tf")])
		}
		args := []string{"publish", "modules", filepath.Join(c.home, step.folder), "net/{name}/aws", "--registry", registry}
		if !strings.Contains(step.more, "--bump") {
			args = append(args, "--version", "1.0.0")
		}
		code, out, errOut := c.run(t, append(args, strings.Fields(step.more)...)...)
		if code != step.code || strings.Count(out, "@sha256:") != step.published {
			t.Errorf("step %d: exit %d, want %d and %d modules: %s%s", i, code, step.code, step.published, out, errOut)
		}
	}
}

// TestPublishServer: a server with TLS and token, step by step.
func TestPublishServer(t *testing.T) {
	t.Parallel()
	c, storage := newPerson(t), t.TempDir()
	tokens := c.file("tokens", serveToken+" publish:module:acme/**\n")
	server, _, stop := newServer(t, "--storage", storage, "--tls-self-signed", "--token-file", tokens)
	host := strings.TrimPrefix(server, "https://")
	ca := filepath.Join(storage, "tls", "ca.pem")
	dir := filepath.Dir(c.file("vpc/main.tf", "# x\n"))
	other := filepath.Dir(c.file("vpc2/main.tf", "# y\n"))
	c.file("all/one/main.tf", "# one\n")
	c.file("all/two/main.tf", "# two\n")
	c.file("changed/one/main.tf", "# one more\n")
	wrong, right := c.file("wrong", "oks_ci_wrongwrongwrongwrong\n"), c.file("right", serveToken+"\n")
	job := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "for "+r.FormValue("audience"), http.StatusForbidden)
	}))
	t.Cleanup(job.Close)
	const version = `:1\.0\.0@sha256:[0-9a-f]{64}`
	if code, _, errOut := c.run(t, "keys", "new", "--cosign", "--dir", c.home); code != cli.ExitOK {
		t.Fatal(errOut)
	}
	login := func(token string) {
		c.file(".terraform.d/credentials.tfrc.json", fmt.Sprintf(`{"credentials":{%q:{"token":%q}}}`, host, token))
	}
	module := []string{"publish", "module", dir, "acme/vpc/aws", "1.0.0"}
	for _, step := range []struct {
		name   string
		env    map[string]string
		args   []string
		code   int
		out    string
		errOut string
	}{
		{"dry run", map[string]string{"OKARA_TOKEN": serveToken}, append(module, "--dry-run"), cli.ExitOK, "include\tmain.tf\t4", "new in the registry.*nothing was pushed"},
		{"dry run without a token", nil, append(module, "--dry-run"), cli.ExitDenied, "", "401 Unauthorized.*\nhint: give a token"},
		{"dry run without a server", map[string]string{"OKARA_SERVER": ""}, append(module, "--dry-run"), cli.ExitOK, "include\tmain.tf\t4", "1.0.0: 1 file,"},
		{"no token", nil, module, cli.ExitDenied, "", "401 Unauthorized: the server says: token required.*\nhint: give a token.*id-token: write"},
		{"token of a job", map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": job.URL, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret"}, module, cli.ExitDenied, "", "request a token from GitHub Actions: .*for https://127"},
		{"token of a job, by name", map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": job.URL, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret"}, append(module, "--audience", "by-name"), cli.ExitDenied, "", "request a token from GitHub Actions: .*for by-name"},
		{"token of a job, not over http", map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "http://runner.example.com", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner-secret"}, module, cli.ExitUsage, "", "not an https URL"},
		{"wrong token", nil, append(module, "--token-file", wrong), cli.ExitDenied, "", "the token is not valid here"},
		{"no such file", nil, append(module, "--token-file", wrong+"x"), cli.ExitUsage, "", "does not exist"},
		{"elsewhere", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "module", dir, "other/vpc/aws", "1.0.0"}, cli.ExitDenied, "", "403 Forbidden.*\nhint: the token is valid"},
		{"publish", map[string]string{"OKARA_TOKEN": serveToken}, module, cli.ExitOK, host + "/modules/acme/vpc/aws" + version, "^$"},
		{"again", nil, append(module, "--token-file", right, "--json"), cli.ExitOK, `"existing": true`, "already published"},
		{"conflict", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "module", other, "acme/vpc/aws", "1.0.0"}, cli.ExitConflict, "",
			host + "/modules/acme/vpc/aws:1.0.0 is already published with other content.*1.0.1\nhint: a published version never changes"},
		{"dry run of the same", map[string]string{"OKARA_TOKEN": serveToken}, append(module, "--dry-run", "--json"), cli.ExitOK, `"outcome": "same"`, "nothing was pushed"},
		{"dry run of a conflict", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "module", other, "acme/vpc/aws", "1.0.0", "--dry-run", "--json"}, cli.ExitConflict,
			`"outcome": "conflict"`, "already published with other content.*1.0.1"},
		{"no module", nil, []string{"publish", "module", c.home, "acme/vpc/aws", "1.0.0"}, cli.ExitFailure, "", "no .tf.*\nhint: specify the folder"},
		{"a folder of modules", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "modules", filepath.Join(c.home, "all"), "acme/{name}/aws", "1.0.0"}, cli.ExitOK,
			"/acme/one/aws" + version + "\n.*/acme/two/aws" + version, "^$"},
		{"token of tofu login", map[string]string{"login": serveToken}, module, cli.ExitOK, version, "already published"},
		{"deprecate", map[string]string{"OKARA_TOKEN": serveToken}, []string{"deprecate", "acme/vpc/aws@1.0.0", "-m", "old"}, cli.ExitOK, "deprecated acme/vpc/aws@1.0.0", "^$"},
		{"deprecate what is not there", map[string]string{"OKARA_TOKEN": serveToken}, []string{"deprecate", "acme/vpc/aws@9.0.0"}, cli.ExitNotFound, "", "acme/vpc/aws has no version 9.0.0, the newest is 1.0.0\nhint: `okara list acme/vpc/aws`"},
		{"deprecate all", map[string]string{"OKARA_TOKEN": serveToken}, []string{"deprecate", "acme/vpc/aws@*"}, cli.ExitUsage, "", "one version"},
		{"yank a mirrored one", nil, []string{"yank", "registry.example.com/acme/dns@1.0.0"}, cli.ExitUsage, "", "is mirrored"},
		{"sign", map[string]string{"OKARA_TOKEN": serveToken}, []string{"sign", "acme/vpc/aws@1.0.0", "--cosign-key", filepath.Join(c.home, "okara-cosign.key"), "--json"}, cli.ExitOK, `"cosign": "sha256:`, ""},
		{"registry of the server", map[string]string{"OKARA_TOKEN": serveToken}, []string{"show", "acme/vpc/aws@1.0.0", "--registry", host}, cli.ExitOK, "1.0.0", ""},
		{"that without a token", nil, []string{"show", "acme/vpc/aws@1.0.0", "--registry", host}, cli.ExitDenied, "", "requires a login"},
		{"token of no server", map[string]string{"OKARA_TOKEN": serveToken, "OKARA_SERVER": ""}, []string{"show", "acme/vpc/aws@1.0.0", "--registry", host}, cli.ExitDenied, "", "OKARA_TOKEN is sent only to the server"},
		{"a refused token", map[string]string{"login": serveToken + "x", "OKARA_SERVER": ""}, []string{"auth", "explain", host + "/modules/acme/vpc/aws"}, cli.ExitOK, "->.* the registry refused it, and there is no other", ""},
		{"whose token it is", map[string]string{"OKARA_TOKEN": serveToken}, []string{"auth", "explain", host, "--offline"}, cli.ExitOK, "-> +host +explicit +variable OKARA_TOKEN, for OKARA_SERVER", ""},
		{"not for others", map[string]string{"OKARA_TOKEN": serveToken}, []string{"auth", "explain", "registry.example.com", "--offline", "--json"}, cli.ExitOK, `"source": "anonymous"`, ""},
		{"the next one", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "module", other, "acme/vpc/aws", "--bump", "minor"}, cli.ExitOK, host + `/modules/acme/vpc/aws:1\.1\.0@sha256:`, "^$"},
		{"what has changed", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "modules", filepath.Join(c.home, "all"), "acme/{name}/aws", "--bump", "minor"}, cli.ExitOK, "^$", "acme/one/aws: unchanged since 1.0.0"},
		{"since nobody knows when", map[string]string{"OKARA_TOKEN": serveToken}, []string{"publish", "modules", filepath.Join(c.home, "changed"), "acme/{name}/aws", "--bump", "commits"}, cli.ExitUsage, "", "1.0.0 does not record its commit.*\nhint: .*--since"},
		{"exclude each other", nil, append(module, "--server", server, "--registry", host), cli.ExitUsage, "", "--server and --registry"},
		{"token without TLS", nil, append(module, "--server", "http://okara.example.com"), cli.ExitUsage, "", "not sent without TLS"},
		{"no URL", nil, append(module, "--server", "https://"), cli.ExitUsage, "", "not the URL of a server"},
		{"bad token", map[string]string{"OKARA_TOKEN": "two\nlines"}, module, cli.ExitUsage, "", "invalid characters"},
	} {
		t.Run(step.name, func(t *testing.T) {
			c.env = map[string]string{"OKARA_SERVER": server}
			login("")
			for k, v := range step.env {
				if k == "login" {
					login(v)
				} else {
					c.env[k] = v
				}
			}
			code, out, errOut := c.run(t, append(step.args, "--ca-file", ca)...)
			if code != step.code || !matches(t, step.out, out) || !matches(t, step.errOut, errOut) {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, step.code, out, errOut)
			}
		})
	}
	// The signature is valid, read directly from the registry of the server.
	c.env = map[string]string{"OKARA_USERNAME": "token", "OKARA_PASSWORD": serveToken, "OKARA_REGISTRY": host}
	if code, out, errOut := c.run(t, "verify", "acme/vpc/aws@1.0.0", "--cosign-key", filepath.Join(c.home, "okara-cosign.pub"), "--require", "cosign", "--ca-file", ca); code != cli.ExitOK || !strings.Contains(out, "trusted") {
		t.Errorf("verify: %d\n%s\n%s", code, out, errOut)
	}
	stop()
	c.env = map[string]string{"OKARA_SERVER": server, "OKARA_TOKEN": serveToken}
	if code, _, errOut := c.run(t, append(module, "--ca-file", ca)...); code != cli.ExitFailure || !strings.Contains(errOut, "\nhint: ") {
		t.Errorf("server down: %d\n%s", code, errOut)
	}
}

// matches: . is any character.
func matches(t *testing.T, pattern, text string) bool {
	t.Helper()
	return must.Get(regexp.MatchString("(?s)"+pattern, strings.TrimSpace(text)))(t)
}
