// SPDX-License-Identifier: Apache-2.0

package repotest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mountFile is the only file of cmd/okara that depends on instances. coreAlone replaces
// it in a build of the core only.
const (
	mountFile = "cmd/okara/instances.go"
	coreAlone = `package main

import (
	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/server"
)

func newExtension() server.Extension { return nil }

func addInstances(_, _ *cobra.Command, _ *cli.Registries) {}
`
)

// TestCoreAlone compiles okara without the file that mounts instances: no other part of
// the core may need a package of that platform.
func TestCoreAlone(t *testing.T) {
	replaced, err := filepath.Abs(filepath.Join("../..", mountFile))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, stub := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "instances.go")
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {replaced: stub}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{overlay: string(doc), stub: coreAlone} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-overlay", overlay, "./cmd/okara")
	cmd.Dir = "../.."
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut.String())
	}
	for needed := range strings.FieldsSeq(string(out)) {
		if our, ok := strings.CutPrefix(needed, module+"/"); ok && within(our, "instances") {
			t.Errorf("the core needs %s without mounting it", our)
		}
	}
}
