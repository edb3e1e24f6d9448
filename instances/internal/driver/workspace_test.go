// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

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
		w.program.result = func(s run.Spec) *lifecycle.Result {
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
				at := records.Attempt{ID: id, N: n + 1, Attempt: a + 1, Nonce: "n"}
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
			at, ok := records.ParseInstanceTag(tag)
			if at.Kind == records.TagInput {
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
		w.options.Executors = map[string]run.Executor{"local": &stubborn{w.program, killed}}
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

func (s *stubborn) Cancel(ctx context.Context, spec run.Spec, h run.Handle, force bool) error {
	if !force {
		return nil
	}
	s.killed <- spec.Ref
	return s.program.Cancel(ctx, spec, h, true)
}
