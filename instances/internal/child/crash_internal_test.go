// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// through makes the child use a transport for the registry.
func (tr *trial) through(c *child, via http.RoundTripper) {
	tr.T.Helper()
	must.Succeed(tr.T, c.openRun())
	repo := must.Get(oci.OpenRepo(tr.order.Spec.Repository, oci.Options{Transport: via, SinglePost: c.Order.Registry.BuiltIn, Retry: oci.Retry{MaxAttempts: 1}}))(tr.T)
	c.repo.Repo = repo
	c.store = statebackend.New(repo, statebackend.Options{
		Sealer: tr.Repo.Sealer, LockTTL: c.pace.lease, StrictReads: true, DigestDeletes: c.Order.Registry.BuiltIn,
	})
}

// outage is a registry that does not answer while down is set.
type outage struct{ down atomic.Bool }

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	if o.down.Load() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, errors.New("no route to host")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestChildOutage makes the registry unreachable in mid-apply, and at the end: the last
// state and the result are written when it is back.
//
// Shows: crash K9 | the registry, during apply and when the result is stored; at each request of an
// attempt, before and after it took effect
func TestChildOutage(t *testing.T) {
	dir := t.TempDir()
	mark, gone := filepath.Join(dir, "mark"), filepath.Join(dir, "gone")
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {
		{State: runtest.State(1, 1)}, {Mark: mark}, {Await: gone}, {State: runtest.State(2, 2)}, {Print: runtest.Applied},
	}}.Module())
	var o outage
	c := tr.next()
	tr.through(c, &o)
	ended := make(chan error, 1)
	go func() { ended <- c.run(t.Context()) }()
	runtest.MustAppear(t, mark)
	o.down.Store(true)
	must.Succeed(t, os.WriteFile(gone, nil, 0o600))
	time.AfterFunc(300*time.Millisecond, func() { o.down.Store(false) })
	must.Succeed(t, <-ended)
	if r, log := tr.Result(); r.Outcome != lifecycle.Done || r.Resources != 2 {
		t.Errorf("report %+v\n%s", r, log)
	}
	tr.WantState(runtest.State(2, 2))
	tr.MustBeFree()
}

// TestChildResultRepeated fails each write of the result, before and after it takes
// effect.
//
// Shows: crash K9
func TestChildResultRepeated(t *testing.T) {
	for name, act := range map[string]ocitest.Act{"before": ocitest.FailBefore, "after": ocitest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{State: runtest.State(1, 1)}}}.Module())
			c := tr.next()
			tr.through(c, &ocitest.Fault{Times: 2, Do: act, Match: func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/run-abc-1-1")
			}})
			must.Succeed(t, c.run(t.Context()))
			if r, _ := tr.Result(); r.Outcome != lifecycle.Done || r.Resources != 1 {
				t.Errorf("report %+v", r)
			}
			tr.MustBeFree()
		})
	}
}

// TestChildLease cuts the child off until its lease is nearly over: the tool is
// interrupted, and killed if it does not end.
//
// Shows: crash K17
// Shows: platform-attacks 5
func TestChildLease(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Mark: mark}, {Deaf: true}}}.Module())
	tr.pace.lease, tr.pace.grace = 12*time.Second, time.Hour // a busy machine renews it in half of that
	var o outage
	c := tr.next()
	tr.through(c, &o)
	ended := make(chan error, 1)
	go func() { ended <- c.run(t.Context()) }()
	runtest.MustAppear(t, mark)
	o.down.Store(true)
	<-c.stop.killed.Done()
	o.down.Store(false)
	must.Succeed(t, <-ended)
	if r, log := tr.Result(); r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "could not be renewed") || r.Resources != 1 {
		t.Errorf("report %+v\n%s", r, log)
	}
}

