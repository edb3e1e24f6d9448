// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/seed-141914ff/okara/internal/must"
)

// Find returns the path of a program that a variable such as OKARA_TEST_TOFU names, that
// is on PATH, or that make has built in the repository. It returns "" if there is none.
func Find(name string) string {
	if path := os.Getenv("OKARA_TEST_" + strings.ToUpper(name)); path != "" {
		return path
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	built, _ := filepath.Glob(filepath.Join(repositoryRoot(), ".cache", name, "*", name)) // the pattern is well formed
	if len(built) > 0 {
		return built[len(built)-1]
	}
	return ""
}

// Tofu returns the absolute path of a stock tofu. The first call on a fresh machine waits
// until make has built it.
func Tofu(t testing.TB) string {
	t.Helper()
	if path := Find("tofu"); path != "" && !strings.HasPrefix(path, repositoryRoot()) {
		return mustAbs(t, path)
	}
	return builtPath(t, "tofu", func() string { return Find("tofu") })
}

// TimeVersion is the version of [TimeProvider].
const TimeVersion = "0.14.2"

// TimeProvider returns the path of the zip of the stock provider hashicorp/time for this platform.
func TimeProvider(t testing.TB) string {
	t.Helper()
	name := filepath.Join(repositoryRoot(), ".cache", "provider", "time", TimeVersion, "terraform-provider-time_"+TimeVersion+"_"+Platform()+".zip")
	return builtPath(t, "the provider", func() string {
		if _, err := os.Stat(name); err != nil {
			return ""
		}
		return name
	})
}

// builtPath returns the absolute path that find returns once make has built it.
func builtPath(t testing.TB, what string, find func() string) string {
	t.Helper()
	cache := filepath.Join(repositoryRoot(), ".cache")
	must.Succeed(t, os.MkdirAll(cache, 0o755))
	unlock := must.Get(lockedfile.MutexAt(filepath.Join(cache, "lock")).Lock())(t) // tests of several packages run at the same time
	defer unlock()
	if path := find(); path != "" {
		return mustAbs(t, path)
	}
	if out, err := exec.Command("make", "-s", "-C", repositoryRoot(), "tools").CombinedOutput(); err != nil {
		t.Fatalf("%s is missing, and make tools: %v\n%s", what, err, out)
	}
	return mustAbs(t, find())
}

// Bubblewrap returns the path of the program that sandboxes a run. Without it, or if the
// machine does not let it create namespaces, the test is skipped.
func Bubblewrap(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("bwrap")
	if err == nil {
		var out []byte
		out, err = exec.Command(path, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true").CombinedOutput()
		if err != nil {
			err = errors.New(err.Error() + ": " + strings.TrimSpace(string(out)))
		}
	}
	if err != nil {
		t.Skipf("no sandbox can be made here (apt-get install bubblewrap, and allow user namespaces): %v", err)
	}
	return path
}

// repositoryRoot returns the folder of the repository: the nearest parent with a Makefile.
func repositoryRoot() string {
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil {
			return dir
		}
	}
	return ""
}

func mustAbs(t testing.TB, path string) string {
	t.Helper()
	path = must.Get(filepath.Abs(path))(t)
	return path
}
