// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// attempts runs attempts of one instance with `okara instance-run`, like a server.
type attempts struct {
	t      *testing.T
	set    tools
	tool   string
	dir    string
	url    string // of the registry
	client *http.Client
	env    []string

	order map[string]any // common to all attempts
	spec  map[string]any
	n     int
}

const instanceRepo = "instances/sandbox/vpc/abc"

// newAttempts starts a registry with the front-end, over TLS.
func newAttempts(t *testing.T, tool string) *attempts {
	t.Helper()
	set := must(findTools())(t)
	set.newKey(t)
	a := &attempts{t: t, set: set, tool: tool, dir: t.TempDir()}
	store := filepath.Join(a.dir, "store")
	cmd := exec.Command(set.okara, "serve", "--listen", "127.0.0.1:0", "--storage", store, "--tls-self-signed", "--hostname", "okara.test")
	cmd.Env = append(os.Environ(), "HOME="+a.dir)
	server, addr := mustBoth(start(cmd))(t)
	t.Cleanup(server.kill)
	ca := must(os.ReadFile(filepath.Join(store, "tls", "ca.pem")))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	a.url, a.client = "https://"+addr, &http.Client{Transport: transport}
	a.env = append(os.Environ(), "HOME="+a.dir, "SSL_CERT_FILE="+filepath.Join(store, "tls", "ca.pem"), "OKARA_REGISTRY="+addr)
	a.okara("publish", "provider", set.dist, "acme/time", "0.14.2", "--sign-key", set.key)
	a.spec = map[string]any{
		"run": "sandbox/vpc abc run 1", "repository": addr + "/" + instanceRepo, "workspace": "default", "ledger": addr + "/ledger",
		"outputs": []string{"greeting", "secret", "made"}, "limits": map[string]any{}, "sensitive": []string{"password"},
		"variables": map[string]any{"name": "${a} \"b\"\n", "password": "correct horse battery"},
	}
	a.order = map[string]any{
		"program": tool, "okara": set.okara, "isolation": map[string]any{"mode": "none"},
		"registry": map[string]any{"prefix": addr, "ca": ca},
		"server":   map[string]any{"url": a.url, "host": "okara.test", "mirror": true, "ca": ca, "hosts": []string{"okara.test"}},
	}
	return a
}

func (a *attempts) okara(args ...string) string {
	a.t.Helper()
	cmd := exec.Command(a.set.okara, args...)
	cmd.Dir, cmd.Env = a.dir, a.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.t.Fatalf("okara %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// module makes the files the source of the following attempts.
func (a *attempts) module(files map[string]string) {
	a.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	succeed(a.t, z.Close())
	sum := sha256.Sum256(b.Bytes())
	id := "sha256:" + hex.EncodeToString(sum[:])
	resp := must(a.client.Post(a.url+"/v2/"+instanceRepo+"/blobs/uploads/?digest="+id, "application/octet-stream", bytes.NewReader(b.Bytes())))(a.t)
	resp.Body.Close()
	if resp.StatusCode == http.StatusAccepted { // the registry does not take an upload in one request
		at, err := resp.Location()
		if err != nil {
			a.t.Fatal(err)
		}
		q := at.Query()
		q.Set("digest", id)
		at.RawQuery = q.Encode()
		req := must(http.NewRequest(http.MethodPut, at.String(), bytes.NewReader(b.Bytes())))(a.t)
		if resp, err = a.client.Do(req); err != nil {
			a.t.Fatal(err)
		}
		resp.Body.Close()
	}
	if resp.StatusCode != http.StatusCreated {
		a.t.Fatalf("pushing the module: %s", resp.Status)
	}
	a.spec["source"] = map[string]any{"module": "net/vpc/aws", "version": "1.0.0", "archive": id}
}

// outcome has the fields of a result that the test reads.
type outcome struct {
	Outcome, Plan, Lock, Error string
	PlanText                   string `json:"plan_text"`
	Resources                  int
	State                      bool
	Outputs                    map[string]json.RawMessage
	Counts                     *struct{ Add, Change, Remove int }
	log                        string
}

// run runs another attempt of a kind to its end.
func (a *attempts) run(kind string, more map[string]any) outcome {
	a.t.Helper()
	a.n++
	nonce := fmt.Sprint("nonce", a.n)
	ledger := fmt.Sprintf(`{"version":4,"lineage":"l","serial":%d,"records":{"abc":{"id":"abc","run":{"n":1,"attempt":%d,"kind":%q,"nonce":%q}}}}`, a.n, a.n, kind, nonce)
	writeFile(a.t, filepath.Join(a.dir, "ledger.json"), ledger)
	a.okara("state", "push", "-w", "ledger", a.spec["ledger"].(string), "ledger.json")
	spec, order := maps.Clone(a.spec), maps.Clone(a.order)
	maps.Copy(spec, more)
	spec["ref"] = map[string]any{"id": "abc", "kind": kind, "n": 1, "attempt": a.n, "nonce": nonce}
	scratch := filepath.Join(a.dir, "runs", "abc", fmt.Sprintf("1-%d", a.n))
	order["spec"], order["scratch"] = spec, scratch
	in := must(json.Marshal(order))(a.t)
	cmd := exec.Command(a.set.okara, "instance-run")
	cmd.Dir, cmd.Env, cmd.Stdin = a.dir, append(os.Environ(), "HOME="+a.dir), bytes.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("okara instance-run: %v\n%s\n%s", err, out, mustRead(a.t, filepath.Join(scratch, "log")))
	}
	var o outcome
	succeed(a.t, json.Unmarshal([]byte(mustRead(a.t, filepath.Join(scratch, "result.json"))), &o))
	o.log = mustRead(a.t, filepath.Join(scratch, "log"))
	if strings.Contains(o.log+o.Error+o.PlanText, "correct horse") {
		a.t.Errorf("a secret is shown:\n%s", o.log)
	}
	return o
}

const instanceModule = `
terraform {
  backend "local" {}
  required_providers {
    time = { source = "okara.test/acme/time", version = "~> 0.14.0" }
  }
}
variable "name" { default = "nobody" }
variable "password" { sensitive = true }
variable "more" { default = 0 }
resource "time_static" "made" {}
resource "terraform_data" "a" {
  count = 1 + var.more
  input = var.name
  provisioner "local-exec" { command = "echo the password is correct horse battery" }
}
output "greeting" { value = "hello ${var.name}" }
output "made" { value = time_static.made.year > 2000 }
output "secret" {
  value     = var.password
  sensitive = true
}
`

// TestInstanceRun runs a module with stock tools: apply, plan and approval, drift, destroy.
//
// Shows: platform 15
// Shows: platform-mistakes 5
func TestInstanceRun(t *testing.T) {
	set := must(findTools())(t)
	programs := map[string]string{"tofu": set.tofu}
	for _, other := range []string{"1.10.10", "1.11.6"} { // built by make interop
		name := filepath.Join(set.root, ".cache", "tofu", other, "tofu")
		if _, err := os.Stat(name); err == nil {
			programs["tofu "+other] = name
		}
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) { testInstanceRun(t, program) })
	}
}

