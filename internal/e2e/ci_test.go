// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scriptKey is a line of a CI file after which a script follows, indented.
var scriptKey = regexp.MustCompile(`^( *)(?:- )?(?:run|script): \|$`)

// scripts returns the scripts in a CI file or a page, in order.
func scripts(text string) []string {
	var list []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		m := scriptKey.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var script strings.Builder
		for _, body := range lines[i+1:] {
			if !strings.HasPrefix(body, m[1]+"  ") {
				break
			}
			script.WriteString(strings.TrimSpace(body) + "\n")
		}
		list = append(list, script.String())
	}
	return list
}

// TestCI runs the scripts of docs/ci.md and of the composite action as the CI
// systems do, against a registry process.
func TestCI(t *testing.T) {
	set, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd, err := set.registryCommand(filepath.Join(dir, "registry"), true)
	if err != nil {
		t.Fatal(err)
	}
	server, registry, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer server.kill()
	ci := ciJob{set: set, dir: dir, registry: registry}
	ci.action(t)

	page, err := os.ReadFile(filepath.Join(set.root, "docs", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := scripts(string(page))
	if len(list) != 7 {
		t.Fatalf("%d scripts in docs/ci.md, want 7", len(list))
	}
	ci.module(t)
	publishGitHub, plan, apply, publishGitLab, applyGitLab := list[0], list[1], list[2], list[3], list[4]
	ci.run(t, publishGitHub, "GITHUB_REF_NAME=v1.2.3")
	ci.run(t, publishGitLab, "CI_COMMIT_TAG=v1.2.4")
	ci.run(t, plan)
	ci.run(t, apply)
	ci.run(t, applyGitLab)
	ci.run(t, "okara list net/vpc/aws | grep 1.2.4\nokara state history \"$TF_BACKEND_OCI_REPOSITORY\"\n")
	ci.server(t, string(page), list[5], list[6])
}

type ciJob struct {
	set           tools
	dir, registry string
}

// action runs the composite action, once with a release and once without, and uses the
// okara that it puts on PATH.
func (c *ciJob) action(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.set.root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	list := scripts(string(text))
	if len(list) != 3 {
		t.Fatalf("%d scripts in action.yml, want 3", len(list))
	}
	install, build, set := list[0], list[1], list[2]
	r := newRelease(t, "1.2.3", []byte("#!/bin/sh\necho okara v1.2.3\n"))
	server := httptest.NewServer(r)
	defer server.Close()
	key := filepath.Join(c.dir, "key.pem")
	if err := os.WriteFile(key, r.key, 0o600); err != nil {
		t.Fatal(err)
	}
	released := filepath.Join(c.dir, "released")
	if hasTools("curl", "openssl") {
		c.run(t, install+"test \"$(\"$RUNNER_TEMP/okara/okara\")\" = 'okara v1.2.3'\n",
			"GITHUB_ACTION_PATH="+c.set.root, "RUNNER_TEMP="+released, "OKARA_VERSION=1.2.3", "OKARA_SHA256SUMS=", "OKARA_RELEASES="+server.URL, "OKARA_RELEASE_KEY="+key)
	}
	paths, env := filepath.Join(c.dir, "path"), filepath.Join(c.dir, "env")
	c.run(t, build+set, "GITHUB_ACTION_PATH="+c.set.root, "GITHUB_PATH="+paths, "GITHUB_ENV="+env,
		"RUNNER_TEMP="+filepath.Join(c.dir, "temp"), "OKARA_INPUT_REGISTRY="+c.registry, "OKARA_INPUT_SERVER=https://okara.example.com")
	if got := mustRead(t, env); got != "OKARA_REGISTRY="+c.registry+"\nOKARA_SERVER=https://okara.example.com\n" {
		t.Errorf("the action sets %q", got)
	}
	c.set.okara = filepath.Join(strings.TrimSpace(mustRead(t, paths)), "okara")
	if _, err := os.Stat(c.set.okara); err != nil {
		t.Error(err)
	}
}

// module writes what the jobs work on: a module that is a root module as well.
func (c *ciJob) module(t *testing.T) {
	t.Helper()
	const text = "terraform {\n  backend \"oci\" {}\n}\n\nresource \"terraform_data\" \"vpc\" {}\n"
	if err := os.Mkdir(filepath.Join(c.dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "work", "main.tf"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *ciJob) run(t *testing.T, script string, env ...string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = c.dir
	if work := filepath.Join(c.dir, "work"); isDir(work) {
		cmd.Dir = work
	}
	cmd.Env = append([]string{
		"HOME=" + c.dir, "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "GOFLAGS=" + os.Getenv("GOFLAGS"),
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"),
		"PATH=" + strings.Join([]string{filepath.Dir(c.set.okara), filepath.Dir(c.set.tofu), os.Getenv("PATH")}, string(os.PathListSeparator)),
		"OKARA_REGISTRY=" + c.registry, "TF_BACKEND_OCI_REPOSITORY=" + c.registry + "/state/shop",
	}, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
