// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// document decodes out, which has to be a single JSON document.
func document(out string) (doc any, ok bool) {
	d := json.NewDecoder(strings.NewReader(out))
	if d.Decode(&doc) != nil {
		return nil, false
	}
	_, err := d.Token()
	return doc, err == io.EOF
}

// failure returns the exit code in the document of a failed command line.
func failure(doc any) (code int, failed bool) {
	fields, _ := doc.(map[string]any)
	e, failed := fields["error"].(map[string]any)
	n, _ := e["code"].(float64)
	return int(n), failed
}

// jsonLines are successful command lines, in this order.
const jsonLines = `
publish module MODULE net/json/aws 1.0.0
publish module MODULE net/json/aws 1.1.0 --dry-run
publish modules ROOT many/{name}/aws --version 1.0.0
publish provider RELEASE acme/dns 1.0.0 --sign-key KEYS/ID.asc
list
list net/json/aws
used-by net/json/aws
outdated
show net/json/aws
show acme/dns
pull net/json/aws@1.0.0 DIR/pulled
publish attachment net/json/aws@1.0.0 SBOM
compare net/json/aws 1.0.0 1.0.0
publish package REGISTRY/modules/net/json/aws:1.0.0 net/converted/aws 1.0.0
deprecate net/json/aws@1.0.0 -m old
deprecate net/json/aws@1.0.0 --undo
yank net/json/aws@1.0.0 -m old
yank net/json/aws@1.0.0 --undo
sign net/json/aws@1.0.0 --cosign-key KEYS/okara-cosign.key
verify net/json/aws@1.0.0
admin prune net/json/aws --keep 1 --dry-run
admin prune net/json/aws --keep 1 --yes
bundle create DIR/whole.tar net/json/aws
bundle show DIR/whole.tar
bundle verify DIR/whole.tar
bundle load DIR/whole.tar --registry REGISTRY/air
mirror acme/dns --from PACKAGES --allow-unsigned --registry REGISTRY/copy
lock EMPTYROOT
depot validate DEPOT
depot plan DEPOT
depot apply DEPOT
depot status DEPOT
depot import EMPTYROOT
keys list --dir KEYS
keys new --ed25519 --name second --dir KEYS
keys export ID --dir KEYS
keys import KEYS/ID.pub.asc
keys rotate ID --dir KEYS
keys revoke ID --dir KEYS
admin token new ci read:module:** --token-file DIR/tokens
admin token list --token-file DIR/tokens
admin token new json2 read:*:** --token-file DIR/tokens
admin token revoke json2 --token-file DIR/tokens
admin doctor REGISTRY/infra/probe
admin doctor artifacts
admin gc --storage DIR/storage
admin audit
auth explain REGISTRY --offline
cli-config http://127.0.0.1:8080
logout REGISTRY
docs start
man DIR/man
version
instance template validate TEMPLATE
instance template publish TEMPLATE 1.0.0
state list REGISTRY/infra/state
state show REGISTRY/infra/state
state uses REGISTRY/infra/state
state history REGISTRY/infra/state
state pull REGISTRY/infra/state -o DIR/pulled.tfstate
state push REGISTRY/infra/state STATE
state diff REGISTRY/infra/state 1 2
state restore REGISTRY/infra/state 1
state locks REGISTRY/infra/state
state keys REGISTRY/infra/state
state prune REGISTRY/infra/state --keep 1 --dry-run
state import REGISTRY/infra/imported STATE
state replicate REGISTRY/infra/state REGISTRY/infra/copy
state delete REGISTRY/infra/imported -w default --yes
`

