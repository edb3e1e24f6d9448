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

// FuzzKeys checks that a file of keys has a public signing key or is an error.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"k","use":"sig","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","use":"enc","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeys(b)
		if (err == nil) != (keys != nil && len(keys.ids) > 0 && len(keys.ids) == len(keys.set.PublicKeys)) {
			t.Errorf("%+v, %v", keys, err)
		}
	})
}
