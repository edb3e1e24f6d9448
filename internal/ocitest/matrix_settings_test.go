// SPDX-License-Identifier: Apache-2.0

//go:build unix

package ocitest

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// settings are what decides which programs can use a server; HOST is where they reach it.
var settings = []struct{ name, config string }{
	{"tokens", `public_url = "https://HOST"`},
	{"anonymous", `public_url = "https://HOST"`},
	{"without public_url", ""},
	{"base_path", "public_url = \"https://HOST/okara\"\nbase_path = \"/okara\"\nproxies = [\"127.0.0.1/32\"]"},
}

// client is a program that asks a registry beside the tools; want is in its output if it got what it needs.
type client struct {
	name  string
	args  []string
	files map[string]string
	want  string
}

const settingsToken = "oks_scan_of-the-matrix-which-reads-everything"

// TestMatrixSettings writes the section of the page of OKARA_MATRIX alone.
func TestMatrixSettings(t *testing.T) {
	file := os.Getenv("OKARA_MATRIX")
	if file == "" {
		t.Skip("OKARA_MATRIX is not set; `make matrix` sets it")
	}
	page, _, _ := strings.Cut(string(must.Get(os.ReadFile(file))(t)), "\n## Settings\n")
	must.Succeed(t, os.WriteFile(file, []byte(page+newMatrix(t).runSettings()), 0o644))
}

// runSettings runs what asks a registry on servers of all settings, and returns the section. What cannot be built here
// from a pinned module is in docs/use/other-programs.md.
func (m *matrix) runSettings() string {
	t := m.t
	open := "resource \"aws_security_group_rule\" \"open\" {\n  type = \"ingress\"\n  cidr_blocks = [\"0.0.0.0/0\"]\n}\n"
	write(t, filepath.Join(m.home, "open", "main.tf"), open)
	for _, args := range [][]string{
		{"publish", "module", "open", "net/vpc/aws", "1.0.0"}, {"publish", "module", "open", "net/vpc/aws", "1.1.0"},
		{"publish", "provider", m.dist, "acme/time", "0.14.2", "--sign-key", m.key},
	} {
		must.Get(m.in(m.home, nil, append(append([]string{m.okara}, args...), "--registry", m.source)...))(t)
	}
	cells, header := map[string]string{}, "|program|"
	var names []string
	for _, s := range settings {
		header += s.name + "|"
		host, cas := m.serve(s.config, s.name == "tokens")
		for _, c := range m.clients(host) {
			dir := t.TempDir()
			for name, content := range c.files {
				write(t, filepath.Join(dir, name), content)
			}
			env := []string{"SSL_CERT_FILE=" + cas, "NODE_EXTRA_CA_CERTS=" + cas, "TMPDIR=" + t.TempDir(), "HOST=" + host, "LOG_LEVEL=fatal"}
			if s.name == "tokens" {
				env = append(env, "TOKEN="+settingsToken, "TF_TOKEN_"+strings.ReplaceAll(host, ".", "_")+"="+settingsToken)
			}
			out, err := m.in(dir, env, c.args...)
			cell := "yes"
			if !strings.Contains(out, c.want) {
				cell = "no"
				t.Logf("%s, %s: %v\n%s", c.name, s.name, err, out)
			}
			if cells[c.name] == "" {
				names = append(names, c.name)
			}
			cells[c.name] += cell + "|"
		}
	}
	var section strings.Builder
	section.WriteString("\n## Settings\n\nWho gets modules and providers from a server over TLS with these settings: `tokens` with a token, the\nothers without.\n\n" + header + "\n" + strings.Repeat("|---", len(settings)+1) + "|\n")
	for _, name := range names {
		section.WriteString("|" + name + "|" + cells[name] + "\n")
	}
	return section.String()
}

