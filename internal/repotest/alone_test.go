// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
)

// mountFile is cmd/okara's one file that depends on instances.
const (
	mountFile = "cmd/okara/instances.go"
	coreAlone = `package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/server"
)

func newExtension() server.Extension { return nil }

func checkEnvironment(string) error { return nil }

func addInstances(_, _ *cobra.Command, _ *cli.Registries) {}
`
)

// TestCoreAlone compiles okara without instances and the file that mounts it. With OKARA_TEST_CORE
// it runs the core's tests, except those of [mounts].
func TestCoreAlone(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	overlay, stub := filepath.Join(t.TempDir(), "overlay.json"), filepath.Join(t.TempDir(), "instances.go")
	replace := map[string]string{filepath.Join(root, mountFile): stub}
	for _, name := range tracked(t) {
		if within(name, "instances") && path.Ext(name) == ".go" {
			replace[filepath.Join(root, name)] = "" // as if there were no such file
		}
	}
	doc := must.Get(json.Marshal(map[string]any{"Replace": replace}))(t)
	for name, text := range map[string]string{overlay: string(doc), stub: coreAlone} {
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -overlay="+overlay)
	goTool(t, io.Discard, "list", "-export", "-deps", "./cmd/okara")
	if os.Getenv("OKARA_TEST_CORE") == "" {
		return
	}
	var all strings.Builder
	goTool(t, &all, "list", "./...")
	args := []string{"test", "-vet=off", "-timeout", "30m"}
	for p := range strings.FieldsSeq(all.String()) {
		name := strings.TrimPrefix(p, module+"/")
		if _, apart := mounts[name]; !apart && name != "internal/repotest" { // which is about the whole tree
			args = append(args, p)
		}
	}
	goTool(t, os.Stdout, args...)
}

// goTool runs go in the root module.
func goTool(t *testing.T, out io.Writer, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "../..", out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s: %v", args[0], err)
	}
}
