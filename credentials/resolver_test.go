// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestOrder removes sources one by one: each wins over later ones that are as specific.
func TestOrder(t *testing.T) {
	const host = "registry.example.com"
	m := newMachine(t, "linux")
	m.setenv(map[string]string{
		"TF_TOKEN_registry_example_com": credentials.EncodeToken(basic("token-variable", "x")),
		"TF_CLI_CONFIG_FILE":            m.path("cli.tfrc"),
		"DOCKER_AUTH_CONFIG":            auths(host, "auth-config:x"),
		"REGISTRY_AUTH_FILE":            m.path("named.json"),
		"DOCKER_CONFIG":                 m.path("docker"),
		"XDG_RUNTIME_DIR":               m.path("run"),
		"XDG_CONFIG_HOME":               m.path("config"),
		"CI_REGISTRY":                   host,
		"CI_REGISTRY_USER":              "ci-user",
		"CI_REGISTRY_PASSWORD":          "x",
		"CI_JOB_TOKEN":                  "job-token",
	})
	m.file("cli.tfrc", `oci_credentials "`+host+`" {
  username = "block"
  password = "x"
}
`)
	m.file("named.json", auths(host, "named:x"))
	m.file("docker/config.json", `{"credHelpers": {"`+host+`": "host"}, `+auths(host, "docker:x")[1:])
	m.helper("host", helperScript{Answers: map[string][2]string{host: {"helper", "x"}}})
	m.file("run/containers/auth.json", auths(host, "runtime:x"))
	m.file("config/containers/auth.json", auths(host, "containers:x"))
	m.file("home/.docker/config.json", auths(host, "unused:x")) // DOCKER_CONFIG replaces it
	m.file("home/.dockercfg", `{"https://`+host+`/v1/": {"auth": "bGVnYWN5Ong="}}`)
	m.file("config/helm/registry/config.json", auths(host, "helm:x"))

	o := m.options()
	o.Explicit = []credentials.Setting{{Origin: "the test", Prefix: host, Credential: basic("explicit", "x")}}
	steps := []struct {
		want   string
		remove func()
	}{
		{"explicit", func() { o.Explicit = nil }},
		{"token-variable", func() { delete(m.env, "TF_TOKEN_registry_example_com") }},
		{"block", func() { m.file("cli.tfrc", "") }},
		{"helper", func() { m.file("docker/config.json", auths(host, "docker:x")) }},
		{"auth-config", func() { delete(m.env, "DOCKER_AUTH_CONFIG") }},
		{"named", func() { delete(m.env, "REGISTRY_AUTH_FILE") }},
		{"docker", func() { m.file("docker/config.json", "{}") }},
		{"runtime", func() { m.file("run/containers/auth.json", "{}") }},
		{"containers", func() { m.file("config/containers/auth.json", "{}") }},
		{"legacy", func() { m.file("home/.dockercfg", "{}") }},
		{"helm", func() { m.file("config/helm/registry/config.json", "{}") }},
		{"ci-user", func() { delete(m.env, "CI_REGISTRY_USER") }},
		{"gitlab-ci-token", func() { delete(m.env, "CI_JOB_TOKEN") }},
		{"", nil},
	}
	for _, s := range steps {
		if got := mustCredential(t, credentials.New(o), host, "acme/net").Username; got != s.want {
			t.Fatalf("got %q, want %q", got, s.want)
		}
		if s.remove != nil {
			s.remove()
		}
	}
	if m.log.Len() > 0 {
		t.Errorf("a correct configuration was warned of: %s", m.log.String())
	}
}

