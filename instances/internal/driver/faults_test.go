// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// reporting leaves attempts' results in the registry, by a client without faults.
type reporting struct {
	*program
	writer, reader *oci.Client
	left           *left
}

// left records the attempts that have left a result.
type left struct {
	mu  sync.Mutex // guards all
	all map[lifecycle.Ref]bool
}

func (p *reporting) Advance(ctx context.Context, s run.Attempt) (run.Status, error) {
	st, err := p.program.Advance(ctx, s)
	if err != nil || st.State != run.Ended {
		return st, err
	}
	if err := p.write(ctx, s, st.Result); err != nil {
		return st, err
	}
	repo, err := p.reader.Repo(instanceRepo(s.Ref.ID))
	if err != nil {
		return st, err
	}
	r, _, err := run.ReadReport(ctx, records.InstanceRepo{Repo: repo}, s.Ref)
	return run.Status{State: run.Ended, Result: r.Result}, err
}

// write leaves the result of an attempt, once.
func (p *reporting) write(ctx context.Context, s run.Attempt, res lifecycle.Result) error {
	p.left.mu.Lock()
	defer p.left.mu.Unlock()
	if p.left.all[s.Ref] {
		return nil
	}
	b, err := json.Marshal(run.Report{
		Version: 1, Nonce: s.Ref.Nonce, Kind: s.Ref.Kind, Result: lifecycle.Result{Outcome: res.Outcome, Counts: res.Counts, Outputs: res.Outputs, Resources: res.Resources, State: res.State},
	})
	if err != nil {
		return err
	}
	repo, err := p.writer.Repo(instanceRepo(s.Ref.ID))
	if err != nil {
		return err
	}
	at := lifecycle.Ref{ID: s.Ref.ID, N: s.Ref.N, Attempt: s.Ref.Attempt, Nonce: s.Ref.Nonce}
	if err := (records.InstanceRepo{Repo: repo}).PutRun(ctx, at, records.RunFiles{Result: b}); err != nil {
		return err
	}
	p.left.all[s.Ref] = true
	return nil
}

func instanceRepo(id string) string { return "acme/instances/sandbox/vpc/" + id }

func directly(t *testing.T, h http.Handler) *oci.Client {
	t.Helper()
	return must.Get(oci.New("registry.test", oci.Options{Transport: ocitest.Direct{Handler: h}, PlainHTTP: true}))(t)
}

func acts() map[string]ocitest.Act {
	return map[string]ocitest.Act{"lost": ocitest.FailBefore, "unanswered": ocitest.FailAfter}
}

// TestFaultAtEachRequestOfLife loses each request that the reconciler of a leader makes for
// one instance, before and after it took effect: those that store its source, send notices,
// read its results, store its final record and remove the rest. The instance has the same
// life as without faults, and everything is done once.
//
// Shows: crash K1
func TestFaultAtEachRequestOfLife(t *testing.T) {
	for name, act := range acts() {
		t.Run(name, func(t *testing.T) {
			n := 1
			for ; lifeWithFault(t, n, act); n++ {
				if t.Failed() {
					t.Fatalf("at request %d", n)
				}
			}
			t.Logf("a life takes %d requests", n-1)
			if n <= 25 {
				t.Errorf("a life takes only %d requests", n-1)
			}
		})
	}
}

func lifeWithFault(t *testing.T, n int, act ocitest.Act) (hit bool) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		fault := &ocitest.Fault{Base: w.counted.Base, Nth: n, Do: act}
		w.counted.Base = fault
		clean := directly(t, handler)
		w.options.Executor = &reporting{program: w.program, writer: clean, reader: w.client, left: &left{all: map[lifecycle.Ref]bool{}}}
		w.options.Queue = jobs.New(jobs.Options{Repo: depottest.MustRepo(t, w.client, w.layout.QueueRepo())})
		stop := w.run(t)
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		if ready := w.until(t, rec.ID, time.Hour, lifecycle.Ready); string(ready.Outputs["url"]) != `"https://made.example.com"` || ready.Runs[0].Failures != 0 {
			t.Errorf("it is ready: %+v", ready)
		}
		w.until(t, rec.ID, 10*time.Hour, lifecycle.Destroyed)
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		stop()
		hit = fault.Seen() >= n
		if rec := w.record(rec.ID); rec != nil {
			t.Errorf("after eight days: %+v", rec)
		}
		w.begunOnce(t, rec.ID)
		if list, err := depottest.MustRepo(t, clean, instanceRepo(rec.ID)).Snapshot(t.Context()); err != nil || !slices.Equal(list.Tags, []string{"record-" + rec.ID}) {
			t.Errorf("left in the repository: %v, %v", list.Tags, err)
		}
		queue := depottest.MustRepo(t, clean, w.layout.QueueRepo())
		if _, err := records.ReadInstanceEntry(t.Context(), queue, rec.ID); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("entry of a state that has gone: %v", err)
		}
		must.Match(t, "notices", noticesIn(t, queue), []string{"destroyed", "ready"})
	})
	return hit
}

