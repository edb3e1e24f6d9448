// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
)

// Callers of servers that execute runs: a user and an administrator.
const (
	runnerToken = "oks_runner_0123456789abcdefghij"
	adminToken  = "oks_admin_0123456789abcdefghij"
)

const runsConfig = `
access_log = true
anonymous  = []
archives {
  key_files = [%q]
}
tfe {
  runs              = "local"
  run_timeout       = "10m"
  snapshot_interval = "0s"
}
instances {
  advertise = "http://%s"
  unsealed  = %t
}
executor "local" {
  program = %q
  %s
}
organization "acme" {
  execution_mode = "remote"
}
`

// wrapped runs the tool as the server's user without sandbox, for the test to see.
const wrapped = `isolation = "wrap"
  wrap      = ["/usr/bin/env", "WRAPPED=1"]`

// serveRuns starts a server that executes acme's runs; commands of c use the runner's token.
func (c *cloud) serveRuns(name, registry, listen, isolation string) *process {
	c.t.Helper()
	key := filepath.Join(c.dir, "archive.key")
	for file, text := range map[string]string{
		key:                               strings.Repeat("0123456789abcdef", 4),
		c.stateKey():                      strings.Repeat("0123456789abcdef", 2),
		filepath.Join(c.dir, "tokens"):    runnerToken + " write:state:acme run:state:acme read:module:net/**\n" + adminToken + " admin:instance:**\n",
		filepath.Join(c.dir, name+".hcl"): fmt.Sprintf(runsConfig, key, listen, !c.sealed, c.tool, isolation),
	} {
		succeed(c.t, os.WriteFile(file, []byte(text), 0o600))
	}
	c.env = []string{"TF_TOKEN_okara_test=" + runnerToken}
	cmd := exec.Command(c.set.okara, "serve", "--config", filepath.Join(c.dir, name+".hcl"), "--listen", listen, "--registry", registry,
		"--storage", filepath.Join(c.dir, name), "--token-file", filepath.Join(c.dir, "tokens"))
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	if c.sealed {
		cmd.Env = append(cmd.Env, "OKARA_STATE_KEYS="+c.stateKey())
	}
	p, _ := mustBoth(start(cmd))(c.t)
	c.t.Cleanup(func() {
		p.kill()
		if c.t.Failed() {
			log := p.log.String()
			c.t.Logf("server %s:\n%s", name, log[max(0, len(log)-8192):])
		}
	})
	return p
}

func (c *cloud) stateKey() string { return filepath.Join(c.dir, "state.key") }

// ask sends a request with a token, and returns the status; 0 means no answer.
func ask(ctx context.Context, token, method, url string, header ...string) int {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// leads waits until one of the servers executes runs, and returns its index.
func leads(t *testing.T, servers ...string) int {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		for i, server := range servers {
			// A server that does not lead refuses forwarded requests.
			if ask(t.Context(), runnerToken, http.MethodGet, "http://"+server+"/api/v2/organizations/acme/capacity", "Okara-Hop", "1") == http.StatusOK {
				return i
			}
		}
	}
	t.Fatal("nobody leads")
	return 0
}

// TestCloudRunReplicas plans and applies at the replica that does not execute runs, and with
// requests that alternate between the two replicas.
//
// Shows: cloud 25
func TestCloudRunReplicas(t *testing.T) { eachTool(t, testCloudRunReplicas) }

func testCloudRunReplicas(t *testing.T, c *cloud) {
	registry := c.registry()
	servers := []string{freeAddress(t), freeAddress(t)}
	var up []*process
	for i, server := range servers {
		up = append(up, c.serveRuns([]string{"one", "two"}[i], registry, server, ""))
	}
	leader := leads(t, servers...)
	other := servers[1-leader]
	proxies := []*httputil.ReverseProxy{towards(t, servers[0]), towards(t, servers[1])}
	var n atomic.Int64
	turns := inFront(t, func(w http.ResponseWriter, r *http.Request) { proxies[n.Add(1)%2].ServeHTTP(w, r) })
	for name, at := range map[string]string{"other": other, "turns": turns} {
		c.folder(name, "cloud", `name = "`+name+`"`, "echo applied on the server")
		c.must(name, at, "init")
		if out := c.must(name, at, "plan", "-no-color"); !strings.Contains(out, "Plan: 1 to add") {
			t.Errorf("%s: the plan is\n%s", name, out)
		}
		if out := c.must(name, at, "apply", "-auto-approve", "-no-color"); !strings.Contains(out, "applied on the server") || !strings.Contains(out, "Apply complete!") {
			t.Errorf("%s: the apply is\n%s", name, out)
		}
		if got := c.must(name, at, "output", "-no-color", "-raw", "text"); got != "first" {
			t.Errorf("%s: the output is %q", name, got)
		}
	}
	for i, p := range up {
		if !strings.Contains(p.log.String(), "method=POST path=/api/v2/runs status=201") {
			t.Errorf("no run was asked of server %d, where %d leads", i, leader)
		}
	}
}

