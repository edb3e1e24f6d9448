// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cloudBlock keeps a state at a server of this machine: a kind and its workspaces.
const cloudBlock = `  %s {
    hostname     = "okara.test"
    organization = "acme"
    workspaces {
      %s
    }
  }
`

// cloudConfig is where a state is kept, and what an apply does while it runs.
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

// cloud is the home of tools that keep their states at servers.
type cloud struct {
	t    testing.TB
	set  tools
	dir  string
	tool string // program

	before, env []string // arguments and variables of every command
	snapshots   string   // how often servers want states stored while an apply runs; "": at its end
}

func newCloud(t testing.TB, set tools, tool string) *cloud {
	t.Helper()
	return &cloud{t: t, set: set, dir: t.TempDir(), tool: tool}
}

// other is the same home for another tool: Terraform where it is on PATH and c has
// OpenTofu.
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

// serve starts a server over a registry, at an address or any, and returns the
// process and where it listens. States are stored once, at the end of an apply,
// however slow the machine is, unless c says more. Where the test fails, what the
// server refused is shown.
func (c *cloud) serve(name, registry, listen string) (*process, string) {
	c.t.Helper()
	config := filepath.Join(c.dir, name+".hcl")
	text := fmt.Sprintf("access_log = true\ntfe {\n  snapshot_interval = %q\n}\n", cmp.Or(c.snapshots, "0s"))
	if key := filepath.Join(c.dir, "one", "archive.key"); name != "one" { // replicas take each other's addresses of uploads
		text += fmt.Sprintf("archives {\n  key_files = [%q]\n}\n", key)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(c.set.okara, "serve", "--config", config, "--listen", listen, "--registry", registry, "--storage", filepath.Join(c.dir, name))
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	p, addr, err := start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
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

// refusedLine is what a server logs of a request that did not succeed, and of
// anything else than requests. Tools that wait for a lock are no news.
var refusedLine = regexp.MustCompile(`status=(40[0-8]|41|42|5)|level=(WARN|ERROR)`)

// registry starts one, and returns where it listens.
func (c *cloud) registry() string {
	c.t.Helper()
	cmd, err := c.set.registryCommand(filepath.Join(c.dir, "registry"), true)
	if err != nil {
		c.t.Fatal(err)
	}
	p, addr, err := start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.kill)
	return addr
}

// folder makes a folder with a configuration of a kind, cloud or backend "remote".
func (c *cloud) folder(name, block, workspaces, during string) {
	c.t.Helper()
	c.configure(name, fmt.Sprintf(cloudBlock, block, workspaces), during)
}

// configure makes a folder with a configuration that keeps its state anywhere.
func (c *cloud) configure(name, where, during string) {
	c.t.Helper()
	folder := filepath.Join(c.dir, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "main.tf"), fmt.Appendf(nil, cloudConfig, where, during), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// run runs the tool in a folder with a server, and returns what it printed.
func (c *cloud) run(folder, server string, args ...string) (string, error) {
	c.t.Helper()
	config := filepath.Join(c.dir, folder+".tfrc")
	var text strings.Builder
	text.WriteString("host \"okara.test\" {\n  services = {\n")
	for _, service := range []string{"tfe.v2", "tfe.v2.1", "state.v2"} { // for cloud, for remote, for remote that runs here by order
		fmt.Fprintf(&text, "    %q = \"http://%s/api/v2/\"\n", service, server)
	}
	text.WriteString("  }\n}\n")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
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

// recorder passes requests on and remembers their shapes.
type recorder struct {
	proxy *httputil.ReverseProxy

	mu   sync.Mutex // guards sent
	sent []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	part := strings.Split(strings.TrimPrefix(req.URL.Path, "/api/v2/"), "/")
	for i, p := range part {
		if strings.HasPrefix(p, "ws-") || strings.HasPrefix(p, "sv-") || strings.HasPrefix(p, "wsout-") || i > 0 && part[i-1] == "uploads" {
			part[i] = "*"
		}
	}
	r.mu.Lock()
	r.sent = append(r.sent, req.Method+" "+strings.Join(part, "/"))
	r.mu.Unlock()
	r.proxy.ServeHTTP(w, req)
}

// take returns the shapes since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// TestCloudRequests runs every command of the tools and wants exactly the requests
// that the server is made for, and of the server no more at the registry than it is
// allowed.
func TestCloudRequests(t *testing.T) { eachTool(t, testCloudRequests) }

func testCloudRequests(t *testing.T, c *cloud) {
	var asked atomic.Int64
	registry := towards(t, c.registry())
	_, addr := c.serve("one", inFront(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		registry.ServeHTTP(w, r)
	}), "127.0.0.1:0")
	r := &recorder{proxy: towards(t, addr)}
	at := inFront(t, r.ServeHTTP)
	for _, block := range []string{"cloud", `backend "remote"`} {
		folder := strings.Fields(block)[0]
		c.folder(folder, block, `name = "`+folder+`"`, "true")
		for _, cmd := range cloudCommands(block == "cloud") {
			asked.Store(0)
			began := time.Now()
			c.must(folder, at, cmd.args...)
			most := cmd.budget
			if time.Since(began) > sameList {
				most += 2
			}
			if n := int(asked.Load()); n > most {
				t.Errorf("%s %v cost %d requests at the registry, want at most %d", block, cmd.args, n, most)
			}
			got := strings.ReplaceAll(strings.Join(r.take(), "\n"), "workspaces/"+folder, "workspaces/NAME")
			if want := strings.Join(cmd.sends, "\n"); got != want {
				t.Errorf("%s %v sent\n%s\nwant\n%s", block, cmd.args, got, want)
			}
		}
	}
}

// sameList is for how long a server shows a workspace to a command by one list, and
// locks it by that: a command that is slower costs two lists more.
const sameList = 2 * time.Second

// cloudCommand is a command of the tools, what it sends, and how much the server may ask
// the registry for it.
type cloudCommand struct {
	args, sends []string
	budget      int
}

func cloudCommands(cloud bool) []cloudCommand {
	begin := []string{"GET ping", "GET organizations/acme/entitlement-set"}
	read, lock := "GET organizations/acme/workspaces/NAME", "POST workspaces/*/actions/lock"
	current, download, unlock := "GET workspaces/*/current-state-version", "GET state-versions/*/download", "POST workspaces/*/actions/unlock"
	made := []string{read, "POST organizations/acme/workspaces", current}
	write := []string{"POST workspaces/*/state-versions", "PUT uploads/*", "GET state-versions/*"}
	outputs := []string{read, current, download}
	if cloud { // which sends a second copy, and asks for outputs
		made = []string{read, "POST organizations/acme/workspaces", "PATCH workspaces/*", current}
		write = []string{"POST workspaces/*/state-versions", "PUT uploads/*", "PUT uploads/*", "GET state-versions/*"}
		outputs = []string{read, "GET workspaces/*/current-state-version-outputs"}
	}
	join := func(parts ...any) []string {
		list := slices.Clone(begin)
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				list = append(list, p)
			case []string:
				list = append(list, p...)
			}
		}
		return list
	}
	plan := join(read, read, lock, current, download, unlock)
	change := join(read, read, lock, current, download, begin, write, unlock) // the tools begin twice
	return []cloudCommand{
		{[]string{"init"}, join(made), 11},
		{[]string{"apply", "-auto-approve"}, join(read, read, lock, current, current, write, unlock), 20}, // the first of a server, which finds out what the registry can
		{[]string{"plan"}, plan, 9},
		{[]string{"apply", "-auto-approve"}, plan, 9},
		{[]string{"apply", "-auto-approve", "-var", "text=second"}, join(read, read, lock, current, download, write, unlock), 14},
		{[]string{"refresh", "-var", "text=second"}, plan, 9},
		{[]string{"console"}, join(read, lock, current, download, unlock), 9},
		{[]string{"state", "list"}, join(read, current, download), 5},
		{[]string{"state", "pull"}, join(read, current, download), 5},
		{[]string{"output"}, join(outputs), 5},
		{[]string{"state", "mv", "terraform_data.one", "terraform_data.two"}, change, 14},
		{[]string{"state", "rm", "terraform_data.two"}, change, 14},
		{[]string{"import", "-var", "text=second", "terraform_data.one", "x"}, join(read, read, lock, current, download, read, read, write, unlock), 17},
		{[]string{"workspace", "show"}, nil, 0},
	}
}

// eachTool runs a test with every tool there is.
func eachTool(t *testing.T, test func(t *testing.T, c *cloud)) {
	set, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("tofu", func(t *testing.T) { test(t, newCloud(t, set, set.tofu)) })
	t.Run("terraform", func(t *testing.T) {
		needTerraform(t)
		test(t, newCloud(t, set, "terraform"))
	})
}
