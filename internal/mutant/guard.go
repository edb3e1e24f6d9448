// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// Guard is a piece of code that occurs once in a file, and its replacement.
type Guard struct {
	File   string // path relative to the package of the test
	Old    string
	New    string
	And    []Edit // further edits of the same file
	Says   string // part of the output of the failing tests
	Always bool   // also run the tests without OKARA_TEST_MUTANTS
}

// Edit is a replacement of code that occurs once in a file.
type Edit struct{ Old, New string }

func (g Guard) withoutGuard(t *testing.T) string {
	t.Helper()
	src := g.readSource(t)
	for _, e := range append([]Edit{{g.Old, g.New}}, g.And...) {
		if n := strings.Count(src, e.Old); n != 1 {
			t.Fatalf("%s has the guard %d times: %s", g.File, n, e.Old)
		}
		src = strings.Replace(src, e.Old, e.New, 1)
	}
	return src
}

// Wanted is the variable that enables running tests without their guards.
const Wanted = "OKARA_TEST_MUTANTS"

func isWanted() bool { return os.Getenv(Wanted) != "" }

// Check fails the test unless the guard is in its file. If mutants are wanted, it also requires
// that `go test` with args fails without the guard: args name the tests and their package.
func (g Guard) Check(t *testing.T, args ...string) {
	t.Helper()
	src := g.withoutGuard(t)
	if !isWanted() && !g.Always {
		return
	}
	switch out, err := g.runTest(t, src, args); {
	case err == nil:
		t.Errorf("no test fails: %s", out)
	case strings.Contains(string(out), "[build failed]"):
		t.Errorf("it does not build: %s", out)
	case !strings.Contains(string(out), g.Says):
		t.Errorf("no test says %q: %s", g.Says, out)
	}
}

// Whole fails the test unless the same tests pass with the unmodified file. If this
// machine cannot run one of them, it skips t.
func (g Guard) Whole(t *testing.T, args ...string) {
	t.Helper()
	if !isWanted() {
		return
	}
	if out, err := g.runTest(t, g.readSource(t), args); err != nil {
		t.Fatalf("without a mutant: %v: %s", err, out)
	} else if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("this machine cannot tell: %s", out)
	}
}

func (g Guard) readSource(t *testing.T) string {
	t.Helper()
	src := must.Get(os.ReadFile(g.File))(t)
	return string(src)
}

// runTest runs `go test` with the given content of the file.
func (g Guard) runTest(t *testing.T, content string, args []string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(g.File))
	overlay := filepath.Join(dir, "overlay.json")
	original := must.Get(filepath.Abs(g.File))(t)
	body := must.Get(json.Marshal(map[string]map[string]string{"Replace": {original: changed}}))(t)
	for name, b := range map[string][]byte{changed: []byte(content), overlay: body} {
		must.Succeed(t, os.WriteFile(name, b, 0o600))
	}
	c := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-overlay", overlay}, args...)...)
	return c.CombinedOutput()
}
