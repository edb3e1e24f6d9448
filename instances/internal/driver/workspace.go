// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// WorkspaceRepo returns the repository of the runs of a workspace.
func (r *Driver) WorkspaceRepo(organization, record string) (records.InstanceRepo, error) {
	repo, _, err := repoOf(&r.o, lifecycle.WorkspaceTemplate(organization), record)
	return repo, err
}

// addRemote completes the specification of a workspace's attempt, whose lock is that of the run.
func addRemote(o *Options, s *run.Attempt, rec *lifecycle.Record) error {
	n := rec.Run
	if n.Ask == nil || o.RunID == nil {
		return fmt.Errorf("run %d of workspace %s: this server does not execute runs", n.N, rec.Workspace)
	}
	organization := rec.Organization()
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

// untagOldRuns deletes what earlier runs left and the record no longer names, as far as it can.
func untagOldRuns(ctx context.Context, o *Options, rec *lifecycle.Record) error {
	repo, _, err := repoOf(o, rec.Template, rec.ID)
	if err != nil || rec.Numbered <= len(rec.AllRuns()) {
		return err
	}
	known := map[int]bool{}
	inputs := map[string]bool{}
	for _, u := range rec.AllRuns() {
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

// PhaseLog returns the existing log of a plan or an apply of a workspace from a byte on,
// and whether it is complete. Without a log it returns nil.
func (r *Driver) PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (from io.ReadCloser, over bool, err error) {
	over = u.Result != "" || !apply && u.Plan != ""
	if apply && (u.Kind != lifecycle.RunApply || u.Attempt <= u.Planned) || u.Attempt == 0 {
		return nil, over, nil
	}
	ref := u.Ref(rec.ID)
	if !apply {
		ref = u.PlanRef(rec.ID)
	}
	from, err = r.readLog(ctx, rec, u, ref, offset)
	return from, over, err
}

// maxSensitiveState bounds the size of a state from which one output is read, in bytes.
const maxSensitiveState = 64 << 20

// shortenedError is the error for a record too short to tell which attempt left the content.
func shortenedError(rec *lifecycle.Record, u *lifecycle.Run) error {
	return fmt.Errorf("run %d of instance %s has ended, and its record was shortened: %w", u.N, rec.ID, oci.ErrNotFound)
}

// Log returns the log of a run's newest attempt from a byte on, as far as it is written or stored.
func (r *Driver) Log(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, offset int64) (io.ReadCloser, error) {
	if u.Attempt == 0 {
		return nil, fmt.Errorf("run %d of instance %s has not started yet: %w", u.N, rec.ID, oci.ErrNotFound)
	}
	return r.readLog(ctx, rec, u, u.Ref(rec.ID), offset)
}

// readLog returns the log of an attempt of a run, from a byte on.
func (r *Driver) readLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, ref lifecycle.Ref, offset int64) (io.ReadCloser, error) {
	if ref.Nonce == "" {
		return nil, shortenedError(rec, u)
	}
	repo, workspace, err := repoOf(&r.o, rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	// What does not run here is read from the registry.
	a := run.Attempt{Ref: ref, Machine: run.Machine{Handle: run.Handle(u.Handle), Repository: repo.Repo.String(), Workspace: workspace}}
	return r.o.Executor.Log(ctx, a, offset)
}

// Plan returns the plan of a run as text, as masked by its attempt.
func (r *Driver) Plan(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run) ([]byte, error) {
	ref := u.PlanRef(rec.ID)
	if ref.Nonce == "" {
		return nil, shortenedError(rec, u)
	}
	repo, _, err := repoOf(&r.o, rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	report, _, err := run.ReadReport(ctx, repo, ref)
	if err != nil {
		return nil, err
	}
	if report.PlanText == "" {
		return nil, fmt.Errorf("run %d of instance %s has no plan: %w", u.N, rec.ID, oci.ErrNotFound)
	}
	return []byte(report.PlanText), nil
}

func readState(ctx context.Context, o *Options, rec *lifecycle.Record) ([]byte, error) {
	repo, workspace, err := repoOf(o, rec.Template, rec.ID)
	if err != nil {
		return nil, err
	}
	state, _, err := statebackend.New(repo.Repo, statebackend.Options{Sealer: o.Sealer, MaxState: maxSensitiveState}).Get(ctx, workspace)
	if errors.Is(err, statebackend.ErrUnsealed) {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	return state, err
}

// Outputs returns the outputs in the last state of an instance.
func (r *Driver) Outputs(ctx context.Context, rec *lifecycle.Record) (map[string]states.Output, error) {
	state, err := readState(ctx, &r.o, rec)
	if err != nil {
		return nil, err
	}
	all, err := states.Outputs(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	return all, nil
}

// Resources returns the addresses of the resources in the last state, without data sources.
func (r *Driver) Resources(ctx context.Context, rec *lifecycle.Record) ([]string, error) {
	state, err := readState(ctx, &r.o, rec)
	if err != nil {
		return nil, err
	}
	d, err := states.Parse(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", oci.ErrCorrupt, err)
	}
	var all []string
	for _, resource := range d.Resources() {
		if resource.Mode == states.ModeManaged {
			all = append(all, resource.Address)
		}
	}
	return all, nil
}
