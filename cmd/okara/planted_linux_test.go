// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// Tokens of an owner, an approver, and nobody.
const (
	plantedAnna  = "oks_anna_planted0123456789abcdef"
	plantedCarla = "oks_carla_planted0123456789abcdef"
)

// Planted values; the module's source has them reversed.
const (
	plantedParameter  = "planted-parameter-5a1f"
	plantedCredential = "planted-credential-77c2"
	plantedOutput     = "planted-output-e09b"
	plantedMark       = "planted-mark-of-a-state-31d8"
	plantedStateOut   = "planted-output-of-a-state-9f40"
	plantedSession    = "planted-session-key-0123456789ab"
	plantedStateKey   = "planted-state-key-0123456789abcd"
	plantedLinkKey    = "planted-archive-key-0123456789ab"
)

// plantedModule prints its secrets.
const plantedModule = `
variable "password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "this" {
  input = var.password
  provisioner "local-exec" {
    environment = { SAID = nonsensitive(var.password) }
    command     = "echo parameter $SAID, credential $CLOUD_TOKEN"
  }
}
output "plain" { value = "seen" }
output "secret" {
  value     = strrev("b90e-tuptuo-detnalp")
  sensitive = true
}
`

const plantedTemplate = `
template "lab/vpc" {
  title       = "Network"
  approval    = "plan"
  credentials = ["cloud"]
  module { address = "net/vpc/aws" }
  parameter "password" { title = "Password" }
  outputs = ["plain", "secret"]
  ttl {
    default = "8h"
    max     = "72h"
    extend  = "2h"
    extends = 2
  }
}
`

const plantedConfig = `
audit_log  = %q
access_log = true
archives {
  key_files = [%q]
}
ui {
  session_key_files = [%q]
}
instances {
  templates = %q
  rate      = 100000
}
executor "local" {
  program   = %q
  isolation = "none"
}
credential "cloud" {
  env_from = ["CLOUD_TOKEN"]
}
`

// TestPlantedSecrets takes an instance from its plan to its end on a complete server with a
// sealed ledger, and plants secrets in configuration, parameters, credentials, outputs and a
// state. No answer to an owner, an approving administrator, a browser or an anonymous caller
// contains one of them, except those of the two pages and the route that reveal values; nor
// do logs or stored content.
//
// Shows: page-mistakes 9 | secrets in the data of a page | PacoVK/tapir GHSA-rj9m-qf65-f5gg
// Shows: platform-attacks 15
// Shows: instances 8 | no secret in logs, results, pages, answers or stored data: a complete life,
// with everything read
func TestPlantedSecrets(t *testing.T) {
	w := newPlanted(t)
	var one struct{ ID, Plan string }
	w.call(t, plantedAnna, "POST", "/api/v1/instances", `{"template":"lab/vpc","parameters":{"password":"`+plantedParameter+`"}}`, 201, &one)
	path := "/api/v1/instances/" + one.ID
	planned := w.phase(t, one.ID, "planned")
	w.crawl(t, one.ID)
	w.call(t, plantedCarla, "POST", path+"/approve", `{"plan":"`+planned+`"}`, 200, nil)
	w.phase(t, one.ID, "ready")
	w.call(t, plantedAnna, "POST", path+"/extend", "{}", 200, nil)
	w.crawl(t, one.ID)
	w.findMasks(t, path)
	w.findShown(t, one.ID)
	w.call(t, plantedAnna, "DELETE", path, "", 202, nil)
	w.phase(t, one.ID, "destroyed")
	w.crawl(t, one.ID)

	w.server.signal(t, syscall.SIGTERM)
	if err := w.server.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, w.server.log)
	}
	audit := must.Get(os.ReadFile(w.audit))(t)
	w.clean(t, "the log", []byte(w.server.log.String()))
	w.clean(t, "the audit log", audit)
	if n := bytes.Count(audit, []byte(`"reveal"`)); n < 3 {
		t.Errorf("%d lines of the audit log are about what was revealed, want 3:\n%s", n, audit)
	}
	w.stored(t)
}

