// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"

	"github.com/seed-141914ff/okara/statebackend"
)

// withLock runs do while it holds the lock of a workspace.
func withLock(ctx context.Context, a *app, s *statebackend.Store, ws, operation string, do func(*statebackend.Lock) error) error {
	l, err := s.Lock(ctx, ws, lockInfo(operation, a.userAgent()))
	if err != nil {
		return err
	}
	err = do(l)
	// An interrupted command releases its lock all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if unlockErr := l.Unlock(ctx); err == nil && unlockErr != nil {
		return fmt.Errorf("releasing the lock: %w", unlockErr)
	}
	return err
}

// lockInfo describes this process as the holder of a lock.
func lockInfo(operation, tool string) statebackend.LockInfo {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return statebackend.LockInfo{
		ID:        uuid.NewString(),
		Operation: operation,
		Info:      fmt.Sprintf("%s, pid %d", tool, os.Getpid()),
		Who:       who + "@" + host,
		Version:   tool,
		Created:   time.Now().UTC(),
	}
}
