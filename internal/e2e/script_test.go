// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Versions of the pinned tools, as built by the Makefile of the repository.
const (
	tofuVersion     = "1.12.6"
	timeVersion     = "0.14.2"
	registryVersion = "3.1.2"
	jqVersion       = "0.12.17" // of gojq
)

// tools are the absolute names of the programs under test.
type tools struct {
	root, okara, tofu, registry, dist, jq string
	provider                              string // a release of okara's own provider
	key                                   string // file with an OpenPGP key, made for this test run
}

func findTools() (tools, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return tools{}, err
	}
	cache := filepath.Join(root, ".cache")
	t := tools{
		root:     root,
		okara:    filepath.Join(root, "bin", "okara"),
		tofu:     filepath.Join(cache, "tofu", tofuVersion, "tofu"),
		registry: filepath.Join(cache, "registry", registryVersion, "registry"),
		jq:       filepath.Join(cache, "jq", jqVersion, "jq"),
		dist:     filepath.Join(cache, "provider", "time", timeVersion),
		provider: filepath.Join(root, "bin", "provider"),
	}
	if other := os.Getenv("OKARA_TEST_TOFU"); other != "" {
		t.tofu = other
	}
	return t, nil
}

// newKey makes the key that signs providers, in a folder of the test.
func (s *tools) newKey(t testing.TB) {
	t.Helper()
	cmd := exec.Command(s.okara, "keys", "new", "--name", "e2e", "--dir", t.TempDir(), "--json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("okara keys new: %v", err)
	}
	var made struct {
		Private string `json:"private"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatalf("okara keys new: %v", err)
	}
	s.key = made.Private
}

// TestMain builds missing tools, which takes minutes the first time.
func TestMain(m *testing.M) {
	build := exec.Command("make", "-s", "-C", "../..", "tools")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "make tools:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestTofu(t *testing.T) {
	runScripts(t, "each", "tofu")
	runScripts(t, "tofu", "tofu")
}

func TestTerraform(t *testing.T) {
	needTerraform(t)
	runScripts(t, "each", "terraform")
}

func TestBoth(t *testing.T) {
	needTerraform(t)
	runScripts(t, "both", "")
}

// Variables with programs that only `make interop` builds.
const (
	trivyVar  = "OKARA_TEST_TRIVY"
	cosignVar = "OKARA_TEST_COSIGN"
)

// TestTrivy scans with the real Trivy.
//
// Shows: opendepot 11
func TestTrivy(t *testing.T) {
	needInterop(t, trivyVar)
	runScripts(t, "trivy", "tofu")
}

// TestCosign signs and verifies with the real cosign.
//
// Shows: opendepot 10
func TestCosign(t *testing.T) {
	needInterop(t, cosignVar)
	runScripts(t, "cosign", "tofu")
}

func needInterop(t *testing.T, name string) {
	t.Helper()
	if os.Getenv(name) == "" {
		t.Skip(name + " is not set; `make interop` sets it, since this is too slow for `make test`")
	}
}

// needTerraform skips a test if no supported terraform is on PATH.
func needTerraform(t *testing.T) {
	t.Helper()
	name, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not on PATH; its licence keeps it from being built here")
	}
	cmd := exec.Command(name, "version", "-json")
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("terraform version: %v", err)
	}
	var v struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("terraform version: %v", err)
	}
	parts := strings.SplitN(v.Version, ".", 3)
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		t.Fatalf("terraform version %q: %v", v.Version, err)
	}
	if parts[0] == "1" && minor < 10 {
		t.Skipf("terraform %s is on PATH; okara needs 1.10 or newer", v.Version)
	}
}

func runScripts(t *testing.T, folder, tool string) {
	t.Helper()
	set := must(findTools())(t)
	set.newKey(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", folder),
		RequireExplicitExec: true,
		Setup:               func(env *testscript.Env) error { return set.setup(env, tool) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"registry": set.startRegistry,
			"serve":    set.startOkara,
			"halt":     halt,
			"save":     save,
			"post":     post,
			"says":     checkWords,
		},
	})
}

// setup gives a script an empty home, and the tools on its PATH.
func (s tools) setup(env *testscript.Env, tool string) error {
	home := filepath.Join(env.WorkDir, ".home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	path := []string{filepath.Dir(s.okara), filepath.Dir(s.tofu), os.Getenv("PATH")}
	for _, name := range []string{trivyVar, cosignVar} {
		if program := os.Getenv(name); program != "" {
			path = append([]string{filepath.Dir(program)}, path...)
		}
	}
	env.Setenv("HOME", home)
	env.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
	env.Setenv("TOOL", tool)
	env.Setenv("DIST", s.dist)
	env.Setenv("PROVIDER", s.provider)
	env.Setenv("KEY", s.key)
	env.Setenv("MODULES", filepath.Join(s.root, "testdata", "modules"))
	env.Setenv("CHECKPOINT_DISABLE", "1")
	env.Setenv("TF_IN_AUTOMATION", "1")
	env.Setenv("TF_INPUT", "0")
	env.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(env.WorkDir, "cli.tfrc"))
	env.Values[processesKey{}] = &processes{}
	env.Defer(env.Values[processesKey{}].(*processes).killAll)
	return os.WriteFile(filepath.Join(env.WorkDir, "cli.tfrc"), nil, 0o600)
}

// save stores the output of the last command in a variable: save stdout VAR.
func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: save stdout|FILE VAR")
	}
	ts.Setenv(args[1], strings.TrimSpace(ts.ReadFile(args[0])))
}

// checkWords implements says TEXT: the last command printed it, however the tool broke its lines.
func checkWords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: says TEXT")
	}
	printed := strings.ReplaceAll(ts.ReadFile("stdout")+ts.ReadFile("stderr"), `\"`, `"`)
	if printed = strings.Join(strings.Fields(printed), " "); !strings.Contains(printed, args[0]) {
		ts.Fatalf("%q is not in %s", args[0], printed)
	}
}

// post sends a file as a backend would, and expects a status.
func post(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: post URL FILE STATUS [USER:PASSWORD]")
	}
	req, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	if len(args) == 4 {
		user, password, _ := strings.Cut(args[3], ":")
		req.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	resp.Body.Close()
	if got := strconv.Itoa(resp.StatusCode); got != args[2] {
		ts.Fatalf("POST %s: %s, want %s", args[0], got, args[2])
	}
}
