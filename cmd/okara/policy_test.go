// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// newKeyFiles makes a key with the flags and returns its private and public key file.
func newKeyFiles(t *testing.T, flags ...string) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	mustOkara(t, append([]string{"keys", "new", "--dir", dir}, flags...)...)
	return keyFiles(t, dir)
}

func keyFiles(t *testing.T, dir string) (private, public string) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	for _, file := range files {
		if strings.HasSuffix(file, ".pub.asc") || strings.HasSuffix(file, ".pub") {
			public = file
		} else {
			private = file
		}
	}
	return private, public
}

// newModuleDir returns a folder with a module.
func newModuleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("locals {}\n"), 0o600))
	return dir
}

// TestPolicy gives one policy to every command that reads versions. A refusal
// names the version and the reason, and leaves nothing behind.
//
// Shows: opendepot 10
func TestPolicy(t *testing.T) {
	registry := ocitest.New(t, ocitest.Quirks{}) + "/infra"
	private, public := newKeyFiles(t, "--ed25519")
	_, stranger := newKeyFiles(t, "--ed25519")
	cosign, cosignPublic := newKeyFiles(t, "--cosign")
	_, cosignStranger := newKeyFiles(t, "--cosign")

	const mirrored = "registry.example.com/acme/dns"
	dist, packed := newRelease(t, 2, 1000), t.TempDir()
	must.Succeed(t, os.MkdirAll(filepath.Join(packed, filepath.Dir(mirrored)), 0o700))
	must.Succeed(t, os.Symlink(dist, filepath.Join(packed, mirrored)))
	module := newModuleDir(t)
	for _, args := range [][]string{
		{"publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", private},
		{"mirror", mirrored, "--from", packed, "--allow-unsigned"},
		{"publish", "module", module, "net/vpc/aws", "1.0.0"},
		{"publish", "module", module, "net/bare/aws", "1.0.0"},
		{"sign", "net/vpc/aws@1.0.0", "--cosign-key", cosign},
	} {
		mustOkara(t, append(args, "--registry", registry)...)
	}
	late := filepath.Dir(newFile(t, "index.md", "# acme\n"))
	if o := okara(t, "publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", private, "--docs", late, "--registry", registry); o.code != cli.ExitOK || !strings.Contains(o.err, "publish the next version with --docs") {
		t.Errorf("documentation that comes late: %+v", o)
	}

	openpgp := []string{"--require", "openpgp", "--openpgp-key", public}
	signed := []string{"--require", "cosign", "--cosign-key", cosignPublic}
	tests := []struct {
		name, address string
		policy        []string
		code          int
		reason        string
	}{
		{"trusted key", "acme/dns", openpgp, cli.ExitOK, ""},
		{"unknown key", "acme/dns", []string{"--openpgp-key", stranger}, cli.ExitFailure, "acme/dns:1.0.0: openpgp: not verified: signed by an unknown key"},
		{"no key named", "acme/dns", []string{"--require", "openpgp"}, cli.ExitFailure, "acme/dns:1.0.0: openpgp: not verified: signed by an unknown key"},
		{"unsigned", mirrored, openpgp, cli.ExitFailure, mirrored + ":1.0.0: openpgp: not verified: SHA256SUMS is not signed"},
		{"not scanned", "acme/dns", []string{"--require", "scan"}, cli.ExitFailure, "acme/dns:1.0.0: scan: not verified: no report"},
		{"trusted cosign key", "net/vpc/aws", signed, cli.ExitOK, ""},
		{"unknown cosign key", "net/vpc/aws", []string{"--cosign-key", cosignStranger}, cli.ExitFailure, "net/vpc/aws:1.0.0: cosign: not verified: signed by an unknown key"},
		{"no cosign signature", "net/bare/aws", signed, cli.ExitFailure, "net/bare/aws:1.0.0: cosign: not verified: no signature"},
		{"no such requirement", "net/vpc/aws", []string{"--require", "magic"}, cli.ExitUsage, `"magic" is not openpgp, cosign or scan`},
		{"no such level", "net/vpc/aws", []string{"--block", "worst"}, cli.ExitUsage, `"worst": must be critical, high, medium or low`},
		{"no such file", "net/vpc/aws", []string{"--cosign-key", "nowhere.pub"}, cli.ExitUsage, "nowhere.pub"},
	}
	for _, tt := range tests {
		t.Run("pull "+tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			o := okara(t, append([]string{"pull", tt.address, dir, "--registry", registry}, tt.policy...)...)
			if o.code != tt.code || !strings.Contains(o.err, tt.reason) {
				t.Errorf("exit %d, want %d\n%s", o.code, tt.code, o.err)
			}
			if _, err := os.Stat(dir); (err == nil) != (tt.code == cli.ExitOK) {
				t.Errorf("the folder: %v", err)
			}
		})
		t.Run("bundle create "+tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "b.tar")
			o := okara(t, append([]string{"bundle", "create", file, tt.address, "--registry", registry}, tt.policy...)...)
			if o.code != tt.code || !strings.Contains(o.err, tt.reason) {
				t.Errorf("exit %d, want %d\n%s", o.code, tt.code, o.err)
			}
			if left, err := filepath.Glob(file + "*"); err != nil || (len(left) > 0) != (tt.code == cli.ExitOK) {
				t.Errorf("left behind %v, %v", left, err)
			}
		})
		if strings.HasPrefix(tt.address, "net/") {
			continue
		}
		t.Run("lock "+tt.name, func(t *testing.T) {
			dir := t.TempDir()
			source := tt.address
			if source == "acme/dns" {
				source = "own.example.com/acme/dns"
			}
			text := "terraform {\n  required_providers {\n    dns = { source = \"" + source + "\" }\n  }\n}\n"
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
			o := okara(t, append([]string{"lock", dir, "--own-host", "own.example.com", "--registry", registry}, tt.policy...)...)
			_, reason, _ := strings.Cut(tt.reason, ": ")
			if o.code != tt.code || !strings.Contains(o.err, reason) {
				t.Errorf("exit %d, want %d\n%s", o.code, tt.code, o.err)
			}
			if _, err := os.Stat(filepath.Join(dir, lockfile.Name)); (err == nil) != (tt.code == cli.ExitOK) {
				t.Errorf("the lock file: %v", err)
			}
		})
	}
	o := okara(t, append([]string{"lock", module, "--from", packed}, openpgp...)...)
	if o.code != cli.ExitUsage || !strings.Contains(o.err, "--from cannot be combined with a policy") {
		t.Errorf("lock from elsewhere: exit %d\n%s", o.code, o.err)
	}

	// Only accepted versions of a bundle appear, with their evidence.
	bundle := filepath.Join(t.TempDir(), "b.tar")
	mustOkara(t, "bundle", "create", bundle, "net/vpc/aws", "net/bare/aws", "--registry", registry)
	inside := ocitest.New(t, ocitest.Quirks{}) + "/inside"
	for range 2 {
		if o = okara(t, append([]string{"bundle", "load", bundle, "--registry", inside, "--dry-run"}, signed...)...); !strings.Contains(o.err, "net/bare/aws:1.0.0: cosign: not verified") || strings.Contains(o.err, "net/vpc/aws:1.0.0: cosign") {
			t.Errorf("dry run: exit %d\n%s", o.code, o.err)
		}
		o = okara(t, append([]string{"bundle", "load", bundle, "--registry", inside}, signed...)...)
		if o.code != cli.ExitFailure || !strings.Contains(o.err, "inside/modules/net/bare/aws:1.0.0: cosign: not verified: no signature") {
			t.Errorf("load: exit %d\n%s", o.code, o.err)
		}
		must.Equal(t, "loaded", mustOkara(t, "list", "--registry", inside), "module  net/vpc/aws\n")
		if o = okara(t, "list", "net/bare/aws", "--registry", inside); o.code != cli.ExitNotFound {
			t.Errorf("the refused version: exit %d\n%s", o.code, o.out)
		}
	}
	if o = okara(t, append([]string{"bundle", "load", bundle, "--registry", inside}, "--require", "magic")...); o.code != cli.ExitUsage {
		t.Errorf("load with an unknown requirement: exit %d\n%s", o.code, o.err)
	}
}
