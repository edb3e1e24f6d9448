// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCIMonorepo runs docs/publish/ci-monorepo.md's jobs: only changed modules, the part that
// commits or a label select, and a pull request with planned versions and breaks.
//
// Shows: jobs 3
func TestCIMonorepo(t *testing.T) {
	set := must(findTools())(t)
	dir := t.TempDir()
	c := &monorepo{ciJob: ciJob{set: set, dir: dir, registry: set.runRegistry(t, dir), work: filepath.Join(dir, "repo")}}
	_, jobs := c.page(t, "docs/publish/ci-monorepo.md", 5)
	comment, publish, inGitLab, commentGitLab, publishGitLab := jobs[0], jobs[1], jobs[2], jobs[3], jobs[4]
	c.image(t)
	c.gh(t, "commits")

	c.commit(t, "feat: begin", map[string]string{"vpc": "variable \"cidr\" {}\n", "dns": "variable \"zone\" {}\n"})
	c.run(t, publish, c.github(t)...)
	c.versions(t, "vpc", "0.1.0")
	c.versions(t, "dns", "0.1.0")

	c.commit(t, "feat: take a name\n\nIt is optional.", map[string]string{"vpc": "variable \"cidr\" {}\nvariable \"name\" {\n  default = \"\"\n}\n"})
	c.run(t, comment, append(c.github(t), "PULL_REQUEST=7")...)
	said := mustRead(t, filepath.Join(dir, "comment of 7"))
	for _, want := range []string{"| acme/vpc/aws | 0.1.0 | **0.2.0** |", "added input `name`", "commit: `feat: take a name`", "Unchanged: 1."} {
		if !strings.Contains(said, want) {
			t.Errorf("the comment lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "dns") || strings.Contains(said, "begin") {
		t.Errorf("the comment tells of what has not changed:\n%s", said)
	}
	c.versions(t, "vpc", "0.1.0")
	c.run(t, publish, c.github(t)...)
	c.run(t, publish, c.github(t)...) // again: no changes
	c.versions(t, "vpc", "0.2.0 0.1.0")
	c.versions(t, "dns", "0.1.0")
	c.run(t, "okara show acme/vpc/aws | grep 'change  *feat: take a name'\n")

	c.gh(t, "major")
	c.commit(t, "fix: a word", map[string]string{"vpc": "variable \"cidr\" {}\nvariable \"name\" {}\n"})
	c.run(t, publish, c.github(t)...)
	c.versions(t, "vpc", "1.0.0 0.2.0 0.1.0")

	c.gitLab(t, inGitLab, commentGitLab, publishGitLab)
}

// monorepo is the git repository of a test.
type monorepo struct{ ciJob }

// gh replaces the GitHub command: a label on the pull request, and its comments.
func (c *monorepo) gh(t *testing.T, label string) {
	c.stub(t, "gh", `case "$1 $2" in
"pr list") echo `+label+` ;;
"pr comment") cp "$7" "`+c.dir+`/comment of $3" ;;
*) exit 1 ;;
esac
`)
}

func (c *monorepo) commit(t *testing.T, message string, modules map[string]string) {
	t.Helper()
	for name, text := range modules {
		folder := filepath.Join(c.work, "modules", name)
		succeed(t, os.MkdirAll(folder, 0o755))
		succeed(t, os.WriteFile(filepath.Join(folder, "main.tf"), []byte(text), 0o644))
	}
	c.run(t, `git init -q
git add modules
git -c user.name=a -c user.email=a@example.com commit -qm "$MESSAGE"
`, "MESSAGE="+message)
}

// head returns the commit that a job runs for.
func (c *monorepo) head(t *testing.T) string {
	t.Helper()
	out := must(exec.Command("git", "-C", c.work, "rev-parse", "HEAD").Output())(t)
	return strings.TrimSpace(string(out))
}

func (c *monorepo) github(t *testing.T) []string {
	return []string{"GITHUB_SHA=" + c.head(t), "GITHUB_REPOSITORY=acme/modules"}
}

// versions fails unless the module has exactly these versions, highest first.
func (c *monorepo) versions(t *testing.T, module, want string) {
	t.Helper()
	c.run(t, `test "$(okara list acme/`+module+`/aws | awk '{print $1}' | tr '\n' ' ')" = "`+want+` "`)
}

// gitLab runs the GitLab jobs with curl, which sends the comment to a server of the test.
func (c *monorepo) gitLab(t *testing.T, image, comment, publish string) {
	t.Helper()
	var said, token string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		said, token = r.PostFormValue("body"), r.Header.Get("PRIVATE-TOKEN")
	}))
	defer api.Close()
	c.commit(t, "feat(dns): no zone any more", map[string]string{"dns": "variable \"name\" {}\n"})
	env := []string{"CI_COMMIT_SHA=" + c.head(t), "CI_API_V4_URL=" + api.URL, "CI_PROJECT_ID=5", "CI_MERGE_REQUEST_IID=6", "COMMENT_TOKEN=a-token"}
	if hasTools("curl") {
		c.run(t, image+comment, env...)
		if !strings.Contains(said, "removed input `zone` (breaks callers)") || token != "a-token" {
			t.Errorf("the comment, with token %q:\n%s", token, said)
		}
	}
	c.run(t, image+publish, env...)
	c.versions(t, "dns", "0.2.0 0.1.0")
}