// TestCloudRunIsolation runs a plan and an apply as a user of the machine, and in a wrapper
// set by the administrator. The scripts cover the sandbox.
//
// Shows: cloud 25
func TestCloudRunIsolation(t *testing.T) {
	set := must(findTools())(t)
	for name, tt := range map[string]struct{ isolation, command, want string }{
		"user": {"isolation = \"user\"\n  users     = [61235]", `echo "as $(id -u)"; cat ../../process.json && echo "read a secret"; true`, "as 61235"},
		"wrap": {wrapped, `echo "wrapped $WRAPPED"`, "wrapped 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "user" && os.Geteuid() != 0 {
				t.Skip("only root can become another user")
			}
			c := newCloud(t, set, set.tofu)
			storage := filepath.Join(c.dir, "one")
			succeed(t, os.Mkdir(storage, 0o700))
			for _, dir := range []string{filepath.Dir(c.dir), c.dir, storage} { // which the user has to traverse
				succeed(t, os.Chmod(dir, 0o711))
			}
			at := freeAddress(t)
			c.serveRuns("one", c.registry(), at, tt.isolation)
			c.folder("app", "cloud", `name = "shop"`, tt.command)
			c.must("app", at, "init")
			c.must("app", at, "plan")
			out := c.must("app", at, "apply", "-auto-approve", "-no-color")
			if !strings.Contains(out, "(local-exec): "+tt.want) || strings.Contains(out, "(local-exec): read a secret") {
				t.Errorf("the run tells\n%s", out)
			}
		})
	}
}

// refuseProviderOfState: a state alone cannot have a run execute a provider.
func (c *cloud) refuseProviderOfState(client *tfe.Client, w *tfe.Workspace, registry, at string) {
	c.t.Helper()
	c.set.newKey(c.t)
	if out, err := exec.Command(c.set.okara, "publish", "provider", c.set.dist, "acme/time", "0.14.2", "--sign-key", c.set.key, "--registry", registry).CombinedOutput(); err != nil {
		c.t.Fatalf("publish: %v\n%s", err, out)
	}
	ctx := c.t.Context()
	must(client.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{}))(c.t)
	now := must(client.StateVersions.ReadCurrent(ctx, w.ID))(c.t)
	var state map[string]any
	succeed(c.t, json.Unmarshal(must(client.StateVersions.Download(ctx, now.DownloadURL))(c.t), &state))
	state["serial"] = now.Serial + 1
	state["resources"] = append(state["resources"].([]any), map[string]any{
		"mode": "managed", "type": "time_static", "name": "x", "provider": fmt.Sprintf("provider[%q]", at+"/acme/time"),
		"instances": []any{map[string]any{"schema_version": 0, "attributes": map[string]any{"id": "2030-01-01T00:00:00Z"}}},
	})
	b := must(json.Marshal(state))(c.t)
	must(client.StateVersions.Create(ctx, w.ID, tfe.StateVersionCreateOptions{
		MD5: new(fmt.Sprintf("%x", md5.Sum(b))), Serial: new(now.Serial + 1), Lineage: new(state["lineage"].(string)), State: new(base64.StdEncoding.EncodeToString(b)),
	}))(c.t)
	must(client.Workspaces.Unlock(ctx, w.ID))(c.t)
	if out, err := c.run("app", at, "plan", "-no-color"); err == nil || !strings.Contains(out, "the state needs a provider that the configuration does not require") {
		c.t.Errorf("a run with a provider that only the state names: %v\n%s", err, out)
	}
}

// TestCloudRunVariables: a run gets variables of workspace and sets; sensitive values are in no
// answer, log or record.
func TestCloudRunVariables(t *testing.T) { eachTool(t, testCloudRunVariables) }

