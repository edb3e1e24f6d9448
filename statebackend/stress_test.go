// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Four workers lock, increment the state and unlock as fast as they can. The
// holders are counted outside of the registry, and the state must count the
// increments. On a slow machine they continue until there was some progress.
func TestStress(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var holders, puts atomic.Int64
		var wg sync.WaitGroup
		for w := range 4 {
			s := newStore(t, host, nil, statebackend.Options{})
			wg.Go(func() {
				for i := 0; ctx.Err() == nil || puts.Load() < 2; i++ {
					err := increment(s, fmt.Sprintf("w%d-%d", w, i), &holders, &puts)
					if _, locked := errors.AsType[*statebackend.LockedError](err); err != nil && !locked {
						t.Errorf("worker %d: %v", w, err)
						return
					}
				}
			})
		}
		wg.Wait()
		s := newStore(t, host, nil, statebackend.Options{})
		if got, want := mustGet(t, s, "prod"), strconv.FormatInt(puts.Load(), 10); got != want {
			t.Errorf("the state counts %s increments, want %s", got, want)
		}
		if held, err := s.Locks(t.Context()); err != nil || len(held) > 0 {
			t.Errorf("locks left: %v, %v", held, err)
		}
	})
}

func increment(s *statebackend.Store, id string, holders, puts *atomic.Int64) error {
	ctx := context.Background() // a started cycle is completed
	l, err := s.Lock(ctx, "prod", statebackend.LockInfo{ID: id})
	if err != nil {
		return err
	}
	if n := holders.Add(1); n != 1 {
		return fmt.Errorf("%d holders at once", n)
	}
	state, _, err := l.Get(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return err
	}
	n, err := strconv.Atoi("0" + string(state))
	if err != nil {
		return err
	}
	if _, err := l.Put(ctx, strconv.AppendInt(nil, int64(n+1), 10)); err != nil {
		return err
	}
	puts.Add(1)
	holders.Add(-1)
	return l.Unlock(ctx)
}
