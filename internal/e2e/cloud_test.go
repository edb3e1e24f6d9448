// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cloudBlock stores a state at a server on this machine: a kind and its workspaces.
const cloudBlock = `  %s {
    hostname     = "okara.test"
    organization = "acme"
    workspaces {
      %s
    }
  }
`

// cloudConfig sets where a state is stored, and what an apply does while it runs.
const cloudConfig = `terraform {
%s}

variable "text" {
  type    = string
  default = "first"
}

resource "terraform_data" "one" {
  input            = var.text
  triggers_replace = var.text

  provisioner "local-exec" {
    command = %q
  }
}

output "text" {
  value = terraform_data.one.output
}
`

// cloud is a home directory for tools that store their states at servers.
type cloud struct {
	t    testing.TB
	set  tools
	dir  string
	tool string // program

	before, env []string // arguments and variables of every command
	services    string   // further services of the host
	settings    string   // further configuration of the tools
	sealed      bool     // servers that execute runs have a state key
	snapshots   string   // how often servers request states while an apply runs; "": only at its end
}

func newCloud(t testing.TB, set tools, tool string) *cloud {
	t.Helper()
	return &cloud{t: t, set: set, dir: t.TempDir(), tool: tool}
}

// other is the same home for the other tool: Terraform, if it is on PATH and c uses OpenTofu.
func (c *cloud) other() *cloud {
	o := *c
	o.tool = c.set.tofu
	if c.tool == c.set.tofu {
		if name, err := exec.LookPath("terraform"); err == nil {
			o.tool = name
		}
	}
	return &o
}

// serve starts a server over a registry. States are stored once, at the end, unless c sets
// snapshots. A failed test prints what was refused.
func (c *cloud) serve(name, registry, listen string) (*process, string) {
	c.t.Helper()
	config := filepath.Join(c.dir, name+".hcl")
	text := fmt.Sprintf("access_log = true\ntfe {\n  snapshot_interval = %q\n}\n", cmp.Or(c.snapshots, "0s"))
	if key := filepath.Join(c.dir, "one", "archive.key"); name != "one" { // replicas accept one another's upload addresses
		text += fmt.Sprintf("archives {\n  key_files = [%q]\n}\n", key)
	}
	succeed(c.t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.Command(c.set.okara, "serve", "--config", config, "--listen", listen, "--registry", registry, "--storage", filepath.Join(c.dir, name))
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	p, addr := mustBoth(start(cmd))(c.t)
	c.t.Cleanup(func() {
		p.kill()
		if !c.t.Failed() {
			return
		}
		for line := range strings.Lines(p.log.String()) {
			if refusedLine.MatchString(line) {
				c.t.Logf("server %s: %s", name, strings.TrimSpace(line))
			}
		}
	})
	return p, addr
}

// refusedLine matches the log of a failed request; waiting for a lock is normal.
var refusedLine = regexp.MustCompile(`status=(40[0-8]|41|42|5)|level=(WARN|ERROR)`)

// registry starts a registry, and returns its address.
func (c *cloud) registry() string {
	c.t.Helper()
	cmd := must(c.set.registryCommand(filepath.Join(c.dir, "registry"), true))(c.t)
	p, addr := mustBoth(start(cmd))(c.t)
	c.t.Cleanup(p.kill)
	return addr
}

// folder makes a folder with a configuration of a kind, cloud or backend "remote".
func (c *cloud) folder(name, block, workspaces, during string) {
	c.t.Helper()
	c.configure(name, fmt.Sprintf(cloudBlock, block, workspaces), during)
}

// configure makes a folder with a configuration that stores its state anywhere.
func (c *cloud) configure(name, where, during string) {
	c.t.Helper()
	folder := filepath.Join(c.dir, name)
	succeed(c.t, os.MkdirAll(folder, 0o755))
	succeed(c.t, os.WriteFile(filepath.Join(folder, "main.tf"), fmt.Appendf(nil, cloudConfig, where, during), 0o644))
}

// run runs the tool in a folder with a server, and returns what it printed.
func (c *cloud) run(folder, server string, args ...string) (string, error) {
	c.t.Helper()
	config := filepath.Join(c.dir, folder+".tfrc")
	var text strings.Builder
	text.WriteString("host \"okara.test\" {\n  services = {\n")
	for _, service := range []string{"tfe.v2", "tfe.v2.1", "state.v2"} { // for cloud, for remote, for remote with local operations
		fmt.Fprintf(&text, "    %q = \"http://%s/api/v2/\"\n", service, server)
	}
	text.WriteString(c.services + "  }\n}\n" + c.settings)
	succeed(c.t, os.WriteFile(config, []byte(text.String()), 0o600))
	cmd := exec.Command(c.tool, append(slices.Clone(c.before), args...)...)
	cmd.Dir = filepath.Join(c.dir, folder)
	cmd.Env = append(os.Environ(), "HOME="+c.dir, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0",
		"TF_CLI_CONFIG_FILE="+config, "TF_TOKEN_okara_test=any")
	cmd.Env = append(cmd.Env, c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// okara runs okara, and returns what it printed.
func (c *cloud) okara(args ...string) (string, error) {
	cmd := exec.Command(c.set.okara, args...)
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	out, err := cmd.Output()
	return string(out), err
}

func (c *cloud) must(folder, server string, args ...string) string {
	c.t.Helper()
	out, err := c.run(folder, server, args...)
	if err != nil {
		c.t.Fatalf("%s: %s %s: %v\n%s", folder, filepath.Base(c.tool), strings.Join(args, " "), err, out)
	}
	return out
}

// eachTool runs a test with every available tool.
func eachTool(t *testing.T, test func(t *testing.T, c *cloud)) {
	set := must(findTools())(t)
	t.Run("tofu", func(t *testing.T) { test(t, newCloud(t, set, set.tofu)) })
	t.Run("terraform", func(t *testing.T) {
		needTerraform(t)
		test(t, newCloud(t, set, "terraform"))
	})
}
