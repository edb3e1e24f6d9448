// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

func (r *remoteRuns) Log(ctx context.Context, w tfe.Workspace, record string, n int, p tfe.Phase, offset, limit int64) ([]byte, bool, error) {
	return followLog(ctx, r.l.ledger.Changed, func() ([]byte, bool, error) { return r.readLog(ctx, w, record, n, p, offset, limit) })
}

const (
	// followTime is how long a read waits for more of a log.
	followTime = 5 * time.Second
	// followPause is the minimum time between two looks at the log. It is longer where a
	// look takes long: a log of another machine is read from the registry.
	followPause = 50 * time.Millisecond
	followShare = 10
)

// followLog reads until there is more of the log, or its end is known, or followTime has passed.
func followLog(ctx context.Context, changed func() <-chan struct{}, read func() (part []byte, over bool, err error)) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, followTime)
	defer cancel()
	for {
		change := changed()
		began := time.Now()
		part, over, err := read()
		if err != nil || over || len(part) > 0 {
			return part, over, err
		}
		pause := time.NewTimer(max(followPause, followShare*time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return part, over, err
		case <-change:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// readLog returns the part of a log that exists, from an offset on.
func (r *remoteRuns) readLog(ctx context.Context, w tfe.Workspace, record string, n int, p tfe.Phase, offset, limit int64) ([]byte, bool, error) {
	rec, u, err := r.findRun(ctx, w, record, n)
	if err != nil {
		return nil, false, err
	}
	from, over, err := r.l.driver.PhaseLog(ctx, rec, u, p == tfe.PhaseApply, offset)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, over, nil
	}
	if err != nil || from == nil {
		return nil, over, err
	}
	defer from.Close()
	part, err := io.ReadAll(io.LimitReader(from, limit+1))
	if int64(len(part)) > limit {
		return part[:limit], false, err
	}
	return part, over, err
}

func (r *remoteRuns) PlanJSON(ctx context.Context, w tfe.Workspace, record string, n int) ([]byte, error) {
	_, files, err := r.readPlanned(ctx, w, record, n)
	if err != nil {
		return nil, err
	}
	return files.PlanJSON(ctx)
}

func (r *remoteRuns) ReadUses(ctx context.Context, w tfe.Workspace, record string, n int) ([]byte, error) {
	planned, _, err := r.readPlanned(ctx, w, record, n)
	return planned.Uses, err
}

// readPlanned reads the result of a run's plan; empty: it is still planning.
func (r *remoteRuns) readPlanned(ctx context.Context, w tfe.Workspace, record string, n int) (planned run.Report, files records.RunResult, err error) {
	rec, u, err := r.findRun(ctx, w, record, n)
	if err != nil {
		return planned, files, err
	}
	ref := u.PlanRef(rec.ID)
	repo, err := r.l.driver.WorkspaceRepo(w.Organization, record)
	if err != nil || ref.Nonce == "" {
		return planned, files, err
	}
	planned, files, err = run.ReadReport(ctx, repo, ref)
	if errors.Is(err, oci.ErrNotFound) {
		err = nil
	}
	return planned, files, err
}
