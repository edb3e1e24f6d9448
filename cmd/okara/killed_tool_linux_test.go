// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestKilledAboveTool shows that a tool does not outlive a killed okara: it is ended properly,
// and the next run names the state that could not be stored.
func TestKilledAboveTool(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.tf": `terraform {
  backend "oci" {
    repository = "` + ocitest.New(t, ocitest.Quirks{}) + `/infra/state"
  }
}`,
		"tool": `#!/bin/sh
case $1 in
version) echo '{"terraform_version":"1.12.6"}' ;;
plan) ;;
*)
	trap 'echo "{}" >errored.tfstate; echo ended >ended; exit' TERM
	echo $$ >pid.new; mv pid.new pid
	while :; do sleep 0.1; done ;;
esac
`,
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	run := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "okara", "tofu", command)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir(), "OKARA_TOFU=" + filepath.Join(dir, "tool")}
		return cmd
	}
	okara := run("apply")
	must.Succeed(t, okara.Start())
	waitForFile(t, filepath.Join(dir, "pid"))
	must.Succeed(t, okara.Process.Kill())
	_ = okara.Wait() // was killed
	waitForFile(t, filepath.Join(dir, "ended"))

	out, err := run("plan").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{`/infra/state; the tool calls it "s3"`, "errored.tfstate is a state that an earlier run could not store\nhint: "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output without %q:\n%s", want, out)
		}
	}
}

// waitForFile returns when another process has made a file.
func waitForFile(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s does not appear", name)
		case <-tick.C:
		}
	}
}