func TestInstanceRunTerraform(t *testing.T) {
	needTerraform(t)
	program := must(exec.LookPath("terraform"))(t)
	testInstanceRun(t, program)
}

func testInstanceRun(t *testing.T, program string) {
	a := newAttempts(t, program)
	a.module(map[string]string{"main.tf": instanceModule, "terraform.tfvars": `name = "own"`, "x.auto.tfvars": "more = 5"})
	o := a.run("apply", nil)
	if o.Outcome != "done" || o.Resources != 2 || !o.State || o.Lock == "" || o.Counts == nil || o.Counts.Add != 2 {
		t.Fatalf("apply: %+v", o)
	}
	if got := string(o.Outputs["greeting"]); got != `"hello ${a} \"b\"\n"` || string(o.Outputs["made"]) != "true" || len(o.Outputs) != 2 {
		t.Errorf("outputs %s", o.Outputs)
	}
	if !strings.Contains(o.log, "the password is (sensitive)") {
		t.Errorf("log %s", o.log)
	}
	lock := o.Lock
	a.spec["source"].(map[string]any)["lock"] = lock
	// A plan is applied exactly as approved, and only once.
	a.spec["variables"].(map[string]any)["more"] = 1
	o = a.run("plan", map[string]any{"approve": true})
	if o.Outcome != "done" || o.Plan == "" || o.State || o.Counts == nil || o.Counts.Add != 1 || o.Lock != lock || !strings.Contains(o.PlanText, "terraform_data.a[1]") {
		t.Fatalf("plan: %+v", o)
	}
	approved := map[string]any{"plan": o.Plan, "plan_tag": fmt.Sprintf("run-abc-1-%d", a.n)}
	if o = a.run("apply", approved); o.Outcome != "done" || o.Resources != 3 || !o.State {
		t.Errorf("approved apply: %+v", o)
	}
	if o = a.run("apply", approved); o.Outcome != "stale" {
		t.Errorf("the same plan again: %+v", o)
	}
	if o = a.run("drift", nil); o.Outcome != "done" || o.Counts == nil || o.Counts.Change != 0 || o.State {
		t.Errorf("no drift: %+v", o)
	}
	// The state is changed by hand.
	writeFile(t, filepath.Join(a.dir, "changed.tfstate"), strings.Replace(a.okara("state", "pull", a.spec["repository"].(string)), "hello", "good bye", 1))
	a.okara("state", "push", "--force", a.spec["repository"].(string), "changed.tfstate")
	if o = a.run("drift", nil); o.Outcome != "done" || o.Counts == nil || o.Counts.Change == 0 {
		t.Errorf("drift: %+v", o)
	}
	o = a.run("apply", map[string]any{"limits": map[string]any{"timeout": 1}})
	if o.Outcome != "failed" || !strings.Contains(o.Error, "longer than its limit") {
		t.Errorf("without time: %+v", o)
	}
	if o = a.run("destroy", nil); o.Outcome != "done" || o.Resources != 0 || !o.State {
		t.Errorf("destroy: %+v", o)
	}
	if held := a.okara("state", "locks", a.spec["repository"].(string)); strings.Contains(held, "instance-run") {
		t.Errorf("locks are left: %s", held)
	}
	// A lock file that does not fit is left unchanged.
	a.module(map[string]string{"main.tf": strings.Replace(instanceModule, "~> 0.14.0", ">= 99", 1)})
	a.spec["source"].(map[string]any)["lock"] = lock
	if o = a.run("apply", nil); o.Outcome != "failed" || !strings.Contains(o.Error, "init") {
		t.Errorf("another version than is locked: %+v", o)
	}
}
