// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const kills = 12

// TestKilled kills okara with SIGKILL at random requests of a publish, a mirror and a bundle
// load, each with a separate prefix. A version may only be visible if it is complete, the
// next run must finish it without sending again a blob that had arrived, and the one after
// that must send nothing. No temporary files may be left.
//
// Shows: registries 12
// Shows: mistakes 22
func TestKilled(t *testing.T) {
	home, temp := t.TempDir(), t.TempDir()
	okara := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "okara", args...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp}
		return cmd
	}
	out := must.Get(okara("keys", "new", "--ed25519").Output())(t)
	_, key, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	registry := newUploads(t)

	// The source for the others, a signed release behind the registry protocol.
	dist, bundle, origin := newRelease(t, releasePlatforms, 1<<20), filepath.Join(home, "b.tar"), registry.host+"/origin"
	url, _, _ := newServer(t, "--registry", origin)
	mirrored := strings.TrimPrefix(url, "http://") + "/acme/dns"
	for _, args := range [][]string{
		{"publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", key, "--registry", origin},
		{"mirror", mirrored, "--registry", origin},
		{"bundle", "create", bundle, mirrored, "--registry", origin},
	} {
		if out, err := okara(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	copied := "mirror/" + strings.Replace(mirrored, ":", "_", 1)

	for _, test := range []struct {
		name, repository, again string
		args                    []string
	}{
		{"publish", "providers/acme/dns", "already published", []string{"publish", "provider", dist, "acme/dns", "1.0.0", "--sign-key", key}},
		{"mirror", copied, ": skipped ", []string{"mirror", mirrored}},
		{"load", copied, ", 0 blobs pushed", []string{"bundle", "load", bundle}},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix := func(n int) string { return fmt.Sprintf("%s/%s%d", registry.host, test.name, n) }
			run := func(n int) *exec.Cmd { return okara(append(test.args, "--registry", prefix(n))...) }
			start := registry.requests.Load()
			if out, err := run(0).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			whole, killed := registry.requests.Load()-start, 0
			for n := 1; n <= kills; n++ {
				if registry.kill(t, run(n), 1+rand.N(whole)) {
					killed++
				}
				r := must.Get(oci.OpenRepo(prefix(n)+"/"+test.repository, oci.Options{}))(t)
				if _, err := r.Resolve(t.Context(), "1.0.0"); err == nil {
					mustBeWhole(t, r)
				} else if !errors.Is(err, oci.ErrNotFound) {
					t.Fatal(err)
				}
				registry.remember()
				if out, err := run(n).CombinedOutput(); err != nil {
					t.Fatalf("second run: %v: %s", err, out)
				}
				if twice := registry.twice(); len(twice) > 0 {
					t.Errorf("the second run sent again: %v", twice)
				}
				mustBeWhole(t, r)
				before := registry.n.Load()
				if out, err := run(n).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(test.again)) || registry.n.Load() != before {
					t.Errorf("third run: %v: %s", err, out)
				}
			}
			t.Logf("%d of %d runs of %d requests were killed", killed, kills, whole)
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 && runtime.GOOS != "windows" {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
			if killed == 0 {
				t.Errorf("none of %d runs of %d requests was killed", kills, whole)
			}
		})
	}
}

// kill starts a command, kills it at its nth request, before it is executed or before it is
// answered, and reports whether that interrupted the command.
func (u *uploads) kill(t *testing.T, cmd *exec.Cmd, nth int64) bool {
	t.Helper()
	u.mu.Lock()
	err := cmd.Start()
	u.victim, u.fatal, u.early = cmd.Process, u.requests.Load()+nth, rand.N(2) == 0
	u.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Wait() != nil
}

// arrive counts a request and returns a function that ends it.
func (u *uploads) arrive() (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.requests.Add(1) != u.fatal {
		return func() {}
	}
	victim := u.victim
	strike := func() { _ = victim.Kill() } // may have ended already
	if u.early {
		strike()
	}
	return strike
}

// uploads is a registry that records which blobs it received.
type uploads struct {
	host     string
	n        atomic.Int64 // requests that end an upload
	requests atomic.Int64

	mu     sync.Mutex // guards the fields below
	victim *os.Process
	fatal  int64 // the request at which the client dies
	early  bool

	taken map[string]bool
	old   map[string]bool
	again []string
}

func newUploads(t *testing.T) *uploads {
	t.Helper()
	u := &uploads{taken: map[string]bool{}}
	registry := ocitest.Handler(t, ocitest.Quirks{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer u.arrive()()
		repository, _, ok := strings.Cut(r.URL.Path, "/blobs/uploads/")
		if r.Method != http.MethodPut || !ok {
			registry.ServeHTTP(w, r)
			return
		}
		u.n.Add(1)
		blob := repository + "@" + r.URL.Query().Get("digest")
		u.mu.Lock()
		if u.old[blob] {
			u.again = append(u.again, blob)
		}
		u.mu.Unlock()
		answer := &answered{ResponseWriter: w}
		registry.ServeHTTP(answer, r)
		if answer.code == http.StatusCreated {
			u.mu.Lock()
			u.taken[blob] = true
			u.mu.Unlock()
		}
	}))
	t.Cleanup(server.Close)
	u.host = strings.TrimPrefix(server.URL, "http://")
	return u
}

// remember marks the time after which no received blob may be sent again.
func (u *uploads) remember() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.old, u.again = maps.Clone(u.taken), nil
}

func (u *uploads) twice() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.again)
}

type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	if a.code != 0 {
		return // the library reports the disconnected client afterwards
	}
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// mustBeWhole fetches everything that the signed version 1.0.0 consists of.
func mustBeWhole(t *testing.T, r *oci.Repo) {
	t.Helper()
	m := must.Get(r.Fetch(t.Context(), "1.0.0"))(t)
	index := must.Get(artifact.ParseProviderIndex(m))(t)
	for _, p := range index.Platforms {
		bare := artifact.ProviderPlatform{Platform: p.Platform, Manifest: p.Manifest} // without files, so that the manifest is read
		zip := must.Get(artifact.ResolveProviderZip(t.Context(), r, bare))(t)
		if ok, err := r.HasBlob(t.Context(), zip); !ok || err != nil {
			t.Errorf("%s %s is visible without its zip, %v", r, p.Platform, err)
		}
	}
	if md, err := artifact.ReadProviderMetadata(t.Context(), r, index); err != nil || len(md.SignatureBytes) == 0 || len(index.Platforms) != releasePlatforms {
		t.Errorf("%s: %d platforms, signature of %d bytes, %v", r, len(index.Platforms), len(md.SignatureBytes), err)
	}
}

const releasePlatforms = 6

// newRelease makes a release of dns with packages of size bytes each, the first for
// Linux.
func newRelease(t testing.TB, platforms, size int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range platforms {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "terraform-provider-dns", Method: zip.Store}
		h.SetMode(0o755)
		f := must.Get(w.CreateHeader(h))(t)
		plugin := make([]byte, size)
		rng := rand.NewChaCha8([32]byte{byte(i)})
		must.Get(rng.Read(plugin))(t)
		must.Get(f.Write(plugin))(t)
		must.Succeed(t, w.Close())
		system := "linux"
		if i > 0 {
			system = fmt.Sprintf("os%d", i)
		}
		name := filepath.Join(dir, "terraform-provider-dns_1.0.0_"+system+"_amd64.zip")
		must.Succeed(t, os.WriteFile(name, b.Bytes(), 0o600))
	}
	return dir
}
