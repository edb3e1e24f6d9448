// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestMain acts as a credential helper by the name docker-credential-NAME, as NAME.json says.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), "docker-credential-"); ok {
		self, err := exec.LookPath(os.Args[0]) // Docker starts helpers by name
		if err != nil {
			os.Exit(4)
		}
		os.Exit(actHelper(filepath.Dir(self), name))
	}
	os.Exit(m.Run())
}

// helperScript is a fake helper, with calls in NAME.log.
type helperScript struct {
	Answers map[string][2]string // server URL to user name and secret
	Raw     string               // answer of get instead
	Stderr  string
	Fail    bool // exit 1 after Raw
	Hang    bool
}

func actHelper(dir, name string) int {
	var s helperScript
	b, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return 3
	}
	in, _ := io.ReadAll(os.Stdin)
	log, _ := os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	fmt.Fprintf(log, "%s %s\n", os.Args[1], in)
	log.Close()
	if s.Hang {
		time.Sleep(time.Hour)
	}
	fmt.Fprint(os.Stderr, s.Stderr)
	if s.Raw != "" {
		fmt.Print(s.Raw)
		if s.Fail {
			return 1
		}
		return 0
	}
	switch os.Args[1] {
	case "get":
		a, ok := s.Answers[string(in)]
		if !ok {
			fmt.Println("credentials not found in native keychain")
			return 1
		}
		json.NewEncoder(os.Stdout).Encode(map[string]string{"ServerURL": string(in), "Username": a[0], "Secret": a[1]})
	case "store":
		var a struct{ ServerURL, Username, Secret string }
		json.Unmarshal(in, &a)
		s.Answers[a.ServerURL] = [2]string{a.Username, a.Secret}
		b, _ := json.Marshal(s)
		os.WriteFile(filepath.Join(dir, name+".json"), b, 0o600)
	case "erase":
		delete(s.Answers, string(in))
		b, _ := json.Marshal(s)
		os.WriteFile(filepath.Join(dir, name+".json"), b, 0o600)
	}
	return 0
}

// machine is a computer with a separate home directory, environment and PATH.
type machine struct {
	t    *testing.T
	root string
	goos string
	env  map[string]string
	log  bytes.Buffer
}

func newMachine(t *testing.T, goos string) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir(), goos: goos, env: map[string]string{}}
	home := "HOME"
	if goos == "windows" {
		home = "USERPROFILE"
		m.env["APPDATA"] = m.path("home/AppData/Roaming")
	}
	m.env[home] = m.path("home")
	m.env["PATH"] = m.path("bin")
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, filepath.FromSlash(name)) }

// file writes a file below the machine's root and returns its full name.
func (m *machine) file(name, content string) string {
	m.t.Helper()
	full := m.path(name)
	must.Succeed(m.t, os.MkdirAll(filepath.Dir(full), 0o700))
	must.Succeed(m.t, os.WriteFile(full, []byte(content), 0o600))
	return full
}

// auths returns a Docker-style file with USER:PASSWORD entries.
func auths(pairs ...string) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(pairs[i+1]))}
	}
	b, _ := json.Marshal(map[string]any{"auths": m})
	return string(b)
}

// helper installs a fake credential helper on PATH.
func (m *machine) helper(name string, s helperScript) {
	m.t.Helper()
	b := must.Get(json.Marshal(s))(m.t)
	m.file("bin/"+name+".json", string(b))
	self := must.Get(os.Executable())(m.t)
	file := m.path("bin/docker-credential-" + name)
	if m.goos == "windows" {
		file += ".exe"
	}
	must.Succeed(m.t, os.Symlink(self, file))
}

// calls returns the recorded calls of a fake helper.
func (m *machine) calls(name string) []string {
	b, err := os.ReadFile(m.path("bin/" + name + ".log"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func (m *machine) getenv(name string) string { return m.env[name] }

func (m *machine) options() credentials.Options {
	return credentials.Options{
		Getenv: m.getenv, GOOS: m.goos,
		Logger: slog.New(slog.NewTextHandler(&m.log, nil)),
	}
}

func (m *machine) resolver() *credentials.Resolver { return credentials.New(m.options()) }

func (m *machine) setenv(env map[string]string) { maps.Copy(m.env, env) }

func mustCredential(t *testing.T, r *credentials.Resolver, host, repository string) oci.Credential {
	t.Helper()
	return must.Get(r.Credential(t.Context(), host, repository))(t)
}

func basic(user, password string) oci.Credential {
	return oci.Credential{Username: user, Password: password}
}

func imageOf(config, layer oci.Descriptor) ocispec.Manifest {
	return ocispec.Manifest{ArtifactType: "application/vnd.test", Config: config, Layers: []oci.Descriptor{layer}}
}
