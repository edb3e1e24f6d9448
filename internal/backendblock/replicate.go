// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

// ReplicateLimit bounds what a run spends on its replicas after its end; the rest is
// done by the next run or by `okara state replicate`.
const ReplicateLimit = 5 * time.Minute

// Replicate brings the replicas of a workspace up to date. The errors say which of
// them are behind; they fail no run, for the state is where it belongs.
func (b Backend) Replicate(ctx context.Context, workspace string, open func(Backend) (*statebackend.Store, error)) []error {
	var errs []error
	for _, replica := range b.Replicas {
		if err := b.copyTo(ctx, replica, workspace, open); err != nil {
			errs = append(errs, b.behind(err, replica))
		}
	}
	return errs
}

// behind says what a replica waits for: the next run, or, where it never catches up like
// that, what the error says itself.
func (b Backend) behind(err error, replica string) error {
	if errors.Is(err, statebackend.ErrReplica) {
		return fmt.Errorf("the replica is behind: %w", err)
	}
	return fmt.Errorf("the replica is behind: %w\nhint: it catches up with the next run, or by `okara state replicate %s %s`", err, b.Repository, replica)
}

func (b Backend) copyTo(ctx context.Context, replica, workspace string, open func(Backend) (*statebackend.Store, error)) error {
	from, err := open(b.ForWorkspace(workspace))
	if err != nil {
		return err
	}
	target := b
	target.Repository = replica
	target.Primary = ""
	to, err := open(target.ForWorkspace(workspace))
	if err != nil {
		return err
	}
	_, err = from.Replicate(ctx, to, workspace)
	return err
}
