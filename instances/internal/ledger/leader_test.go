// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// stopped can be suspended, as by SIGSTOP: what is pending is sent when it continues.
type stopped struct {
	http.RoundTripper
	mu   sync.Mutex
	gone chan struct{} // nil: it runs
}

func (s *stopped) stop() { s.mu.Lock(); s.gone = make(chan struct{}); s.mu.Unlock() }
func (s *stopped) cont() { s.mu.Lock(); close(s.gone); s.gone = nil; s.mu.Unlock() }

func (s *stopped) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone != nil {
		<-gone
		r = r.WithContext(context.WithoutCancel(r.Context())) // it was sent before the caller gave up
	}
	return s.RoundTripper.RoundTrip(r)
}

// A leader whose machine sleeps past its lease answers nothing when it wakes up, and what
// it still writes sorts below the versions of its successor.
//
// Shows: crash K10 | an old leader that resumes after a pause
// Shows: platform-attacks 5
// Shows: platform-figures 7
func TestLeaderSleeps(t *testing.T) {
	for _, q := range []ocitest.Quirks{{}, {NoDelete: true}} {
		h := ocitest.Handler(t, q)
		synctest.Test(t, func(t *testing.T) {
			var slept atomic.Int64
			begin := time.Now()
			process := &stopped{RoundTripper: ocitest.Direct{Handler: h}}
			a := start(t, process, ledger.Options{Uptime: func() time.Duration { return time.Since(begin) + time.Duration(slept.Load()) }})
			leads(t, a)
			mustDo(t, a, "one", 201)
			time.Sleep(25 * time.Second)
			b := start(t, ocitest.Direct{Handler: h}, ledger.Options{})

			process.stop()
			late := make(chan error, 1)
			go func() {
				_, err := a.Do(t.Context(), create("late"))
				late <- err
			}()
			synctest.Wait()
			slept.Add(int64(time.Hour))
			if _, err := a.Do(t.Context(), create("one")); !errors.Is(err, lifecycle.ErrNoLeader) {
				t.Errorf("answered from memory: %v", err)
			}
			if v, err := a.View(t.Context()); err != nil || v.Leading {
				t.Errorf("it still leads: %v", err)
			}
			at := time.Now()
			leads(t, b)
			t.Logf("leader change, crash: %v", time.Since(at))
			mustDo(t, b, "two", 201)
			process.cont()
			if err := <-late; !errors.Is(err, lifecycle.ErrNoLeader) {
				t.Errorf("the late command: %v", err)
			}
			time.Sleep(time.Minute)
			mustHave(t, b, "one", "two")
			mustDo(t, b, "three", 201)
			if _, err := a.Do(t.Context(), create("four")); !errors.Is(err, lifecycle.ErrNoLeader) {
				t.Errorf("who was overtaken answers: %v", err)
			}
			time.Sleep(10 * time.Second)
			mustHave(t, a, "one", "two", "three")
			b.end()
			leads(t, a)
			mustHave(t, a, "one", "two", "three")
			a.end()
		})
	}
}

// A success waits for the commit of all it is based on; a refusal does not wait.
//
// Shows: crash K2 | the leader after it; a lost response
// Shows: instances 3 | an answered request is committed, and is performed once
func TestAnswersWait(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			prefix := fmt.Sprint("fails-", fails)
			process := &stopped{RoundTripper: ocitest.Direct{Handler: h}}
			a := startAt(t, prefix, process, ledger.Options{})
			leads(t, a)
			mustDo(t, a, "before", 201)
			synctest.Wait()
			process.stop()
			var answers [4]atomic.Int32 // 0: none yet
			for i, name := range []string{"one", "one", "two", "two"} {
				go func() {
					r, err := a.Do(t.Context(), create(name))
					if err != nil {
						r.Status = 503
					}
					answers[i].Store(int32(r.Status))
				}()
				synctest.Wait()
			}
			for i := range answers {
				if got := answers[i].Load(); got != 0 {
					t.Errorf("command %d was answered with %d before its commit", i, got)
				}
			}
			if _, err := a.Do(t.Context(), create("!")); !errors.Is(err, lifecycle.ErrNotFound) {
				t.Errorf("refused: %v", err)
			}
			if fails {
				a.gate.closed.Store(true)
			}
			process.cont()
			want := [...]int32{201, 201, 201, 201}
			if fails {
				want = [...]int32{503, 503, 503, 503}
			}
			time.Sleep(time.Minute)
			for i := range answers {
				if got := answers[i].Load(); got != want[i] {
					t.Errorf("command %d was answered with %d, want %d", i, got, want[i])
				}
			}
			a.end()
		})
	}
}

