// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// replicateLimit bounds what a run spends on its replicas after its end; the
// rest is done by the next run or by `okara state replicate`.
const replicateLimit = 5 * time.Minute

// replicate brings the replicas of what a run wrote up to date. A replica that
// cannot be reached fails no run: the state is where it belongs. An interrupted
// run leaves its replicas behind.
func (o Options) replicate(ctx context.Context, written []s3facade.Place) []error {
	ctx, cancel := context.WithTimeout(ctx, replicateLimit)
	defer cancel()
	var errs []error
	for _, p := range written {
		source := o.Config.For(p.Repository)
		for _, replica := range source.Replicas {
			if err := o.copyTo(ctx, source, replica, p.Workspace); err != nil {
				errs = append(errs, fmt.Errorf("the replica is behind: %w\nhint: it catches up with the next run, or by `okara state replicate %s %s`", err, source.Repository, replica))
			}
		}
	}
	return errs
}

func (o Options) copyTo(ctx context.Context, source Backend, replica, workspace string) error {
	target := source
	source.Repository = strings.ReplaceAll(source.Repository, s3facade.WorkspaceVariable, workspace)
	target.Repository = strings.ReplaceAll(replica, s3facade.WorkspaceVariable, workspace)
	target.Primary = ""
	from, err := o.Open(ctx, source)
	if err != nil {
		return err
	}
	to, err := o.Open(ctx, target)
	if err != nil {
		return err
	}
	_, err = from.Replicate(ctx, to, workspace)
	return err
}