// TestChildForced: what is stored under a forced lock is restored by the next attempt, unless
// another state came.
//
// Shows: crash K17 | the lock is forced while the child lives
func TestChildForced(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		mark, over := filepath.Join(t.TempDir(), "mark"), filepath.Join(t.TempDir(), "over")
		tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{State: runtest.State(1, 1)}, {Mark: mark}, {Interrupt: true}, {Await: over}, {State: runtest.State(2, 2)}}}.Module())
		forced := make(chan error, 1)
		go func() {
			runtest.MustAppear(t, mark)
			forced <- errors.Join(tr.force(meanwhile), os.WriteFile(over, nil, 0o600))
		}()
		r, log := tr.run()
		must.Succeed(t, <-forced)
		if r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "taken over") {
			t.Errorf("report %+v\n%s", r, log)
		}
		tr.module(runtest.Script{"apply": {{Read: true}}}.Module())
		tr.order.Spec.Took = run.LockID(tr.order.Spec.Ref)
		r, log = tr.run()
		if meanwhile {
			if r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "okara state diff") {
				t.Errorf("report %+v\n%s", r, log)
			}
			tr.WantState(runtest.State(5, 0))
			continue
		}
		if r.Outcome != lifecycle.Done || r.Resources != 2 { // restored, or found by the next holder of the lock
			t.Errorf("report %+v\n%s", r, log)
		}
		tr.MustBeFree()
	}
}

// force releases the lock of the last attempt, and takes it briefly.
func (tr *trial) force(write bool) error {
	ctx := context.Background()
	if err := tr.Store.ForceUnlock(ctx, "default", run.LockID(tr.order.Spec.Ref)); err != nil {
		return err
	}
	return tr.Store.Hold(ctx, "default", statebackend.LockInfo{Who: "anna"}, func(l *statebackend.Lock) error {
		if !write {
			return nil
		}
		_, err := l.Put(ctx, []byte(runtest.State(5, 0)))
		return err
	})
}

// TestChildAlreadyExists: the error about a lost attempt's resource is explained, no other.
//
// Shows: crash K5-K6
func TestChildAlreadyExists(t *testing.T) {
	for _, took := range []bool{true, false} {
		text := "a VPC of this name already exists " + strings.Repeat("x", maxError)
		tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{Print: runtest.Failure("creating", text)}, {Exit: 1}}}.Module())
		want := ""
		if took {
			lock := must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(tr.order.Spec.Ref)}))(t)
			tr.order.Spec.Took = run.LockID(tr.order.Spec.Ref)
			want = "started at " + lock.Info().Created.UTC().Format(time.RFC3339)
		}
		r, _ := tr.run()
		if r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "already exists") || took != strings.Contains(r.Error, "earlier attempt") || !strings.Contains(r.Error, want) {
			t.Errorf("took over %v: %q, want %q", took, r.Error, want)
		}
	}
}

