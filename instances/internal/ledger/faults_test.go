// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// armed is a fault that is activated on demand.
type armed struct {
	*ocitest.Fault
	h  http.Handler
	on atomic.Bool
}

func newArmed(h http.Handler, nth int, do ocitest.Act, dies bool) *armed {
	a := &armed{h: h}
	a.Fault = &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Nth: nth, Do: do, Match: func(*http.Request) bool { return a.on.Load() }}
	if dies { // all later requests fail too
		a.Fault.Base = &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Nth: nth + 1, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return a.on.Load() }}
	}
	return a
}

// ask sends a command to any leader until it succeeds, with its key.
func ask(t *testing.T, name string, replicas ...*replica) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		for _, r := range replicas {
			_, err := r.Do(t.Context(), create(name))
			if err == nil {
				return
			}
			if !errors.Is(err, lifecycle.ErrNoLeader) {
				t.Errorf("create %s: %v", name, err)
			}
		}
	}
	t.Errorf("%s was never answered", name)
}

// checkNext ends one replica and checks the document of the next leader.
func checkNext(t *testing.T, a, b *replica, names ...string) {
	t.Helper()
	a.end()
	for _, n := range names {
		ask(t, n, b) // again
	}
	mustHave(t, b, names...)
	ask(t, "last", b)
	b.end()
}
