// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// Budget bounds the memory that states take while they are read and written,
// by all stores that share it: a stored state of some kilobytes may expand to
// the largest that a store accepts. Reading and writing are counted apart, since
// a write reads the current state while it holds its own; nobody waits for a
// share of that which he holds.
type Budget struct {
	size          int64
	reads, writes *semaphore.Weighted
}

// NewBudget returns a budget of size bytes for reading and as many for writing.
// A state that needs more than all of it is moved alone.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, reads: semaphore.NewWeighted(size), writes: semaphore.NewWeighted(size)}
}

// hold waits for n bytes of one kind; the wait ends with ctx.
func (b *Budget) hold(ctx context.Context, from *semaphore.Weighted, n int64) (release func(), err error) {
	n = min(n, b.size)
	if err := from.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("waiting for %d bytes of memory for a state: %w", n, err)
	}
	return func() { from.Release(n) }, nil
}

// writeCopies is how often a state is in memory while it is written: as it came,
// compressed, sealed.
const writeCopies = 3

// Reserve waits until a state of size bytes may be taken in for writing; below 0
// the size is not known. The caller calls release after the write.
func (s *vault) Reserve(ctx context.Context, size int64) (release func(), err error) {
	b := s.o.Budget
	if b == nil {
		return func() {}, nil
	}
	if size < 0 {
		size = s.o.MaxState
	}
	return b.hold(ctx, b.writes, writeCopies*size)
}

const (
	// likelyRatio is how far states expand as a rule. One that expands further is
	// fetched again when there is room for it.
	likelyRatio = 32
	// leastRoom is what every state may expand to.
	leastRoom = 64 << 10
)

// expandError says that a state expands to more bytes than there was room for.
type expandError int64

func (e expandError) Error() string { return fmt.Sprintf("the state expands to %d bytes", int64(e)) }

// load fetches and opens the bytes of a manifest and passes them to use, within
// the budget until use returns.
func (s *vault) load(ctx context.Context, m format.StateManifest, use func(state []byte) error) error {
	room := min(s.o.MaxState, likelyRatio*min(m.Layer.Size, s.o.MaxState)+leastRoom)
	for {
		state, release, err := s.tryLoad(ctx, m, room)
		if n, ok := errors.AsType[expandError](err); ok && int64(n) > room {
			room = int64(n)
			continue
		}
		if err != nil {
			return err
		}
		defer release()
		return use(state)
	}
}

// tryLoad loads a state that expands to at most room bytes; else the error is an
// expandError, and nothing is held.
func (s *vault) tryLoad(ctx context.Context, m format.StateManifest, room int64) ([]byte, func(), error) {
	release := func() {}
	if b := s.o.Budget; b == nil {
		room = s.o.MaxState
	} else {
		need := min(m.Layer.Size, s.o.MaxState)
		if sealed(m) {
			need *= 2
		}
		if strings.TrimSuffix(m.Encoding(), suffixSealed) != "" {
			need += room
		}
		var err error
		if release, err = b.hold(ctx, b.reads, need); err != nil {
			return nil, nil, err
		}
	}
	stored, err := s.repo.ReadBlob(ctx, m.Layer, s.o.MaxState)
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("reading version %d of workspace %q: %w", m.N, m.Workspace, unreadable(err))
	}
	state, err := s.decode(ctx, m, stored, room)
	if err != nil {
		release()
		return nil, nil, err
	}
	return state, release, nil
}
