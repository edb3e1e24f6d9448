// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/driver"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// program is an executor that runs nothing and takes a while.
type program struct {
	takes time.Duration

	mu        sync.Mutex // guards the fields below
	runs      map[lifecycle.Ref]*programRun
	started   []run.Attempt
	resources map[string]int // by instance
	// result may return a different result of an attempt; nil: the usual one.
	result func(run.Attempt) *lifecycle.Result
	// starts may refuse to start; nil: every start succeeds.
	starts func(run.Attempt) error
	// looks may report that an attempt waits, or cannot be observed.
	looks func(run.Attempt) (run.Status, error)
}

type programRun struct {
	end       time.Time
	done      bool
	cancelled bool
}

func newProgram(takes time.Duration) *program {
	return &program{takes: takes, runs: map[lifecycle.Ref]*programRun{}, resources: map[string]int{}}
}

func (p *program) begin(ctx context.Context, s run.Attempt) (run.Status, error) {
	if p.starts != nil {
		if err := p.starts(s); err != nil {
			return run.Status{}, err
		}
	}
	if p.runs[s.Ref] == nil {
		p.runs[s.Ref] = &programRun{end: time.Now().Add(p.takes)}
		p.started = append(p.started, s)
	}
	return run.Status{State: run.Running, Handle: "stub"}, ctx.Err()
}

func (p *program) Ended(lifecycle.Ref) <-chan struct{} { return nil }

func (p *program) Tidy(time.Time, func(string) bool) error { return nil }

func (p *program) Log(context.Context, run.Attempt, int64) (io.ReadCloser, error) {
	return nil, oci.ErrNotFound
}

func (p *program) Advance(ctx context.Context, s run.Attempt) (run.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.Begun && s.Handle == "" {
		return p.begin(ctx, s)
	}
	r := p.runs[s.Ref]
	if r == nil {
		return run.Status{State: run.Gone}, nil
	}
	if p.looks != nil {
		if st, err := p.looks(s); err != nil || st.State != "" {
			return st, err
		}
	}
	if time.Now().Before(r.end) {
		return run.Status{State: run.Running}, nil
	}
	return run.Status{State: run.Ended, Result: p.ended(s, r)}, nil
}

func (p *program) Cancel(_ context.Context, s run.Attempt, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[s.Ref]; r != nil {
		r.cancelled, r.end = true, time.Now()
	}
	return nil
}

// ended returns the result of an attempt, which takes effect once.
func (p *program) ended(s run.Attempt, r *programRun) lifecycle.Result {
	var special *lifecycle.Result
	if p.result != nil {
		special = p.result(s)
	}
	switch {
	case r.cancelled:
		return lifecycle.Result{Outcome: lifecycle.Cancelled, Resources: p.resources[s.Ref.ID]}
	case special != nil:
		return *special
	}
	switch s.Ref.Kind {
	case lifecycle.RunApply:
		p.resources[s.Ref.ID] = 1
	case lifecycle.RunDestroy:
		delete(p.resources, s.Ref.ID)
	}
	r.done = true
	res := lifecycle.Result{
		Outcome: lifecycle.Done, Resources: p.resources[s.Ref.ID], State: s.Ref.Kind != lifecycle.RunPlan,
		Counts: &lifecycle.Counts{Add: 1}, Outputs: map[string]json.RawMessage{"url": json.RawMessage(`"https://made.example.com"`)},
	}
	if s.Ref.Kind == lifecycle.RunPlan {
		res.Plan = "sha256:" + strings.Repeat("a", 64)
	}
	return res
}

// left returns the instances that have resources.
func (p *program) left() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.resources)
}

// kinds returns the kinds of the attempts that were started for an instance, in order.
func (p *program) kinds(id string) []lifecycle.RunKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kinds []lifecycle.RunKind
	for _, s := range p.started {
		if s.Ref.ID == id {
			kinds = append(kinds, s.Ref.Kind)
		}
	}
	return kinds
}

// specs returns the attempts that were started for an instance, in order.
func (p *program) specs(id string) []run.Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.started), func(s run.Attempt) bool { return s.Ref.ID != id })
}

