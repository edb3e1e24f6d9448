// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dockerconfig "github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"oras.land/oras-go/v2/registry/remote/auth"
	orascredentials "oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestFilesOfRealTools: of docker login and oras login.
func TestFilesOfRealTools(t *testing.T) {
	want := map[string]oci.Credential{
		"ghcr.io":         basic("octocat", "p:w"),
		"docker.io":       basic("hub", "x"),
		"acme.azurecr.io": {Username: "00000000-0000-0000-0000-000000000000", IdentityToken: "identity"},
		"localhost:5000":  basic("üser", "pässword"),
	}
	check := func(t *testing.T, m *machine) {
		t.Helper()
		got := map[string]oci.Credential{}
		for host := range want {
			got[host] = mustCredential(t, m.resolver(), host, "a/b")
		}
		must.Match(t, "value", got, want)
		if m.log.Len() > 0 {
			t.Errorf("unexpected warnings: %s", m.log.String())
		}
	}
	t.Run("docker", func(t *testing.T) {
		m := newMachine(t, "linux")
		f := must.Get(dockerconfig.Load(m.path("home/.docker")))(t)
		for host, c := range want {
			key := host
			if host == "docker.io" {
				key = "https://index.docker.io/v1/"
			}
			a := types.AuthConfig{ServerAddress: key, Username: c.Username, Password: c.Password, IdentityToken: c.IdentityToken}
			must.Succeed(t, f.GetCredentialsStore(key).Store(a))
		}
		check(t, m)
	})
	t.Run("oras", func(t *testing.T) {
		m := newMachine(t, "linux")
		s := must.Get(orascredentials.NewStore(m.path("home/.docker/config.json"), orascredentials.StoreOptions{AllowPlaintextPut: true}))(t)
		for host, c := range want {
			key := orascredentials.ServerAddressFromRegistry(host)
			a := auth.Credential{Username: c.Username, Password: c.Password, RefreshToken: c.IdentityToken}
			must.Succeed(t, s.Put(t.Context(), key, a))
		}
		check(t, m)
	})
	t.Run("docker with a helper", func(t *testing.T) {
		m := newMachine(t, "linux")
		m.helper("keys", helperScript{Answers: map[string][2]string{}})
		t.Setenv("PATH", m.env["PATH"])
		m.file("home/.docker/config.json", `{"credsStore": "keys"}`)
		f := must.Get(dockerconfig.Load(m.path("home/.docker")))(t)
		a := types.AuthConfig{ServerAddress: "ghcr.io", Username: "octocat", Password: "x"}
		must.Succeed(t, f.GetCredentialsStore("ghcr.io").Store(a))
		must.Equal(t, "value", mustCredential(t, m.resolver(), "ghcr.io", "a"), basic("octocat", "x"))
	})
}

