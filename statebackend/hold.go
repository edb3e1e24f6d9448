// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Hold runs do under the lock of a workspace, then [Lock.UnlockRetrying], even if ctx has ended.
func (s *Store) Hold(ctx context.Context, ws string, info LockInfo, do func(*Lock) error) error {
	l, err := s.Lock(ctx, ws, info)
	if err != nil {
		return err
	}
	return errors.Join(do(l), l.UnlockRetrying(ctx))
}

const (
	minWait       = time.Second      // for a lock that was released before its claim could be read
	abandonedWait = 80 * time.Second // for a claim that cannot be read: it is ended after a minute
	minPause      = 200 * time.Millisecond
	maxPause      = 2 * time.Second
)

// LockWithin is [Store.Lock] that tries again while another client holds the lock, until limit has
// passed or done is closed; then the error is the last *LockedError. It tries at least a second if
// the holder seems gone, and long enough to end a claim that was never acknowledged.
func (s *Store) LockWithin(ctx context.Context, workspace string, info LockInfo, limit time.Duration, done <-chan struct{}) (*Lock, error) {
	begin := time.Now()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		l, err := s.Lock(ctx, workspace, info)
		e, locked := errors.AsType[*LockedError](err)
		if !locked {
			return l, err
		}
		wait := limit
		if e.Held.ID == "" {
			wait = max(wait, minWait)
		}
		if e.Unreadable {
			wait = max(wait, abandonedWait)
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

// Operations of the locks that a server holds for itself and renews.
const (
	OpLead     = "lead"     // of the instances
	OpDepot    = "depot"    // a run of the depot file
	OpApproval = "approval" // a write to the record of the depot
)

// IsOfServer reports whether a server holds the lock for itself: it ends soon after that server.
func (h Held) IsOfServer() bool {
	return h.TTL > 0 && slices.Contains([]string{OpLead, OpDepot, OpApproval}, h.Info.Operation)
}

// NewLockInfo describes this process as the holder of a lock.
func NewLockInfo(operation, tool string) LockInfo {
	owner := "unknown"
	if u, err := user.Current(); err == nil {
		owner = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return LockInfo{
		ID:        uuid.NewString(),
		Operation: operation,
		Info:      fmt.Sprintf("%s, pid %d", tool, os.Getpid()),
		Who:       owner + "@" + host,
		Version:   tool,
		Created:   time.Now().UTC(),
	}
}

// holdings are the locks and attempts of this process, and the ids that it has released.
type holdings struct {
	mu    sync.Mutex // guards the fields below
	held  map[string]*Lock
	busy  map[string]chan struct{} // by workspace and lock id
	ended map[string]time.Time     // by workspace and lock id
}

// IsIdle reports whether a store knows of no lock, attempt or released id: another one for the same
// repository would answer alike.
func IsIdle(s *Store) bool {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	return len(s.locks.held)+len(s.locks.busy)+len(s.locks.ended) == 0
}

const (
	// endedTime is how long a released id is remembered: longer than any proxy keeps a request.
	endedTime = time.Hour
	// maxEnded bounds how many released ids are remembered.
	maxEnded = 10_000
)

// beginAttempt runs one attempt per workspace and id at a time: a repeated request finds the lock.
func (h *holdings) beginAttempt(ctx context.Context, workspace, id string) (done func(), err error) {
	key := keyOf(workspace, id)
	for {
		h.mu.Lock()
		other, ok := h.busy[key]
		if !ok {
			mine := make(chan struct{})
			h.busy[key] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				delete(h.busy, key)
				h.mu.Unlock()
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *holdings) keepHeld(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[l.x.names.workspace] = l
}

func (h *holdings) forgetHeld(l *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[l.x.names.workspace] == l {
		delete(h.held, l.x.names.workspace)
	}
}

// dropHeld forgets a lock that this process no longer manages, and leaves its claim.
func (h *holdings) dropHeld(l *Lock) {
	h.forgetHeld(l)
	if l.heartbeats != nil {
		l.heartbeats.stop()
	}
}

func keyOf(workspace, id string) string { return workspace + "\x00" + id }

// rememberEnded remembers a released id if it is a UUID: no client locks twice under one.
func (h *holdings) rememberEnded(workspace, id string, now time.Time) {
	if uuid.Validate(id) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ended) >= maxEnded {
		maps.DeleteFunc(h.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedTime })
	}
	if len(h.ended) >= maxEnded {
		clear(h.ended)
	}
	h.ended[keyOf(workspace, id)] = now
}

func (h *holdings) wasEnded(workspace, id string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.ended[keyOf(workspace, id)]
	return ok && now.Sub(at) <= endedTime
}
