// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func newSealer(t *testing.T) *envelope.Envelope {
	t.Helper()
	return must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://" + "c21hbGx0ZXN0a2V5MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="}}))(t)
}

// leave writes the result of an attempt, as the child of a run does.
func leave(t *testing.T, in records.InstanceRepo, s run.Attempt, n int, r run.Report) {
	t.Helper()
	r.Version, r.Nonce, r.Kind, r.Source, r.Snapshot, r.Variables = 1, s.Ref.Nonce, s.Ref.Kind, s.Source, s.Snapshot, s.Variables
	b := must.Get(json.Marshal(r))(t)
	must.Succeed(t, in.PutRun(t.Context(), lifecycle.Ref{ID: s.Ref.ID, N: n, Attempt: 1, Nonce: s.Ref.Nonce}, records.RunFiles{Result: b}))
}

// TestAdopt loses the ledger, and makes records only for instances that sealed results name.
//
// Shows: crash K15
func TestAdopt(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.options.Sealer = newSealer(t)
		stop := w.run(t)
		tpl := testTemplate("sandbox/vpc")
		tpl.Parameters = []template.Parameter{{Name: "size"}}
		w.shelf.put(template.Entry{Template: tpl, Digest: digestOf(tpl), Source: w.source})
		anna := template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "anna"}
		rec := w.must(t, lifecycle.Create{
			Template: tpl, Digest: digestOf(tpl), Source: w.source, Owner: anna,
			Parameters: map[string]json.RawMessage{"size": json.RawMessage(`"small"`)},
		}, lifecycle.Actor{Issuer: "https://idp", Subject: "anna"})
		before := w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		stop()

		path := "acme/instances/sandbox/vpc/" + rec.ID
		repo := must.Get(w.client.Repo(path))(t)
		sealed := records.InstanceRepo{Repo: repo, Sealer: w.options.Sealer}
		spec := w.program.specs(rec.ID)[0]
		a := portal.Adopter{Client: w.client, Layout: w.layout, Sealer: w.options.Sealer}
		carla := template.Owner{Kind: template.OwnerUser, Issuer: "https://idp", ID: "carla"}
		find := func(a portal.Adopter, repository string) (lifecycle.Adopt, error) {
			return a.Find(t.Context(), repository, "", carla)
		}
		if _, err := find(a, path); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("without a result: %v", err)
		}
		foreign := spec
		foreign.Source.Module = "evil/vpc/aws"
		leave(t, records.InstanceRepo{Repo: repo}, foreign, 2, run.Report{Result: lifecycle.Result{Outcome: lifecycle.Done, Resources: 1}})
		if _, err := find(a, path); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("with a result that is not sealed: %v", err)
		}
		leave(t, sealed, spec, 1, run.Report{Result: lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true}, Ended: before.ReadyAt})
		for _, bad := range []string{"acme/instances/sandbox/vpc", "acme/modules/net/vpc/aws", "../x", "other.example.com/" + path} {
			if _, err := find(a, bad); !errors.Is(err, template.ErrInvalid) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		if _, err := find(portal.Adopter{Client: w.client, Layout: w.layout}, path); !errors.Is(err, template.ErrInvalid) {
			t.Errorf("without keys: %v", err)
		}
		e := must.Get(find(a, "registry.test/"+path))(t)

		lost := newMemoryStore(time.Now)
		w.memoryStore, w.options.Store, w.options.Changed, w.options.Machine = lost, lost, lost.Changed, lost.machine
		if _, err := w.Do(t.Context(), w.command(e, lifecycle.Actor{Subject: "carla"})); !errors.Is(err, lifecycle.ErrDenied) {
			t.Errorf("adopted by nobody in particular: %v", err)
		}
		got := w.must(t, e, lifecycle.Actor{Subject: "carla", Admin: true})
		want := *got
		want.Owner, want.Source, want.Snapshot, want.Parameters, want.Phase = carla, before.Source, before.Snapshot, before.Parameters, lifecycle.Ready
		must.Match(t, "adopted", *got, want)
		defer w.run(t)()
		w.must(t, lifecycle.DestroyNow{ID: rec.ID}, lifecycle.Actor{Subject: "carla", Admin: true})
		w.until(t, rec.ID, time.Hour, lifecycle.Destroyed)
		if left := w.program.left(); len(left) > 0 {
			t.Errorf("resources are left: %v", left)
		}
		synctest.Wait()
		if _, err := find(a, path); !errors.Is(err, lifecycle.ErrPhase) {
			t.Errorf("after its end in order: %v", err)
		}
	})
}

