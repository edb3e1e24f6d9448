// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// How long a release is retried while its registry is away, with pauses: a restart takes seconds.
const (
	unlockRetryTime     = time.Minute
	unlockRetryPause    = 500 * time.Millisecond
	maxUnlockRetryPause = 5 * time.Second
)

// UnlockRetrying is [Lock.Unlock] for a client that will not call it again. It tries once even if
// ctx has ended, and retries for a minute, until ctx ends, while the registry is away.
func (l *Lock) UnlockRetrying(ctx context.Context) error {
	first, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockRetryTime)
	err := l.Unlock(first)
	cancel()
	until := l.leavesUntil()
	for next := unlockRetryPause; err != nil && oci.Passing(err) && l.s.o.Uptime() < until; next = min(2*next, maxUnlockRetryPause) {
		if next == unlockRetryPause {
			l.s.o.Logger.WarnContext(ctx, "the registry is unreachable; retrying to release the lock for a minute",
				"repository", l.s.repo.String(), "workspace", l.x.names.workspace, "error", err)
		}
		if text.Wait(ctx, next) != nil {
			break
		}
		err = l.Unlock(ctx)
	}
	if err != nil {
		return &RemediedError{
			Remedy{Kind: RemedyUnlock, Repository: l.s.repo.String(), Workspace: l.x.names.workspace, Lock: l.x.info.ID},
			fmt.Errorf("releasing the lock: %w", err),
		}
	}
	return nil
}

func (l *Lock) leavesUntil() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaves == 0 {
		l.leaves = l.s.o.Uptime() + unlockRetryTime
	}
	return l.leaves
}
