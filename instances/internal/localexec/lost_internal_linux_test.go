// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestKilledChild: the tool is interrupted once and awaited; only an unstored state is kept.
//
// Shows: crash K7
// Shows: platform-mistakes 14 | an aborted run loses resources
func TestKilledChild(t *testing.T) {
	for _, mode := range []string{sandbox.ModeNone, sandbox.ModeSandbox} {
		t.Run(mode, func(t *testing.T) {
			if mode == sandbox.ModeSandbox {
				tofutest.Bubblewrap(t)
			}
			shown := t.TempDir()
			l := newLocal(t, func(o *LocalOptions) { o.Isolation, o.Show = mode, []string{shown} })
			s := l.spec(t, stubOrder{Tool: `
				trap 'n=$((n+1)); echo $n > errored.tfstate' INT; n=0; echo ready
				until [ -e ` + shown + `/go ]; do sleep 0.02; done`})
			h := l.mustStart(t, s)
			dir := l.scratch(s.Ref)
			mustSay(t, dir, "ready")
			mustKillChild(t, dir)
			for _, l := range []*localTest{l, l, l.again(t)} {
				if st, err := l.Observe(t.Context(), s, h); err != nil || st.State != run.Running || st.Message == "" {
					t.Errorf("%+v, %v", st, err)
				}
			}
			runtest.Await(t, "the interrupt", func() bool { return sandbox.FindErrored(dir) != "" })
			file := sandbox.FindErrored(dir)
			runtest.MustWrite(t, filepath.Join(shown, "go"), "")
			st := l.mustEnd(t, s, h)
			if st.State != run.Gone || !strings.Contains(st.Message, l.here.Host) || !strings.Contains(st.Message, file) {
				t.Errorf("%+v", st)
			}
			if b, err := os.ReadFile(file); err != nil || string(b) != "1\n" {
				t.Errorf("interrupts: %q, %v", b, err)
			}
			l.again(t).mustRemain(t, "1-1") // for the next attempt to store
		})
	}
}

// mustSay waits until the tool of an attempt prints a line.
func mustSay(t *testing.T, dir, line string) {
	t.Helper()
	runtest.Await(t, line, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "said"))
		return err == nil && strings.Contains("\n"+string(b), "\n"+line+"\n")
	})
}

// mustKillChild kills the child of a scratch folder, and waits until it is dead.
func mustKillChild(t *testing.T, dir string) {
	t.Helper()
	m := must.Get(readMarker(dir))(t)
	mustKill(t, m.Process)
}

// TestDeafRest kills a tool that ignores the interrupt.
//
// Shows: crash K7
func TestDeafRest(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Tool: `trap '' INT TERM; : > ready; while :; do sleep 0.02; done`})
	h := l.mustStart(t, s)
	dir := l.scratch(s.Ref)
	runtest.MustAppear(t, filepath.Join(dir, "work", sandbox.Tool, "ready"))
	mustKillChild(t, dir)
	if st, err := l.Observe(t.Context(), s, h); err != nil || st.State != run.Running {
		t.Fatalf("%+v, %v", st, err)
	}
	g := l.observationOf(s.Ref)
	g.interrupted = g.interrupted.Add(-2 * killTime)
	if st := l.mustEnd(t, s, h); st.State != run.Gone {
		t.Errorf("%+v", st)
	}
	l.mustRemain(t)
}

// TestNotStarted covers what is found if a server died around a start.
//
// Shows: crash K3
func TestNotStarted(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Nonce: "nonce"})
	observe := func(l *localTest, h run.Handle) run.Status {
		t.Helper()
		return must.Get(l.Observe(t.Context(), s, h))(t)
	}
	if st := observe(l, ""); st.State != run.Running {
		t.Errorf("nobody knows where it is, at once: %+v", st)
	}
	g := l.observationOf(s.Ref)
	g.alive = g.alive.Add(-2 * claimTime)
	if st := observe(l, ""); st.State != run.Gone {
		t.Errorf("later: %+v", st)
	}
	l.o.Only = true
	if st := observe(l, ""); st.State != run.Gone {
		t.Errorf("where there is no other server: %+v", st)
	}
	l.o.Only = false
	elsewhere := parsedHandle{machine: machine{"other", "boot", "1"}, Process: sandbox.Process{PID: 7, Start: 7}}
	if st := observe(l, elsewhere.String()); st.State != run.Running {
		t.Errorf("on another host: %+v", st)
	}
	seen := l.observationOf(s.Ref)
	seen.alive = time.Time{}
	seen.asked = time.Time{}
	if st := observe(l, elsewhere.String()); st.State != run.Gone {
		t.Errorf("on another host, later: %+v", st)
	}

	// A folder without a marker belongs to no attempt: its child never got an order.
	runtest.MustWrite(t, filepath.Join(l.scratch(s.Ref), "child.log"), "")
	h := l.mustStart(t, s)
	if st := l.mustEnd(t, s, h); st.State != run.Ended {
		t.Errorf("%+v", st)
	}
}