// TestAdoptSwappedTemplate puts a different template beside the source: it is not trusted.
//
// Shows: platform-attacks 3
func TestAdoptSwappedTemplate(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		a := portal.Adopter{Client: w.client, Layout: w.layout, Sealer: newSealer(t)}
		const id = "k7m2p9x4tq"
		repo := must.Get(w.client.Repo("acme/instances/sandbox/vpc/" + id))(t)
		in := records.InstanceRepo{Repo: repo, Sealer: a.Sealer}
		mine, other := testTemplate("sandbox/vpc"), testTemplate("sandbox/vpc")
		other.Credentials = nil
		other.Outputs = []string{"password"}
		b := must.Get(other.Canonical())(t)
		zip := oci.BytesBlob(artifact.MediaZip, []byte("the module"))
		must.Succeed(t, in.PutSource(t.Context(), id, 1, records.Source{Zip: zip, Template: b}))
		spec := run.Attempt{Ref: lifecycle.Ref{ID: id, Kind: lifecycle.RunApply, Nonce: "n"}, Source: w.source, Machine: run.Machine{Snapshot: digestOf(mine)}}
		leave(t, in, spec, 1, run.Report{Result: lifecycle.Result{Outcome: lifecycle.Done, Resources: 1}})
		if _, err := a.Find(t.Context(), repo.Name(), "", template.Owner{ID: "x"}); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("%v, want that it is not the template of the result", err)
		}
	})
}

// TestNothingInClear puts secrets into parameters and outputs: nothing that is stored beside
// the ledger has them unencrypted.
//
// Shows: platform-attacks 15
// Shows: instances 8
func TestNothingInClear(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.options.Sealer = newSealer(t)
		bodies := &recorder{base: ocitest.Direct{Handler: handler}}
		w.counted.Base = bodies
		defer w.run(t)()
		tpl := testTemplate("sandbox/vpc")
		tpl.Parameters = []template.Parameter{{Name: "password"}}
		rec := w.must(t, lifecycle.Create{
			Template: tpl, Digest: digestOf(tpl), Source: w.source, Owner: template.Owner{Kind: template.OwnerUser, ID: "anna"},
			Parameters: map[string]json.RawMessage{"password": json.RawMessage(`"planted-parameter"`)}, Sensitive: []string{"password"},
		}, lifecycle.Actor{Subject: "anna"})
		w.until(t, rec.ID, time.Hour, lifecycle.Ready)
		spec := w.program.specs(rec.ID)[0]
		must.Match(t, "sensitive variables", spec.Sensitive, []string{"password"})
		w.until(t, rec.ID, 9*time.Hour, lifecycle.Destroyed)
		time.Sleep(8 * 24 * time.Hour)
		if sent := bodies.all(); bytes.Contains(sent, []byte("planted")) || len(sent) == 0 {
			t.Errorf("%d bytes were stored, with the secret in clear among them", len(sent))
		}
	})
}

type recorder struct {
	base http.RoundTripper
	mu   sync.Mutex // guards sent
	sent bytes.Buffer
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.sent.Write(b)
		r.mu.Unlock()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	return r.base.RoundTrip(req)
}

func (r *recorder) all() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.sent.Bytes())
}

// organization returns the template of the workspaces of acme.
func organization() *template.Template {
	return &template.Template{Name: lifecycle.WorkspaceTemplate("acme"), Enabled: true, Executor: "local", Timeout: time.Hour, Credentials: []string{"aws"}}
}

func enqueue(id string, a lifecycle.Ask) lifecycle.Enqueue {
	return lifecycle.Enqueue{
		ID: id, Template: organization(), Digest: digestOf(organization()), Ask: a, Source: template.Source{Digest: "sha256:m", Archive: "sha256:a", Size: 1},
	}
}

