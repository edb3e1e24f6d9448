// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// releaseVar names two builds of one commit, 1 and 2, and key.pub (make release-check).
const releaseVar = "OKARA_TEST_RELEASE"

// ofRelease matches the files for users; the rest belongs to GoReleaser.
var ofRelease = regexp.MustCompile(`^okara_.*(\.tar\.gz|\.zip|\.deb|\.rpm|\.apk|\.cdx\.json|_SHA256SUMS)$`)

// TestRelease: two builds have the same bytes, and the deb works as README says.
func TestRelease(t *testing.T) {
	folder := os.Getenv(releaseVar)
	if folder == "" {
		t.Skip("make release-check builds what this looks at")
	}
	set := must(findTools())(t)
	first, second := releaseFiles(t, filepath.Join(folder, "1")), releaseFiles(t, filepath.Join(folder, "2"))
	if !slices.Equal(slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second))) {
		t.Errorf("the builds have %v and %v", slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)))
	}
	kinds := map[string]int{}
	for name, b := range first {
		kinds[ofRelease.FindStringSubmatch(name)[1]]++
		if !bytes.Equal(b, second[name]) {
			t.Errorf("%s is another one when it is built again", name)
		}
	}
	if want := map[string]int{".tar.gz": 4, ".zip": 2, ".deb": 2, ".rpm": 2, ".apk": 2, ".cdx.json": 6, "_SHA256SUMS": 1}; !maps.Equal(kinds, want) {
		t.Errorf("it has %v, want %v", kinds, want)
	}
	t.Run("deb", func(t *testing.T) { set.installed(t, first) })
	t.Run("install.sh", func(t *testing.T) { installs(t, set, folder) })
}

// releaseFiles returns the files for users in a build.
func releaseFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries := must(os.ReadDir(dir))(t)
	files := map[string][]byte{}
	for _, e := range entries {
		if ofRelease.MatchString(e.Name()) {
			files[e.Name()] = []byte(mustRead(t, filepath.Join(dir, e.Name())))
		}
	}
	return files
}

// installed unpacks the deb for this machine and follows the README.
func (s tools) installed(t *testing.T, files map[string][]byte) {
	arch := goEnv(t, "GOARCH")
	root := t.TempDir()
	for name, b := range files {
		if strings.HasSuffix(name, "_"+arch+".deb") {
			unpack(t, dataOf(t, b), root)
		}
	}
	for _, name := range []string{
		"usr/share/bash-completion/completions/okara", "usr/share/zsh/site-functions/_okara", "usr/share/fish/vendor_completions.d/okara.fish",
		"usr/share/man/man1/okara-serve.1", "usr/lib/systemd/system/okara.service", "etc/okara/okara.hcl", "usr/share/doc/okara/copyright",
	} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	s.okara = filepath.Join(root, "usr/bin/okara")
	out, err := exec.Command(s.okara, "version", "--json").Output()
	var built struct {
		Version, Commit, Date string
		Modified              bool
	}
	if err != nil || json.Unmarshal(out, &built) != nil || !strings.HasPrefix(built.Version, strings.TrimSpace(mustRead(t, filepath.Join(s.root, "internal", "buildinfo", "VERSION")))) || built.Commit == "" || built.Date == "" || built.Modified {
		t.Errorf("okara version: %s, %v", out, err)
	}
	if out, err := exec.Command(s.okara, "serve", "--config", filepath.Join(root, "etc/okara/okara.hcl"), "--check").CombinedOutput(); err != nil {
		t.Errorf("the configuration that comes with it: %v, %s", err, out)
	}
	s.runPage(t, mustRead(t, filepath.Join(s.root, "README.md")), "", strings.NewReplacer())
}

// dataOf returns the archive of files in a deb, an ar(5) archive.
func dataOf(t *testing.T, deb []byte) io.Reader {
	t.Helper()
	const magic, header = "!<arch>\n", 60
	rest, ok := bytes.CutPrefix(deb, []byte(magic))
	for ok && len(rest) >= header {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || header+size > len(rest) {
			break
		}
		if name := strings.TrimRight(strings.TrimSpace(string(rest[:16])), "/"); name == "data.tar.gz" {
			return must(gzip.NewReader(bytes.NewReader(rest[header : header+size])))(t)
		}
		rest = rest[min(header+size+size%2, len(rest)):]
	}
	t.Fatal("the deb has no data.tar.gz")
	return nil
}

func unpack(t *testing.T, r io.Reader, root string) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := filepath.Join(root, filepath.FromSlash(path.Join("/", h.Name)))
		succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		b := must(io.ReadAll(archive))(t)
		succeed(t, os.WriteFile(name, b, fs.FileMode(h.Mode).Perm()))
	}
}

// installs lets install.sh download the release from a server.
func installs(t *testing.T, s tools, folder string) {
	if !hasTools("curl", "openssl") {
		t.Skip("install.sh is run with curl and openssl, of which one is not here")
	}
	lists, err := filepath.Glob(filepath.Join(folder, "1", "*_SHA256SUMS"))
	if err != nil || len(lists) != 1 {
		t.Fatal(lists, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(lists[0]), "okara_"), "_SHA256SUMS")
	files := http.StripPrefix("/download/v"+version+"/", http.FileServer(http.Dir(filepath.Join(folder, "1"))))
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	cmd := exec.Command("sh", filepath.Join(s.root, "install.sh"))
	cmd.Env = append(os.Environ(), "OKARA_RELEASES="+server.URL, "OKARA_VERSION="+version, "OKARA_BIN="+t.TempDir(), "OKARA_RELEASE_KEY="+filepath.Join(folder, "key.pub"))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "\nokara "+version+" ") {
		t.Errorf("%v, %s", err, out)
	}
}
