// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// aRelease is a release of okara for this platform, as a download server has it.
type aRelease struct {
	key   []byte // PEM
	files map[string][]byte
}

func newRelease(t *testing.T, version string, program []byte) aRelease {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public := must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	packed := tar.NewWriter(zipped)
	succeed(t, packed.WriteHeader(&tar.Header{Name: "okara", Mode: 0o755, Size: int64(len(program))}))
	for _, step := range []func() error{func() error { _, err := packed.Write(program); return err }, packed.Close, zipped.Close} {
		succeed(t, step())
	}
	name := fmt.Sprintf("okara_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	list := fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(archive.Bytes()), name)
	sum := sha256.Sum256(list)
	signature := must(ecdsa.SignASN1(rand.Reader, key, sum[:]))(t)
	at, sums := "/download/v"+version+"/", "okara_"+version+"_SHA256SUMS"
	return aRelease{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), map[string][]byte{
		at + name: archive.Bytes(), at + sums: list, at + sums + ".sig": []byte(base64.StdEncoding.EncodeToString(signature)),
	}}
}

// ServeHTTP answers like GitHub: latest redirects to the page of a tag.
func (r aRelease) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch b, ok := r.files[req.URL.Path]; {
	case ok:
		_, _ = w.Write(b)
	case req.URL.Path == "/latest":
		http.Redirect(w, req, "/tag/v1.2.3", http.StatusFound)
	case req.URL.Path == "/tag/v1.2.3":
		_, _ = io.WriteString(w, "a page")
	default:
		http.NotFound(w, req)
	}
}

func hasTools(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := exec.LookPath(name)
		return err != nil
	})
}

// TestInstall runs install.sh with releases: it installs signed ones only.
func TestInstall(t *testing.T) {
	if !hasTools("curl", "openssl") {
		t.Skip("install.sh is run with curl and openssl, of which one is not here")
	}
	set := must(findTools())(t)
	program := "#!/bin/sh\necho okara v1.2.3\n"
	for _, c := range []struct {
		name  string
		spoil func(r *aRelease)
		env   []string
		want  string // on stdout; "": nothing is installed
		says  string
	}{
		{name: "the newest", want: "okara v1.2.3"},
		{name: "one by its number", env: []string{"OKARA_VERSION=v1.2.3"}, want: "okara v1.2.3"},
		{name: "one that does not exist", env: []string{"OKARA_VERSION=9.9.9"}, says: "hint: does that release exist?"},
		{name: "an archive that was changed", says: "is not what okara_1.2.3_SHA256SUMS says", spoil: func(r *aRelease) {
			for name, b := range r.files {
				if strings.HasSuffix(name, ".tar.gz") {
					r.files[name] = append(bytes.Clone(b), 0)
				}
			}
		}},
		{name: "a list that was changed", says: "is not by the key", spoil: func(r *aRelease) {
			name := "/download/v1.2.3/okara_1.2.3_SHA256SUMS"
			r.files[name] = append([]byte("# more\n"), r.files[name]...)
		}},
		{name: "a key of somebody else", says: "is not by the key", spoil: func(r *aRelease) { r.key = newRelease(t, "1.2.3", nil).key }},
		{name: "a pinned list", env: []string{"OKARA_SHA256SUMS=" + strings.Repeat("0", 64)}, says: "is not the one that OKARA_SHA256SUMS names"},
		{name: "no key", says: "nothing was released yet", env: []string{"OKARA_RELEASE_KEY="}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, dir := newRelease(t, "1.2.3", []byte(program)), t.TempDir()
			if c.spoil != nil {
				c.spoil(&r)
			}
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			succeed(t, os.WriteFile(filepath.Join(dir, "key.pem"), r.key, 0o600))
			bin := filepath.Join(dir, "bin")
			cmd := exec.Command("sh", filepath.Join(set.root, "install.sh"))
			cmd.Env = append(os.Environ(), "OKARA_RELEASES="+server.URL, "OKARA_BIN="+bin, "OKARA_RELEASE_KEY="+filepath.Join(dir, "key.pem"), "TMPDIR="+dir)
			cmd.Env = append(cmd.Env, c.env...)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			out, err := cmd.Output()
			if got := strings.TrimSpace(string(out)); got != c.want || !strings.Contains(errOut.String(), c.says) || (err == nil) != (c.want != "") {
				t.Errorf("%v, %q, %s", err, got, errOut.String())
			}
			if left, _ := os.ReadDir(bin); len(left) > 0 != (c.want != "") {
				t.Errorf("there is %v", left)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp.*")); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

// TestInstallKept installs from a kept release: what was changed there is not.
func TestInstallKept(t *testing.T) {
	if !hasTools("curl", "openssl") {
		t.Skip("install.sh is run with curl and openssl, of which one is not here")
	}
	set := must(findTools())(t)
	r, dir := newRelease(t, "1.2.3", []byte("#!/bin/sh\necho okara v1.2.3\n")), t.TempDir()
	server := httptest.NewServer(r)
	defer server.Close()
	keep, key := filepath.Join(dir, "keep"), filepath.Join(dir, "key.pem")
	succeed(t, os.WriteFile(key, r.key, 0o600))
	install := func(bin string) (string, error) {
		cmd := exec.Command("sh", filepath.Join(set.root, "install.sh"))
		cmd.Env = append(os.Environ(), "OKARA_RELEASES="+server.URL, "OKARA_VERSION=1.2.3", "OKARA_KEEP="+keep, "OKARA_BIN="+filepath.Join(dir, bin), "OKARA_RELEASE_KEY="+key, "TMPDIR="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := install("fetched"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server.Close()
	if out, err := install("kept"); err != nil || !strings.Contains(out, "okara v1.2.3") {
		t.Errorf("from what was kept: %v: %s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(keep, "*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("kept are %v, %v", archives, err)
	}
	succeed(t, os.WriteFile(archives[0], []byte("another"), 0o600))
	if out, err := install("changed"); err == nil || !strings.Contains(out, "is not what okara_1.2.3_SHA256SUMS says") {
		t.Errorf("from what was changed: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "changed")); err == nil {
		t.Error("what was changed is installed")
	}
}

// TestService checks settings in packages, and the service file with systemd.
func TestService(t *testing.T) {
	set := must(findTools())(t)
	folder := filepath.Join(set.root, "deploy", "package")
	if out, err := exec.Command(set.okara, "serve", "--config", filepath.Join(folder, "okara.hcl"), "--check").CombinedOutput(); err != nil {
		t.Errorf("%v, %s", err, out)
	}
	unit := mustRead(t, filepath.Join(folder, "okara.service"))
	const program = "/usr/bin/okara "
	if !strings.Contains(unit, "ExecStart="+program+"serve --config /etc/okara/okara.hcl\n") {
		t.Errorf("the service starts something else:\n%s", unit)
	}
	if !hasTools("systemd-analyze") {
		t.Log("systemd-analyze is not here to verify the service")
		return
	}
	file := filepath.Join(t.TempDir(), "okara.service")
	succeed(t, os.WriteFile(file, []byte(strings.ReplaceAll(unit, program, set.okara+" ")), 0o600))
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v, %s", err, out)
	}
}