// TestBoot: after a reboot the same PID is another process.
//
// Shows: crash K5-K6
func TestBoot(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{})
	self := must.Get(sandbox.Identify(os.Getpid()))(t)
	for name, m := range map[string]marker{
		"earlier boot": {parsedHandle: parsedHandle{machine: machine{l.here.Host, "earlier", l.here.Namespace}, Process: self}},
		"same number":  {parsedHandle: parsedHandle{machine: l.here, Process: sandbox.Process{PID: self.PID, Start: self.Start - 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			m.LockID = run.LockID(s.Ref)
			runtest.MustWrite(t, filepath.Join(l.scratch(s.Ref), "log"), "")
			must.Succeed(t, writeMarker(l.scratch(s.Ref), m))
			g := l.observationOf(s.Ref)
			g.alive = g.alive.Add(-2 * claimTime)
			if st, err := l.Observe(t.Context(), s, m.parsedHandle.String()); err != nil || st.State != run.Gone {
				t.Errorf("%+v, %v", st, err)
			}
			l.mustRemain(t)
		})
	}
}

// TestClaim: the holder of the state's lock counts as alive, on any host, until its lease
// ends.
//
// Shows: crash K5-K6
func TestClaim(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{})
	elsewhere := parsedHandle{machine: machine{"other", "boot", "1"}, Process: sandbox.Process{PID: 7, Start: 7}}.String()
	repo := must.Get(stubRepo(s))(t)
	store := statebackend.New(repo.Repo, statebackend.Options{LockTTL: time.Hour})
	lock := must.Get(store.Lock(t.Context(), s.Workspace, statebackend.LockInfo{ID: run.LockID(s.Ref), Operation: "test"}))(t)
	g := l.observationOf(s.Ref)
	g.alive = time.Time{}
	for range 2 {
		if st, err := l.Observe(t.Context(), s, elsewhere); err != nil || st.State != run.Running {
			t.Fatalf("%+v, %v", st, err)
		}
	}
	g.since = g.since.Add(-2 * time.Hour)
	if st, err := l.Observe(t.Context(), s, elsewhere); err != nil || st.State != run.Gone || !strings.Contains(st.Message, "lease") {
		t.Errorf("%+v, %v", st, err)
	}
	must.Succeed(t, lock.Unlock(t.Context()))
	other := must.Get(store.Lock(t.Context(), s.Workspace, statebackend.LockInfo{ID: "of a person", Operation: "test"}))(t)
	seen := l.observationOf(s.Ref)
	seen.alive = time.Time{}
	seen.asked = time.Time{}
	if st, err := l.Observe(t.Context(), s, elsewhere); err != nil || st.State != run.Gone {
		t.Errorf("the lock is another one's: %+v, %v", st, err)
	}
	must.Succeed(t, other.Unlock(t.Context()))
}

// TestStoppedChild: a living child that lost its lock is killed before the attempt counts
// as lost.
//
// Shows: crash K10
// Shows: platform-attacks 5
func TestStoppedChild(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Hang: true})
	h := l.mustStart(t, s)
	runtest.MustAppear(t, filepath.Join(l.scratch(s.Ref), "hangs"))
	m := must.Get(readMarker(l.scratch(s.Ref)))(t)
	must.Succeed(t, m.Process.Signal(syscall.SIGSTOP))
	seen := l.observationOf(s.Ref)
	seen.alive = time.Time{}
	seen.asked = time.Time{}
	if st := l.mustEnd(t, s, h); st.State != run.Gone || m.Process.Alive() {
		t.Errorf("%+v, alive %v", st, m.Process.Alive())
	}
}

// TestUnstoredResult: a result that a child could not store is stored when the registry
// answers again.
//
// Shows: crash K9
func TestUnstoredResult(t *testing.T) {
	for nonce, want := range map[string]run.State{"nonce": run.Ended, "another": run.Gone} {
		l := newLocal(t, nil)
		s := l.spec(t, stubOrder{Nonce: nonce, Unanswered: true})
		h := l.mustStart(t, s)
		if st := l.mustEnd(t, s, h); st.State != want {
			t.Errorf("nonce %s: %+v", nonce, st)
		}
		l.mustRemain(t)
		if st := l.mustEnd(t, s, h); st.State != want {
			t.Errorf("nonce %s, later: %+v", nonce, st)
		}
	}
}

// TestForeignResult: a result that does not repeat the nonce is ignored.
//
// Shows: platform-attacks 3 | foreign tags in place of a source or a result
func TestForeignResult(t *testing.T) {
	l := newLocal(t, nil)
	s := l.spec(t, stubOrder{Nonce: "another"})
	if st := l.mustEnd(t, s, l.mustStart(t, s)); st.State != run.Gone || st.Result.Outcome != "" {
		t.Errorf("%+v", st)
	}
}

// TestOtherAttempt: after the ledger was set back, a number may be used again while its
// first attempt runs.
//
// Shows: crash K10
// Shows: platform-attacks 3
func TestOtherAttempt(t *testing.T) {
	l := newLocal(t, nil)
	first := l.spec(t, stubOrder{Hang: true})
	h := l.mustStart(t, first)
	second := l.spec(t, stubOrder{Nonce: "second"})
	second.Ref.Nonce = "second"
	if _, err := l.Start(t.Context(), second); !errors.Is(err, errOther) {
		t.Errorf("got %v", err)
	}
	must.Succeed(t, l.Cancel(t.Context(), begun(first, h), false))
	if st := l.mustEnd(t, first, h); st.State != run.Gone {
		t.Errorf("%+v", st)
	}
	if st := l.mustEnd(t, second, l.mustStart(t, second)); st.State != run.Ended {
		t.Errorf("%+v", st)
	}
}
