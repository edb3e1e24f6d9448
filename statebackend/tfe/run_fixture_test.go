// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// record is the id of the first record of a workspace.
const record = "abcdefgh23"

// fakeRuns keeps runs in memory and executes none: a test changes their status.
type fakeRuns struct {
	host string

	mu      sync.Mutex // guards the fields below
	records map[tfe.Workspace]string
	runs    map[tfe.Workspace][]tfe.Run // newest first
	new     []tfe.NewRun
	keys    map[string]int
	acts    []tfe.Decision
	logs    map[tfe.Phase]string
	plan    []byte  // a [tfe.PlanDocument]
	offsets []int64 // offsets at which logs were read
	whole   bool    // the logs are complete
	fail    error   // the error of each call
	running int
}

func newFakeRuns(host string) *fakeRuns {
	return &fakeRuns{host: host, records: map[tfe.Workspace]string{}, runs: map[tfe.Workspace][]tfe.Run{}, keys: map[string]int{}, logs: map[tfe.Phase]string{}}
}

func (f *fakeRuns) View(_ context.Context, w tfe.Workspace) (tfe.RunView, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tfe.RunView{Record: f.records[w], Runs: append([]tfe.Run{}, f.runs[w]...)}, f.fail
}

func (f *fakeRuns) Open(_ context.Context, w tfe.Workspace, _ access.Caller) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.records[w] == "" {
		f.records[w] = record
		if len(f.records) > 1 {
			f.records[w] = "zbcdefgh23"
		}
	}
	return f.records[w], f.fail
}

func (f *fakeRuns) Repository(_ tfe.Workspace, record string) (*oci.Repo, error) {
	return oci.OpenRepo(f.host+"/instances/tfe/"+record, oci.Options{PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}})
}

func (f *fakeRuns) Create(_ context.Context, w tfe.Workspace, record string, n tfe.NewRun) (tfe.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil || f.records[w] != record {
		return tfe.Run{}, errors.Join(f.fail, tfe.ErrNoRun)
	}
	if at := f.keys[n.Key]; at > 0 {
		run := f.runs[w][len(f.runs[w])-at]
		run.Repeated = true
		return run, nil
	}
	if len(f.runs[w]) >= 10 {
		return tfe.Run{}, tfe.ErrTooManyRuns
	}
	run := tfe.Run{N: len(f.runs[w]) + 1, RunOptions: n.RunOptions, Status: tfe.RunPending, Configuration: n.Configuration, Created: time.Now()}
	f.runs[w] = append([]tfe.Run{run}, f.runs[w]...)
	f.keys[n.Key] = run.N
	f.new = append(f.new, n)
	return run, nil
}

func (f *fakeRuns) PlanJSON(context.Context, tfe.Workspace, string, int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plan, f.fail
}

func (f *fakeRuns) ReadUses(context.Context, tfe.Workspace, string, int) ([]byte, error) {
	return nil, f.fail
}

func (f *fakeRuns) CheckEnvironment(name string) error {
	if name == "PATH" {
		return errors.New("the variable PATH is set by the run itself")
	}
	return nil
}

func (f *fakeRuns) Act(_ context.Context, w tfe.Workspace, _ string, n int, d tfe.Decision) (tfe.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	run := &f.runs[w][len(f.runs[w])-n]
	next := map[tfe.RunAction]map[tfe.RunStatus]tfe.RunStatus{
		tfe.RunConfirm: {tfe.RunPlanned: tfe.RunConfirmed, tfe.RunPlannedAndSaved: tfe.RunConfirmed},
		tfe.RunDiscard: {tfe.RunPlanned: tfe.RunDiscarded, tfe.RunPending: tfe.RunDiscarded},
		tfe.RunCancel:  {tfe.RunPending: tfe.RunCanceled, tfe.RunPlanning: tfe.RunCanceled},
	}[d.Action][run.Status]
	if next == "" || d.Plan != run.Plan && d.Action == tfe.RunConfirm {
		return *run, tfe.ErrRunStatus
	}
	run.Status = next
	f.acts = append(f.acts, d)
	return *run, nil
}