// Many concurrent commands make two commits: that of the first one, and that of all
// others, which arrived while it was written.
//
// Shows: platform-figures 3 | 50 concurrent claims are at most 2 commits; 20 claims per second
func TestGroupCommit(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		c := &ocitest.Count{Base: ocitest.Direct{Handler: h}}
		slow := &ocitest.Fault{Base: c, Times: -1, Do: ocitest.Slow(20 * time.Millisecond)}
		var commits atomic.Int32
		a := start(t, slow, ledger.Options{Committed: func(time.Duration) { commits.Add(1) }})
		leads(t, a)
		mustDo(t, a, "first", 201)
		time.Sleep(time.Second)
		c.Take()
		commits.Store(0)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { mustDo(t, a, fmt.Sprint("claim ", i), 201) })
		}
		wg.Wait()
		got := int(commits.Load()) // one if all 50 arrive before the first is begun
		if got != 1 && got != 2 {
			t.Errorf("%d commits, want at most 2", got)
		}
		must.Equal(t, "requests", c.Total(), 4*got)
		a.end()
	})
}

// An idle leader, a follower and a commit make the expected number of requests.
//
// Shows: platform-figures 1 | an idle leader: 2 requests in 10 s; a follower: 1 in 2 s; a commit:
// 5, also with 1,000 instances
// Shows: instances 3
func TestRequests(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		ca, cb := &ocitest.Count{Base: ocitest.Direct{Handler: h}}, &ocitest.Count{Base: ocitest.Direct{Handler: h}}
		a := start(t, ca, ledger.Options{})
		leads(t, a)
		mustDo(t, a, "one", 201)
		b := start(t, cb, ledger.Options{})
		time.Sleep(5 * time.Second)
		ca.Take()
		mustDo(t, a, "two", 201)
		if got := ca.Total(); got != 4 {
			t.Errorf("a commit is %d requests, want 4: %v", got, ca.Take())
		}
		time.Sleep(10 * time.Second)
		ca.Take()
		cb.Take()
		time.Sleep(200 * time.Second)
		if got := ca.Total(); got != 40 {
			t.Errorf("an idle leader sends %d requests in 200 s, want 40: %v", got, ca.Take())
		}
		got := cb.Take()
		const tries, minutes = 25, 3
		if got["GET manifest"] != 100+tries || got["GET tags"] != tries+minutes {
			t.Errorf("a follower sends %v in 200 s, want 100 polls, two for each of %d tries to lead, and a list in each of %d minutes", got, tries, minutes)
		}
		b.end()
		a.end()
	})
}

// A lock is renewed before its numbers end, and old versions are removed.
func TestTidy(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{Limits: ledger.Limits{Keep: 5, Prune: 10, Renew: 30}})
		names := many(t, 70, a)
		time.Sleep(10 * time.Second)
		tags, err := repoBehind(t, "acme", ocitest.Direct{Handler: h}).Snapshot(t.Context())
		if err != nil || len(tags.Tags) > 25 {
			t.Errorf("%d tags are left, %v", len(tags.Tags), err)
		}
		if n := a.Status().Version; n != 70 {
			t.Errorf("version %d: a lock that ends well leaves no jump", n)
		}
		mustHave(t, a, names...)
		a.end()
	})
}

// many makes n instances one after the other.
func many(t *testing.T, n int, replicas ...*replica) (names []string) {
	t.Helper()
	for i := range n {
		names = append(names, fmt.Sprint("n", i))
		ask(t, names[i], replicas...)
	}
	return names
}

