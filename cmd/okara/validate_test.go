// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestTofuValidate: OpenTofu 1.12.6 refuses what okara's own checks cannot know, and leaves nothing behind.
func TestTofuValidate(t *testing.T) {
	user := newPerson(t)
	user.env["OKARA_TOFU"] = tofutest.Tofu(t)
	host, dir := ocitest.New(t, ocitest.Quirks{}), t.TempDir()
	publish := func(text string, more ...string) outcome {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
		return user.okara("", append([]string{"publish", "module", dir, "net/vpc/aws", "1.0.0", "--registry", host}, more...)...)
	}
	const wrong = "resource \"terraform_data\" \"a\" {\n  inputs = 1\n}\n"
	if o := publish(wrong, "--validate"); o.code == cli.ExitOK || !strings.Contains(o.err, "main.tf:2:3: Unsupported argument") || !strings.Contains(o.err, "--force") {
		t.Errorf("exit %d\n%s", o.code, o.err)
	}
	if o := okara(t, "list", "--registry", host); strings.Contains(o.out, "net/vpc/aws") {
		t.Errorf("published: %s", o.out)
	}
	if o := publish(wrong, "--validate", "--dry-run", "--force"); o.code != cli.ExitOK || !strings.Contains(o.err, "warning: tofu refuses it") {
		t.Errorf("exit %d\n%s", o.code, o.err)
	}
	if o := publish("resource \"terraform_data\" \"a\" {\n  input = 1\n}\n", "--validate"); o.code != cli.ExitOK {
		t.Errorf("exit %d\n%s", o.code, o.err)
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}
