// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// state-W is a copy: if it lags or is gone, locks and strict readers read the newest; a Put
// repairs.
func TestRegressedPointer(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s, strict := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{StrictReads: true})
		for _, state := range []string{"1", "2"} {
			mustStore(t, s, "prod", []byte(state))
		}
		old := must.Get(s.Repo().Fetch(t.Context(), "state-prod-v1"))(t)
		must.Succeed(t, s.Repo().PutTag(t.Context(), "state-prod", old))
		must.Equal(t, "strict read", mustGet(t, strict, "prod"), "2")
		l := mustLock(t, s, "prod", "3")
		if got, v, err := l.Get(t.Context()); err != nil || string(got) != "2" || v.N != 2 {
			t.Errorf("read under the lock: %q, %+v, %v", got, v, err)
		}
		if v := mustPut(t, l, []byte("3")); v.N != 3 || v.Parent != 2 {
			t.Errorf("version: %+v", v)
		}
		mustUnlock(t, l)
		must.Equal(t, "read after the repair", mustGet(t, s, "prod"), "3")
	})
}

// A writer that cannot move state-W has still stored its version.
func TestPointerLeftBehind(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	f := &ocitest.Fault{Do: ocitest.Status(http.StatusForbidden, -1), Times: -1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && r.URL.Path == "/v2/infra/state/manifests/state-prod"
	}}
	a, b := newStore(t, host, f, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
	mustStore(t, a, "prod", []byte("a"))
	must.Equal(t, "read without a pointer", mustGet(t, b, "prod"), "a")
}

// Concurrent requests with one lock id in one process get one lock.
func TestSameIDAtOnce(t *testing.T) {
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{})
	var locks [4]*statebackend.Lock
	var wg sync.WaitGroup
	for i := range locks {
		wg.Go(func() {
			l, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "one"})
			if err != nil {
				t.Error(err)
			}
			locks[i] = l
		})
	}
	wg.Wait()
	for _, l := range locks[1:] {
		if l != locks[0] {
			t.Error("one lock id has two locks")
		}
	}
	mustPut(t, locks[0], []byte("state"))
	mustUnlock(t, locks[0])
}
