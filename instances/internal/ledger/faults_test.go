// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// twice sends a request a second time, as a network may do.
func twice(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil || r.GetBody == nil && r.Body != nil {
		return resp, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	if second, err := next.RoundTrip(again); err == nil {
		_, _ = io.Copy(io.Discard, second.Body)
		second.Body.Close()
	}
	return resp, nil
}

var faults = []struct {
	name string
	do   ocitest.Act
	dies bool
}{
	{"lost before", ocitest.FailBefore, false},
	{"lost after", ocitest.FailAfter, false},
	{"500 after", ocitest.StatusAfter(500), false},
	{"refused", ocitest.Status(403, -1), false},
	{"twice", twice, false},
	{"hangs", ocitest.Hang, false},
	{"killed before", ocitest.FailBefore, true},
	{"killed after", ocitest.FailAfter, true},
}

// armed is a fault that is activated on demand.
type armed struct {
	*ocitest.Fault
	h  http.Handler
	on atomic.Bool
}

func newArmed(h http.Handler, nth int, do ocitest.Act, dies bool) *armed {
	a := &armed{h: h}
	a.Fault = &ocitest.Fault{Base: direct{h}, Nth: nth, Do: do, Match: func(*http.Request) bool { return a.on.Load() }}
	if dies { // all later requests fail too
		a.Fault.Base = &ocitest.Fault{Base: direct{h}, Nth: nth + 1, Times: -1, Do: ocitest.FailBefore, Match: func(*http.Request) bool { return a.on.Load() }}
		if fmt.Sprintf("%p", do) == fmt.Sprintf("%p", ocitest.FailBefore) {
			a.Fault.Times = -1
		}
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

// Each request of a leader with two commits is lost, loses its answer, is refused, is
// sent twice, hangs, or is the last one of its process. In all cases, what was answered
// with success is in the next leader's document, and a repeated command is there once.
//
// Shows: crash K1
// Shows: instances 4
func TestFaultAtEachRequest(t *testing.T) {
	for _, q := range []struct {
		name   string
		quirks ocitest.Quirks
	}{{"delete", ocitest.Quirks{}}, {"no delete", ocitest.Quirks{NoDelete: true}}} {
		for _, f := range faults {
			if q.quirks.NoDelete && f.name != "lost after" && f.name != "killed after" {
				continue // only the release of a lock differs
			}
			t.Run(q.name+"/"+f.name, func(t *testing.T) {
				n := 1
				for ; commitsWithFault(t, ocitest.Handler(t, q.quirks), n, f.do, f.dies); n++ {
					if t.Failed() {
						t.Fatalf("at request %d", n)
					}
				}
				if n <= 18 { // lock 5, get 1, commits 10, heartbeat 2
					t.Errorf("the leader had only %d requests", n-1)
				}
			})
		}
	}
}

func commitsWithFault(t *testing.T, h http.Handler, n int, do ocitest.Act, dies bool) (hit bool) {
	synctest.Test(t, func(t *testing.T) {
		fault := newArmed(h, n, do, dies)
		fault.on.Store(true)
		a := start(t, fault, ledger.Options{})
		synctest.Wait()
		b := start(t, direct{h}, ledger.Options{})
		ask(t, "one", a, b)
		for _, r := range []*replica{a, b} {
			_, _ = r.Do(t.Context(), lifecycle.Command{Event: lifecycle.Schedule{Concurrency: 10}, Seed: sha256.Sum256([]byte("start"))})
		}
		ask(t, "two", a, b)
		time.Sleep(15 * time.Second)
		hit = fault.Seen() >= n
		checkNext(t, a, b, "one", "two")
	})
	return hit
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

// Each request of one commit fails before and after it takes effect, on every registry.
//
// Shows: crash K1
// Shows: crash K2 | the leader after it; a lost response
// Shows: instances 3
func TestFaultAtEachRequestOfCommit(t *testing.T) {
	ocitest.EachHandler(t, func(t *testing.T, h http.Handler) {
		for i, do := range []ocitest.Act{ocitest.FailBefore, ocitest.FailAfter} {
			n := 1
			for ; commitWithFault(t, h, fmt.Sprintf("r%d-%d", i, n), n, do); n++ {
				if t.Failed() {
					t.Fatalf("act %d at request %d", i, n)
				}
			}
			if n <= 4 {
				t.Errorf("a commit has %d requests", n-1)
			}
		}
	})
}

func commitWithFault(t *testing.T, h http.Handler, prefix string, n int, do ocitest.Act) (hit bool) {
	synctest.Test(t, func(t *testing.T) {
		fault := newArmed(h, n, do, false)
		o := ledger.Options{}
		a := startAt(t, prefix, fault, o)
		leads(t, a)
		mustDo(t, a, "one", 201)
		b := startAt(t, prefix, direct{h}, o)
		fault.on.Store(true)
		_, err := a.Do(t.Context(), create("two"))
		fault.on.Store(false)
		if hit = fault.Seen() >= n; hit && err != nil && !errors.Is(err, lifecycle.ErrNoLeader) {
			t.Error(err)
		}
		if err == nil {
			ask(t, "two", a, b)
		}
		checkNext(t, a, b, "one", "two")
	})
	return hit
}