func (f *fakeRuns) Log(_ context.Context, _ tfe.Workspace, _ string, _ int, p tfe.Phase, offset, limit int64) ([]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := f.logs[p]
	f.offsets = append(f.offsets, offset)
	from := min(offset, int64(len(text)))
	to := min(from+limit, int64(len(text)))
	return []byte(text[from:to]), f.whole && to == int64(len(text)), f.fail
}

func (f *fakeRuns) Queue(context.Context, string) (tfe.RunQueue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := tfe.RunQueue{Running: f.running}
	for _, w := range []tfe.Workspace{acmeProd(), {Organization: "acme", Name: "dev-a"}} {
		for _, run := range f.runs[w] {
			if run.Status == tfe.RunPending {
				q.Waiting = append(q.Waiting, tfe.QueuedRun{Workspace: w, Record: f.records[w], N: run.N})
			}
		}
	}
	return q, f.fail
}

func (f *fakeRuns) End(_ context.Context, w tfe.Workspace, _ access.Caller) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, run := range f.runs[w] {
		if run.Status == tfe.RunPending || run.Status == tfe.RunPlanned {
			return tfe.ErrRunPending
		}
	}
	delete(f.records, w)
	delete(f.runs, w)
	return f.fail
}

// move changes the newest run of acme/prod.
func (f *fakeRuns) move(change func(*tfe.Run)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.runs[acmeProd()][0])
}

func (f *fakeRuns) status(s tfe.RunStatus) { f.move(func(r *tfe.Run) { r.Status = s }) }

func acmeProd() tfe.Workspace { return tfe.Workspace{Organization: "acme", Name: "prod"} }

// newRemote executes runs, with workspace prod and its id.
func newRemote(t testing.TB, o setup) (c client, f *fakeRuns, id string) {
	t.Helper()
	host := newRegistry(t)
	f = newFakeRuns(host)
	o.change = func(to *tfe.Options) { to.Runs, to.RunTime = f, time.Hour }
	c = newTool(t, newServer(t, host, o)).as("runner")
	body := newWorkspace("prod")
	body["data"].(object)["attributes"].(object)["execution-mode"] = "remote"
	return c, f, c.want(http.StatusCreated, http.MethodPost, workspaces, body).item().ID
}

// folder returns the tar.gz of a working directory with one file.
func folder(t testing.TB, name, text string) []byte {
	t.Helper()
	return tarGz(t, tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}, text)
}

func tarGz(t testing.TB, h tar.Header, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	err := w.WriteHeader(&h)
	_, err2 := w.Write([]byte(text))
	must.Succeed(t, errors.Join(err, err2, w.Close(), gz.Close()))
	return b.Bytes()
}

// announceConfiguration returns the id of a configuration version and its address.
func (c client) announceConfiguration(id string, attributes object) (cv, upload string) {
	c.t.Helper()
	body := object{"data": object{"type": "configuration-versions", "attributes": attributes}}
	got := c.want(http.StatusCreated, http.MethodPost, "workspaces/"+id+"/configuration-versions", body).item()
	return got.ID, got.Attributes["upload-url"].(string)
}

// configure uploads a configuration and returns its id.
func (c client) configure(id string) string {
	c.t.Helper()
	cv, upload := c.announceConfiguration(id, object{"auto-queue-runs": false})
	c.as("").want(http.StatusOK, http.MethodPut, upload, folder(c.t, "main.tf", cv))
	return cv
}

func runBody(workspace, cv string, attributes object) object {
	return object{"data": object{"type": "runs", "attributes": attributes, "relationships": object{
		"workspace":             object{"data": object{"type": "workspaces", "id": workspace}},
		"configuration-version": object{"data": object{"type": "configuration-versions", "id": cv}},
	}}}
}

// run queues a run of a new configuration.
func (c client) run(id string, attributes object) item {
	c.t.Helper()
	return c.want(http.StatusCreated, http.MethodPost, "runs", runBody(id, c.configure(id), attributes)).item()
}

func relationID(t testing.TB, i item, name string) string {
	t.Helper()
	var to struct{ ID string }
	if err := json.Unmarshal(i.Relationships[name].Data, &to); err != nil {
		t.Fatalf("%s of %+v: %v", name, i, err)
	}
	return to.ID
}

func otherKey(id string) string {
	return strings.Replace(id, keyOf("acme", "prod"), keyOf("other", "prod"), 1)
}