type planted struct {
	server         *serveProcess
	storage, audit string
	session        string   // session cookie of a browser
	secrets        []string // that must not be shown anywhere
}

// ownName puts this program on PATH as okara: a server starts runs by that name.
func ownName(t *testing.T) {
	t.Helper()
	bin := t.TempDir()
	self := must.Get(os.Executable())(t)
	program, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "okara"), program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func newPlanted(t *testing.T) *planted {
	t.Helper()
	ownName(t)
	w := &planted{storage: t.TempDir(), audit: filepath.Join(t.TempDir(), "audit")}
	for _, s := range []string{
		plantedParameter, plantedCredential, plantedOutput, plantedMark, plantedStateOut, plantedSession, plantedStateKey, plantedLinkKey, plantedAnna, plantedCarla,
	} {
		w.secrets = append(w.secrets, s, hex.EncodeToString([]byte(s)), base64.RawStdEncoding.EncodeToString([]byte(s)))
	}
	key := func(s string) string { return newFile(t, "key", hex.EncodeToString([]byte(s))) }
	config := newFile(t, "okara.hcl", fmt.Sprintf(plantedConfig, w.audit, key(plantedLinkKey), key(plantedSession),
		filepath.Dir(newFile(t, "lab.hcl", plantedTemplate)), tofutest.Tofu(t)))
	tokens := newFile(t, "tokens", plantedAnna+" use:instance:lab/* read:*:** write:state:**\n"+
		plantedCarla+" approve:instance:lab/* admin:instance:** admin:template:** admin:*:** publish:module:** read:*:**\n")
	w.server = newServeProcess(t, []string{"CLOUD_TOKEN=" + plantedCredential, "OKARA_STATE_KEYS=" + key(plantedStateKey)},
		"--config", config, "--token-file", tokens, "--storage", w.storage)
	module := depottest.ZipOf(t, map[string]string{"main.tf": plantedModule})
	w.call(t, plantedCarla, "PUT", "/v1/modules/net/vpc/aws/1.0.0", string(module), 201, nil)
	w.call(t, plantedAnna, "POST", "/state/shop/default", plantedState, 200, nil)
	w.logIn(t)
	return w
}

// plantedState has a value that is marked as sensitive, and a sensitive output.
const plantedState = `{"version":4,"terraform_version":"1.10.0","serial":1,"lineage":"l",
"outputs":{"word":{"value":"` + plantedStateOut + `","type":"string","sensitive":true}},
"resources":[{"mode":"managed","type":"aws_db_instance","name":"main","provider":"provider[\"registry.opentofu.org/hashicorp/aws\"]",
"instances":[{"attributes":{"id":"db-1","user_data":"` + plantedMark + `"},"sensitive_attributes":[[{"type":"get_attr","value":"user_data"}]]}]}]}`

// logIn starts the session of a browser.
func (w *planted) logIn(t *testing.T) {
	t.Helper()
	resp, body := w.send(t, "", "POST", "/ui/login", url.Values{"token": {plantedAnna}, "return": {"/ui/"}}.Encode())
	for _, c := range resp.Cookies() {
		if strings.HasPrefix(c.Name, "okara") && len(c.Value) > 32 {
			w.session = c.Name + "=" + c.Value
			w.secrets = append(w.secrets, c.Value)
		}
	}
	if w.session == "" {
		t.Fatalf("no session: %d %v %s", resp.StatusCode, resp.Header, body)
	}
}

// send makes a request: who is a token, cookie, or "".
func (w *planted) send(t *testing.T, who, method, path, body string) (*http.Response, []byte) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, w.server.url+path, strings.NewReader(body)))(t)
	switch {
	case strings.HasPrefix(path, "/ui/"):
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", w.server.url)
	case strings.HasPrefix(body, "{"):
		r.Header.Set("Content-Type", "application/json")
	}
	if who == w.session {
		r.Header.Set("Cookie", who)
	} else if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t) // a redirect is an answer
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resp, b.Bytes()
}

