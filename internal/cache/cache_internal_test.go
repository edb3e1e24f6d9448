// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

func newTestCache(limit int) *Cache[int] {
	return New("test", limit, func(int) int { return 0 }, time.Now, func(string, string) {})
}

// TestCachePolicy checks one value in all its ages.
func TestCachePolicy(t *testing.T) {
	p := Policy{Fresh: 30 * time.Second, Grace: 5 * time.Minute, Stale: 24 * time.Hour}
	down := errors.New("registry down")
	tests := []struct {
		name      string
		age       time.Duration
		err       error // of the second load
		want      int
		wantErr   error
		wantLoads int // after the background work is done
	}{
		{name: "fresh", age: 29 * time.Second, want: 1, wantLoads: 1},
		{name: "grace serves the old and refreshes", age: 31 * time.Second, want: 1, wantLoads: 2},
		{name: "after grace the refresh is waited for", age: 6 * time.Minute, want: 2, wantLoads: 2},
		{name: "a failed refresh serves the old", age: 6 * time.Minute, err: down, want: 1, wantLoads: 2},
		{name: "a day later nothing hides the failure", age: 25 * time.Hour, err: down, wantErr: down, wantLoads: 2},
		{name: "gone is gone", age: 6 * time.Minute, err: oci.ErrNotFound, wantErr: oci.ErrNotFound, wantLoads: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestCache(1 << 20)
				loads := 0
				load := func(context.Context, int, bool) (int, error) {
					loads++
					if loads > 1 && tt.err != nil {
						return 0, tt.err
					}
					return loads, nil
				}
				must.Get(c.Get(t.Context(), "k", p, load))(t)
				time.Sleep(tt.age)
				got, err := c.Get(t.Context(), "k", p, load)
				synctest.Wait()
				if got != tt.want || !errors.Is(err, tt.wantErr) {
					t.Errorf("got %d, %v; want %d, %v", got, err, tt.want, tt.wantErr)
				}
				must.Equal(t, "loads", loads, tt.wantLoads)
			})
		})
	}
}

// TestCacheFailing: an outage costs each key one waiting request.
func TestCacheFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(1 << 20)
		p := Policy{Fresh: time.Second, Stale: time.Hour}
		loads := 0
		load := func(ctx context.Context, _ int, has bool) (int, error) {
			loads++
			if has {
				<-ctx.Done() // a registry that hangs
				return 0, ctx.Err()
			}
			return 7, nil
		}
		mustGet(t, c, p, load, 7)
		time.Sleep(time.Minute)
		start := time.Now()
		mustGet(t, c, p, load, 7)
		if waited := time.Since(start); waited != Patience {
			t.Errorf("waited %v with an old value at hand, want %v", waited, Patience)
		}
		time.Sleep(LoadTimeout) // the shared load has failed by now
		start = time.Now()
		mustGet(t, c, p, load, 7)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v right after a failure, want none", waited)
		}
		time.Sleep(2 * LoadTimeout)
	})
}

func mustGet(t *testing.T, c *Cache[int], p Policy, load Loader[int], want int) {
	t.Helper()
	if got, err := c.Get(t.Context(), "k", p, load); err != nil || got != want {
		t.Fatalf("got %d, %v; want %d", got, err, want)
	}
}

func TestCacheMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(1 << 20)
		loads := 0
		load := func(context.Context, int, bool) (int, error) { loads++; return 0, oci.ErrNotFound }
		for range 3 {
			if _, err := c.Get(t.Context(), "k", Policy{Fresh: time.Hour}, load); !errors.Is(err, oci.ErrNotFound) {
				t.Fatalf("got %v, want not found", err)
			}
		}
		must.Equal(t, "loads for three questions", loads, 1)
		time.Sleep(missingTTL)
		_, _ = c.Get(t.Context(), "k", Policy{Fresh: time.Hour}, load)
		must.Equal(t, "loads after the answer expired", loads, 2)
	})
}

// TestCacheCoalesces: callers share a load, which a cancelled one does not end.
func TestCacheCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(1 << 20)
		loads := 0
		load := func(context.Context, int, bool) (int, error) {
			loads++
			time.Sleep(time.Second)
			return 42, nil
		}
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Get(first, "k", Policy{Fresh: time.Hour}, load); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled caller got %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if v, err := c.Get(t.Context(), "k", Policy{Fresh: time.Hour}, load); err != nil || v != 42 {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		cancel()
		wg.Wait()
		must.Equal(t, "loads", loads, 1)
	})
}

// TestCacheForget: a load that began before a change is not cached.
func TestCacheForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCache(1 << 20)
		loads := 0
		load := func(context.Context, int, bool) (int, error) {
			loads++
			n := loads
			time.Sleep(time.Second)
			return n, nil
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Get(t.Context(), "k", Policy{Fresh: time.Hour}, load) })
		synctest.Wait()
		c.Forget("k")
		mustGet(t, c, Policy{Fresh: time.Hour}, load, 2)
		wg.Wait()
		mustGet(t, c, Policy{Fresh: time.Hour}, load, 2)
	})
}

func TestCacheEvicts(t *testing.T) {
	c := New("test", 10_000, func(int) int { return 1000 }, time.Now, func(string, string) {})
	for i := range 100 {
		c.Put(strconv.Itoa(i), i)
	}
	if c.bytes > c.limit {
		t.Errorf("%d bytes kept, the limit is %d", c.bytes, c.limit)
	}
	if _, ok := c.Peek("99"); !ok {
		t.Error("the last value is gone")
	}
	if _, ok := c.Peek("0"); ok {
		t.Error("the first value is still there")
	}
}

// TestJoinedTooLate waits for a load after its end: the value is cached.
func TestJoinedTooLate(t *testing.T) {
	c := New("list", 1<<20, func(int) int { return 0 }, time.Now, func(string, string) {})
	p := Policy{Fresh: time.Minute}
	_, _, kept := c.lookUp("k", p)
	c.Put("k", 1)
	v, err := c.wait(t.Context(), "k", kept, func(context.Context, int, bool) (int, error) {
		t.Error("it is loaded again")
		return 2, nil
	})
	if v != 1 || err != nil {
		t.Errorf("got %d, %v", v, err)
	}
	_, _, kept = c.lookUp("k", p)
	v, err = c.wait(t.Context(), "k", kept, func(context.Context, int, bool) (int, error) { return 2, nil })
	if v != 2 || err != nil {
		t.Errorf("what is known and was seen is loaded: got %d, %v", v, err)
	}
}