// TestWorkspaceRun takes a run of a workspace from its plan to its apply, and checks the input
// of the executor, and what is deleted of runs that are no longer recorded.
//
// Shows: cloud 29
func TestWorkspaceRun(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		w.options.RunID = func(organization, workspace, record string, n int) string {
			return fmt.Sprintf("run-%s/%s.%s.%d", organization, workspace, record, n)
		}
		w.program.result = func(s run.Attempt) *lifecycle.Result {
			if s.Ref.Kind == lifecycle.RunPlan {
				return &lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:p", Changes: true, Resources: -1}
			}
			return nil
		}
		defer w.run(t)()
		anna := lifecycle.Actor{Issuer: "https://idp", Subject: "anna"}
		id := w.must(t, lifecycle.OpenWorkspace{Template: organization(), Digest: digestOf(organization()), Workspace: "prod"}, anna).ID
		repo := must.Get(w.client.Repo("acme/instances/tfe/acme/" + id))(t)
		kept := records.InstanceRepo{Repo: repo}
		for n := range 14 {
			input := must.Get(kept.PutInput(t.Context(), id, fmt.Appendf(nil, `{"targets":["x[%d]"]}`, n)))(t)
			w.must(t, enqueue(id, lifecycle.Ask{Destroy: true, AutoApply: n > 0, Input: input}), anna)
			if n == 0 {
				w.until(t, id, 5*time.Minute, lifecycle.Planned)
				w.must(t, lifecycle.Confirm{ID: id, N: 1, Plan: "sha256:p"}, anna)
			}
			w.until(t, id, 5*time.Minute, lifecycle.Ready)
			for a := range 2 {
				at := lifecycle.Ref{ID: id, N: n + 1, Attempt: a + 1, Nonce: "n"}
				must.Succeed(t, kept.PutRun(t.Context(), at, records.RunFiles{Result: []byte(`{"nonce":"n"}`)}))
			}
		}
		plan, apply := w.program.started[0], w.program.started[1]
		if plan.Ref.Kind != lifecycle.RunPlan || plan.State != run.StateTFE || plan.Workspace != "run" || plan.Took != "" || plan.Plan != "" || len(plan.Variables) != 0 ||
			plan.Remote == nil || plan.Remote.Input == "" ||
			*plan.Remote != (run.Remote{Organization: "acme", Workspace: "prod", RunID: "run-acme/prod." + id + ".1", Input: plan.Remote.Input, Destroy: true}) ||
			plan.Limits.Timeout != time.Hour || len(plan.Credentials) != 1 {
			t.Errorf("the plan is %+v", plan)
		}
		if apply.Ref.Kind != lifecycle.RunApply || apply.Plan != "sha256:p" || apply.PlanTag != "run-"+id+"-1-1" || apply.Took != run.LockID(plan.Ref) {
			t.Errorf("the apply is %+v", apply)
		}
		list := must.Get(repo.Snapshot(t.Context()))(t)
		inputs := 0
		for _, tag := range list.Tags { // when the last run began, ten had ended
			if at, ok := records.ParseInstanceTag(tag); at.Kind == records.TagInput {
				inputs++
			} else if !ok || at.N < 4 {
				t.Errorf("%s is left", tag)
			}
		}
		if inputs != 1 { // that of the last run
			t.Errorf("%d inputs are left", inputs)
		}
		if len(list.Tags) < 20 {
			t.Errorf("left are %v", list.Tags)
		}
	})
}

// TestWorkspaceKill makes the executor kill a cancelled run that does not end.
//
// Shows: cloud 30
func TestWorkspaceKill(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, 24*time.Hour)
		w.options.RunID = func(string, string, string, int) string { return "run-x" }
		killed := make(chan lifecycle.Ref, 1)
		w.options.Executor = &stubborn{w.program, killed}
		defer w.run(t)()
		anna := lifecycle.Actor{Issuer: "https://idp", Subject: "anna"}
		id := w.must(t, lifecycle.OpenWorkspace{Template: organization(), Digest: digestOf(organization()), Workspace: "prod"}, anna).ID
		w.must(t, enqueue(id, lifecycle.Ask{}), anna)
		time.Sleep(time.Minute)
		w.must(t, lifecycle.CancelOne{ID: id, N: 1}, anna)
		time.Sleep(time.Minute)
		if r := w.record(id); r.Run == nil || !r.Run.Active() {
			t.Fatalf("it ended by itself: %+v", r)
		}
		w.must(t, lifecycle.CancelOne{ID: id, N: 1, Force: true}, anna)
		if ref := <-killed; ref.ID != id {
			t.Errorf("killed %+v", ref)
		}
		if r := w.until(t, id, time.Minute, lifecycle.Ready); r.Runs[0].Result != lifecycle.Cancelled {
			t.Errorf("it ended as %+v", r.Runs[0])
		}
	})
}

// stubborn is a program that ends only when it is killed.
type stubborn struct {
	*program
	killed chan lifecycle.Ref
}

func (s *stubborn) Cancel(ctx context.Context, spec run.Attempt, force bool) error {
	if !force {
		return nil
	}
	s.killed <- spec.Ref
	return s.program.Cancel(ctx, spec, true)
}
