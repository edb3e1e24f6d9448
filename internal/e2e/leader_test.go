// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replicas are two servers of instances, as processes, over one registry.
type replicas struct {
	t     *testing.T
	set   tools
	dir   string
	host  string // of the registry
	ports map[string]string
	up    map[string]*process
}

// launchedOne has the fields of an instance that the tests read.
type launchedOne struct {
	ID, Phase string
	Extends   int
}

// waitingModule waits, once its apply has begun, until the test releases it.
const waitingModule = `
variable "id" { type = string }
variable "dir" { type = string }
resource "terraform_data" "this" {
  provisioner "local-exec" {
    command = "echo begun >> ${var.dir}/${var.id}.begun; while [ ! -e ${var.dir}/${var.id}.go ]; do sleep 1; done"
  }
}
`

const waitingTemplates = `
template "demo/slow" {
  module { address = "acme/wait/any" }
  inputs = { id = id, dir = config.dir }
  ttl {
    default = "1h"
    extend  = "1h"
    extends = 5
  }
}
`

const waitingConfig = `
registry = %[1]q
archives {
  key_files = ["archive.key"]
}
instances {
  templates = "templates"
  advertise = "http://127.0.0.1:%[2]s"
  unsealed  = true
  config    = { dir = %[3]q }
}
executor "local" {
  program   = %[4]q
  isolation = "none"
}
`

// people has the tokens of the users of the test, by name.
var people = map[string]string{
	"anna":  "oks_anna_0123456789abcdefghij",
	"ben":   "oks_ben_0123456789abcdefghij",
	"carla": "oks_carla_0123456789abcdefghij",
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	set := must(findTools())(t)
	r := &replicas{t: t, set: set, dir: t.TempDir(), ports: map[string]string{}, up: map[string]*process{}}
	cmd := must(set.registryCommand(filepath.Join(r.dir, "registry"), true))(t)
	registry, host := mustBoth(start(cmd))(t)
	t.Cleanup(registry.kill)
	r.host = host + "/acme"
	writeFile(t, filepath.Join(r.dir, "module", "main.tf"), waitingModule)
	r.okara("publish", "module", "module", "acme/wait/any", "1.0.0")
	writeFile(t, filepath.Join(r.dir, "templates", "demo.hcl"), waitingTemplates)
	for name, secret := range map[string]string{
		"archive.key": strings.Repeat("0123456789abcdef", 4),
		"tokens": people["anna"] + " use:instance:demo/*\n" + people["ben"] + " use:instance:demo/*\n" +
			people["carla"] + " approve:instance:demo/* admin:instance:** admin:template:**\n",
	} {
		succeed(t, os.WriteFile(filepath.Join(r.dir, name), []byte(secret), 0o600))
	}
	for _, name := range []string{"a", "b"} {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		_, r.ports[name], _ = net.SplitHostPort(l.Addr().String())
		if err := l.Close(); err != nil { // the replica uses the port from now on
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(r.dir, name+".hcl"), fmt.Sprintf(waitingConfig, r.host, r.ports[name], r.dir, set.tofu))
		r.start(name)
	}
	return r
}

func (r *replicas) start(name string) {
	r.t.Helper()
	cmd := exec.Command(r.set.okara, "serve", "--listen", "127.0.0.1:"+r.ports[name], "--config", name+".hcl", "--token-file", "tokens",
		"--storage", filepath.Join(r.dir, "store-"+name))
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "HOME="+r.dir)
	p, _ := mustBoth(start(cmd))(r.t)
	r.up[name] = p
	r.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		p.kill()
		if r.t.Failed() {
			log := p.log.String()
			r.t.Logf("replica %s:\n%s", name, log[max(0, len(log)-4096):])
		}
	})
}