func TestSpecificity(t *testing.T) {
	m := newMachine(t, "linux")
	m.file("home/.docker/config.json", `{"credsStore": "all", `+auths(
		"registry.example.com", "host:x",
		"registry.example.com/acme", "prefix:x",
		"registry.example.com/acme/net", "longer:x",
		"registry.example.com/acme/net/vpc", "exact:x",
		"https://url.example.com/v1/acme", "url:x",
		"UPPER.example.com", "upper:x",
		"registry.example.com:5000", "port:x",
		"docker.io/acme", "hub-path:x",
		"https://index.docker.io/v1/", "hub:x",
	)[1:])
	m.helper("all", helperScript{Answers: map[string][2]string{"other.example.com": {"store", "x"}}})
	m.setenv(map[string]string{"GITHUB_TOKEN": "gh", "GITHUB_ACTOR": "octocat"})
	tests := []struct{ host, repository, want string }{
		{"registry.example.com", "acme/net/vpc", "exact"},
		{"registry.example.com", "acme/net/vpc/deeper", "exact"},
		{"registry.example.com", "acme/net", "longer"},
		{"registry.example.com", "acme/netz", "prefix"},
		{"registry.example.com", "acmeco/net", "host"},
		{"registry.example.com", "", "host"},
		{"registry.example.com:5000", "acme/net", "port"},
		{"registry.example.com:5001", "acme/net", ""},
		{"url.example.com", "other", "url"},
		{"upper.EXAMPLE.com", "a", "upper"},
		{"other.example.com", "a", "store"},
		{"docker.io", "library/x", "hub"},
		{"registry-1.docker.io", "library/x", "hub"},
		{"index.docker.io", "acme/x", "hub-path"},
		{"ghcr.io", "acme/x", "octocat"},
		{"unknown.example.com", "a", ""},
	}
	r := m.resolver()
	for _, tt := range tests {
		if got := mustCredential(t, r, tt.host, tt.repository).Username; got != tt.want {
			t.Errorf("%s/%s: got %q, want %q", tt.host, tt.repository, got, tt.want)
		}
	}
}

// TestExplicitLosesToLongerPath, as documented, against intuition.
func TestExplicitLosesToLongerPath(t *testing.T) {
	m := newMachine(t, "linux")
	m.file("home/.docker/config.json", auths("registry.example.com/acme", "file:x"))
	o := m.options()
	o.Explicit = []credentials.Setting{{Prefix: "registry.example.com", Credential: basic("explicit", "x")}}
	must.Equal(t, "value", mustCredential(t, credentials.New(o), "registry.example.com", "acme/net").Username, "file")
	o.Explicit[0].Prefix = ""
	o.Explicit = append(o.Explicit, credentials.Setting{Prefix: "registry.example.com/acme/net", Credential: basic("exact", "x")})
	r := credentials.New(o)
	must.Equal(t, "value", mustCredential(t, r, "registry.example.com", "acme/net").Username, "exact")
	must.Equal(t, "value", mustCredential(t, r, "elsewhere.example.com", "acme/net").Username, "explicit")
}

func TestPlaces(t *testing.T) {
	const host = "registry.example.com"
	tests := []struct {
		goos, file string
		env        map[string]string
	}{
		{"linux", "home/.docker/config.json", nil},
		{"linux", "home/.config/containers/auth.json", nil},
		{"linux", "home/.config/helm/registry/config.json", nil},
		{"linux", "helm/registry/config.json", map[string]string{"HELM_CONFIG_HOME": "helm"}},
		{"linux", "helm.json", map[string]string{"HELM_REGISTRY_CONFIG": "helm.json"}},
		{"linux", "xdg/containers/auth.json", map[string]string{"XDG_CONFIG_HOME": "xdg"}},
		{"darwin", "home/.docker/config.json", nil},
		{"darwin", "home/.config/containers/auth.json", map[string]string{"XDG_CONFIG_HOME": "xdg", "XDG_RUNTIME_DIR": "run"}},
		{"darwin", "home/Library/Preferences/helm/registry/config.json", nil},
		{"windows", "home/.docker/config.json", nil},
		{"windows", "home/.config/containers/auth.json", nil},
		{"windows", "home/AppData/Roaming/helm/registry/config.json", nil},
		{"windows", "named.json", map[string]string{"REGISTRY_AUTH_FILE": "named.json"}},
		{"windows", "docker/config.json", map[string]string{"DOCKER_CONFIG": "docker"}},
	}
	for _, tt := range tests {
		t.Run(tt.goos+" "+tt.file, func(t *testing.T) {
			m := newMachine(t, tt.goos)
			for name, dir := range tt.env {
				m.env[name] = m.path(dir)
			}
			m.file(tt.file, auths(host, "found:x"))
			must.Equal(t, "value", mustCredential(t, m.resolver(), host, "a"), basic("found", "x"))
		})
	}
}

