// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSpent: of many uses of one code exactly one is the first; codes expire and are bounded.
func TestSpent(t *testing.T) {
	s := spent{until: map[string]time.Time{}}
	now := time.Now()
	var firsts atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if first, _ := s.rememberCode("one", now, now.Add(time.Minute)); first {
				firsts.Add(1)
			}
		})
	}
	wg.Wait()
	if n := firsts.Load(); n != 1 {
		t.Errorf("%d were the first", n)
	}
	for i := range maxSpent - 1 {
		if first, room := s.rememberCode(fmt.Sprint(i), now, now.Add(time.Minute)); !first || !room {
			t.Fatalf("code %d: first %t, room %t", i, first, room)
		}
	}
	if first, room := s.rememberCode("one more", now, now.Add(time.Minute)); first || room {
		t.Errorf("beyond the bound: first %t, room %t", first, room)
	}
	if first, room := s.rememberCode("one", now, now.Add(time.Minute)); first || !room {
		t.Errorf("a code that was used, when all is full: first %t, room %t", first, room)
	}
	if first, room := s.rememberCode("one more", now.Add(time.Minute), now.Add(2*time.Minute)); !first || !room || len(s.until) != 1 {
		t.Errorf("a minute later: first %t, room %t, %d remembered", first, room, len(s.until))
	}
}
