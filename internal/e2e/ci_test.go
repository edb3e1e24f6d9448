// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scriptKey matches a line of a CI file that an indented script follows.
var scriptKey = regexp.MustCompile(`^( *)(?:- )?(?:run|script|before_script): \|$`)

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

// TestCI runs the scripts of docs/publish/ci.md, examples/publish-ci and of the composite action as the CI systems
// do, with a registry process.
//
// Shows: jobs 3
func TestCI(t *testing.T) {
	set := must(findTools())(t)
	dir := t.TempDir()
	ci := ciJob{set: set, dir: dir, registry: set.runRegistry(t, dir)}
	ci.action(t)
	ci.image(t)

	_, jobs := ci.page(t, "docs/publish/ci.md", 8)
	ci.module(t)
	publishGitHub, plan, apply, inGitLab, publishGitLab, applyGitLab, inGitea, publishGitea := jobs[0], jobs[1], jobs[2], jobs[3], jobs[4], jobs[5], jobs[6], jobs[7]
	ci.run(t, publishGitHub, "GITHUB_REF_NAME=v1.2.3")
	ci.run(t, inGitLab+publishGitLab, "CI_COMMIT_TAG=v1.2.4")
	ci.run(t, plan)
	ci.run(t, apply)
	ci.run(t, inGitLab+applyGitLab)
	ci.gitea(t, inGitea+publishGitea)
	ci.run(t, "okara list net/gateway/aws | grep 1.2.4\nokara state history \"$TF_BACKEND_OCI_REPOSITORY\"\n")
	_, github := ci.page(t, "examples/publish-ci/.github/workflows/publish.yml", 1)
	_, gitlab := ci.page(t, "examples/publish-ci/.gitlab-ci.yml", 2)
	ci.run(t, github[0], "GITHUB_REF_NAME=v1.2.8")
	ci.run(t, gitlab[0]+gitlab[1], "CI_COMMIT_TAG=v1.2.9")
	page, list := ci.page(t, "docs/publish/ci-server.md", 2)
	ci.server(t, page, list[0], list[1])
}

type ciJob struct {
	set           tools
	dir, registry string
	work          string // where scripts run; "": in the module
}

// page returns a file of the repository and the scripts in it, which must be n.
func (c *ciJob) page(t *testing.T, name string, n int) (text string, list []string) {
	t.Helper()
	text = mustRead(t, filepath.Join(c.set.root, name))
	if list = scripts(text); len(list) != n {
		t.Fatalf("%d scripts in %s, want %d", len(list), name, n)
	}
	return text, list
}

// stub puts a program on the PATH of the jobs that a CI machine would have.
func (c *ciJob) stub(t *testing.T, name, script string) {
	t.Helper()
	bin := filepath.Join(c.dir, "stubs")
	succeed(t, os.MkdirAll(bin, 0o755))
	succeed(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nset -e\n"+script), 0o755))
}

// image installs the named image's packages, with the okara under test.
func (c *ciJob) image(t *testing.T) {
	t.Helper()
	c.stub(t, "apk", "test \"$1\" = add\n")
	c.stub(t, "go", "test \"$*\" = 'install github.com/seed-141914ff/okara/cmd/okara@main'\n")
}

// gitea runs the job with the registry in place of Gitea's, from a repository on disk.
func (c *ciJob) gitea(t *testing.T, script string) {
	t.Helper()
	origin := filepath.Join(c.dir, "origin", "acme")
	c.run(t, "git init -q -b main "+filepath.Join(origin, "vpc")+"\ncp main.tf "+filepath.Join(origin, "vpc")+"\n")
	c.run(t, "cd "+filepath.Join(origin, "vpc")+"\ngit add .\ngit -c user.name=a -c user.email=a@example.com commit -qm 'feat: begin'\ngit tag v1.2.7\n")
	c.run(t, "git config --global url."+filepath.Dir(origin)+"/.insteadOf http://"+c.registry+"/\n")
	c.run(t, script, "GITHUB_REF_NAME=v1.2.7", "GITHUB_SERVER_URL=http://"+c.registry, "GITHUB_REPOSITORY=acme/vpc", "GITHUB_ACTOR=ann", "REGISTRY_TOKEN=a-token")
	c.run(t, "okara show net/gateway/aws@1.2.7 --registry "+c.registry+"/acme\n")
}

// action runs the composite action, with a release and without.
func (c *ciJob) action(t *testing.T) {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(c.set.root, "action.yml")))(t)
	list := scripts(string(text))
	if len(list) != 3 {
		t.Fatalf("%d scripts in action.yml, want 3", len(list))
	}
	install, build, set := list[0], list[1], list[2]
	r := newRelease(t, "1.2.3", []byte("#!/bin/sh\necho okara v1.2.3\n"))
	server := httptest.NewServer(r)
	defer server.Close()
	key := filepath.Join(c.dir, "key.pem")
	succeed(t, os.WriteFile(key, r.key, 0o600))
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

// module writes the module for the jobs, which is also a root module.
func (c *ciJob) module(t *testing.T) {
	t.Helper()
	const text = "terraform {\n  backend \"oci\" {}\n}\n\nresource \"terraform_data\" \"vpc\" {}\n"
	succeed(t, os.Mkdir(filepath.Join(c.dir, "work"), 0o755))
	succeed(t, os.WriteFile(filepath.Join(c.dir, "work", "main.tf"), []byte(text), 0o644))
}

func (c *ciJob) run(t *testing.T, script string, env ...string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = c.dir
	if work := cmp.Or(c.work, filepath.Join(c.dir, "work")); isDir(work) {
		cmd.Dir = work
	}
	cmd.Env = append([]string{
		"HOME=" + c.dir, "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "GOFLAGS=" + os.Getenv("GOFLAGS"), "CGO_ENABLED=" + os.Getenv("CGO_ENABLED"),
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"),
		"PATH=" + strings.Join([]string{filepath.Join(c.dir, "stubs"), filepath.Dir(c.set.okara), filepath.Dir(c.set.tofu), os.Getenv("PATH")}, string(os.PathListSeparator)),
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
	out := must(exec.Command("go", "env", name).Output())(t)
	return strings.TrimSpace(string(out))
}

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b := must(os.ReadFile(name))(t)
	return string(b)
}