func TestBrokenSourcesAreReportedAndSkipped(t *testing.T) {
	const secret = "s3cr3t-in-the-file"
	tests := []struct {
		name, file, content, reason string
	}{
		{"not JSON", "home/.config/containers/auth.json", `{"auths": ` + secret, "not valid JSON at byte"},
		{"wrong type", "home/.config/containers/auth.json", `{"auths": "` + secret + `"}`, "field auths has the wrong type"},
		{"array", "home/.config/containers/auth.json", `["` + secret + `"]`, "expected form"},
		{"numeric password", "home/.config/containers/auth.json", `{"auths": {"a.b": {"password": 12345678}}}`, "field password has the wrong type"},
		{"bad base64", "home/.config/containers/auth.json", `{"auths": {"a.b": {"auth": "` + secret + `!"}}}`, `entry \"a.b\": auth: illegal base64`},
		{"no colon", "home/.config/containers/auth.json", `{"auths": {"a.b": {"auth": "czNjcjN0"}}}`, "base64 form of USER:PASSWORD"},
		{"empty key", "home/.config/containers/auth.json", auths("", "u:"+secret), "does not name a registry"},
		{"directory", "home/.config/containers/auth.json/x", "", "is a directory"},
		{"HCL", "home/.tofurc", "oci_credentials \"a.b\" {\n  password = " + secret + "\n", "line 2"},
		{"HCL type", "home/.tofurc", `oci_credentials = ["` + secret + `"]`, "not a valid CLI configuration"},
		{"half a block", "home/.tofurc", `oci_credentials "a.b" { password = "` + secret + `" }`, "needs username and password"},
		{"helper with path", "home/.tofurc", `oci_credentials "a.b/c" { docker_credentials_helper = "x" }`, "the label has a path"},
		{"two kinds", "home/.tofurc", `oci_credentials "a.b" { username = "u" access_token = "t" }`, "only one of"},
		{"URL", "home/.tofurc", `oci_credentials "https://a.b" { username = "u" password = "t" }`, "label must be HOST"},
		{"missing helper", "home/.config/containers/auth.json", `{"credsStore": "nothere"}`, "docker-credential-nothere is not on PATH"},
		{"helper name", "home/.config/containers/auth.json", `{"credsStore": "../../evil"}`, "letters, digits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.file("home/.docker/config.json", auths("other.example.com", "good:x"))
			m.file(tt.file, tt.content)
			r := m.resolver()
			for range 2 {
				if got := mustCredential(t, r, "a.b", "c"); got != (oci.Credential{}) {
					t.Errorf("got %+v from a broken source", got)
				}
				must.Equal(t, "the broken source hides another one", mustCredential(t, r, "other.example.com", "c").Username, "good")
			}
			log := m.log.String()
			if !strings.Contains(log, tt.reason) || strings.Count(log, "level=WARN") != 1 {
				t.Errorf("want one warning with %q, got %s", tt.reason, log)
			}
			if strings.Contains(log, secret) || strings.Contains(log, "12345678") {
				t.Errorf("the warning has the secret: %s", log)
			}
		})
	}
}

func TestOneBadEntryDoesNotHideItsFile(t *testing.T) {
	m := newMachine(t, "linux")
	m.file("home/.docker/config.json", `{"auths": {
		"a.example.com": {"auth": "?"}, "b.example.com": {"auth": "Yjp4"},
		"c.example.com": {}, "d.example.com": {"identitytoken": "id", "auth": "dTo="},
		"e.example.com": {"registrytoken": "reg"}, "f.example.com": {"username": "f", "password": "x"}}}`)
	r := m.resolver()
	want := map[string]oci.Credential{
		"a.example.com": {},
		"b.example.com": basic("b", "x"),
		"c.example.com": {},
		"d.example.com": {Username: "u", IdentityToken: "id"},
		"e.example.com": {RegistryToken: "reg"},
		"f.example.com": basic("f", "x"),
	}
	got := map[string]oci.Credential{}
	for host := range want {
		got[host] = mustCredential(t, r, host, "x")
	}
	must.Match(t, "value", got, want)
}
