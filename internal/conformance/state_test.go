// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestState writes two versions under a lock that a second client cannot get, then takes
// the lock away from its holder, which can no longer write.
//
// Shows: opendepot 15
func TestState(t *testing.T) {
	each(t, func(t *testing.T, c *oci.Client) {
		ctx := t.Context()
		a := statebackend.New(mustRepo(t, c, "conformance/state"), statebackend.Options{})
		b := statebackend.New(mustRepo(t, c, "conformance/state"), statebackend.Options{})
		if _, _, err := a.Get(ctx, "default"); !errors.Is(err, oci.ErrNotFound) {
			t.Fatalf("Get without a state: %v, want ErrNotFound", err)
		}
		lock, err := a.Lock(ctx, "default", statebackend.LockInfo{ID: "a-1", Operation: "apply", Who: "a"})
		if err != nil {
			t.Fatal(err)
		}
		for serial := range 2 {
			mustPut(t, lock, state(serial+1))
		}
		_, err = b.Lock(ctx, "default", statebackend.LockInfo{ID: "b-1", Who: "b"})
		if held, ok := errors.AsType[*statebackend.LockedError](err); !ok || held.Held.ID != "a-1" {
			t.Fatalf("a second lock: %v, want LockedError of a-1", err)
		}
		must.Succeed(t, lock.Unlock(ctx))
		if got, _, err := b.Get(ctx, "default"); err != nil || string(got) != string(state(2)) {
			t.Fatalf("Get: %s, %v", got, err)
		}
		takeOver(t, a, b)
	})
}

func takeOver(t *testing.T, a, b *statebackend.Store) {
	t.Helper()
	ctx := t.Context()
	old := must.Get(a.Lock(ctx, "default", statebackend.LockInfo{ID: "a-2", Who: "a"}))(t)
	must.Succeed(t, b.ForceUnlock(ctx, "default", "a-2"))
	next := must.Get(b.Lock(ctx, "default", statebackend.LockInfo{ID: "b-2", Who: "b"}))(t)
	mustPut(t, next, state(3))
	if _, err := old.Put(ctx, state(33)); !errors.Is(err, statebackend.ErrLockLost) {
		t.Errorf("Put of the overtaken holder: %v, want ErrLockLost", err)
	}
	got, _, err := a.Get(ctx, "default")
	if err != nil || string(got) != string(state(3)) {
		t.Errorf("Get after it: %s, %v, want serial 3", got, err)
	}
	if err := next.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// TestExclusion: clients compete for a lock; its holders are counted outside the registry.
func TestExclusion(t *testing.T) {
	const clients, rounds = 4, 3
	each(t, func(t *testing.T, c *oci.Client) {
		var inside, entered atomic.Int32
		var all sync.WaitGroup
		for n := range clients {
			s := statebackend.New(mustRepo(t, c, "conformance/exclusion"), statebackend.Options{})
			all.Go(func() {
				for round := range rounds {
					id := fmt.Sprintf("%d-%d", n, round)
					lock, err := waitLock(t, s, id)
					if err != nil {
						t.Errorf("%s: %v", id, err)
						return
					}
					if inside.Add(1) != 1 {
						t.Errorf("%s: somebody else is inside", id)
					}
					entered.Add(1)
					inside.Add(-1)
					if err := lock.Unlock(t.Context()); err != nil {
						t.Errorf("%s: %v", id, err)
					}
				}
			})
		}
		all.Wait()
		must.Equal(t, "entries", entered.Load(), clients*rounds)
	})
}

// waitLock polls as the tools do with -lock-timeout, but faster.
func waitLock(t *testing.T, s *statebackend.Store, id string) (*statebackend.Lock, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		lock, err := s.Lock(t.Context(), "default", statebackend.LockInfo{ID: id, Who: id})
		if _, held := errors.AsType[*statebackend.LockedError](err); !held || time.Now().After(deadline) {
			return lock, err
		}
	}
}

func mustPut(t *testing.T, l *statebackend.Lock, b []byte) {
	t.Helper()
	must.Get(l.Put(t.Context(), b))(t)
}

func state(serial int) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"0b9ff0b8-40c5-4cbd-a5c3-6bbfbd1e0b3f","resources":[]}`, serial)
}
