// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestTofuOnImmutableTags runs tofu on registries that keep state-W at the first version: plan,
// with and without a lock, output and another module's outputs have the newest state, in a
// process that has no earlier knowledge.
//
// Shows: rules 1
func TestTofuOnImmutableTags(t *testing.T) {
	tofu := tofutest.Tofu(t)
	for name, rules := range map[string]ocitest.Refusals{
		"rule": {Immutable: []string{"*"}}, "account": {NoUpdate: true, NoDelete: true},
	} {
		t.Run(name, func(t *testing.T) {
			repository := refusingRepository(t, rules)
			u := newPerson(t)
			okara := u.okaraProgram()
			block := func(dir string) {
				u.file(dir+"/main.tf", fmt.Sprintf(`terraform {
  backend "oci" {
    repository = %q
  }
}

variable "text" {}

resource "terraform_data" "one" {
  input = var.text
}

output "text" {
  value = terraform_data.one.output
}
`, repository))
			}
			block("writer")
			block("other")
			u.file("reader/main.tf", fmt.Sprintf(`data "terraform_remote_state" "one" {
  backend = "oci"
  config = {
    repository = %q
  }
}

output "text" {
  value = data.terraform_remote_state.one.outputs.text
}
`, repository))
			run := func(dir string, args ...string) string {
				t.Helper()
				cmd := exec.Command(okara, append([]string{"tofu"}, args...)...)
				cmd.Dir = filepath.Join(u.home, dir)
				cmd.Env = append(os.Environ(), "HOME="+u.home, "OKARA_TOFU="+tofu, "TF_INPUT=0", "TF_CLI_ARGS=-no-color")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: tofu %v: %v\n%s", dir, args, err, out)
				}
				return string(out)
			}
			run("writer", "init")
			var said strings.Builder
			for _, text := range []string{"one", "two", "three"} {
				said.WriteString(run("writer", "apply", "-auto-approve", "-var", "text="+text))
			}
			if !strings.Contains(said.String(), "exempt state-*, locked-* and unlocked-*") || strings.Contains(said.String(), "next lock repairs") {
				t.Errorf("apply said\n%s", said.String())
			}
			run("other", "init")
			for _, args := range [][]string{
				{"plan", "-detailed-exitcode", "-var", "text=three"}, {"plan", "-detailed-exitcode", "-lock=false", "-var", "text=three"},
			} {
				run("other", args...)
			}
			if out := run("other", "output", "-raw", "text"); !strings.HasSuffix(out, "three") {
				t.Errorf("output: %s", out)
			}
			run("reader", "init")
			if out := run("reader", "apply", "-auto-approve"); !strings.Contains(out, `text = "three"`) {
				t.Errorf("another module's outputs:\n%s", out)
			}
			run("other", "apply", "-auto-approve", "-lock=false", "-var", "text=four")
			run("writer", "plan", "-detailed-exitcode", "-lock=false", "-var", "text=four")
		})
	}
}
