// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"fmt"
)

// Check asks with one request whether the lock is still held: ErrLockLost if it
// was taken over, forced or removed, or if somebody wrote above it. It reserves
// nothing: Put checks again.
func (l *Lock) Check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return fmt.Errorf("workspace %q in %s: the lock was released: %w", l.x.workspace, l.s.repo, ErrLockLost)
	}
	tags, err := l.s.tags(ctx)
	if err != nil {
		return fmt.Errorf("looking at the lock of workspace %q in %s: %w", l.x.workspace, l.s.repo, err)
	}
	v := newView(tags, l.x.fragment)
	if v.has(l.claim) && v.ended[l.claim] == 0 && v.newest <= max(l.newest, l.next-1) && !l.lost {
		return nil
	}
	return fmt.Errorf("workspace %q in %s: the lock was taken over or removed: %w", l.x.workspace, l.s.repo, ErrLockLost)
}
