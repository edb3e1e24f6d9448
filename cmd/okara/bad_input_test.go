// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// writes is a registry that counts the requests that change it.
type writes struct {
	host string
	n    atomic.Int64
}

func newWrites(t *testing.T) *writes {
	t.Helper()
	w := &writes{}
	registry := ocitest.Handler(t, ocitest.Quirks{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.n.Add(1)
		}
		registry.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "http://")
	return w
}

const (
	badStem   = "terraform-provider-dns_1.0.0_"
	badZip    = badStem + "linux_amd64.zip"
	badPlugin = "terraform-provider-dns_v1.0.0"
	badOrigin = "registry.example.com/acme/dns"
)

// TestBadInput gives every command that accepts foreign packages broken or malicious input.
// Each is refused with a reason, and nothing is pushed.
func TestBadInput(t *testing.T) {
	now, long := time.Now(), time.Now().Add(-100*24*time.Hour)
	sound, stranger := newBadKey(t, now, false), newBadKey(t, now, false)
	expired, revoked := newBadKey(t, long, false), newBadKey(t, now, true)
	plugin := zipFile{name: badPlugin, text: "plugin", mode: 0o755}
	escape := zipFile{name: "../escaped", text: "x"}
	link := zipFile{name: "link", text: "/etc/passwd", mode: fs.ModeSymlink | 0o777}
	bomb := zipFile{name: "bomb", text: strings.Repeat("\x00", 3<<20)}
	lie := zipFile{name: "huge", text: "x", claims: 5 << 30}
	module := zipFile{name: "main.tf", text: "locals {}\n"}
	small := zipFile{name: "bomb", text: bomb.text, claims: 10}
	good := newZipOf(t, plugin)
	sum, zeros := sha256Of(good), strings.Repeat("0", 64)
	sign := []string{"--sign-key", sound.private}
	one := func(zip []byte) map[string][]byte { return map[string][]byte{badZip: zip} }
	signed := func(s sums) map[string][]byte {
		return map[string][]byte{badZip: good, badStem + "SHA256SUMS": s.text, badStem + "SHA256SUMS.sig": s.signature}
	}

	tests := []struct {
		name   string
		args   makeArgs
		code   int
		reason string
	}{
		// A folder that is published as a module.
		{"module with a symlink loop", badModule(func(t *testing.T, dir string) {
			mustLink(t, "b", filepath.Join(dir, "a"))
			mustLink(t, "a", filepath.Join(dir, "b"))
		}), cli.ExitFailure, "a: symbolic link to b, which leads in a circle: refused"},
		{"module with a folder that links to itself", badModule(func(t *testing.T, dir string) {
			mustLink(t, ".", filepath.Join(dir, "again"))
		}), cli.ExitFailure, "again: symbolic link to ., which leads in a circle: refused"},
		{"module of 20,000 files", badModule(func(t *testing.T, dir string) {
			for i := range 20_000 {
				mustWrite(t, filepath.Join(dir, fmt.Sprintf("f%d.tf", i)), nil)
			}
		}), cli.ExitFailure, "more than 10000 files"},
		{"module version that is not SemVer", badModuleVersion("1.0"), cli.ExitUsage, "did you mean 1.0.0?"},
		{"module version with a leading zero", badModuleVersion("1.02.3"), cli.ExitUsage, "1.02.3"},
		{"module version that is a word", badModuleVersion("latest"), cli.ExitUsage, `"latest"`},

		// An archive of a module that another tool pushed.
		{"module archive with ../", badArchive(newZipOf(t, module, escape)), cli.ExitFailure, `"../escaped"`},
		{"module archive with a link", badArchive(newZipOf(t, module, link)), cli.ExitFailure, `"link"`},
		{"module archive that understates its size", badArchive(newZipOf(t, module, small)), cli.ExitFailure, `"bomb"`},

		// A folder that is published as a provider.
		{"provider zip named wrongly", badProvider(map[string][]byte{"terraform-provider-dns_1.0.1_linux_amd64.zip": good}, sign...), cli.ExitFailure, "the name must be " + badStem + "OS_ARCH.zip"},
		{"provider zip of another type", badProvider(map[string][]byte{"terraform-provider-other_1.0.0_linux_amd64.zip": good}, sign...), cli.ExitFailure, "the name must be " + badStem + "OS_ARCH.zip"},
		{"provider version that is not SemVer", badProviderVersion("1.0", nil, sign...), cli.ExitUsage, "did you mean 1.0.0?"},
		{"provider zip with ../", badProvider(one(newZipOf(t, plugin, escape)), sign...), cli.ExitFailure, `unsafe path "../escaped"`},
		{"provider zip with a link", badProvider(one(newZipOf(t, plugin, link)), sign...), cli.ExitFailure, `"link" in the zip is not a regular file`},
		{"provider zip that is a bomb", badProvider(one(newZipOf(t, plugin, bomb)), sign...), cli.ExitFailure, "expands to more than"},
		{"provider zip that claims 5 GiB", badProvider(one(newZipOf(t, plugin, lie)), sign...), cli.ExitFailure, "expands to more than"},
		{"provider zip that understates its size", badProvider(one(newZipOf(t, plugin, small)), sign...), cli.ExitFailure, "zip: "},
		{"provider zip of 20,000 files", badProvider(one(newZipOf(t, append(manyFiles(20_000), plugin)...)), sign...), cli.ExitFailure, "20001 files, at most 10000"},
		{"provider index over 4 MiB", badProvider(manyPlatforms(7000, good), sign...), cli.ExitFailure, "at most 4194304"},
		{"SHA256SUMS that lies", badProvider(signed(sound.signs(t, zeros)), "--key", sound.public), cli.ExitFailure, badZip + " has "},
		{"SHA256SUMS that forgets a zip", badProvider(signed(sound.signs(t, "")), "--key", sound.public), cli.ExitFailure, badZip + " is not listed"},
		{"signature of an expired key", badProvider(signed(expired.signs(t, sum)), "--key", expired.public), cli.ExitFailure, "key has expired"},
		{"signature of a revoked key", badProvider(signed(revoked.signs(t, sum)), "--key", revoked.public), cli.ExitFailure, "key is revoked"},
		{"signature of an unknown key", badProvider(signed(stranger.signs(t, sum)), "--key", sound.public), cli.ExitFailure, "signed by an unknown key: " + stranger.id},
		{"no signature", badProvider(one(good)), cli.ExitFailure, "SHA256SUMS is not signed"},
		{"an expired key that shall sign", badProvider(one(good), "--sign-key", expired.private), cli.ExitFailure, "key has expired"},
		{"a revoked key that shall sign", badProvider(one(good), "--sign-key", revoked.private), cli.ExitFailure, "key is revoked"},

		// A provider that is mirrored from a folder.
		{"mirrored zip with ../", badMirror(badZip, newZipOf(t, plugin, escape)), cli.ExitPartly, `unsafe path "../escaped"`},
		{"mirrored zip with a link", badMirror(badZip, newZipOf(t, plugin, link)), cli.ExitPartly, `"link" in the zip is not a regular file`},
		{"mirrored zip that is a bomb", badMirror(badZip, newZipOf(t, plugin, bomb)), cli.ExitPartly, "expands to more than"},
		{"mirrored zip that claims 5 GiB", badMirror(badZip, newZipOf(t, plugin, lie)), cli.ExitPartly, "expands to more than"},
		{"mirrored zip that understates its size", badMirror(badZip, newZipOf(t, plugin, small)), cli.ExitPartly, "zip: "},
		{"mirrored zip named wrongly", badMirror("terraform-provider-dns_1_linux_amd64.zip", good), cli.ExitPartly, "no version"},

		// A provider that is mirrored from a third-party registry.
		{"mirrored SHA256SUMS that lies", badOriginOf(good, sound.signs(t, zeros), sound), cli.ExitPartly, badZip + " has "},
		{"mirrored SHA256SUMS that forgets a zip", badOriginOf(good, sound.signs(t, ""), sound), cli.ExitPartly, badZip + " is not listed"},
		{"mirrored signature of an expired key", badOriginOf(good, expired.signs(t, sum), expired), cli.ExitPartly, "key has expired"},
		{"mirrored signature of a revoked key", badOriginOf(good, revoked.signs(t, sum), revoked), cli.ExitPartly, "key is revoked"},
		{"mirrored signature of an unknown key", badOriginOf(good, stranger.signs(t, sum), sound), cli.ExitPartly, "signed by an unknown key: " + stranger.id},
		{"mirrored signature of a key that is not trusted", with(badOriginOf(good, sound.signs(t, sum), sound), "--openpgp-key", stranger.public), cli.ExitPartly, "trusted keys: signed by an unknown key: " + sound.id},
		{"mirrored without a signature, trusted keys", with(badMirror(badZip, good), "--openpgp-key", sound.public), cli.ExitPartly, "SHA256SUMS is not signed"},
		{"mirrored module, trusted keys", with(func(*testing.T) []string { return []string{"mirror", "net/vpc/aws"} }, "--openpgp-key", sound.public), cli.ExitPartly, "refused: not verified: a module has no OpenPGP signature"},
		{"mirrored without a signature", badOriginOf(good, sums{text: sound.signs(t, sum).text}, sound), cli.ExitPartly, "SHA256SUMS is not signed"},
		{"mirrored index over 4 MiB", largeIndex, cli.ExitPartly, "4194304"},

		// A bundle from another system.
		{"bundle with ../", badBundle(tarFile{name: "../escaped"}), cli.ExitFailure, `"../escaped" does not belong into an OCI layout`},
		{"bundle with a link", badBundle(tarFile{name: "blobs/sha256/" + zeros, link: "/etc/passwd"}), cli.ExitFailure, "is not a regular file"},
		{"bundle with a blob that lies", badBundle(tarFile{name: "blobs/sha256/" + zeros, text: "x"}), cli.ExitFailure, "its bytes have another digest"},
		{"bundle that lacks a blob", badBundle(), cli.ExitNotFound, "load the earlier bundle first"},
		{"bundle that names a repository elsewhere", badBundleOf("../../../elsewhere:1.0.0"), cli.ExitFailure, "is not a repository of a module or provider"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := newWrites(t)
			o := okara(t, append(tt.args(t), "--registry", registry.host)...)
			if o.code != tt.code || !strings.Contains(o.out+o.err, tt.reason) {
				t.Errorf("exit %d, want %d with %q\n%s%s", o.code, tt.code, tt.reason, o.out, o.err)
			}
			if n := registry.n.Load(); n > 0 {
				t.Errorf("%d requests changed the registry", n)
			}
		})
	}
}

