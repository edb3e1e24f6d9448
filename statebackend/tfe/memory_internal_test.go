// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

func mustAcquire(t *testing.T, m *limiter, subject string, n int64) (release func()) {
	t.Helper()
	release, err := m.acquire(subject, n)
	if err != nil {
		t.Fatalf("%s, %d: %v", subject, n, err)
	}
	return release
}

func wantNoRoom(t *testing.T, m *limiter, subject string, n int64) {
	t.Helper()
	if _, err := m.acquire(subject, n); refusedWith(err) != http.StatusServiceUnavailable {
		t.Errorf("%s has room for %d more: %v", subject, n, err)
	}
}

func TestMemory(t *testing.T) {
	m := newLimiter(100)
	first := mustAcquire(t, m, "a", 60) // more than half, but alone
	wantNoRoom(t, m, "a", 1)
	other := mustAcquire(t, m, "b", 30)
	wantNoRoom(t, m, "c", 11)
	mustAcquire(t, m, "c", 10)()
	first()
	first() // only the first call counts
	wantNoRoom(t, m, "c", 71)
	mustAcquire(t, m, "c", 70)()
	other()
	whole := mustAcquire(t, m, "a", 1000) // at most the whole limit
	wantNoRoom(t, m, "b", 1)
	whole()
	if len(m.by) != 0 || m.used != 0 {
		t.Errorf("%d subjects and %d bytes are left", len(m.by), m.used)
	}
}

func TestMemoryOfOne(t *testing.T) {
	m := newLimiter(100)
	for range maxUploads {
		defer mustAcquire(t, m, "a", 1)()
	}
	wantNoRoom(t, m, "a", 1)
	mustAcquire(t, m, "b", 1)()
}

// Concurrent uploads together never have more than the limit.
func TestMemoryTogether(t *testing.T) {
	m := newLimiter(10)
	var now, limit, taken atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 200 {
				release, err := m.acquire(fmt.Sprint(i), 3)
				if err != nil {
					continue
				}
				taken.Add(1)
				if n := now.Add(3); n > limit.Load() {
					limit.Store(n)
				}
				now.Add(-3)
				release()
			}
		})
	}
	wg.Wait()
	if limit.Load() > 10 || taken.Load() == 0 || m.used != 0 {
		t.Errorf("%d bytes at most in %d uploads, %d are left", limit.Load(), taken.Load(), m.used)
	}
}
