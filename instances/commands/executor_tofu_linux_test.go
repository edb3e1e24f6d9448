// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/internal/localexec"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// cloud is where the module of these tests makes things: making b waits until the test
// releases it.
type cloud struct {
	arrived, goOn chan struct{}

	mu   sync.Mutex // guards the fields below
	here map[string]bool
	made map[string]int
	hold bool
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	c.mu.Lock()
	hold := c.hold && name == "b" && r.Method == http.MethodPost
	if r.Method == http.MethodPost {
		c.here[name] = true
		c.made[name]++
	} else {
		delete(c.here, name)
	}
	if hold {
		c.hold = false
	}
	c.mu.Unlock()
	if hold {
		close(c.arrived)
		<-c.goOn
	}
}

func (c *cloud) list() (names []string, made map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.here {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, map[string]int{"a": c.made["a"], "b": c.made["b"]}
}

// runsTest is the part of a server that executes runs.
type runsTest struct {
	cloud   *cloud
	options localexec.LocalOptions
	local   *localexec.Local
	spec    run.Spec
	store   *statebackend.Store
	ledger  *statebackend.Store
	serial  int
}

func newRunsTest(t *testing.T, isolation string) *runsTest {
	t.Helper()
	if isolation == sandbox.ModeSandbox {
		tofutest.Bubblewrap(t)
	}
	rt := &runsTest{cloud: &cloud{here: map[string]bool{}, made: map[string]int{}, hold: true, arrived: make(chan struct{}), goOn: make(chan struct{})}}
	server := httptest.NewServer(rt.cloud)
	t.Cleanup(server.Close)
	host := ocitest.New(t, ocitest.Quirks{})
	rt.options = runsOptions(t.TempDir(), tofutest.Tofu(t), isolation, host)
	rt.spec = run.Spec{
		Ref: lifecycle.Ref{ID: "abcdefghjk", Kind: lifecycle.RunApply, N: 1}, Run: "sandbox/vpc abcdefghjk run 1",
		Repository: host + "/okara/instances/sandbox/vpc/abcdefghjk", Workspace: "default", Ledger: host + "/okara/ledger",
		Source: template.Source{Module: "net/vpc/aws", Version: "1.0.0"}, Limits: run.Limits{Timeout: 10 * time.Minute},
	}
	repo := must.Get(oci.OpenRepo(rt.spec.Repository, oci.Options{}))(t)
	ledger := must.Get(oci.OpenRepo(rt.spec.Ledger, oci.Options{}))(t)
	rt.store, rt.ledger = statebackend.New(repo, statebackend.Options{StrictReads: true}), statebackend.New(ledger, statebackend.Options{})
	rt.module(t, repo, server.Listener.Addr().String())
	rt.restart(t)
	return rt
}

// restart replaces the server by the next one on this machine.
func (rt *runsTest) restart(t *testing.T) {
	t.Helper()
	var err error
	if rt.local, err = localexec.NewLocal(t.Context(), rt.options); err != nil {
		t.Fatal(err)
	}
}

// module stores a module that makes a, then b, with nothing but a shell.
func (rt *runsTest) module(t *testing.T, repo *oci.Repo, address string) {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	call := func(method string) string {
		return `"exec 3<>/dev/tcp/127.0.0.1/` + port + ` && printf '` + method + ` /%s HTTP/1.0\\r\\n\\r\\n' ${self.input} >&3 && grep -q '200 OK' <&3"`
	}
	resource := func(name, after string) string {
		return `resource "terraform_data" "` + name + `" {
  input = "` + name + `"
` + after + `
  provisioner "local-exec" {
    interpreter = ["/bin/bash", "-c"]
    command     = ` + call("POST") + `
  }
  provisioner "local-exec" {
    when        = destroy
    interpreter = ["/bin/bash", "-c"]
    command     = ` + call("DELETE") + `
  }
}
`
	}
	files := map[string]string{"main.tf": resource("a", "") + resource("b", "  depends_on = [terraform_data.a]")}
	blob := oci.BytesBlob(artifact.MediaZip, depottest.ZipOf(t, files))
	must.Get(repo.EnsureBlob(t.Context(), blob))(t)
	rt.spec.Source.Archive = blob.Digest.String()
}

// next names another attempt in the ledger, after one that has ended.
func (rt *runsTest) next(t *testing.T) {
	t.Helper()
	if rt.spec.Ref.Attempt > 0 {
		rt.spec.Took = run.LockID(rt.spec.Ref)
	}
	rt.spec.Ref.Attempt++
	rt.spec.Ref.Nonce = fmt.Sprintf("nonce-%d-%d", rt.spec.Ref.N, rt.spec.Ref.Attempt)
	r := rt.spec.Ref
	rt.names(t, map[string]*lifecycle.Record{r.ID: {ID: r.ID, Run: &lifecycle.Run{N: r.N, Attempt: r.Attempt, Kind: r.Kind, Nonce: r.Nonce}}})
}

// names writes records to the ledger.
func (rt *runsTest) names(t *testing.T, records map[string]*lifecycle.Record) {
	t.Helper()
	rt.serial++
	doc := must.Get(json.Marshal(map[string]any{"version": 1, "lineage": "test", "serial": rt.serial, "records": records}))(t)
	must.Succeed(t, rt.ledger.Hold(t.Context(), "ledger", statebackend.NewLockInfo("test", "test"), func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), doc)
		return err
	}))
}