func testCloudRunVariables(t *testing.T, c *cloud) {
	c.sealed = true
	at := freeAddress(t)
	registry := c.registry()
	server := c.serveRuns("one", registry, at, wrapped)
	leads(t, at)
	client := must(tfe.NewClient(&tfe.Config{Address: "http://" + at, BasePath: "/api/v2/", Token: runnerToken}))(t)
	ctx := t.Context()
	made := must(client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: new("shop")}))(t)
	const hidden, sealed = "nobody-sees-this-one", "nor-that-one"
	for _, v := range []tfe.VariableCreateOptions{
		{Key: new("text"), Value: new("of the workspace"), Category: new(tfe.CategoryTerraform)},
		{Key: new("list"), Value: new("[\"one\", \"two\"]"), Category: new(tfe.CategoryTerraform), HCL: new(true)},
		{Key: new("password"), Value: new(sealed), Category: new(tfe.CategoryTerraform), Sensitive: new(true)},
		{Key: new("GREETING"), Value: new("hello"), Category: new(tfe.CategoryEnv)},
		{Key: new("SECRET"), Value: new(hidden), Category: new(tfe.CategoryEnv), Sensitive: new(true)},
	} {
		got := must(client.Variables.Create(ctx, made.ID, v))(t)
		if got.Sensitive && got.Value != "" {
			t.Errorf("%s is answered with its value", got.Key)
		}
	}
	set := must(client.VariableSets.Create(ctx, "acme", &tfe.VariableSetCreateOptions{Name: new("all"), Global: new(true)}))(t)
	for key, value := range map[string]string{"text": "of a set", "region": "north"} {
		must(client.VariableSetVariables.Create(ctx, set.ID, &tfe.VariableSetVariableCreateOptions{Key: &key, Value: &value, Category: new(tfe.CategoryTerraform)}))(t)
	}
	const more = "variable \"list\" {}\nvariable \"password\" {}\nvariable \"region\" {}\noutput \"all\" {\n  value = \"${var.text}, ${var.list[1]}, ${var.region}, ${var.password}\"\n}\n"
	c.configure("app", fmt.Sprintf(cloudBlock, "cloud", `name = "shop"`)+"}\n"+more+"terraform {\n", `echo "greeting $GREETING, secret $SECRET, of the code $(printenv | grep -c KEYS)"`)
	c.must("app", at, "init")
	apply := func(want string, args ...string) {
		t.Helper()
		out := c.must("app", at, append([]string{"apply", "-auto-approve", "-no-color"}, args...)...)
		for _, want := range []string{want, "greeting hello, secret (sensitive), of the code 0"} {
			if !strings.Contains(out, want) {
				t.Errorf("the run does not tell %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, hidden) || strings.Contains(out, sealed) {
			t.Errorf("the run tells a secret:\n%s", out)
		}
	}
	apply(`all = "of the workspace, two, north, (sensitive)"`)
	apply(`all = "of the command, two, north, (sensitive)"`, "-var", "text=of the command")
	must(client.VariableSets.Update(ctx, set.ID, &tfe.VariableSetUpdateOptions{Priority: new(true)}))(t)
	apply(`all = "of a set, two, north, (sensitive)"`, "-var", "text=of the command")
	c.useModule(registry, at)
	// The tool shows a saved plan as text and as JSON.
	c.must("app", at, "plan", "-out=saved", "-replace=terraform_data.one")
	for flag, wants := range map[string][]string{
		"-no-color": {`-/+ resource "terraform_data" "one"`, "Run status: planned and saved (confirmable)"},
		"-json":     {`"actions":["delete","create"]`, `"of a set, two, north, (sensitive)"`},
	} {
		out := c.must("app", at, "show", flag, "saved")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("show %s does not tell %s:\n%s", flag, want, out)
			}
		}
		if strings.Contains(out, hidden) || strings.Contains(out, sealed) {
			t.Errorf("show %s tells a secret:\n%s", flag, out)
		}
	}
	if log := server.log.String(); strings.Contains(log, hidden) || strings.Contains(log, sealed) {
		t.Error("the log of the server has a secret")
	}
	c.refuseProviderOfState(client, made, registry, at)
}

// useModule applies a module from the registry, which the state then says, and that of the sender's folder
// which is no longer called not.
func (c *cloud) useModule(registry, server string) {
	c.t.Helper()
	succeed(c.t, os.MkdirAll(filepath.Join(c.dir, "dns"), 0o755))
	succeed(c.t, os.WriteFile(filepath.Join(c.dir, "dns", "main.tf"), []byte("output \"port\" {\n  value = 53\n}\n"), 0o644))
	must(c.okara("publish", "module", filepath.Join(c.dir, "dns"), "net/dns/any", "1.0.0", "--registry", registry))(c.t)
	c.services = fmt.Sprintf("    \"modules.v1\" = \"http://%s/v1/modules/\"\n", server)
	calls := filepath.Join(c.dir, "app", "calls.tf")
	const call = "module %q {\n  source  = \"okara.test/net/dns/any\"\n  version = \"1.0.0\"\n}\n"
	succeed(c.t, os.WriteFile(calls, fmt.Appendf(nil, call+call, "dns", "gone"), 0o644))
	c.must("app", server, "init")
	succeed(c.t, os.WriteFile(calls, fmt.Appendf(nil, call+"output \"dns\" {\n  value = module.dns.port\n}\n", "dns"), 0o644))
	c.must("app", server, "apply", "-auto-approve")
	uses := must(c.okara("state", "uses", registry+"/state/acme", "-w", "shop", "--json", "--key", c.stateKey()))(c.t)
	for _, want := range []string{`"recorded": "complete"`, `"source": "okara.test/net/dns/any"`, `"version": "1.0.0"`, `"dns"`} {
		if !strings.Contains(uses, want) {
			c.t.Errorf("the state does not say %s:\n%s", want, uses)
		}
	}
	if strings.Contains(uses, "gone") {
		c.t.Errorf("the state has a call that is gone:\n%s", uses)
	}
}

