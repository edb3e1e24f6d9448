// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// maxSensitiveState bounds the size of a state from which one output is read, in bytes.
const maxSensitiveState = 64 << 20

// shortenedError is the error for a record that was shortened, as final ones are: it no
// longer tells which attempt left the content in the repository.
func shortenedError(rec *lifecycle.Record, u *lifecycle.Run) error {
	return fmt.Errorf("run %d of instance %s is over, and its record was shortened: %w", u.N, rec.ID, oci.ErrNotFound)
}

// Log returns the log of a run's newest attempt, from a byte on: on the host where it
// runs as far as it is written, else as far as it was stored.
func (r *Driver) Log(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, offset int64) (io.ReadCloser, error) {
	if u.Attempt == 0 {
		return nil, fmt.Errorf("run %d of instance %s was not started yet: %w", u.N, rec.ID, oci.ErrNotFound)
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
	for _, x := range r.o.Executors { // all have it: what does not run here is read from the registry
		return x.Log(ctx, run.Spec{Ref: ref, Repository: repo.Repo.String(), Workspace: workspace}, run.Handle(u.Handle), offset)
	}
	return nil, fmt.Errorf("no executor has logs: %w", oci.ErrNotFound)
}

// Plan returns the plan of a run as text, as masked by its attempt.
func (r *Driver) Plan(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run) ([]byte, error) {
	ref := u.Ref(rec.ID)
	if u.Planned != 0 && u.Planned == u.Attempt-1 && u.Before != "" { // this attempt applies the plan of that one
		ref.Kind = lifecycle.RunPlan
		ref.Attempt = u.Planned
		ref.Nonce = u.Before
	}
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
		return nil, fmt.Errorf("run %d of instance %s left no plan: %w", u.N, rec.ID, oci.ErrNotFound)
	}
	return []byte(report.PlanText), nil
}

// readState returns the last state of an instance.
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

// Resources returns the addresses of the resources in the last state of an instance,
// without data sources.
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
