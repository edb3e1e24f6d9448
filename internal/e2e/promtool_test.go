// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPromtool checks alerts, when they fire, and the scrape configuration.
func TestPromtool(t *testing.T) {
	program := os.Getenv("OKARA_TEST_PROMTOOL")
	if program == "" {
		t.Skip("make interop builds promtool for this")
	}
	set := must(findTools())(t)
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "rules.test.yaml"}, {"check", "config", "--syntax-only", "scrape.yaml"},
	} {
		cmd := exec.Command(program, args...)
		cmd.Dir = filepath.Join(set.root, "deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}
