// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
)

// WorkspaceRepo returns the repository of the runs of a workspace.
func (r *Driver) WorkspaceRepo(organization, record string) (records.InstanceRepo, error) {
	repo, _, err := repoOf(&r.o, lifecycle.WorkspaceTemplate(organization), record)
	return repo, err
}

// addRemote completes the specification of an attempt of a workspace. Its state is not
// beside its record, so the lock there is that of the run.
func addRemote(o *Options, s *run.Spec, rec *lifecycle.Record) error {
	n := rec.Run
	if n.Ask == nil || o.RunID == nil {
		return fmt.Errorf("run %d of workspace %s: this server does not execute runs", n.N, rec.Workspace)
	}
	_, organization, _ := strings.Cut(rec.Template, "/")
	s.Run = fmt.Sprintf("%s/%s run %d", organization, rec.Workspace, n.N)
	s.State = run.StateTFE
	s.Remote = &run.Remote{
		Organization: organization, Workspace: rec.Workspace, RunID: o.RunID(organization, rec.Workspace, rec.ID, n.N), Input: n.Ask.Input,
		Destroy: n.Ask.Destroy, RefreshOnly: n.Ask.RefreshOnly, NoRefresh: n.Ask.NoRefresh, Save: n.Ask.Save,
	}
	s.Took = ""
	if n.After != nil {
		s.Took = run.LockID(*n.After)
	}
	return nil
}

// untagOldRuns deletes what earlier runs of a workspace left and its record no longer
// names, before the next run begins. What cannot be deleted stays.
func untagOldRuns(ctx context.Context, o *Options, rec *lifecycle.Record) error {
	repo, _, err := repoOf(o, rec.Template, rec.ID)
	if err != nil || rec.Numbered <= len(rec.WorkspaceRuns()) {
		return err
	}
	known := map[int]bool{}
	inputs := map[string]bool{}
	for _, u := range rec.WorkspaceRuns() {
		known[u.N] = true
		if u.Ask != nil && u.Ask.Input != "" && u.Result == "" {
			inputs[u.Ask.Input] = true
		}
	}
	return untagAll(ctx, repo.Repo, func(tag string) bool {
		t, ok := records.ParseInstanceTag(tag)
		if !ok || t.ID != rec.ID {
			return false
		}
		switch t.Kind {
		case records.TagRun, records.TagLog:
			return !known[t.N] && t.N <= rec.Numbered
		case records.TagInput:
			for of := range inputs {
				if strings.HasPrefix(of, "sha256:"+t.Hex) {
					return false
				}
			}
			return true
		}
		return false
	})
}

// PhaseRef returns the attempt that planned or applied in a run of a workspace; without a
// nonce it is no longer known.
func PhaseRef(rec *lifecycle.Record, u *lifecycle.Run, apply bool) lifecycle.Ref {
	ref := u.Ref(rec.ID)
	if !apply && u.Kind == lifecycle.RunApply { // this attempt applies the plan of that one
		ref.Kind = lifecycle.RunPlan
		if u.Attempt > u.Planned {
			ref.Attempt = u.Planned
			ref.Nonce = u.Before
		}
	}
	return ref
}

// PhaseLog returns the existing log of a plan or an apply of a workspace from a byte on,
// and whether it is complete. Without a log it returns nil.
func (r *Driver) PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (from io.ReadCloser, over bool, err error) {
	over = u.Result != "" || !apply && u.Plan != ""
	if apply && (u.Kind != lifecycle.RunApply || u.Attempt <= u.Planned) || u.Attempt == 0 {
		return nil, over, nil
	}
	from, err = r.readLog(ctx, rec, u, PhaseRef(rec, u, apply), offset)
	return from, over, err
}
