// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/cli"
)

// TestServeCheck runs --check on settings: errors, exit codes, and that nothing was created.
//
// Shows: mistakes 29 | wrong settings were reported only at a start | `okara serve --check` reads
// settings and their files; a command creates tokens
func TestServeCheck(t *testing.T) {
	c := newClientHome(t)
	storage := filepath.Join(c.home, "storage")
	file := func(text string) string { return c.file(t, "okara.hcl", text) }
	c.file(t, "depot.hcl", "module \"x\" {\n}\n")
	c.file(t, "cert.pem", "no certificate\n")
	c.file(t, "tokens", "oks_ci_short read:module:**\n")
	for _, tt := range []struct {
		name, config string
		args         []string
		code         int
		out, errOut  string
	}{
		{"defaults", "", nil, cli.ExitOK, "the settings: good", ""},
		{"a file", "audit_log = \"audit.log\"\ncache {\n  blobs = \"1GiB\"\n}\n", nil, cli.ExitOK, "okara.hcl: good", ""},
		{"as json", "", []string{"--json"}, cli.ExitOK, `"valid": true`, ""},
		{"unknown attribute", "listn = \"x\"\n", nil, cli.ExitUsage, "", "okara.hcl:1: An argument named \"listn\""},
		{"two mistakes", "\ngrace = \"soon\"\ndrain = \"later\"\n", nil, cli.ExitUsage, "", "okara.hcl:2: grace \"soon\".*okara.hcl:3: drain \"later\""},
		{"scope", "token \"ci\" {\n  sha256 = \"" + strings.Repeat("0", 64) + "\"\n  scopes = [\"reed:module:**\"]\n}\n", nil, cli.ExitUsage, "", "okara.hcl:1: scope \"reed:module"},
		{"token file", "", []string{"--token-file", filepath.Join(c.home, "tokens")}, cli.ExitUsage, "", "tokens:1: a static token has the form"},
		{"open to all", "", []string{"--listen", ":8443"}, cli.ExitUsage, "", "no setting grants access"},
		{"certificate", "", []string{"--tls-cert", filepath.Join(c.home, "cert.pem"), "--tls-key", filepath.Join(c.home, "cert.pem")}, cli.ExitUsage, "", "read the certificate"},
		{"half a certificate", "", []string{"--tls-cert", "cert.pem"}, cli.ExitUsage, "", "belong together"},
		{"depot file", "", []string{"--depot", filepath.Join(c.home, "depot.hcl")}, cli.ExitUsage, "", "depot.hcl:1"},
		{"metrics", "", []string{"--metrics-listen", "9090"}, cli.ExitUsage, "", "--metrics-listen \"9090\""},
		{"pull-through and a policy", "pull_through \"registry.opentofu.org/*/*\" {\n}\nrequire \"mirror\" {\n  checks = [\"cosign\"]\n  cosign_keys = [\"" + storage + "\"]\n}\n", nil, cli.ExitUsage, "", "okara.hcl:3: "},
		{"registry", "", []string{"--registry", "https://registry.example.com"}, cli.ExitUsage, "", "registry.example.com"},
		{"pass-through", "", []string{"--pass-through"}, cli.ExitUsage, "", "--pass-through needs a registry"},
		{"webhook secret", "github \"acme\" {\n  secret_files = [\"nowhere\"]\n  token_env = \"NOT_SET\"\n}\n", nil, cli.ExitUsage, "", "okara.hcl:1: github \"acme\": the variable NOT_SET is empty"},
		{"log format", "log_format = \"xml\"\n", nil, cli.ExitUsage, "", "the log format \"xml\" is not text or json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"serve", "--check", "--storage", storage}, tt.args...)
			if tt.config != "" {
				args = append(args, "--config", file(tt.config))
			}
			code, out, errOut := c.run(t, args...)
			if code != tt.code || !matches(t, tt.out, out) || !matches(t, tt.errOut, errOut) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d, %q, %q", code, out, errOut, tt.code, tt.out, tt.errOut)
			}
			if code != cli.ExitOK && out != "" {
				t.Errorf("stdout %q of settings that are wrong", out)
			}
		})
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
	c, storage := newClientHome(t), t.TempDir()
	url, _, _ := newServer(t, "--storage", storage)
	before := filesBelow(t, storage)
	code, out, errOut := c.run(t, "serve", "--check", "--storage", storage, "--listen", strings.TrimPrefix(url, "http://"))
	if code != cli.ExitOK || errOut != "" {
		t.Fatalf("exit %d, %q, %q", code, out, errOut)
	}
	if diff := cmp.Diff(before, filesBelow(t, storage)); diff != "" {
		t.Error(diff)
	}
}

func filesBelow(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		all = append(all, fmt.Sprint(path, info.Mode(), info.ModTime()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestServeLogJSON shows that a log in JSON contains only JSON, from start to end.
func TestServeLogJSON(t *testing.T) {
	url, notes, stop := newServer(t, "--storage", t.TempDir(), "--log-format", "json", "--metrics-listen", "127.0.0.1:0", "--debug")
	status(t, http.DefaultClient, http.MethodGet, url+"/healthz", "")
	if code := stop(); code != cli.ExitOK && code != cli.ExitInterrupted {
		t.Error("exit", code)
	}
	var messages []string
	for line := range strings.Lines(notes()) {
		var record struct {
			Level, Msg, Version, URL, Storage, Reason string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if record.Level != "DEBUG" || record.Msg == "request" {
			messages = append(messages, record.Msg) // background work may end later
		}
		if record.Msg == "started" && (record.URL != url || record.Version == "" || record.Storage == "") || record.Msg == "ended" && record.Reason == "" {
			t.Errorf("incomplete: %s", line)
		}
	}
	if !slices.Contains(messages, "started") || !slices.Contains(messages, "request") || messages[len(messages)-1] != "ended" {
		t.Errorf("messages %q, want started, the request, and ended as the last", messages)
	}
}