// TestJSON: with --json each command prints one document, or refuses the flag. Those that change a
// registry do so without a write with --dry-run.
//
// Shows: mistakes 30
// Shows: mistakes 42
func TestJSON(t *testing.T) {
	t.Chdir(t.TempDir())
	shown := jsonSuccesses(t)
	for _, elsewhere := range []string{ // these need standard input, a server, a key service, a tool or a lock
		"instance", "workspace", "admin doctor instances", "serve", "admin scan", "depot approve",
		"auth token", "auth emit", "login", "state unlock", "state rekey", "state decrypt",
	} {
		shown[elsewhere] = true
	}
	everyCommand(t, func(c *cobra.Command) {
		if c.Hidden || c.CommandPath() == "okara serve" { // it would serve
			return
		}
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "okara"), " ")
		o := okara(t, append(strings.Fields(path), "--json")...)
		doc, ok := document(o.out)
		code, failed := failure(doc)
		switch refused := strings.Contains(o.err, c.CommandPath()+" does not support --json: "); {
		case !ok || failed && code != o.code || failed == (o.code == 0):
			t.Errorf("%s: exit %d, and no document:\n%s%s", c.CommandPath(), o.code, o.out, o.err)
		case refused && (o.code != cli.ExitUsage || !strings.Contains(o.err, "hint: ")):
			t.Errorf("%s refuses with exit %d: %s", c.CommandPath(), o.code, o.err)
		case refused || !c.Runnable() || c.CommandPath() == "okara exec" || c.CommandPath() == "okara instance logs":
		case !shown[path] && !shown[strings.Fields(path)[0]]:
			t.Errorf("%s: no line shows its document", c.CommandPath())
		}
	})
	for _, line := range []string{"exec --json -- true", "tofu --json plan", "--json terraform plan", "instance logs x --json", "completion bash --json", "help state --json"} {
		if o := okara(t, strings.Fields(line)...); o.code != cli.ExitUsage || !strings.Contains(o.err, "does not support --json") {
			t.Errorf("%s: exit %d: %s", line, o.code, o.err)
		}
	}
}

// jsonSuccesses runs the lines, and returns the commands that printed a document.
func jsonSuccesses(t *testing.T) map[string]bool {
	t.Helper()
	u := newBadUsage(t)
	dir, root, release := t.TempDir(), t.TempDir(), newRelease(t, 1, 100)
	packages := filepath.Join(dir, "packages")
	t.Setenv("HOME", dir)
	for _, made := range []string{filepath.Join(root, "one"), filepath.Join(dir, "storage", "registry"), filepath.Join(packages, "registry.opentofu.org", "acme", "dns")} {
		must.Succeed(t, os.MkdirAll(made, 0o700))
	}
	mustWrite(t, filepath.Join(root, "one", "main.tf"), []byte("locals {}\n"))
	const zip = "terraform-provider-dns_1.0.0_linux_amd64.zip"
	b := must.Get(os.ReadFile(filepath.Join(release, zip)))(t)
	mustWrite(t, filepath.Join(packages, "registry.opentofu.org", "acme", "dns", zip), b)
	empty := t.TempDir()
	mustWrite(t, filepath.Join(empty, "main.tf"), []byte("locals {}\n"))
	mustWrite(t, filepath.Join(empty, ".terraform.lock.hcl"), nil)
	names := strings.NewReplacer("DIR/", dir+"/", "ROOT", root, "RELEASE", release, "PACKAGES", packages, "EMPTYROOT", empty, "STATE", newFile(t, "state", stateText("a", 2)),
		"SBOM", newFile(t, "sbom.json", `{"spdxVersion":"SPDX-2.3","name":"vpc"}`), "DEPOT", newFile(t, "depot.hcl", ""),
		"TEMPLATE", newFile(t, "template.hcl", "template \"sandbox/vpc\" {\n  module {\n    address = \"net/vpc/aws\"\n  }\n}\n"))
	shown := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(jsonLines)) {
		words := strings.Fields(u.names.Replace(names.Replace(line)))
		if !strings.Contains(line, "--registry") {
			words = append(words, "--registry", u.registry.host)
		}
		c, _, err := newRoot(&cli.App{Getenv: os.Getenv}).Find(words)
		must.Succeed(t, err)
		before := u.registry.n.Load()
		if c.Flags().Lookup("dry-run") != nil {
			o := okara(t, append(words, "--json", "--dry-run")...)
			rehearsed := !strings.HasPrefix(o.out, "{") || strings.Contains(o.out, `"dry_run": true`)
			if _, ok := document(o.out); !ok || !rehearsed || o.code != cli.ExitOK || u.registry.n.Load() != before {
				t.Errorf("%s: with --dry-run exit %d, %d writes\n%s%s", c.CommandPath(), o.code, u.registry.n.Load()-before, o.out, o.err)
			}
		}
		o := okara(t, append(words, "--json")...)
		if u.registry.n.Load() != before && c.Flags().Lookup("dry-run") == nil && c.Name() != "doctor" {
			t.Errorf("%s writes to the registry and has no --dry-run", c.CommandPath())
		}
		doc, ok := document(o.out)
		if _, failed := failure(doc); !ok || failed || o.code != cli.ExitOK {
			t.Errorf("%s: exit %d, and no document of what came of it:\n%s%s", strings.TrimSpace(line), o.code, o.out, o.err)
		}
		shown[strings.TrimPrefix(c.CommandPath(), "okara ")] = true
	}
	return shown
}
