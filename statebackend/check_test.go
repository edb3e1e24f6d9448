// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// A holder asks whether it still is one, with one request.
func TestLockCheck(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, c, statebackend.Options{})
		l := mustLock(t, s, "prod", "a")
		mustPut(t, l, []byte("one"))
		c.Take()
		if err := l.Check(t.Context()); err != nil {
			t.Errorf("held: %v", err)
		}
		if n := sum(c.Take()); n < 1 || n > 3 { // pages of two tags
			t.Errorf("%d requests", n)
		}
		if err := newStore(t, host, nil, statebackend.Options{}).ForceUnlock(t.Context(), "prod", "a"); err != nil {
			t.Fatal(err)
		}
		if err := l.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("forced: %v", err)
		}
		mustUnlock(t, l)
		if err := l.Check(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("released: %v", err)
		}
	})
}