// serve returns where a server with this setting is reached, over TLS, and the file of its authority.
func (m *matrix) serve(config string, tokens bool) (host, cas string) {
	m.t.Helper()
	dir := m.t.TempDir()
	rights := `anonymous = ["read:module:**", "read:provider:**"]`
	if tokens {
		rights = fmt.Sprintf("token \"scan\" {\n  sha256 = \"%x\"\n  scopes = [\"read:module:**\", \"read:provider:**\"]\n}", sha256.Sum256([]byte(settingsToken)))
	}
	if strings.Contains(config, "base_path") {
		var to url.URL
		proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			path, below := strings.CutPrefix(r.In.URL.Path, "/okara")
			if !below && path != "/.well-known/terraform.json" {
				path = "/none"
			}
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path = "http", to.Host, path
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		}})
		proxy.StartTLS()
		m.t.Cleanup(proxy.Close)
		config = strings.ReplaceAll(config, "HOST", proxy.Listener.Addr().String())
		to.Host = m.listen(dir, config+"\n"+rights)
		cas = filepath.Join(dir, "ca.pem")
		must.Succeed(m.t, os.WriteFile(cas, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600))
		return proxy.Listener.Addr().String(), cas
	}
	return m.listen(dir, config+"\n"+rights, "--tls-self-signed"), filepath.Join(dir, "store", "tls", "ca.pem")
}

func (m *matrix) listen(dir, config string, more ...string) string {
	m.t.Helper()
	return must.Get(m.start(func(host string) []string {
		write(m.t, filepath.Join(dir, "okara.hcl"), strings.ReplaceAll(config, "HOST", host)+"\n")
		return append([]string{m.okara, "serve", "--config", filepath.Join(dir, "okara.hcl"), "--listen", host, "--registry", m.source, "--storage", filepath.Join(dir, "store")}, more...)
	}))(m.t)
}

func (m *matrix) clients(host string) (all []client) {
	module := fmt.Sprintf("module \"vpc\" {\n  source  = \"%s/net/vpc/aws\"\n  version = \">= 1.0.0\"\n}\n", host)
	provider := fmt.Sprintf("terraform {\n  required_providers {\n    time = {\n      source = \"%s/acme/time\"\n    }\n  }\n}\n", host)
	for _, p := range []*program{m.find(&program{name: "OpenTofu"}, "tofu/1.12.6/tofu"), m.find(&program{name: "Terraform"}, "terraform")} {
		if m.says(p, "version"); p.missing == "" {
			all = append(all,
				client{p.name + " " + p.version + ": modules", []string{p.path, "get"}, map[string]string{"main.tf": module}, "net/vpc/aws 1.1.0"},
				client{p.name + " " + p.version + ": providers", []string{p.path, "init"}, map[string]string{"main.tf": provider}, "successfully initialized"})
		}
	}
	if p := m.says(m.find(&program{name: "Trivy"}, "trivy/0.72.0/trivy"), "--version"); p.missing == "" {
		all = append(all, client{"Trivy " + p.version + ": modules", []string{p.path, "config", "--skip-check-update", "--skip-version-check", "--cache-dir", "cache", "."}, map[string]string{"main.tf": module}, "net/vpc/aws/main.tf"})
	}
	if folder := os.Getenv("OKARA_MATRIX_RENOVATE"); folder != "" {
		p := m.says(m.find(&program{name: "Renovate"}, "node"), "--version")
		for _, r := range [][3]string{
			{"versions", "new (require(path + 'modules/datasource/terraform-module').TerraformModuleDatasource)().getReleases({packageName: 'net/vpc/aws', registryUrl: at})", "1.1.0"},
			{"lock files", "require(path + 'modules/manager/terraform/lockfile/hash').TerraformProviderHash.createHashes(at, 'acme/time', '0.14.2')", "h1:"},
		} {
			all = append(all, client{"Renovate " + p.version + ": " + r[0], []string{p.path, "look.js"}, map[string]string{"look.js": fmt.Sprintf(`
const path = %q + '/node_modules/renovate/dist/', at = 'https://' + process.env.HOST;
(async () => {
  const logger = require(path + 'logger'); if (logger.init) await logger.init();
  require(path + 'config/global').GlobalConfig.set({cacheDir: process.cwd() + '/cache'});
  if (process.env.TOKEN) require(path + 'util/host-rules').add({matchHost: process.env.HOST, token: process.env.TOKEN});
  console.log(JSON.stringify(await %s));
})().catch(e => console.error('error: ' + e.message)).finally(() => process.exit());
`, folder, r[1])}, r[2]})
		}
	}
	return all
}