func (rt *runsTest) start(t *testing.T) run.Handle {
	t.Helper()
	return must.Get(rt.local.Start(t.Context(), rt.spec))(t)
}

// end waits for the end of an attempt.
func (rt *runsTest) end(t *testing.T, h run.Handle) run.Status {
	t.Helper()
	for {
		st := must.Get(rt.local.Observe(t.Context(), rt.spec, h))(t)
		if st.State != run.Running {
			return st
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (rt *runsTest) folder() string {
	r := rt.spec.Ref
	return filepath.Join(rt.options.Storage, "runs", r.ID, fmt.Sprintf("%d-%d", r.N, r.Attempt))
}

// kill ends the process named by a file of the scratch folder, with SIGKILL.
func (rt *runsTest) kill(t *testing.T, file string) {
	t.Helper()
	var p struct {
		PID int `json:"pid"`
	}
	b := must.Get(os.ReadFile(filepath.Join(rt.folder(), file)))(t)
	if err := json.Unmarshal(b, &p); err != nil || p.PID <= 1 {
		t.Fatalf("%s: %s, %v", file, b, err)
	}
	must.Succeed(t, syscall.Kill(p.PID, syscall.SIGKILL))
}

// resources lists the resources in the stored state.
func (rt *runsTest) resources(t *testing.T) (names []string) {
	t.Helper()
	b, _, err := rt.store.Get(t.Context(), rt.spec.Workspace)
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Resources []struct {
			Name      string `json:"name"`
			Instances []any  `json:"instances"`
		} `json:"resources"`
	}
	must.Succeed(t, json.Unmarshal(b, &s))
	for _, r := range s.Resources {
		if len(r.Instances) > 0 {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// complete makes attempts until one succeeds, and compares the state with what exists.
func (rt *runsTest) complete(t *testing.T) {
	t.Helper()
	for range 4 {
		rt.next(t)
		if st := rt.end(t, rt.start(t)); st.Result.Outcome == lifecycle.Done {
			here, _ := rt.cloud.list()
			if diff := cmp.Diff(rt.resources(t), here); diff != "" || st.Result.Resources != len(here) {
				t.Errorf("%+v: state and cloud (-state +cloud):\n%s", st, diff)
			}
			return
		} else {
			t.Logf("attempt %d: %+v", rt.spec.Ref.Attempt, st)
		}
	}
	t.Error("no attempt is done")
}

// TestTofuRunCost lets tofu plan in a sandbox, and checks the cost that the executor reports.
func TestTofuRunCost(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeSandbox)
	close(rt.cloud.goOn)
	order := rt.options.Order
	rt.options.Order = func(ctx context.Context, s run.Spec) (sandbox.Order, error) {
		o, err := order(ctx, s)
		const table = `{"currency":"EUR","rows":[{"type":"terraform_data","hourly":1500000},{"type":"terraform_data","attribute":"input","value":"b","hourly":1}]}`
		return o, errors.Join(err, json.Unmarshal([]byte(table), &o.Prices))
	}
	rt.restart(t)
	want := func(before, after int64) {
		t.Helper()
		rt.spec.Approve = true
		rt.next(t)
		st := rt.end(t, rt.start(t))
		if c := st.Result.Cost; st.Result.Outcome != lifecycle.Done || c == nil || c.Before != before || c.After != after || c.Priced != 2 || c.Unpriced != 0 || c.Currency != "EUR" {
			t.Errorf("%+v costs %+v, want %d and then %d", st, c, before, after)
		}
	}
	want(0, 1_500_001)
	rt.spec.Approve = false
	rt.complete(t)
	rt.spec.Ref.Kind, rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = lifecycle.RunDestroy, 2, 0, ""
	want(1_500_001, 0)
}

// TestTofuRunKilled kills child or tool while the tool starts and while it makes something.
// The next attempt succeeds, and the state lists exactly what exists, also after everything
// is destroyed.
//
// Shows: instances 5
func TestTofuRunKilled(t *testing.T) {
	for _, c := range []struct {
		name, isolation, victim string
		applying, lost          bool
	}{
		{"child at init", sandbox.ModeSandbox, "process.json", false, true},
		{"tool at init", sandbox.ModeSandbox, "tool.json", false, false},
		{"child in apply", sandbox.ModeSandbox, "process.json", true, true},
		{"tool in apply", sandbox.ModeSandbox, "tool.json", true, false},
		{"child in apply without sandbox", sandbox.ModeNone, "process.json", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := newRunsTest(t, c.isolation)
			rt.next(t)
			h := rt.start(t)
			waitForFile(t, filepath.Join(rt.folder(), "tool.json"))
			if !c.applying {
				close(rt.cloud.goOn)
			} else {
				<-rt.cloud.arrived
			}
			rt.kill(t, c.victim)
			if c.applying {
				for c.lost { // until the tool is asked to end
					st, err := rt.local.Observe(t.Context(), rt.spec, h)
					if err != nil || st.State != run.Running {
						t.Fatalf("%+v, %v", st, err)
					}
					if st.Message != "" {
						break
					}
				}
				close(rt.cloud.goOn)
			}
			st := rt.end(t, h)
			if (st.State == run.Gone) != c.lost || !c.lost && st.Result.Outcome != lifecycle.RunFailed {
				t.Errorf("%+v", st)
			}
			if recovered := c.applying && c.lost; recovered && !strings.Contains(st.Message, "errored.tfstate") {
				t.Errorf("%+v: nothing about the state that lies there", st)
			}
			rt.complete(t)
			_, made := rt.cloud.list()
			if want := (map[string]int{"a": 1, "b": 1}); c.lost && c.applying && made["a"] != want["a"] {
				t.Errorf("made %v: what the tool wrote down was made again", made)
			}
			rt.spec.Ref.Kind, rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = lifecycle.RunDestroy, 2, 0, ""
			rt.complete(t)
			if here, _ := rt.cloud.list(); len(here) > 0 {
				t.Errorf("left: %v", here)
			}
		})
	}
}

// TestTofuRunServerKilled kills a server during an apply. Its run goes on, and the next
// server reads the result.
func TestTofuRunServerKilled(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeSandbox)
	rt.next(t)
	spec := must.Get(json.Marshal(rt.spec))(t)
	host, _, _ := strings.Cut(rt.spec.Repository, "/")
	cmd := exec.Command("runs-server", rt.options.Storage, rt.options.Program, rt.options.Isolation, host)
	cmd.Stdin = bytes.NewReader(spec)
	cmd.Stderr = os.Stderr
	must.Succeed(t, cmd.Start())
	<-rt.cloud.arrived
	must.Succeed(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	rt.restart(t)
	if st, err := rt.local.Observe(t.Context(), rt.spec, ""); err != nil || st.State != run.Running {
		t.Errorf("%+v, %v", st, err)
	}
	h := rt.start(t) // still the same single run
	close(rt.cloud.goOn)
	st := rt.end(t, h)
	here, made := rt.cloud.list()
	if st.Result.Outcome != lifecycle.Done || st.Result.Counts == nil || st.Result.Counts.Add != 2 || made["a"]+made["b"] != 2 {
		t.Errorf("%+v, made %v", st, made)
	}
	if diff := cmp.Diff(rt.resources(t), here); diff != "" {
		t.Errorf("state and cloud (-state +cloud):\n%s", diff)
	}
}

func waitForFile(t *testing.T, name string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s does not appear", name)
		case <-tick.C:
		}
	}
}
