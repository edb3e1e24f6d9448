// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
)

// Hold runs do while it holds the lock of a workspace. It releases the lock as
// [Lock.Leave] does, also when ctx ends meanwhile.
func (s *Store) Hold(ctx context.Context, ws string, info LockInfo, do func(*Lock) error) error {
	l, err := s.Lock(ctx, ws, info)
	if err != nil {
		return err
	}
	return errors.Join(do(l), l.Leave(ctx))
}

const (
	leastWait  = time.Second      // for a holder without an id, which was gone before its claim could be read
	ghostWait  = 80 * time.Second // for a claim that cannot be read: it is ended after a minute
	leastPause = 200 * time.Millisecond
	mostPause  = 2 * time.Second
)

// LockWithin is [Store.Lock] that tries again while somebody else holds the lock,
// until limit is over or done is closed: then the error is the last *LockedError.
// It goes on for a moment beyond limit where the holder seems to be gone, and for
// as long as it takes to end a claim that was never acknowledged.
func (s *Store) LockWithin(ctx context.Context, workspace string, info LockInfo, limit time.Duration, done <-chan struct{}) (*Lock, error) {
	begin := time.Now()
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		l, err := s.Lock(ctx, workspace, info)
		e, locked := errors.AsType[*LockedError](err)
		if !locked {
			return l, err
		}
		wait := limit
		if e.Held.ID == "" {
			wait = max(wait, leastWait)
		}
		if e.Unreadable {
			wait = max(wait, ghostWait)
		}
		if time.Since(begin)+pause > wait {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-done:
			return nil, err
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// NewLockInfo describes this process as the holder of a lock.
func NewLockInfo(operation, tool string) LockInfo {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return LockInfo{
		ID:        uuid.NewString(),
		Operation: operation,
		Info:      fmt.Sprintf("%s, pid %d", tool, os.Getpid()),
		Who:       who + "@" + host,
		Version:   tool,
		Created:   time.Now().UTC(),
	}
}
