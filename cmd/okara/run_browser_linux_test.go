// SPDX-License-Identifier: Apache-2.0

//go:build browser

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// runPerson is the token of the user who runs applies in the test.
const runPerson = "oks_runner_0123456789abcdefghijkl"

const runConfig = `
archives {
  key_files = [%q]
}
ui {
  session_key_files = [%q]
}
tfe {
  runs = "local"
}
instances {
  unsealed = true
}
executor "local" {
  program   = %q
  isolation = "wrap"
  wrap      = ["/usr/bin/env"]
}
organization "acme" {
  execution_mode = "remote"
}
`

const runModule = `
terraform {
  cloud {
    hostname     = "okara.test"
    organization = "acme"
    workspaces {
      name = "shop"
    }
  }
}
resource "terraform_data" "one" {
  input = "first"
  provisioner "local-exec" {
    command = "echo applied on the server"
  }
}
output "text" { value = terraform_data.one.output }
output "secret" {
  value     = strrev("dlot-eb-ot-ton")
  sensitive = true
}
`

// printedRun matches the address of a run that the tool prints.
var printedRun = regexp.MustCompile(`https://okara\.test(/app/acme/shop/runs/\S+)`)

// TestBrowserConfirm runs an apply on the server and confirms it in a browser, at the address
// that the tool prints: the tool continues by itself, and the page shows the log of the apply
// and what it wrote.
func TestBrowserConfirm(t *testing.T) {
	b := webtest.New(t)
	tofu := tofutest.Tofu(t)
	ownName(t)
	home := t.TempDir()
	key := func(s string) string { return newFile(t, "key", strings.Repeat(s, 64)) }
	server := newServeProcess(t, nil, "--token-file", newFile(t, "tokens", runPerson+" write:state:acme run:state:acme\n"),
		"--config", newFile(t, "okara.hcl", fmt.Sprintf(runConfig, key("a"), key("b"), tofu)))
	must.Succeed(t, os.WriteFile(filepath.Join(home, "main.tf"), []byte(runModule), 0o600))
	services := fmt.Sprintf("host \"okara.test\" {\n  services = {\n    \"tfe.v2\" = \"%s/api/v2/\"\n  }\n}\n", server.url)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), tofu, args...)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "HOME="+home, "TF_CLI_CONFIG_FILE="+newFile(t, "tofurc", services), "TF_TOKEN_okara_test="+runPerson)
		return cmd
	}
	leads(t, server.url)
	if out, err := command("init", "-no-color").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	apply, said := command("apply", "-no-color"), &lockedBuffer{}
	apply.Stdout, apply.Stderr = said, said
	answers := must.Get(apply.StdinPipe())(t) // the tool's question stays unanswered
	defer answers.Close()
	must.Succeed(t, apply.Start())
	wait(t, said, "Enter a value")
	at := printedRun.FindStringSubmatch(said.String())
	if at == nil {
		t.Fatalf("no address of a run:\n%s", said)
	}
	p := b.Tab(t, server.url+at[1], webtest.Look{Width: 1280, Theme: "light", Script: true})
	p.Wait("A token of this server")
	p.To("Token")
	p.Press(runPerson)
	p.Enter()
	p.Wait("The plan is ready")
	p.Wait("terraform_data.one will be created")
	p.To("Confirm and apply")
	p.Enter()
	p.Wait("(local-exec): applied on the server")
	p.Wait("1 added, 0 changed, 0 destroyed")
	p.Wait("State, version 1")
	if page := p.Text(); !strings.Contains(page, "first") || strings.Contains(page, "not-to-be-told") {
		t.Errorf("the page shows another output than that which is not sensitive:\n%s", page)
	}
	if err := apply.Wait(); err != nil || !strings.Contains(said.String(), "Apply complete!") {
		t.Errorf("%v\n%s", err, said)
	}
	p.To("State, version 1")
	p.Enter()
	p.Wait("terraform_data")
	p.Go(server.url + "/ui/states/acme/shop")
	p.To("Runs on the server")
	p.Enter()
	p.Wait("Runs of acme/shop")
}

// leads waits until a server executes runs.
func leads(t *testing.T, server string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/api/v2/organizations/acme/capacity", nil))(t)
		r.Header.Set("Authorization", "Bearer "+runPerson)
		resp := must.Get(http.DefaultClient.Do(r))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("nobody leads")
}

// wait waits until a program has printed a text.
func wait(t *testing.T, output *lockedBuffer, text string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(output.String(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not say %q:\n%s", text, output)
		}
	}
}
