// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// How long the release of a lock is tried while its registry is away, and after which
// pauses: a restart takes seconds.
const (
	unlockRetryTime     = time.Minute
	unlockRetryPause    = 500 * time.Millisecond
	maxUnlockRetryPause = 5 * time.Second
)

// UnlockRetrying is [Lock.Unlock] for a client, after which nobody unlocks. It tries once, also
// where ctx has ended. While the registry is away it goes on for a minute after the
// first time that it was called, says so in the log, and stops when ctx ends.
func (l *Lock) UnlockRetrying(ctx context.Context) error {
	first, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockRetryTime)
	err := l.Unlock(first)
	cancel()
	until := l.leavesUntil()
	for next := unlockRetryPause; err != nil && oci.Passing(err) && l.s.o.Uptime() < until; next = min(2*next, maxUnlockRetryPause) {
		if next == unlockRetryPause {
			l.s.o.Logger.WarnContext(ctx, "the registry is away; the release of the lock is tried for a minute",
				"repository", l.s.repo.String(), "workspace", l.x.workspace, "error", err)
		}
		if sleep(ctx, protocol.Pause{Min: next}) != nil {
			break
		}
		err = l.Unlock(ctx)
	}
	if err != nil {
		return &RemediedError{
			Remedy{Kind: RemedyUnlock, Repository: l.s.repo.String(), Workspace: l.x.workspace, Lock: l.x.info.ID},
			fmt.Errorf("releasing the lock: %w", err),
		}
	}
	return nil
}

// leavesUntil is until when a lock is tried to be released.
func (l *Lock) leavesUntil() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaves == 0 {
		l.leaves = l.s.o.Uptime() + unlockRetryTime
	}
	return l.leaves
}