// begunOnce: made once and destroyed once, by one attempt each.
func (w *world) begunOnce(t *testing.T, id string) {
	t.Helper()
	if kinds := w.program.kinds(id); !slices.Equal(kinds, []lifecycle.RunKind{lifecycle.RunApply, lifecycle.RunDestroy}) {
		t.Errorf("attempts that were begun: %v, want one that makes it and one that destroys it", kinds)
	}
	if left := w.program.left(); len(left) > 0 {
		t.Errorf("resources are left: %v", left)
	}
}

// noticesIn works off a queue: kinds of notices, each event once.
func noticesIn(t *testing.T, repo *oci.Repo) []string {
	t.Helper()
	var mu sync.Mutex // guards kinds
	kinds := map[string]string{}
	queue := jobs.New(jobs.Options{Repo: repo, Handlers: map[string]jobs.Handler{
		driver.KindNotice: func(_ context.Context, j jobs.Job) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			kinds[j.Data["event"]] = j.Data["kind"]
			return "told", nil
		},
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	queue.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	var all []string
	for _, kind := range kinds {
		all = append(all, kind)
	}
	slices.Sort(all)
	return all
}

// TestFaultAtEachRequestOfLeader loses each request of a leader, before and after it took effect,
// refuses it, sends it twice, lets it hang, or cuts the leader off after it while another one waits:
// requests of its lock,
// its commits, its reconciles and the results. The instance is made and ends, and the next
// leader does not start again what was started.
//
// Shows: crash K1 | the leader before a commit
func TestFaultAtEachRequestOfLeader(t *testing.T) {
	for _, f := range []leaderFault{
		{"lost", ocitest.FailBefore, false},
		{"unanswered", ocitest.FailAfter, false},
		{"refused", ocitest.Status(http.StatusForbidden, -1), false},
		{"twice", ocitest.Twice, false},
		{"hangs", ocitest.Hang, false},
		{"killed", ocitest.FailAfter, true},
	} {
		t.Run(f.name, func(t *testing.T) {
			n := 1
			for ; f.at(t, n); n++ {
				if t.Failed() {
					t.Fatalf("at request %d", n)
				}
			}
			t.Logf("the leader had %d requests", n-1)
			if n <= 50 {
				t.Errorf("the leader had only %d requests", n-1)
			}
		})
	}
}

type leaderFault struct {
	name string
	do   ocitest.Act
	dies bool // all later requests are lost
}

// at lets an instance live while the leader's n-th request fails, if there is one.
func (f leaderFault) at(t *testing.T, n int) (hit bool) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, handler)
		s.program.takes, s.options.Observe = 5*time.Second, time.Second
		clean := directly(t, handler)
		all := &left{all: map[lifecycle.Ref]bool{}}
		s.executor = func(reader *oci.Client) run.MachineExecutor {
			return &reporting{program: s.program, writer: clean, reader: reader, left: all}
		}
		fault := &ocitest.Fault{Base: s.machine, Nth: n, Do: f.do}
		ways := []http.RoundTripper{fault}
		if f.dies {
			fault.Base = &ocitest.Fault{Base: s.machine, Nth: n + 1, Times: -1, Do: ocitest.FailBefore}
			ways = append(ways, s.machine)
		}
		stop := s.serve(t, ways...)
		tpl := testTemplate("sandbox/vpc")
		s.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: s.source})
		owner := template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "anna"}
		id := s.send(t, "create", lifecycle.Create{Template: tpl, Digest: digestOf(tpl), Source: s.source, Owner: owner}).ID
		s.sees(t, id, lifecycle.Ready)
		s.send(t, "destroy", lifecycle.DestroyNow{ID: id})
		s.sees(t, id, lifecycle.Destroyed)
		time.Sleep(time.Minute)
		hit = fault.Seen() >= n
		stop()
		s.begunOnce(t, id)
	})
	return hit
}

func (s *site) send(t *testing.T, key string, e lifecycle.Event) *lifecycle.Record {
	t.Helper()
	c := s.command(e, lifecycle.Actor{Issuer: "https://idp", Subject: "anna"})
	c.Key, c.Caller = key, "anna"
	a, err := s.do(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return a.Record
}

// sees waits until any leader has an instance in a phase.
func (s *site) sees(t *testing.T, id string, phase lifecycle.Phase) {
	t.Helper()
	var rec *lifecycle.Record
	for end := time.Now().Add(30 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, server := range s.servers {
			v, err := server.View(t.Context())
			if err != nil || !v.Leading {
				continue
			}
			if rec = v.Document.Records[id]; rec != nil && rec.Phase == phase {
				return
			}
		}
	}
	t.Fatalf("the instance is %+v, want %s", rec, phase)
}
