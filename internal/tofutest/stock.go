// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Stock is an unmodified tool on this machine: the judge of what [Client]
// believes about it.
type Stock struct {
	Name string // "tofu" or "terraform"
	Path string
}

// StockTools returns the tools that there are. Without any the test is skipped.
func StockTools(t testing.TB) []Stock {
	t.Helper()
	var tools []Stock
	for _, name := range []string{"tofu", "terraform"} {
		if path := Find(name); path != "" {
			tools = append(tools, Stock{name, path})
		}
	}
	if len(tools) == 0 {
		t.Skip("there is neither tofu nor terraform")
	}
	return tools
}

// Find returns a program that a variable such as OKARA_TEST_TOFU names, that is
// on PATH, or that make has built in the repository; "" if there is none.
func Find(name string) string {
	if path := os.Getenv("OKARA_TEST_" + strings.ToUpper(name)); path != "" {
		return path
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		built, _ := filepath.Glob(filepath.Join(dir, ".cache", name, "*", name)) // the pattern is well formed
		if len(built) > 0 {
			return built[len(built)-1]
		}
	}
	return ""
}

// Platform is that of this machine, as packages are named.
func Platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// UseProvider is a root module that needs one provider.
func UseProvider(source string) map[string]string {
	return map[string]string{"main.tf": fmt.Sprintf("terraform {\n  required_providers {\n    it = {\n      source = %q\n    }\n  }\n}\n", source)}
}

// Run runs the tool in a folder with an empty home and this CLI configuration,
// and returns all that it printed. env is added to the environment.
func (s Stock) Run(t testing.TB, dir, config string, env []string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "cli.tfrc")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+home, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE="+file)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Init runs init on a root module of these files in a new folder, which it
// returns too.
func (s Stock) Init(t testing.TB, files map[string]string, config string, env ...string) (dir, out string, err error) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err = s.Run(t, dir, config, env, "init", "-no-color")
	return dir, out, err
}
