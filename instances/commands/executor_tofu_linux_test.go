// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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

// cloud is where the module of these tests makes things.
type cloud struct {
	mu   sync.Mutex // guards here
	here map[string]bool
}

func (c *cloud) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodPost {
		c.here[name] = true
	} else {
		delete(c.here, name)
	}
}

func (c *cloud) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.here))
}

// runsTest is the part of a server that executes runs.
type runsTest struct {
	cloud   *cloud
	options localexec.LocalOptions
	local   *localexec.Local
	spec    run.Attempt
	store   *statebackend.Store
	ledger  *statebackend.Store
	serial  int
}

func newRunsTest(t *testing.T, isolation string) *runsTest {
	t.Helper()
	if isolation == sandbox.ModeSandbox {
		tofutest.Bubblewrap(t)
	}
	rt := &runsTest{cloud: &cloud{here: map[string]bool{}}}
	server := httptest.NewServer(rt.cloud)
	t.Cleanup(server.Close)
	host := ocitest.New(t, ocitest.Quirks{})
	rt.options = runsOptions(t.TempDir(), tofutest.Tofu(t), isolation, host)
	rt.spec = run.Attempt{
		Ref: lifecycle.Ref{ID: "abcdefghjk", Kind: lifecycle.RunApply, N: 1}, Run: "sandbox/vpc abcdefghjk run 1",
		Machine: run.Machine{Repository: host + "/okara/instances/sandbox/vpc/abcdefghjk", Workspace: "default", Ledger: host + "/okara/ledger"},
		Source:  template.Source{Module: "net/vpc/aws", Version: "1.0.0"}, Limits: run.Limits{Timeout: 10 * time.Minute},
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
	files := map[string]string{"main.tf": resource("a", "") + resource("b", "  depends_on = [terraform_data.a]") + "output \"made\" {\n  value = terraform_data.a.output\n}\n"}
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
	return must.Get(rt.local.Advance(t.Context(), rt.spec))(t).Handle
}

// end waits for the end of an attempt.
func (rt *runsTest) end(t *testing.T, h run.Handle) run.Status {
	t.Helper()
	begun := rt.spec
	begun.Begun, begun.Handle = true, h
	for {
		if st := must.Get(rt.local.Advance(t.Context(), begun))(t); st.State != run.Running {
			return st
		}
		time.Sleep(20 * time.Millisecond)
	}
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
			here := rt.cloud.list()
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

// drift checks how many changes a drift run finds.
func (rt *runsTest) drift(t *testing.T, n int, want bool) {
	t.Helper()
	rt.spec.Ref.Kind, rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = lifecycle.RunDrift, n, 0, ""
	rt.next(t)
	st := rt.end(t, rt.start(t))
	if c := st.Result.Counts; st.Result.Outcome != lifecycle.Done || st.Result.State || c == nil || (c.Change > 0) != want {
		t.Errorf("drift: %+v, counts %+v, want some: %t", st, c, want)
	}
}

// TestTofuRunCost lets tofu plan in a sandbox, and checks the cost that the executor reports,
// and the drift after the state was changed by hand.
//
// Shows: platform 15
func TestTofuRunCost(t *testing.T) {
	rt := newRunsTest(t, sandbox.ModeSandbox)
	order := rt.options.Order
	rt.options.Order = func(ctx context.Context, s run.Attempt) (sandbox.Order, error) {
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
	rt.drift(t, 2, false)
	must.Succeed(t, rt.store.Hold(t.Context(), rt.spec.Workspace, statebackend.NewLockInfo("test", "test"), func(l *statebackend.Lock) error {
		state, _ := must.GetBoth(l.Get(t.Context()))(t)
		state = bytes.ReplaceAll(state, []byte(`"value": `), []byte(`"value":`)) // as terraform writes it
		changed := bytes.Replace(state, []byte(`"value":"a"`), []byte(`"value":"b"`), 1)
		if bytes.Equal(changed, state) {
			t.Errorf("no output in %s", state)
		}
		_, err := l.Put(t.Context(), changed)
		return err
	}))
	rt.drift(t, 3, true)
	rt.spec.Ref.Kind, rt.spec.Ref.N, rt.spec.Ref.Attempt, rt.spec.Took = lifecycle.RunDestroy, 4, 0, ""
	want(1_500_001, 0)
}