// TestChildLeftover stores the state that a killed attempt left on this machine, unless a
// newer state exists.
//
// Shows: crash K7
// Shows: platform-mistakes 14
func TestChildLeftover(t *testing.T) {
	for _, tt := range []struct {
		name  string
		left  string
		since string // a state that another run stored since
		want  string // state at the end
		log   string
	}{
		{name: "next", left: runtest.State(3, 2), want: runtest.State(3, 2), log: "could not store is now version"},
		{name: "older", left: runtest.State(1, 2), want: runtest.State(1, 1), log: "may hold a newer state in"},
		{name: "another lineage", left: strings.Replace(runtest.State(3, 2), `"l"`, `"m"`, 1), want: runtest.State(1, 1), log: "may hold a newer state in"},
		{name: "no state", left: "{}", want: runtest.State(1, 1), log: "may hold a newer state in"},
		{name: "somebody wrote", left: runtest.State(3, 2), since: runtest.State(2, 0), want: runtest.State(2, 0), log: "another run has stored a state since"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{"apply": {{State: runtest.State(1, 1)}}}.Module())
			tr.run()
			lost := filepath.Join(tr.dir, "1-1")
			file := filepath.Join(lost, "work", sandbox.Tool, moduleFolder, sandbox.ErroredFile)
			must.Succeed(t, os.WriteFile(file, []byte(tt.left), 0o600))
			if tt.since != "" {
				must.Succeed(t, tr.Store.Hold(t.Context(), "default", statebackend.LockInfo{}, func(l *statebackend.Lock) error {
					_, err := l.Put(t.Context(), []byte(tt.since))
					return err
				}))
			}
			tr.module(runtest.Script{}.Module())
			if r, log := tr.run(); r.Outcome != lifecycle.Done || !strings.Contains(log, tt.log) {
				t.Errorf("report %+v\n%s", r, log)
			}
			tr.WantState(tt.want)
			if _, err := os.Stat(file); (err == nil) == (tt.want == tt.left) {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

// TestChildSecrets plants secrets in all that a child receives, and looks for them in all
// that it leaves, in every encoding.
//
// Shows: platform-attacks 15 | planted secrets in logs, ledger, answers and audit log; in notices
// and event streams
// Shows: instances 8
func TestChildSecrets(t *testing.T) {
	sent := &recorder{}
	secrets := []string{"planted-in-environment", "planted in \"a file\"", "planted&in<variable>", "planted-run-token", "planted-masked"}
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{
		"init":  {{Environ: true}, {Cat: "../../given/tofu.rc"}, {Cat: "../../given/files/key"}, {Cat: "../../given/variables.tfvars.json"}},
		"plan":  {{Print: runtest.Failure("no", "the password planted&in<variable> is wrong: "+base64.StdEncoding.EncodeToString([]byte("u:"+secrets[2])))}, {Stderr: url.QueryEscape(secrets[1])}, {Stderr: secrets[4]}, {Exit: 1}},
		"apply": {{State: runtest.State(1, 1)}},
	}.Module())
	tr.order.StateKeys = "" // so that the test can read what is stored
	tr.Repo.Sealer, tr.Store = nil, statebackend.New(tr.Repo.Repo, statebackend.Options{})
	tr.order.Environment = map[string]string{"SOME_KEY": secrets[0]}
	tr.order.Files = map[string][]byte{"key": []byte("first line\n" + secrets[1] + "\n")}
	tr.order.Spec.Variables = map[string]json.RawMessage{"password": json.RawMessage(`{"deep":["planted&in<variable>"]}`)}
	tr.order.Spec.Sensitive = []string{"password"}
	tr.order.Server = sandbox.Server{URL: "https://127.0.0.1:1", Host: "okara.test", Token: secrets[3]}
	tr.order.Masked = []string{secrets[4]}
	c := tr.next()
	tr.through(c, sent)
	must.Succeed(t, c.run(t.Context()))
	r, log := tr.Result()
	if r.Outcome != lifecycle.RunFailed || !strings.Contains(log, masked) {
		t.Errorf("report %+v\n%s", r, log)
	}
	local := must.Get(os.ReadFile(filepath.Join(tr.order.Scratch, sandbox.ResultFile)))(t)
	file := must.Get(os.ReadFile(filepath.Join(tr.order.Scratch, sandbox.LogFile)))(t)
	for _, s := range secrets {
		for _, form := range formsOf(s) {
			for name, text := range map[string]string{"log": log, "local log": string(file), "local result": string(local), "requests": sent.text()} {
				if strings.Contains(text, form) {
					t.Errorf("%q is in the %s", form, name)
				}
			}
		}
	}
	if !strings.Contains(sent.text(), "run-abc-1-1") {
		t.Error("nothing was recorded")
	}
}

type recorder struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func (r *recorder) add(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.Write(b)
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(b))
		r.add(b)
	}
	r.add([]byte(req.Method + " " + req.URL.String() + "\n"))
	return http.DefaultTransport.RoundTrip(req)
}
