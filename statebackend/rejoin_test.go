// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestResumedWhileRegistryAway lets another server answer a client in between, and the
// registry refuse a request while the first server joins the lock again: the lock is not
// lost, and the answer must not say so, since the tools would not repeat the request.
//
// Shows: servers 7
func TestResumedWhileRegistryAway(t *testing.T) {
	const never = math.MaxInt
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		f := &ocitest.Fault{Base: direct{h}, Match: ocitest.On("GET", "tags"), Times: -1, Nth: never, Do: ocitest.Status(503, -1)}
		a, b := newStore(t, abandonedHost, f, statebackend.Options{}), newStore(t, abandonedHost, direct{h}, statebackend.Options{})
		put := func(s *statebackend.Store, state string) error {
			return s.Resumed(t.Context(), "prod", "a", func(l *statebackend.Lock) error {
				_, err := l.Put(t.Context(), []byte(state))
				return err
			})
		}
		mustLock(t, a, "prod", "a")
		if err := put(b, "1"); err != nil {
			t.Fatal(err)
		}
		f.Nth = f.Seen() + 2 // the list by which the lock is joined again
		if err := put(a, "2"); !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("the registry is away: %v", err)
		}
		f.Nth = never
		if err := put(a, "2"); err != nil {
			t.Error(err)
		}
		if got := mustGet(t, b, "prod"); got != "2" {
			t.Errorf("state: %q", got)
		}
	})
}