// TestCloudRunDecided cancels, confirms and discards a waiting run at once: one decision
// wins. The record of the run is not listed among the instances.
//
// Shows: cloud 30
func TestCloudRunDecided(t *testing.T) {
	set := must(findTools())(t)
	c := newCloud(t, set, set.tofu)
	registry, at := c.registry(), freeAddress(t)
	c.serveRuns("one", registry, at, "")
	c.folder("app", "cloud", `name = "shop"`, "true")
	c.must("app", at, "init")
	out := c.must("app", at, "plan", "-no-color", "-out=saved")
	_, rest, _ := strings.Cut(out, "/runs/")
	run, _, _ := strings.Cut(rest, "\n")
	actions := []string{"apply", "discard", "cancel", "force-cancel"}
	won := map[string]bool{}
	var mu sync.Mutex // guards won
	var group sync.WaitGroup
	for _, action := range actions {
		group.Go(func() {
			status := ask(t.Context(), runnerToken, http.MethodPost, "http://"+at+"/api/v2/runs/"+run+"/actions/"+action)
			if status != http.StatusAccepted && status != http.StatusConflict {
				t.Errorf("%s is answered %d", action, status)
			}
			mu.Lock()
			defer mu.Unlock()
			won[action] = status == http.StatusAccepted
		})
	}
	group.Wait()
	// A confirmed run may be cancelled, and a cancelled one may be forced to end.
	if n := len(slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return !won[a] })); n == 0 ||
		won["discard"] && n > 1 || won["cancel"] && n > 1 && !won["apply"] || won["force-cancel"] && !won["cancel"] {
		t.Errorf("accepted were %v", won)
	}
	record := strings.Split(run, ".")[1]
	for token, want := range map[string]int{runnerToken: http.StatusNotFound, adminToken: http.StatusOK} {
		if got := ask(t.Context(), token, http.MethodGet, "http://"+at+"/api/v1/instances/"+record); got != want {
			t.Errorf("%s gets the record of the workspace with status %d, want %d", token[:10], got, want)
		}
	}
}

// TestCloudRunLost kills the server amid an apply, alone or with its machine's rest: the run goes
// on, or is lost, and the next proceeds.
//
// Shows: cloud 30 | the server or its whole machine dies during an apply; concurrent decisions; the
// record of a workspace does not count as an instance
func TestCloudRunLost(t *testing.T) {
	if os.Getenv(rivalsVar) == "" {
		t.Skip(rivalsVar + " is not set; `make interop` sets it: a lease passes until the next server leads, which is too long for `make test`")
	}
	for name, whole := range map[string]bool{"server": false, "machine": true} {
		t.Run(name, func(t *testing.T) { eachTool(t, func(t *testing.T, c *cloud) { testCloudRunLost(t, c, whole) }) })
	}
}

func testCloudRunLost(t *testing.T, c *cloud, whole bool) {
	registry, at := c.registry(), freeAddress(t)
	server := c.serveRuns("one", registry, at, wrapped)
	hold, inside := c.held("first")
	c.must("first", at, "init")
	first := c.begin("first", at, inside)
	if out, err := c.run("first", at, "force-unlock", "-force", "acme/shop"); err == nil {
		t.Errorf("the lock of a run at work is ended:\n%s", out)
	}
	server.kill()
	if whole {
		killBelow(t, filepath.Join(c.dir, "one", "runs"))
	}
	c.serveRuns("one", registry, at, wrapped)
	if !whole {
		c.release(hold)
	}
	if e := <-first; (e.err != nil) != whole {
		t.Errorf("%v\n%s", e.err, e.out)
	}
	if whole {
		c.release(hold)
		c.must("first", at, "force-unlock", "-force", "acme/shop")
	}
	if out := c.must("first", at, "apply", "-auto-approve", "-no-color", "-var", "text=second"); !strings.Contains(out, "Apply complete!") {
		t.Errorf("the next apply is\n%s", out)
	}
	c.unlocked(registry)
}

// killBelow kills every process related to a folder, like a power failure.
func killBelow(t *testing.T, dir string) {
	t.Helper()
	entries := must(os.ReadDir("/proc"))(t)
	killed := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // the process may be gone, or belong to another user
		if !strings.Contains(string(env), dir) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		killed++
	}
	if killed < 2 { // the tool, and the server
		t.Fatalf("%d processes of the run were found", killed)
	}
}