// shelf is a set of templates in memory.
type shelf struct {
	mu      sync.Mutex // guards the fields below
	entries map[string]template.Entry
	unread  bool
}

func (s *shelf) put(e template.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = map[string]template.Entry{}
	}
	s.entries[e.Template.Name] = e
}

func (s *shelf) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, name)
}

func (s *shelf) Known() (all []template.Entry, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		all = append(all, e)
	}
	return all, !s.unread
}

func (s *shelf) Current(name string) (*template.Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[name]
	return &e, ok
}

// world is a leader with an executor, templates and a registry.
type world struct {
	*memoryStore
	program *program
	shelf   *shelf
	client  *oci.Client
	layout  addr.Layout
	source  template.Source
	counted *ocitest.Count
	options driver.Options
}

// newWorld makes a registry with only the module net/vpc/aws.
func newWorld(t testing.TB, handler http.Handler, takes time.Duration) *world {
	t.Helper()
	w := &world{memoryStore: newMemoryStore(time.Now), program: newProgram(takes), shelf: &shelf{}, layout: addr.Layout{Prefix: "acme"}}
	w.counted = &ocitest.Count{Base: ocitest.Direct{Handler: handler}}
	client := must.Get(oci.New("registry.test", oci.Options{Transport: w.counted, PlainHTTP: true}))(t)
	w.client = client
	repo := must.Get(client.Repo(w.layout.Module(addr.Module{Namespace: "net", Name: "vpc", System: "aws"})))(t)
	zip := oci.BytesBlob(artifact.MediaZip, []byte("the module"))
	for _, b := range []oci.Blob{oci.EmptyBlob(), zip} {
		must.Succeed(t, repo.PushBlob(t.Context(), b))
	}
	w.source = template.Source{Module: "net/vpc/aws", Version: "1.4.0", Digest: "sha256:" + strings.Repeat("1", 64), Archive: zip.Digest.String(), Size: zip.Size}
	w.options = driver.Options{
		Store: w, Machine: w.machine, Changed: w.Changed, Executor: w.program,
		Templates: w.shelf, Client: client, Layout: w.layout, Ledger: func() string { return "acme/ledger" },
	}
	return w
}

// run makes the replica lead until the returned function is called.
func (w *world) run(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	r := driver.New(w.options)
	var wg sync.WaitGroup
	wg.Go(func() { w.lead(ctx, r.Effects) })
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// testTemplate launches instances for eight hours.
func testTemplate(name string) *template.Template {
	return &template.Template{
		Name: name, Enabled: true, Visible: true, Module: template.ModuleRef{Address: "net/vpc/aws"}, Executor: "local",
		Owner: template.OwnerUser, Approval: "none", Timeout: 30 * time.Minute, Retries: 2, Update: "manual", Protection: true,
		TTL:     &template.TTL{Default: 8 * time.Hour, Max: 72 * time.Hour, Extend: 2 * time.Hour, Extends: 5, Failed: 4 * time.Hour, OnExpire: "destroy"},
		Outputs: []string{"url"},
	}
}

func (w *world) launch(t *testing.T, tpl *template.Template, who string) *lifecycle.Record {
	t.Helper()
	w.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: w.source})
	return w.must(t, lifecycle.Create{
		Template: tpl, Digest: digestOf(tpl), Source: w.source,
		Owner: template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: who},
	}, lifecycle.Actor{Issuer: "https://idp", Subject: who})
}

func digestOf(t *template.Template) string {
	d, err := t.Digest()
	if err != nil {
		panic(err)
	}
	return d
}

// bulk makes ready instances, without runs.
func (w *world) bulk(t testing.TB, tpl *template.Template, n int) {
	t.Helper()
	w.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: w.source})
	for i := range n {
		rec := lifecycle.Record{
			ID: instanceID(i), Template: tpl.Name, Snapshot: digestOf(tpl), Source: w.source, Phase: lifecycle.Ready,
			Owner:     template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: strconv.Itoa(i)},
			CreatedAt: w.now(), ReadyAt: w.now(), Since: w.now(), TTL: tpl.TTL.Default, ExpiresAt: w.now().Add(tpl.TTL.Default),
		}
		must.Get(w.Do(t.Context(), w.command(lifecycle.Adopt{Record: rec, Template: tpl}, lifecycle.Actor{Subject: "admin", Admin: true})))(t)
	}
}

