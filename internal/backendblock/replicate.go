// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/statebackend"
)

// ReplicateLimit bounds what a run spends on replicas; the rest is left to later ones.
const ReplicateLimit = 5 * time.Minute

// Replicate updates a workspace's replicas. Errors name those behind; they fail no run.
func (b Backend) Replicate(ctx context.Context, workspace string, open func(Backend) (*statebackend.Store, error)) []error {
	var errs []error
	for _, replica := range b.Replicas {
		if err := b.copyTo(ctx, replica, workspace, open); err != nil {
			errs = append(errs, b.behindError(err, replica))
		}
	}
	return errs
}

// behindError wraps an error with its remedy: the next run, or what the error itself says.
func (b Backend) behindError(err error, replica string) error {
	if errors.Is(err, statebackend.ErrReplica) {
		return fmt.Errorf("the replica is behind: %w", err)
	}
	return fmt.Errorf("the replica is behind: %w\nhint: the next run updates it, or run `okara state replicate %s %s`", err, b.Repository, replica)
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
	_, err = from.Replicas().Replicate(ctx, to, workspace)
	return err
}
