// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/must"
)

const repository = "registry.example.com/team/state"

// files is a root module: file name to content.
type files map[string]string

func newModule(t *testing.T, f files) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func block(arguments string) string {
	return "terraform {\n  backend \"oci\" {\n" + arguments + "\n  }\n}\n"
}

func environment(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestReadBackend(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files files
		env   map[string]string
		flags []string
		want  backendblock.Backend
	}{
		{
			name:  "repository only",
			files: files{"main.tf": block(`repository = "registry.example.com/team/state"`)},
			want:  backendblock.Backend{Repository: repository},
		},
		{
			name:  "a copy",
			files: files{"main.tf": block("repository = \"registry.example.com/team/state\"\nprimary_repository = \"old.example.com/a/state\"")},
			want:  backendblock.Backend{Repository: repository, Primary: "old.example.com/a/state"},
		},
		{
			name:  "a copy, by the environment",
			files: files{"main.tf": block(`repository = "registry.example.com/team/state"`)},
			env:   map[string]string{"TF_BACKEND_OCI_PRIMARY_REPOSITORY": "old.example.com/a/state"},
			want:  backendblock.Backend{Repository: repository, Primary: "old.example.com/a/state"},
		},
		{
			name: "every argument",
			files: files{"main.tf": block(`
				primary_repository = "registry.example.com/team/state"
				replicas           = ["dr.example.com/state"]
				ca_file            = "/etc/ca.crt"
				compression        = "gzip"
				strict_reads       = true
				unsafe_locking     = "true"
				lock_ttl           = "5m"
				lock_settle        = "2s"
				lock_timeout       = "10m"
				versioning {
					enabled      = true
					max_versions = 50
				}
				encryption {
					type   = "aes-gcm"
					key_id = "awskms://alias/state"
				}
				encryption {
					key_id   = "age1xyz"
					identity = "/home/me/age.txt"
				}
				retry {
					max_attempts    = 7
					initial_backoff = "1s"
					max_backoff     = "10s"
				}`)},
			want: backendblock.Backend{
				Repository: repository, Replicas: []string{"dr.example.com/state"}, CAFile: "/etc/ca.crt",
				Compression: "gzip", StrictReads: true, UnsafeLocking: true, LockTTL: 5 * time.Minute, LockSettle: 2 * time.Second, LockTimeout: 10 * time.Minute,
				MaxVersions: 50,
				Encryption: []backendblock.Encryption{
					{Type: "aes-gcm", KeyID: "awskms://alias/state"},
					{KeyID: "age1xyz", Identity: "/home/me/age.txt"},
				},
				Retry: backendblock.Retry{MaxAttempts: 7, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second},
			},
		},
		{
			name:  "versioning off keeps two",
			files: files{"main.tf": block("repository = \"registry.example.com/team/state\"\nversioning {\nenabled = false\n}")},
			want:  backendblock.Backend{Repository: repository, MaxVersions: 2},
		},
		{
			name:  "block wins over environment",
			files: files{"main.tf": block(`repository = "registry.example.com/team/state"`)},
			env: map[string]string{
				"TF_BACKEND_OCI_REPOSITORY": "other.example.com/x", "TF_BACKEND_OCI_PRIMARY_REPOSITORY": "other.example.com/x",
				"TF_BACKEND_OCI_INSECURE": "true", "TF_BACKEND_OCI_REPLICAS": "a.example.com/x, b.example.com/y",
				"TF_BACKEND_OCI_VERSIONING_MAX_VERSIONS": "9", "TF_BACKEND_OCI_ENCRYPTION_KEY_ID": "gcpkms://k",
			},
			want: backendblock.Backend{
				Repository: repository, Primary: "other.example.com/x", Insecure: true, Replicas: []string{"a.example.com/x", "b.example.com/y"},
				MaxVersions: 9, Encryption: []backendblock.Encryption{{KeyID: "gcpkms://k"}},
			},
		},
		{
			name:  "flags win over the block",
			files: files{"main.tf": block("compression = \"none\"\nencryption {\nkey_id = \"gcpkms://block\"\n}")},
			flags: []string{"repository=registry.example.com/team/state", "compression=gzip", "encryption.key_id=gcpkms://flag"},
			want:  backendblock.Backend{Repository: repository, Compression: "gzip", Encryption: []backendblock.Encryption{{KeyID: "gcpkms://flag"}}},
		},
		{
			name: "flag file, the last flag wins",
			files: files{
				"main.tf":        block(""),
				"prod.tfbackend": "repository = \"registry.example.com/team/state\"\nreplicas = [\"a.example.com/x\"]\nretry {\nmax_attempts = 3\n}\n",
			},
			flags: []string{"compression=none", "prod.tfbackend", "compression=gzip"},
			want: backendblock.Backend{
				Repository: repository, Compression: "gzip", Replicas: []string{"a.example.com/x"}, Retry: backendblock.Retry{MaxAttempts: 3},
			},
		},
		{
			name:  "environment alone",
			files: files{"main.tf": block("")},
			env:   map[string]string{"TF_BACKEND_OCI_REPOSITORY": repository},
			want:  backendblock.Backend{Repository: repository},
		},
		{
			name:  "JSON syntax",
			files: files{"main.tf.json": `{"terraform":{"backend":{"oci":{"repository":"registry.example.com/team/state","versioning":{"max_versions":3}}}}}`},
			want:  backendblock.Backend{Repository: repository, MaxVersions: 3},
		},
		{
			name:  "tofu file in place of tf file",
			files: files{"main.tf": block(`repository = "old.example.com/x"`), "main.tofu": block(`repository = "registry.example.com/team/state"`)},
			want:  backendblock.Backend{Repository: repository},
		},
		{
			name:  "override file wins",
			files: files{"a_override.tf": block(`repository = "registry.example.com/team/state"`), "main.tf": block(`repository = "old.example.com/x"`)},
			want:  backendblock.Backend{Repository: repository},
		},
		{
			name:  "a syntax error elsewhere is the tool's to report",
			files: files{"a.tf": "resource {", "main.tf": block(`repository = "registry.example.com/team/state"`)},
			want:  backendblock.Backend{Repository: repository},
		},
		{
			name:  "port, template",
			files: files{"main.tf": block(`repository = "localhost:5000/state-{workspace}"`)},
			want:  backendblock.Backend{Repository: "localhost:5000/state-{workspace}"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := must.Get(bridge.Read(newModule(t, tt.files), bridge.ReadOptions{Getenv: environment(tt.env), BackendConfig: tt.flags}))(t)
			if !got.Declared {
				t.Error("the block was not found")
			}
			must.Match(t, "backend differs", got.Backend, tt.want)
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, block string
		want        []string // all in the message
	}{
		{"no repository", "", []string{"main.tf:2: ", "no repository", "TF_BACKEND_OCI_REPOSITORY"}},
		{"unknown argument", `repostory = "a/b"`, []string{"main.tf:3: ", `argument named "repostory"`, `Did you mean "repository"`}},
		{"unknown argument in a block", "repository = \"a/b\"\nretry {\nattempts = 3\n}", []string{"main.tf:5: ", `argument named "attempts"`}},
		{"unknown block", "repository = \"a/b\"\nlocking {\n}", []string{"main.tf:4: ", `type "locking"`}},
		{"Oracle's bucket", "bucket = \"b\"\nnamespace = \"n\"\nkey = \"k\"", []string{"main.tf:3: ", "Oracle", "run terraform without okara"}},
		{"wrong type", "repository = \"a/b\"\ninsecure = \"perhaps\"", []string{"main.tf:4: ", "insecure", "bool"}},
		{"wrong duration", "repository = \"a/b\"\nlock_ttl = \"5 minutes\"", []string{"main.tf:4: ", "lock_ttl", "duration"}},
		{"variable", "repository = var.repository", []string{"main.tf:3: ", "variable", "TF_BACKEND_OCI_REPOSITORY"}},
		{"scheme", `repository = "https://registry.example.com/state"`, []string{"main.tf:2: ", "scheme"}},
		{"tag", `repository = "registry.example.com/state:v1"`, []string{"main.tf:2: ", "tag"}},
		{"host only", `repository = "registry.example.com"`, []string{"main.tf:2: ", "not a registry and a path"}},
		{"primary with a tag", "repository = \"a/b\"\nprimary_repository = \"a/c:v1\"", []string{"tag"}},
		{"plain http with a CA", "repository = \"a/b\"\nplain_http = true\nca_file = \"x\"", []string{"plain_http conflicts with"}},
		{"insecure with a CA", "repository = \"a/b\"\ninsecure = true\nca_file = \"x\"", []string{"insecure conflicts with"}},
		{"versioning off with a number", "repository = \"a/b\"\nversioning {\nenabled = false\nmax_versions = 3\n}", []string{"conflicts with max_versions"}},
		{"no versions", "repository = \"a/b\"\nversioning {\nmax_versions = 0\n}", []string{"at least 1"}},
		{"own replica", "repository = \"a/b\"\nreplicas = [\"a/b\"]", []string{"its own replica"}},
		{"compression", "repository = \"a/b\"\ncompression = \"lzma\"", []string{"lzma", "zstd"}},
		{"encryption type", "repository = \"a/b\"\nencryption {\ntype = \"rot13\"\nkey_id = \"x\"\n}", []string{"rot13", "aes-gcm"}},
		{"encryption without key", "repository = \"a/b\"\nencryption {\n}", []string{"key_id"}},
		{"two retry blocks", "repository = \"a/b\"\nretry {\n}\nretry {\n}", []string{"duplicate retry block"}},
		{"back-off", "repository = \"a/b\"\nretry {\ninitial_backoff = \"10s\"\nmax_backoff = \"1s\"\n}", []string{"initial_backoff"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := bridge.Read(newModule(t, files{"main.tf": block(tt.block)}), bridge.ReadOptions{Getenv: environment(nil)})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}

func TestReadWithoutBlock(t *testing.T) {
	for name, f := range map[string]files{
		"none": {"main.tf": `terraform {}`},
		"other backend": {"main.tf": `terraform { 
			backend "local" {} 
		}`},
		"overridden by another":             {"main.tf": block(`repository = "a/b"`), "x_override.tf": "terraform {\n backend \"local\" {}\n}"},
		"cloud":                             {"main.tf": block(`repository = "a/b"`), "x_override.tf": "terraform {\n cloud {}\n}"},
		"only in a tofu file for terraform": {"main.tofu": block(`repository = "a/b"`)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := bridge.Read(newModule(t, f), bridge.ReadOptions{Getenv: environment(nil), Terraform: true})
			if err != nil || got.Used() {
				t.Errorf("got %+v, %v; want an unused configuration", got, err)
			}
		})
	}
}

func TestReadRefusesLaterOverride(t *testing.T) {
	dir := newModule(t, files{"main.tf": "", "z_override.tf": block(`repository = "a/b"`)})
	_, err := bridge.Read(dir, bridge.ReadOptions{Getenv: environment(nil)})
	if err == nil || !strings.Contains(err.Error(), "sorts before okara_override.tf") {
		t.Errorf("got %v", err)
	}
}

func TestRecordedSettings(t *testing.T) {
	dir := newModule(t, files{
		"main.tf":                       block(`compression = "none"`),
		".terraform/terraform.tfstate":  `{"version":3,"backend":{"type":"s3","config":{"bucket":"okara","key":"registry.example.com/team/state/state","profile":"okara"}}}`,
		".terraform/okara-backend.json": `[{"name": "lock_ttl", "value": "1m"}]`,
	})
	env := environment(nil)
	got := must.Get(bridge.Read(dir, bridge.ReadOptions{Getenv: env}))(t)
	want := backendblock.Backend{Repository: repository, Compression: "none", LockTTL: time.Minute}
	must.Match(t, "backend differs", got.Backend, want)
	got = must.Get(bridge.Read(dir, bridge.ReadOptions{Getenv: env, Reconfigure: true, BackendConfig: []string{"repository=new.example.com/x"}}))(t)
	must.Match(t, "repositories differ", got.Repositories(), []string{"new.example.com/x"})
	if got.Backend.LockTTL != 0 {
		t.Error("-reconfigure kept an old setting")
	}
}
