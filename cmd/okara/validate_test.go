// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

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

// TestTofuValidateCalled: a module is judged as one that is called, by OpenTofu 1.12.6 and any terraform here: what a root
// module must not have is valid, and what only a root module has is said.
func TestTofuValidateCalled(t *testing.T) {
	tools := []string{tofutest.Tofu(t)}
	if terraform := tofutest.Find("terraform"); terraform != "" {
		tools = append(tools, terraform)
	}
	const provider = "terraform {\n  required_providers {\n    tools = {\n      source = \"terraform.io/builtin/terraform\"\n      configuration_aliases = [tools.east]\n    }\n  }\n}\n" +
		"resource \"terraform_data\" \"a\" {\n  provider = tools.east\n}\n"
	for name, tt := range map[string]struct {
		text, warns string
		tofu        bool // no other tool takes it in each version
	}{
		"ephemeral output": {text: "variable \"size\" {\n  type = object({\n    a = optional(string, \"x\")\n  })\n}\nvariable \"any\" {\n  ephemeral = true\n}\noutput \"e\" {\n  value = var.any\n  ephemeral = true\n}\n"},
		"const source":     {text: "variable \"kind\" {\n  type = string\n  const = true\n}\nmodule \"k\" {\n  source = \"./kinds/${var.kind}\"\n}\n", tofu: true},
		"other provider":   {text: provider},
		"import":           {text: "import {\n  to = terraform_data.a\n  id = \"x\"\n}\nresource \"terraform_data\" \"a\" {}\n", warns: "takes it as a root module, and refuses it where it is called:\nError: Invalid import configuration\n\n  on main.tf line 1:"},
	} {
		for i, tool := range tools {
			if i > 0 && tt.tofu {
				break
			}
			user, dir := newPerson(t), t.TempDir()
			user.env["OKARA_TOFU"] = tool
			must.Succeed(t, os.Mkdir(filepath.Join(dir, "kinds"), 0o700))
			must.Succeed(t, os.CopyFS(dir, fstest.MapFS{"main.tf": {Data: []byte(tt.text)}, "kinds/a/main.tf": {Data: []byte("\n")}}))
			o := user.okara("", "publish", "module", dir, "net/vpc/aws", "1.0.0", "--registry", ocitest.New(t, ocitest.Quirks{}), "--dry-run", "--validate")
			if o.code != cli.ExitOK || strings.Contains(o.err, "refuses") != (tt.warns != "") || !strings.Contains(o.err, tt.warns) {
				t.Errorf("%s with %s: exit %d\n%s", name, tool, o.code, o.err)
			}
		}
	}
}
