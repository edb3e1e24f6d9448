// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// gnuPG is a home directory of GnuPG.
type gnuPG struct {
	t    *testing.T
	home string
}

func newGnuPG(t *testing.T) *gnuPG {
	t.Helper()
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("gpg is not on PATH")
	}
	home := must.Get(os.MkdirTemp("", "gpg"))(t) // the path of its socket has to be short
	g := &gnuPG{t, home}
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // the agent also ends without its home directory
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *gnuPG) run(args ...string) string {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "gpg", append([]string{"--homedir", g.home, "--batch", "--no-tty", "--passphrase", ""}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("gpg %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// verify checks the SHA256SUMS of a folder that okara pull wrote.
func (g *gnuPG) verify(dir string) {
	g.t.Helper()
	text := filepath.Join(dir, "terraform-provider-dns_1.0.0_SHA256SUMS")
	g.run("--verify", text+".sig", text)
}

// TestGnuPG publishes a provider with each kind of key and lets gpg verify what comes back
// from the registry; then okara verifies what gpg signed.
//
// Shows: opendepot 10
func TestGnuPG(t *testing.T) {
	t.Parallel()
	gpg := newGnuPG(t)
	gpg.run("--quick-generate-key", "Acme <release@example.com>", "ed25519", "sign", "1y")
	gpg.run("--quick-generate-key", "Bytes <bytes@example.com>", "rsa3072", "default", "1y")
	imported := func(user string) (private, public string) {
		file := filepath.Join(t.TempDir(), "exported.asc")
		gpg.run("--armor", "--output", file, "--export-secret-keys", user)
		dir := t.TempDir()
		mustOkara(t, "keys", "import", file, "--dir", dir)
		return keyFiles(t, dir)
	}
	tests := []struct {
		name string
		keys func() (private, public string)
	}{
		{"RSA", func() (string, string) { return newKeyFiles(t) }},
		{"Ed25519", func() (string, string) { return newKeyFiles(t, "--ed25519") }},
		{"made by gpg, Ed25519", func() (string, string) { return imported("release@example.com") }},
		{"made by gpg, RSA with a subkey", func() (string, string) { return imported("bytes@example.com") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := ocitest.New(t, ocitest.Quirks{})
			private, public := tt.keys()
			mustOkara(t, "publish", "provider", newRelease(t, 2, 1000), "acme/dns", "1.0.0", "--sign-key", private, "--registry", registry)
			dir := filepath.Join(t.TempDir(), "out")
			mustOkara(t, "pull", "acme/dns@1.0.0", dir, "--registry", registry)
			judge := newGnuPG(t)
			judge.run("--import", public)
			judge.verify(dir)

			// After another signature the version has both in one file.
			other, otherPublic := newKeyFiles(t, "--ed25519")
			mustOkara(t, "sign", "acme/dns@1.0.0", "--sign-key", other, "--registry", registry)
			both := filepath.Join(t.TempDir(), "out")
			mustOkara(t, "pull", "acme/dns@1.0.0", both, "--registry", registry)
			judge.run("--import", otherPublic)
			judge.verify(both)
		})
	}

	t.Run("signed by gpg", func(t *testing.T) {
		registry := ocitest.New(t, ocitest.Quirks{})
		unsigned, dist := newRelease(t, 2, 1000), filepath.Join(t.TempDir(), "out")
		private, _ := newKeyFiles(t, "--ed25519")
		mustOkara(t, "publish", "provider", unsigned, "acme/dns", "1.0.0", "--sign-key", private, "--registry", registry)
		mustOkara(t, "pull", "acme/dns@1.0.0", dist, "--registry", registry)
		text := filepath.Join(dist, "terraform-provider-dns_1.0.0_SHA256SUMS")
		gpg.run("--yes", "--local-user", "bytes@example.com", "--output", text+".sig", "--detach-sign", text)
		_, public := imported("bytes@example.com")
		fresh := ocitest.New(t, ocitest.Quirks{})
		mustOkara(t, "publish", "provider", dist, "acme/dns", "1.0.0", "--key", public, "--registry", fresh)
		mustOkara(t, "verify", "acme/dns@1.0.0", "--openpgp-key", public, "--require", "openpgp", "--deep", "--registry", fresh)
	})
}
