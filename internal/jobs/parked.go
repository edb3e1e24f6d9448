// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"

	"github.com/seed-141914ff/okara/oci"
)

// The kinds of jobs on a server.
const (
	KindGitHub = "github"       // publish a tag of a repository at GitHub
	KindPull   = "pull-through" // store a version that was requested
)

// ParkedJob is a job that is not retried automatically.
type ParkedJob struct {
	Recorded
	End End
	Tag string // of the job
}

// Parked returns the parked jobs that were not requested again, of those with maxLosses tries.
func Parked(ctx context.Context, r *oci.Repo) ([]ParkedJob, error) {
	list, err := r.Snapshot(ctx)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	has := map[string]bool{}
	tries := map[string]int{}
	for _, tag := range list.Tags {
		has[tag] = true
		if job := triedJobTag(tag); job != "" {
			tries[job]++
		}
	}
	var parked []ParkedJob
	for _, tag := range list.Tags {
		done := DoneTag(tag)
		if done == "" || !has[done] || tries[tag] < maxLosses {
			continue
		}
		end, err := readEndAt(ctx, r, done)
		if isSkippable(err) || err == nil && !end.Parked {
			continue
		}
		if err != nil {
			return nil, err
		}
		j, err := ReadJob(ctx, r, tag)
		if isSkippable(err) || err == nil && has[JobTag(againID(j.ID, 2))] {
			continue
		}
		if err != nil {
			return nil, err
		}
		parked = append(parked, ParkedJob{Recorded: j, End: end, Tag: tag})
	}
	return parked, nil
}

// isSkippable reports whether a tag is damaged or gone.
func isSkippable(err error) bool {
	return errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt)
}