// zipFile is one entry of a zip. claims is the size in its header; 0: the true one.
type zipFile struct {
	name, text string
	mode       fs.FileMode // 0: a plain file
	claims     uint64
}

func newZipOf(t *testing.T, files ...zipFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		if h.SetMode(0o644); f.mode != 0 {
			h.SetMode(f.mode)
		}
		create, body := w.CreateHeader, []byte(f.text)
		if f.claims > 0 {
			h.CRC32, h.UncompressedSize64 = crc32.ChecksumIEEE(body), f.claims
			body = deflated(t, body)
			create, h.CompressedSize64 = w.CreateRaw, uint64(len(body))
		}
		entry, err := create(h)
		if err == nil {
			_, err = entry.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func deflated(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func manyFiles(n int) []zipFile {
	var files []zipFile
	for i := range n {
		files = append(files, zipFile{name: fmt.Sprintf("f%d.tf", i)})
	}
	return files
}

// manyPlatforms gives a zip so many names that its index is too large.
func manyPlatforms(n int, zip []byte) map[string][]byte {
	dist := map[string][]byte{}
	for i := range n {
		dist[fmt.Sprintf("%sos%d_%s.zip", badStem, i, strings.Repeat("a", 60))] = zip
	}
	return dist
}

func sha256Of(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func mustWrite(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustLink(t *testing.T, target, file string) {
	t.Helper()
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
}

// sums is SHA256SUMS with its signature.
type sums struct{ text, signature []byte }

// badKey is a signing key with its files. It may have expired or be revoked.
type badKey struct {
	id, private, public string
	served              artifact.SigningKey
	signer              *signing.Key // the key while it was valid
	when                time.Time    // when it was valid
}

// signs returns a signed statement that badZip has this hash; without a hash, that only
// another file exists.
func (k badKey) signs(t *testing.T, sum string) sums {
	t.Helper()
	s := signing.Sums{"CHANGELOG.md": strings.Repeat("1", 64)}
	if sum != "" {
		s[badZip] = sum
	}
	signature, err := k.signer.Sign(s.Bytes(), k.when)
	if err != nil {
		t.Fatal(err)
	}
	return sums{s.Bytes(), signature}
}

// newBadKey makes a key with that creation time, valid for a day if it is long ago.
func newBadKey(t *testing.T, when time.Time, revoked bool) badKey {
	t.Helper()
	o := signing.KeyOptions{ECC: true, Now: func() time.Time { return when }}
	if time.Since(when) > 24*time.Hour {
		o.Lifetime = 24 * time.Hour
	}
	key, err := signing.NewKey(o)
	if err != nil {
		t.Fatal(err)
	}
	sound, err := key.Armor(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := badKey{when: when}
	if k.signer, err = signing.ParseKey(sound, nil); err != nil {
		t.Fatal(err)
	}
	if revoked {
		if err := key.Revoke(when, "stolen"); err != nil {
			t.Fatal(err)
		}
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	private, err := key.Armor(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k.id, k.private, k.public = public.ID, filepath.Join(dir, "key.asc"), filepath.Join(dir, "key.pub.asc")
	k.served = artifact.SigningKey{KeyID: public.ID, ASCIIArmor: public.Armor}
	mustWrite(t, k.private, private)
	mustWrite(t, k.public, []byte(public.Armor))
	return k
}