func (r *replicas) okara(args ...string) string {
	r.t.Helper()
	cmd := exec.Command(r.set.okara, args...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "HOME="+r.dir, "OKARA_REGISTRY="+r.host)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("okara %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ask makes a request to a replica; 0 means no answer.
func (r *replicas) ask(name, who, method, path, body string, header ...string) (int, []byte) {
	req, err := http.NewRequest(method, "http://127.0.0.1:"+r.ports[name]+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return 0, nil
	}
	req.Header.Set("Authorization", "Bearer "+people[who])
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // a truncated body is not JSON
	return resp.StatusCode, b
}

func (r *replicas) until(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(8 * time.Minute); !done(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("never: %s", what)
		}
	}
}

// call repeats a change with its key until a leader answers.
func (r *replicas) call(name, who, method, path, body, key string, want int) launchedOne {
	r.t.Helper()
	var one launchedOne
	r.until(method+" "+path, func() bool {
		status, b := r.ask(name, who, method, path, body, "Idempotency-Key", key)
		if status == 0 || status == http.StatusServiceUnavailable {
			return false
		}
		if status != want {
			r.t.Fatalf("%s %s: %d %s, want %d", method, path, status, b, want)
		}
		one = launchedOne{}
		return json.Unmarshal(b, &one) == nil
	})
	return one
}

// leader waits until one of some replicas leads.
func (r *replicas) leader(names ...string) (leader string) {
	r.t.Helper()
	r.until("a leader", func() bool {
		for _, name := range names {
			// A replica that does not lead refuses a forwarded request.
			if status, _ := r.ask(name, "carla", "GET", "me", "", "Okara-Hop", "1"); status == http.StatusOK {
				leader = name
				return true
			}
		}
		return false
	})
	return leader
}

// phase waits until an instance has a phase, according to a replica.
func (r *replicas) phase(name, id, phase string) (one launchedOne) {
	r.t.Helper()
	r.until(id+" "+phase, func() bool {
		one = launchedOne{}
		status, b := r.ask(name, "carla", "GET", "instances/"+id, "")
		if status == http.StatusOK && json.Unmarshal(b, &one) != nil || one.Phase == "failed" {
			r.t.Fatalf("%s: %s", id, b)
		}
		return one.Phase == phase
	})
	return one
}

// begun waits until the run of an instance is in the middle of its apply.
func (r *replicas) begun(id string) {
	r.t.Helper()
	r.until("the apply of "+id, func() bool { return r.begins(id) > 0 })
}

// begins counts the applies of an instance that began.
func (r *replicas) begins(id string) int {
	b, _ := os.ReadFile(filepath.Join(r.dir, id+".begun")) // no file yet
	return bytes.Count(b, []byte("begun\n"))
}

// once waits until an instance is ready, and checks that only one attempt began.
func (r *replicas) once(at, id string) {
	r.t.Helper()
	r.phase(at, id, "ready")
	var runs struct{ Runs []struct{ N, Attempt int } }
	status, b := r.ask(at, "carla", "GET", "instances/"+id+"/runs", "")
	if err := json.Unmarshal(b, &runs); err != nil || status != http.StatusOK {
		r.t.Fatalf("runs: %d %s, %v", status, b, err)
	}
	if n := r.begins(id); n != 1 || len(runs.Runs) != 1 || runs.Runs[0].Attempt != 1 {
		r.t.Errorf("%d applies began, runs %s", n, b)
	}
}

func (r *replicas) letGo(id string) {
	r.t.Helper()
	writeFile(r.t, filepath.Join(r.dir, id+".go"), "")
}

// resources returns how many resources the state of an instance has.
func (r *replicas) resources(template, id string) int {
	r.t.Helper()
	var s struct{ Resources []any }
	succeed(r.t, json.Unmarshal([]byte(r.okara("state", "pull", r.host+"/instances/"+template+"/"+id)), &s))
	return len(s.Resources)
}

// instancesVar makes `make interop` run whole lives of instances, with leases of half a minute.
const instancesVar = "OKARA_TEST_INSTANCES"

// TestLeader stops a leader beyond its lease, and kills the next, amid applies: no run is lost or
// doubled, and who resumes does not lead.
//
// Shows: platform-mistakes 2
// Shows: platform-mistakes 14
// Shows: platform-attacks 5 | a leader that is stopped past its lease, or killed; a child process
// likewise
// Shows: platform-figures 7
// Shows: instances 4
func TestLeader(t *testing.T) {
	if os.Getenv(instancesVar) == "" {
		t.Skip(instancesVar + " is not set; `make interop` sets it: two leases pass in this test, which is too long for `make test`")
	}
	r := newReplicas(t)
	first := r.leader("a", "b")
	second := map[string]string{"a": "b", "b": "a"}[first]
	t.Logf("%s leads", first)
	slow := r.call(second, "anna", "POST", "instances", `{"template":"demo/slow"}`, "k1", 201)
	r.begun(slow.ID)
	at := time.Now()
	succeed(t, r.up[first].cmd.Process.Signal(syscall.SIGSTOP))
	if status, b := r.ask(second, "carla", "GET", "instances/"+slow.ID, ""); status != http.StatusOK {
		t.Errorf("a follower without a leader: %d %s", status, b)
	}
	r.leader(second)
	t.Logf("%s leads %s after %s was stopped", second, time.Since(at).Round(time.Second), first)
	r.letGo(slow.ID)
	r.once(second, slow.ID)
	r.call(second, "anna", "POST", "instances/"+slow.ID+"/extend", "{}", "k2", 200)

	succeed(t, r.up[first].cmd.Process.Signal(syscall.SIGCONT))
	one := r.call(first, "anna", "POST", "instances/"+slow.ID+"/extend", "{}", "k2", 200) // repeated, at the replica that was stopped
	if one.Extends != 1 {
		t.Errorf("extended %d times by one request", one.Extends)
	}
	if status, _ := r.ask(first, "carla", "GET", "me", "", "Okara-Hop", "1"); status != http.StatusServiceUnavailable {
		t.Errorf("who was stopped past its lease leads: %d", status)
	}

	slow2 := r.call(second, "ben", "POST", "instances", `{"template":"demo/slow"}`, "k3", 201)
	r.begun(slow2.ID)
	at = time.Now()
	r.up[second].kill()
	r.letGo(slow2.ID)
	r.leader(first)
	t.Logf("%s leads %s after %s was killed", first, time.Since(at).Round(time.Second), second)
	if again := r.call(first, "ben", "POST", "instances", `{"template":"demo/slow"}`, "k3", 201); again.ID != slow2.ID {
		t.Errorf("the same request made %s and %s", slow2.ID, again.ID)
	}
	r.once(first, slow2.ID)

	succeed(t, os.Remove(filepath.Join(r.dir, "templates", "demo.hcl")))
	r.start(second)
	for _, id := range []string{slow.ID, slow2.ID} {
		if r.resources("demo/slow", id) == 0 {
			t.Errorf("%s has no resources while it lives", id)
		}
		r.call(second, "carla", "DELETE", "instances/"+id, "", "end-"+id, 202)
	}
	for _, id := range []string{slow.ID, slow2.ID} {
		r.phase(second, id, "destroyed")
		if n := r.resources("demo/slow", id); n > 0 {
			t.Errorf("the state of %s has %d resources", id, n)
		}
	}
}
