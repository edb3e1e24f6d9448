// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// newGitModule makes a repository, and returns a tagger.
func newGitModule(t *testing.T) (dir string, tag func(name string)) {
	t.Helper()
	dir = t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	return dir, func(name string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# "+name+"\n"), 0o600))
		git("add", ".")
		git("commit", "-q", "-m", name)
		git("tag", name)
	}
}

// waitForTag waits until the module has a version.
func waitForTag(t *testing.T, host, tag string) {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/modules/net/vpc/aws", oci.Options{}))(t)
	waitFor(t, "version "+tag, func() bool { _, err := r.Resolve(t.Context(), tag); return err == nil })
}

// TestServeDepotReplicas runs two servers on one registry and one depot file: each version is
// published once, and a new tag appears after a requested run.
//
// Shows: opendepot 2 | polling interval | `okara serve --depot FILE`, one replica at a time
// Shows: opendepot 3 | forced sync | `POST /depot/sync`, or `okara depot apply`
func TestServeDepotReplicas(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	dir, tag := newGitModule(t)
	for _, name := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		tag(name)
	}
	work := t.TempDir()
	file := filepath.Join(work, "depot.hcl")
	src := fmt.Sprintf("interval = \"1h\"\nmodule \"net/vpc/aws\" {\n  source = %q\n}\n", "git::file://"+dir)
	must.Succeed(t, os.WriteFile(file, []byte(src), 0o600))
	var urls, audits []string
	var stops []func() int
	for i := range 2 {
		audit := filepath.Join(work, fmt.Sprint("audit", i))
		url, _, stop := newServer(t, "--registry", host, "--depot", file, "--audit-log", audit)
		urls, audits, stops = append(urls, url), append(audits, audit), append(stops, stop)
	}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		waitForTag(t, host, v)
	}
	tag("v1.3.0")
	for _, url := range urls {
		resp := must.Get(http.Post(url+"/depot/sync", "", nil))(t)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("sync: %s", resp.Status)
		}
	}
	waitForTag(t, host, "1.3.0")
	for _, stop := range stops {
		must.Equal(t, "exit code", stop(), 0)
	}
	published := map[string]int{}
	for _, audit := range audits {
		countPublished(t, audit, published)
	}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		if published[v] != 1 {
			t.Errorf("version %s was published %d times", v, published[v])
		}
	}
}

func countPublished(t *testing.T, audit string, published map[string]int) {
	t.Helper()
	b := must.Get(os.ReadFile(audit))(t)
	for line := range bytes.Lines(b) {
		var record struct{ Action, Version, State string }
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if record.Action == "publish" && record.State == "published" {
			published[record.Version]++
		}
	}
}
