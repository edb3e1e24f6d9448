// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// replicate updates the replicas of the states that a run wrote.
func (o Options) replicate(ctx context.Context, written []s3facade.Ref) []error {
	ctx, cancel := context.WithTimeout(ctx, backendblock.ReplicateLimit)
	defer cancel()
	open := func(b backendblock.Backend) (*statebackend.Store, error) { return o.Open(ctx, b) }
	var errs []error
	for _, p := range written {
		errs = append(errs, o.Config.For(p.Repository).Replicate(ctx, p.Workspace, open)...)
	}
	return errs
}
