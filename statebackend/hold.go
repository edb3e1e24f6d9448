// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
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