// instanceID returns the n-th of many ids.
func instanceID(n int) string {
	id := []byte("aaaaaaaaaa")
	for i := len(id) - 1; n > 0; i-- {
		id[i] = addr.InstanceLetters[n%len(addr.InstanceLetters)]
		n /= len(addr.InstanceLetters)
	}
	return string(id)
}

// phases counts the instances in each phase.
func (w *world) phases() map[lifecycle.Phase]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[lifecycle.Phase]int{}
	for _, rec := range w.doc.Records {
		n[rec.Phase]++
	}
	return n
}

// until waits for a phase, for limit at most by the clock of the test.
func (w *world) until(t *testing.T, id string, limit time.Duration, phase lifecycle.Phase) *lifecycle.Record {
	t.Helper()
	end := time.After(limit)
	for {
		changed := w.Changed()
		rec := w.record(id)
		if rec != nil && rec.Phase == phase {
			return rec
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("instance %s is %+v, want %s after %s", id, rec, phase, limit)
		}
	}
}

// TestLife takes an instance from its creation to its end and the removal of what it left.
//
// Shows: platform 13
// Shows: platform 15
func TestLife(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		ready := w.until(t, rec.ID, 2*time.Minute, lifecycle.Ready)
		if string(ready.Outputs["url"]) != `"https://made.example.com"` {
			t.Errorf("outputs: %s", ready.Outputs)
		}
		if end := ready.ExpiresAt.Sub(ready.ReadyAt); end != 8*time.Hour {
			t.Errorf("it ends %s after it was ready", end)
		}
		repo := must.Get(w.client.Repo("acme/instances/sandbox/vpc/" + rec.ID))(t)
		if _, err := (records.InstanceRepo{Repo: repo}).Source(t.Context(), rec.ID, 1); err != nil {
			t.Error("the source is not kept:", err)
		}
		queue := must.Get(w.client.Repo("acme/queue"))(t)
		if e, err := records.ReadInstanceEntry(t.Context(), queue, rec.ID); err != nil || e.Repository != repo.Name() {
			t.Errorf("entry of the state: %+v, %v", e, err)
		}
		gone := w.until(t, rec.ID, 9*time.Hour, lifecycle.Destroyed)
		if lag := gone.FinishedAt.Sub(ready.ExpiresAt.Add(time.Minute)); lag > 10*time.Second {
			t.Errorf("destroyed %s after the end and a run", lag)
		}
		if left := w.program.left(); len(left) > 0 {
			t.Errorf("resources are left: %v", left)
		}
		time.Sleep(8 * 24 * time.Hour)
		synctest.Wait()
		if rec := w.record(rec.ID); rec != nil {
			t.Errorf("after eight days: %+v", rec)
		}
		list, err := repo.Snapshot(t.Context())
		if want := "record-" + rec.ID; err != nil || len(list.Tags) != 1 || list.Tags[0] != want {
			t.Errorf("left in the repository: %v, %v, want %s", list.Tags, err, want)
		}
		if _, err := records.ReadInstanceEntry(t.Context(), queue, rec.ID); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("entry of a state that has gone: %v", err)
		}
	})
}

// endingProgram reports when an attempt has ended.
type endingProgram struct{ *program }

func (p endingProgram) Ended(r lifecycle.Ref) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := make(chan struct{})
	time.AfterFunc(time.Until(p.runs[r].end), func() { close(ended) })
	return ended
}

// TestEnded looks twice at an attempt whose executor reports its end.
func TestEnded(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Second)
		looks := 0
		w.program.looks = func(run.Attempt) (run.Status, error) {
			looks++
			return run.Status{}, nil
		}
		w.options.Observe = time.Hour
		w.options.Executor = endingProgram{w.program}
		defer w.run(t)()
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		w.until(t, rec.ID, time.Minute, lifecycle.Ready)
		if looks != 2 {
			t.Errorf("it was looked at %d times, want 2", looks)
		}
	})
}