// TestLoginIsReadByDocker reads with Docker's own package what Login wrote, and
// checks that nothing else in the file has changed.
// TestReadAsDocker reads what people have in their files as the library of Docker does, and
// sends it: a registry that asks for a password gets an empty one.
func TestReadAsDocker(t *testing.T) {
	var got string
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if got = user + ":" + password; !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"repositories":[]}`)
	}))
	t.Cleanup(registry.Close)
	host := strings.TrimPrefix(registry.URL, "http://")
	for name, file := range map[string]string{
		"an empty password": auths(host, "alone:"),
		"a key with /v2/":   auths(host+"/v2/", "v2:x"),
		"a key with /v1/":   auths("http://"+host+"/v1/", "v1:x"),
		"text after it":     auths(host, "u:x") + "\ngarbage",
		"nothing":           "",
		"white space":       " \n",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "linux")
			m.file("home/.docker/config.json", file)
			docker := must.Get(dockerconfig.LoadFromReader(strings.NewReader(file)))(t)
			want := must.Get(docker.GetAuthConfig(host))(t)
			r := m.resolver()
			if c := mustCredential(t, r, host, "acme/net"); c != basic(want.Username, want.Password) {
				t.Errorf("got %+v, Docker has %q", c, want.Username)
			}
			client := must.Get(oci.New(host, oci.Options{PlainHTTP: true, Credential: r.Credential, Retry: oci.Retry{MaxAttempts: 1}}))(t)
			if _, err := client.Repositories(t.Context()); (err == nil) != (want.Username != "") || got != want.Username+":"+want.Password {
				t.Errorf("sent %q, %v", got, err)
			}
			if m.log.Len() > 0 {
				t.Errorf("warned: %s", m.log.String())
			}
		})
	}
}

func TestLoginIsReadByDocker(t *testing.T) {
	const before = `{
	"auths": {"other.example.com/path": {"auth": "bzp4"}, "https://ghcr.io/v1/": {"auth": "b2xkOng="}, "x.example.com": {"unknown": 1.50}},
	"credHelpers": {"123456789012.dkr.ecr.eu-central-1.amazonaws.com": "ecr-login"},
	"HttpHeaders": {"X-Meta": "a<b>&c"}, "future": {"n": 12345678901234567890, "list": [1, null]}}`
	m := newMachine(t, "linux")
	name := m.file("elsewhere/config.json", before)
	must.Succeed(t, os.Chmod(name, 0o644))
	must.Succeed(t, os.MkdirAll(m.path("home/.docker"), 0o700))
	must.Succeed(t, os.Symlink(name, m.path("home/.docker/config.json")))
	r := m.resolver()
	if got := mustCredential(t, r, "ghcr.io", ""); got != basic("old", "x") {
		t.Fatalf("before: got %+v", got)
	}
	for host, c := range map[string]oci.Credential{"ghcr.io": basic("octocat", "s3cr3t"), "docker.io": basic("hub", "x")} {
		where, err := r.Login(t.Context(), host, c)
		if err != nil || where != m.path("home/.docker/config.json") {
			t.Fatalf("login: %q, %v", where, err)
		}
		must.Equal(t, host, mustCredential(t, r, host, ""), c)
	}
	f := must.Get(dockerconfig.Load(m.path("home/.docker")))(t)
	for host, want := range map[string]string{"ghcr.io": "octocat", "https://index.docker.io/v1/": "hub"} {
		if a, err := f.GetAuthConfig(host); err != nil || a.Username != want {
			t.Errorf("docker reads %q, %v for %s, want %s", a.Username, err, host, want)
		}
	}
	info, err := os.Lstat(m.path("home/.docker/config.json"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if left, err := filepath.Glob(m.path("elsewhere/*")); err != nil || len(left) != 1 {
		t.Errorf("files left behind: %q, %v", left, err)
	}
	for _, host := range []string{"ghcr.io", "docker.io"} {
		if where, err := r.Logout(t.Context(), host); err != nil || len(where) != 1 {
			t.Errorf("logout %s: %q, %v", host, where, err)
		}
	}
	want, got := decoded(t, before), decoded(t, string(mustRead(t, name)))
	delete(want["auths"].(map[string]any), "https://ghcr.io/v1/")
	must.Match(t, "value", got, want)
	if where, err := r.Logout(t.Context(), "ghcr.io"); err != nil || len(where) != 0 {
		t.Errorf("second logout: %q, %v", where, err)
	}
}

func decoded(t *testing.T, s string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var m map[string]any
	must.Succeed(t, dec.Decode(&m))
	return m
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(name))(t)
}

func TestLoginThroughHelper(t *testing.T) {
	for _, config := range []string{`{"credsStore": "keys", "auths": {"https://ghcr.io": {"auth": "b2xkOng="}}}`, `{"credHelpers": {"ghcr.io": "keys"}}`} {
		m := newMachine(t, "linux")
		m.helper("keys", helperScript{Answers: map[string][2]string{}})
		name := m.file("home/.docker/config.json", config)
		r := m.resolver()
		where, err := r.Login(t.Context(), "ghcr.io", basic("octocat", "s3cr3t"))
		if err != nil || where != "credential helper keys" {
			t.Fatalf("got %q, %v", where, err)
		}
		if b := string(mustRead(t, name)); strings.Contains(b, `"auth"`) || !strings.Contains(b, `"ghcr.io": {}`) {
			t.Errorf("the file should only say that there is an entry: %s", b)
		}
		must.Equal(t, "value", mustCredential(t, r, "ghcr.io", "a"), basic("octocat", "s3cr3t"))
		if where, err := r.Logout(t.Context(), "ghcr.io"); err != nil || len(where) != 1 || where[0] != "credential helper keys" {
			t.Errorf("logout: %q, %v", where, err)
		}
		must.Equal(t, "after logout", mustCredential(t, r, "ghcr.io", "a"), oci.Credential{})
	}
}

func TestLoginRefusals(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"broken", `{"auths": `, "config.json: not valid JSON: unexpected end"},
		{"auths of the wrong type", `{"auths": []}`, "config.json: field auths has the wrong type"},
		{"null", `null`, "null is not a configuration"},
		{"helper missing", `{"credsStore": "nothere"}`, "docker-credential-nothere is not on PATH"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t, "linux")
			name := m.file("home/.docker/config.json", tt.content)
			_, err := m.resolver().Login(t.Context(), "ghcr.io", basic("u", "s3cr3t"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			must.Equal(t, "the file was changed to", string(mustRead(t, name)), tt.content)
		})
	}
	t.Run("no home", func(t *testing.T) {
		r := credentials.New(credentials.Options{Getenv: func(string) string { return "" }})
		if _, err := r.Login(t.Context(), "ghcr.io", basic("u", "p")); err == nil || !strings.Contains(err.Error(), "DOCKER_CONFIG") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("first login", func(t *testing.T) {
		m := newMachine(t, "linux")
		must.Get(m.resolver().Login(t.Context(), "ghcr.io", basic("u", "p")))(t)
		if info, err := os.Stat(m.path("home/.docker/config.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
	})
}
