// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// TestExecutorInstallsFromAnIndex installs a chart from a Helm repository, then another
// version of it, and uninstalls it.
//
// Shows: rig 3
func TestExecutorInstallsFromAnIndex(t *testing.T) {
	r := newReleased(t)
	r.spec.Chart = v1alpha1.Chart{Helm: &v1alpha1.ChartHelm{URL: chartIndex(t, "1.0.0", "1.1.0"), Name: "hello", Version: "1.0.0"}}
	r.installs("1.0.0", "hello")
	r.spec.Chart.Helm.Version = ">=1.0.0"
	r.installs("1.1.0", "hello")
	r.ends()
	r.gone(t, r.made)
}

// TestExecutorInstallsFromGit installs a chart from a branch of a Git repository that
// moves, then from a commit, and uninstalls it.
//
// Shows: rig 3
func TestExecutorInstallsFromGit(t *testing.T) {
	r := newReleased(t)
	g := newGit(t)
	g.commit(chartFiles("1.0.0"))
	r.spec.Chart = v1alpha1.Chart{Git: &v1alpha1.ChartGit{URL: g.url, Path: "charts/hello", Branch: "main"}}
	r.spec.Interval.Duration = 2 * time.Second // shortens the test
	r.installs("1.0.0", "hello")
	g.commit(fstest.MapFS{"templates/hello.yaml": {Data: []byte(strings.Replace(template, "{text:", "{more: text, text:", 1))}})
	until(t, "the branch has moved", func() (bool, any) {
		r.read(t, r.made)
		return r.made.Data["more"] == "text", r.made.Data
	})
	r.spec.Chart.Git.Branch, r.spec.Chart.Git.Commit = "", g.first
	r.spec.Values = []byte(`{"text":"pinned"}`)
	r.installs("1.0.0", "pinned")
	until(t, "the commit is installed", func() (bool, any) {
		r.read(t, r.made)
		return r.made.Data["more"] == "", r.made.Data
	})
	r.ends()
	r.gone(t, r.made)
}

// installs requires that a version of the chart is installed with a text.
func (r *released) installs(version, text string) {
	r.t.Helper()
	until(r.t, "chart "+version+" is installed with "+text, func() (bool, any) {
		r.reaches(fluxexec.Applied)
		got := must.Get(r.exec.Observe(r.t.Context(), r.spec))(r.t)
		r.read(r.t, r.made)
		have, _, _ := strings.Cut(got.AppliedRevision, "+") // without the commit
		return have == version && r.made.Data["text"] == text, got
	})
}

// chartIndex serves a Helm repository with versions of the chart.
func chartIndex(t *testing.T, versions ...string) string {
	t.Helper()
	index := bytes.NewBufferString("apiVersion: v1\nentries:\n  hello:\n")
	mux := http.NewServeMux()
	for _, v := range versions {
		packed := pack(t, chartFiles(v))
		fmt.Fprintf(index, "  - {apiVersion: v2, name: hello, version: %s, digest: %x, urls: [hello-%s.tgz], created: %q}\n",
			v, sha256.Sum256(packed), v, "2026-11-01T00:00:00Z")
		mux.HandleFunc("/hello-"+v+".tgz", func(w http.ResponseWriter, _ *http.Request) { w.Write(packed) })
	}
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) { w.Write(index.Bytes()) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// gitRepository is served over HTTP by git itself.
type gitRepository struct {
	t          *testing.T
	dir        string
	url, first string // first commit
}

func newGit(t *testing.T) *gitRepository {
	t.Helper()
	program := must.Get(exec.LookPath("git"))(t)
	root := t.TempDir()
	g := &gitRepository{t: t, dir: filepath.Join(root, "web")}
	must.Succeed(t, os.MkdirAll(filepath.Join(g.dir, "charts", "hello", "templates"), 0o700))
	g.git("init", "-q", "-b", "main")
	server := httptest.NewServer(&cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}})
	t.Cleanup(server.Close)
	g.url = server.URL + "/web/.git"
	return g
}

func (g *gitRepository) git(args ...string) string {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "git", append([]string{"-C", g.dir, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %s: %v: %s", args[0], err, out)
	}
	return string(bytes.TrimSpace(out))
}

func (g *gitRepository) commit(files fstest.MapFS) {
	g.t.Helper()
	for name, f := range files {
		must.Succeed(g.t, os.WriteFile(filepath.Join(g.dir, "charts", "hello", name), f.Data, 0o600))
	}
	g.git("add", ".")
	g.git("commit", "-q", "-m", "release")
	if g.first == "" {
		g.first = g.git("rev-parse", "HEAD")
	}
}