// call is send with a status, without secrets, once a server leads.
func (w *planted) call(t *testing.T, who, method, path, body string, status int, v any) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		resp, b := w.send(t, who, method, path, body)
		unread := resp.StatusCode == http.StatusConflict && bytes.Contains(b, []byte("no version of it is published"))
		if (unread || resp.StatusCode == http.StatusServiceUnavailable) && time.Now().Before(end) {
			continue
		}
		if resp.StatusCode != status {
			t.Fatalf("%s %s: %d %s, want %d; log:\n%s", method, path, resp.StatusCode, b, status, w.server.log)
		}
		w.clean(t, method+" "+path, b)
		if v != nil {
			if err := json.Unmarshal(b, v); err != nil {
				t.Fatalf("%s %s: %v in %s", method, path, err, b)
			}
		}
		return
	}
}

// phase waits until the instance has a phase, and returns the plan that waits for approval.
func (w *planted) phase(t *testing.T, id, phase string) string {
	t.Helper()
	for end := time.Now().Add(8 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var one struct{ Phase, Reason, Plan string }
		w.call(t, plantedCarla, "GET", "/api/v1/instances/"+id, "", 200, &one)
		if one.Phase == phase {
			return one.Plan
		}
		if one.Phase == "failed" || time.Now().After(end) {
			_, run := w.send(t, plantedAnna, "GET", "/api/v1/instances/"+id+"/runs/1/log", "")
			t.Fatalf("the instance is %+v, want %s; its log:\n%s", one, phase, run)
		}
	}
}

// findMasks finds the masks in the log of the apply: its module printed both secrets.
func (w *planted) findMasks(t *testing.T, path string) {
	t.Helper()
	var all struct{ Runs []struct{ N int } }
	w.call(t, plantedAnna, "GET", path+"/runs", "", 200, &all)
	var logs bytes.Buffer
	for _, u := range all.Runs {
		_, b := w.send(t, plantedAnna, "GET", fmt.Sprintf("%s/runs/%d/log", path, u.N), "")
		logs.Write(b)
	}
	if !strings.Contains(logs.String(), "parameter (sensitive), credential (sensitive)") {
		t.Errorf("no log has what the module said, with masks:\n%s", &logs)
	}
}

// findShown finds the secrets where they are meant to be shown.
func (w *planted) findShown(t *testing.T, id string) {
	t.Helper()
	api := "/api/v1/instances/" + id + "/outputs/reveal"
	if resp, b := w.send(t, plantedAnna, "POST", api, `{"name":"secret"}`); resp.StatusCode != 200 || !bytes.Contains(b, []byte(plantedOutput)) {
		t.Errorf("%s: %d %s", api, resp.StatusCode, b)
	}
	for _, c := range []struct{ path, want string }{
		{"/ui/instances/" + id + "/reveal?name=secret", plantedOutput},
		{"/ui/states/shop/default/1/reveal?address=aws_db_instance.main&path=user_data", plantedMark},
	} {
		_, page := w.send(t, w.session, "GET", c.path, "")
		w.clean(t, c.path, page)
		form := url.Values{}
		for _, m := range hiddenFields.FindAllSubmatch(page, -1) {
			form.Set(string(m[1]), string(m[2]))
		}
		resp, b := w.send(t, w.session, "POST", strings.Split(c.path, "?")[0], form.Encode())
		if resp.StatusCode != 200 || !bytes.Contains(b, []byte(c.want)) || !strings.Contains(resp.Header.Get("Cache-Control"), "no-store") {
			t.Errorf("%s as a form %v: %d %v %s", c.path, form, resp.StatusCode, resp.Header, b)
		}
		w.clean(t, c.path, bytes.ReplaceAll(b, []byte(c.want), nil))
	}
}

// clean checks that a text contains no secret.
func (w *planted) clean(t *testing.T, where string, b []byte) {
	t.Helper()
	for _, secret := range w.secrets {
		if i := bytes.Index(b, []byte(secret)); i >= 0 {
			t.Errorf("%s has %s: …%q…", where, secret, b[max(0, i-100):min(len(b), i+len(secret)+50)])
		}
	}
}

// callers returns the tokens of all callers, by name.
func (w *planted) callers() map[string]string {
	return map[string]string{"anna": plantedAnna, "carla": plantedCarla, "a browser": w.session, "nobody": ""}
}