var rolling = ledger.Limits{Keep: 2, Prune: 3, Roll: 50}

// Where nothing can be deleted, the ledger moves, and is found.
func TestRollOver(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{NoDelete: true})
	synctest.Test(t, func(t *testing.T) {
		o := ledger.Options{Limits: rolling, Sealer: sealer(t, 1)}
		a := start(t, ocitest.Direct{Handler: h}, o)
		leads(t, a)
		b := start(t, ocitest.Direct{Handler: h}, o)
		names := many(t, 170, a)
		if got := a.Status().Number; got != 4 {
			t.Errorf("it is in repository %d, want 4", got)
		}
		time.Sleep(20 * time.Second)
		mustHave(t, b, names...)
		c := start(t, ocitest.Direct{Handler: h}, o)
		time.Sleep(5 * time.Second)
		mustHave(t, c, names...)
		a.end()
		many(t, 171, b, c)
		b.end()
		leads(t, c)
		mustHave(t, c, append(names, "n170")...)
		c.end()
	})
}

// A roll-over that fails at any request, or whose leader dies there, loses nothing.
func TestFaultAtRollOver(t *testing.T) {
	for _, f := range []struct {
		name string
		do   ocitest.Act
		dies bool
	}{{"lost before", ocitest.FailBefore, false}, {"lost after", ocitest.FailAfter, false}, {"killed after", ocitest.FailAfter, true}} {
		t.Run(f.name, func(t *testing.T) {
			n := 1
			for ; rollsWithFault(t, ocitest.Handler(t, ocitest.Quirks{NoDelete: true}), n, f.do, f.dies); n++ {
				if t.Failed() {
					t.Fatalf("at request %d", n)
				}
			}
			if n < 22 {
				t.Errorf("a commit and a roll-over had only %d requests", n-1)
			}
		})
	}
}

func rollsWithFault(t *testing.T, h http.Handler, n int, do ocitest.Act, dies bool) (hit bool) {
	synctest.Test(t, func(t *testing.T) {
		o := ledger.Options{Limits: ledger.Limits{Keep: 2, Prune: 3, Roll: 10}}
		fault := newArmed(h, n, do, dies)
		a := start(t, fault, o)
		names := many(t, 9, a)
		time.Sleep(time.Second)
		b := start(t, ocitest.Direct{Handler: h}, o)
		time.Sleep(2500 * time.Millisecond) // between two heartbeats
		fault.on.Store(true)
		_, _ = a.Do(t.Context(), create("n9"))
		time.Sleep(5 * time.Second)
		hit = fault.Seen() >= n
		fault.on.Store(dies)
		names = append(names, many(t, 14, a, b)[9:]...)
		a.end()
		for i := 14; i < 40 && b.Status().Number < 2; i++ {
			names = append(names, fmt.Sprint("n", i))
			ask(t, names[i], b)
			time.Sleep(8 * time.Second) // a leader that died while moving has a lease
		}
		checkNext(t, a, b, names...)
		if number := b.Status().Number; number < 2 {
			t.Errorf("it is in repository %d", number)
		}
	})
	return hit
}

// A hint that the repository before does not confirm is not followed.
//
// Shows: platform-attacks 2
func TestForeignHint(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		a := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
		leads(t, a)
		mustDo(t, a, "one", 201)
		a.end()
		leaveHint(t, h, 2)
		leaveHint(t, h, 7)
		b := start(t, ocitest.Direct{Handler: h}, ledger.Options{})
		leads(t, b)
		mustHave(t, b, "one")
		b.end()
	})
}

func leaveHint(t *testing.T, h http.Handler, number int) {
	t.Helper()
	m, err := format.NewMark("application/vnd.okara.ledger.v1", map[string]int{"number": number})
	if err == nil {
		err = repoBehind(t, "acme", ocitest.Direct{Handler: h}).PutTag(t.Context(), "current", m)
	}
	if err != nil {
		t.Fatal(err)
	}
}
