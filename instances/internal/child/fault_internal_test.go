// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// quickTool is a tool within this process, which counts applies.
type quickTool struct{ applied int }

func (q *quickTool) start(c sandbox.Command) (startedTool, error) {
	at := runtest.Dir{}
	for _, v := range c.Env {
		if dir, ok := strings.CutPrefix(v, "OKARA_RUN="); ok {
			at = runtest.Dir{Module: filepath.Join(dir, "..", "..", c.Dir), Bridge: dir}
		}
	}
	switch c.Args[0] {
	case "init":
		return ended0{}, os.WriteFile(filepath.Join(at.Module, lockFileName), []byte("# locked\n"), 0o600)
	case "plan":
		for _, a := range c.Args {
			if name, ok := strings.CutPrefix(a, "-out="); ok {
				return ended0{}, os.WriteFile(name, []byte("plan"), 0o600)
			}
		}
	case "apply":
		q.applied++
		return ended0{}, errors.Join(at.Store(runtest.State(8, 1)), at.Store(runtest.State(9, 2)))
	}
	return ended0{}, nil
}

// ended0 is a command that has ended successfully.
type ended0 struct{}

func (ended0) Interrupt() error { return nil }
func (ended0) Kill() error      { return nil }
func (ended0) Wait() error      { return nil }

// faulty is an attempt of which each request fails once.
type faulty struct {
	name string
	// before simulates earlier attempts.
	before  func(*testing.T, *trial)
	minimum int // requests that the attempt makes
	log     string
	// builtIn makes it the built-in registry, of which more is known.
	builtIn bool
}

// TestFaultAtEachRequest fails each request of an attempt once, before and after it takes
// effect. The attempt succeeds without help and applies once; its last state is the head,
// its result exists, and the lock is free. The same holds for an attempt after one that
// left a state that its tool could not store, or a version beside the head.
//
// Shows: crash K9
// Shows: platform-mistakes 14
func TestFaultAtEachRequest(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	for _, f := range []faulty{
		{name: "first", before: func(*testing.T, *trial) {}, minimum: 24},
		{name: "built-in", before: func(*testing.T, *trial) {}, minimum: 18, builtIn: true},
		{name: "leftover", before: leaveState, minimum: 34, log: "could not store is now version"},
		{name: "fork", before: leaveFork, minimum: 33, log: "whose lock was taken over, is now version"},
	} {
		t.Run(f.name, func(t *testing.T) { f.each(t, host) })
	}
}

func (f faulty) each(t *testing.T, host string) {
	counted := &ocitest.Fault{Do: ocitest.FailBefore, Nth: 1 << 30}
	f.run(t, host, "count", counted)
	if counted.Seen() < f.minimum {
		t.Fatalf("an attempt took %d requests", counted.Seen())
	}
	t.Logf("an attempt takes %d requests", counted.Seen())
	for name, act := range map[string]ocitest.Act{"lost": ocitest.FailBefore, "unanswered": ocitest.FailAfter} {
		for n := 1; n <= counted.Seen(); n++ {
			t.Run(fmt.Sprintf("%s-%d", name, n), func(t *testing.T) {
				t.Parallel()
				which := ""
				f.run(t, host, fmt.Sprintf("%s-%d", name, n), &ocitest.Fault{Nth: n, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
					which = r.Method + " " + r.URL.Path
					return act(r, next)
				}})
				if t.Failed() {
					t.Log(which)
				}
			})
		}
	}
}

func (f faulty) run(t *testing.T, host, name string, via http.RoundTripper) {
	tr := newTrial(t, host, nil)
	tr.order.Spec.Repository = host + "/okara/instances/" + f.name + "-" + name
	repo := must.Get(oci.OpenRepo(tr.order.Spec.Repository, oci.Options{}))(t)
	tr.Repo.Repo, tr.Store = repo, tr.NewStore(repo)
	tr.order.Registry.BuiltIn = f.builtIn
	tr.module(map[string]string{"main.tf": "# nothing\n"})
	tr.pace.poll, tr.pace.push, tr.pace.pause = time.Hour, time.Hour, 5*time.Millisecond // so that the number of requests is fixed
	tr.pace.held = time.Minute                                                           // so that an unreadable claim is read again even on a busy machine
	f.before(t, tr)
	c := tr.next()
	tr.through(c, via)
	var tool quickTool
	c.start = tool.start
	must.Succeed(t, c.run(t.Context()))
	r, log := tr.Result()
	if r.Outcome != lifecycle.Done || r.Resources != 2 || !r.State || tool.applied != 1 || !strings.Contains(log, f.log) {
		t.Errorf("applied %d times, report %+v\n%s", tool.applied, r, log)
	}
	tr.WantState(runtest.State(9, 2))
	tr.MustBeFree()
}

// leaveState: the child was killed amid an apply: lock held, state in its folder.
func leaveState(t *testing.T, tr *trial) {
	c := tr.next()
	ref := tr.order.Spec.Ref
	must.Succeed(t, c.openRun())
	lock := must.Get(tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(ref), Operation: operation}))(t)
	v := must.Get(lock.Put(t.Context(), []byte(runtest.State(1, 1))))(t)
	runtest.MustWrite(t, filepath.Join(tr.order.Scratch, "attempt.json"), fmt.Sprintf(`{"lock_id":%q,"base":%d,"module":%q}`, run.LockID(ref), v.N, moduleFolder))
	runtest.MustWrite(t, filepath.Join(tr.order.Scratch, "work", sandbox.Tool, moduleFolder, sandbox.ErroredFile), runtest.State(2, 2))
	tr.order.Spec.Took = run.LockID(ref)
}

// leaveFork: a lock was forced amid an apply: its version is beside the head.
func leaveFork(t *testing.T, tr *trial) {
	tr.next()
	ref := tr.order.Spec.Ref
	lock, err := tr.Store.Lock(t.Context(), "default", statebackend.LockInfo{ID: run.LockID(ref), Operation: operation})
	if err == nil {
		_, err = lock.Put(t.Context(), []byte(runtest.State(1, 1)))
	}
	if err == nil {
		err = tr.force(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Put(t.Context(), []byte(runtest.State(2, 2))); !errors.Is(err, statebackend.ErrLockLost) {
		t.Fatalf("a write under a lock that was taken away: %v", err)
	}
	tr.order.Spec.Took = run.LockID(ref)
}
