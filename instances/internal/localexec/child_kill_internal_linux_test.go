// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// killTest runs real children, as processes, for one instance. Only the tool is a stub,
// whose script can differ for each attempt.
type killTest struct {
	*localTest
	tr   *trial
	mark string // file that the stub creates when it halts
}

func newKillTest(t *testing.T, isolation string) *killTest {
	t.Helper()
	k := &killTest{tr: newTrial(t, ocitest.New(t, ocitest.Quirks{}), nil), mark: filepath.Join(t.TempDir(), "mark")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "tofu")
	mustWrite(t, tool, "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'OpenTofu v1.12.6'; exit; fi\nexec "+self+" \"$@\"\n")
	if err := os.Chmod(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	k.localTest = newLocal(t, func(o *LocalOptions) {
		o.Program, o.Isolation = tool, isolation
		o.Order = func(context.Context, run.Spec) (Order, error) {
			return Order{StateKeys: testStateKeys, Registry: Registry{Prefix: k.tr.host + "/okara", PlainHTTP: true}}, nil
		}
		o.Instance = func(context.Context, run.Spec) (records.InstanceRepo, error) { return k.tr.repo, nil }
		o.State = func(context.Context, run.Spec) (*statebackend.Store, error) { return k.tr.store, nil }
	})
	return k
}

// attempt sets up the next attempt, which the ledger names: it takes over the lock and
// state of the one before.
func (k *killTest) attempt(t *testing.T, s stubScript) run.Spec {
	t.Helper()
	k.tr.module(script(s))
	before := k.tr.order.Spec.Ref
	k.tr.next()
	spec := k.tr.order.Spec
	if before.Attempt > 0 {
		spec.Took = run.LockID(before)
	}
	b, err := json.Marshal(stubOrder{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	spec.Variables = map[string]json.RawMessage{"stub": b}
	repo, err := oci.OpenRepo(spec.Ledger, oci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fmt.Sprintf(`{"lineage":"l","serial":%d,"records":{%q:{"id":%[2]q,"run":{"n":%d,"attempt":%d,"kind":%q,"nonce":%q}}}}`,
		spec.Ref.Attempt, spec.Ref.ID, spec.Ref.N, spec.Ref.Attempt, spec.Ref.Kind, spec.Ref.Nonce)
	if err := statebackend.New(repo, statebackend.Options{Sealer: k.tr.repo.Sealer}).Hold(t.Context(), ledgerWorkspace, statebackend.LockInfo{}, func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(ledger))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return spec
}

// mustKill kills a process and waits until it is gone.
func mustKill(t *testing.T, p process) {
	t.Helper()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the death of a process", func() bool { return !p.Alive() })
}

// mustTool returns the tool process of an attempt.
func (k *killTest) mustTool(t *testing.T, s run.Spec) (p process) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(k.scratch(s.Ref), toolFile))
	if err != nil || json.Unmarshal(b, &p) != nil || p.PID <= 1 {
		t.Fatalf("%s, %v", b, err)
	}
	return p
}

// halts returns steps at which a stub halts, and the state at that time.
func (k *killTest) halts() map[string]struct {
	script stubScript
	want   string // with which the next attempt begins
} {
	halt := []stubStep{{Mark: k.mark}, {Await: k.mark + ".on"}}
	put := func(s string) stubStep { return stubStep{State: s} }
	return map[string]struct {
		script stubScript
		want   string
	}{
		"init":          {stubScript{"init": halt}, ""},
		"plan":          {stubScript{"plan": append(halt, stubStep{Print: stubPlanned})}, ""},
		"apply":         {stubScript{"apply": append(halt, put(state(1, 1)))}, state(1, 1)},
		"apply, stored": {stubScript{"apply": append(append([]stubStep{put(state(1, 1))}, halt...), put(state(2, 2)))}, state(2, 2)},
		"apply, ended":  {stubScript{"apply": append([]stubStep{put(state(1, 1)), put(state(2, 2))}, halt...)}, state(2, 2)},
	}
}

// TestChildKilled kills the child by SIGKILL at five points. The next attempt begins with
// what its tool made; nothing else is left of the first.
//
// Shows: crash K7
// Shows: platform-mistakes 14
// Shows: instances 5
func TestChildKilled(t *testing.T) {
	for name := range (&killTest{}).halts() {
		t.Run(name, func(t *testing.T) {
			k := newKillTest(t, ModeNone)
			step := k.halts()[name]
			s := k.attempt(t, step.script)
			h := k.mustStart(t, s)
			mustAppear(t, k.mark)
			tool := k.mustTool(t, s)
			mustKillChild(t, k.scratch(s.Ref))
			mustWrite(t, k.mark+".on", "")
			st := k.mustEnd(t, s, h)
			if st.State != run.Gone || tool.Alive() {
				t.Fatalf("%+v, the tool lives: %v", st, tool.Alive())
			}
			k.mustGoOnFrom(t, step.want)
		})
	}
}

// mustGoOnFrom runs another attempt, which must find a state, "" for none, and checks for
// leftovers of both attempts.
func (k *killTest) mustGoOnFrom(t *testing.T, want string) {
	t.Helper()
	apply := []stubStep{{State: state(9, 3)}, {Print: stubApplied}}
	if want != "" {
		apply = append([]stubStep{{Read: true}}, apply...)
	}
	s := k.attempt(t, stubScript{"apply": apply})
	if _, _, err := k.tr.store.Get(t.Context(), "default"); want == "" && !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a state: %v", err)
	}
	st := k.mustEnd(t, s, k.mustStart(t, s))
	r, log := k.tr.result()
	if st.State != run.Ended || r.Outcome != lifecycle.Done || !strings.Contains(log, want) {
		t.Errorf("%+v, report %+v, want the state %s\n%s", st, r, want, log)
	}
	k.tr.wantState(state(9, 3))
	k.tr.free()
	k.mustRemain(t)
}

// TestToolKilled kills the tool by SIGKILL. The child reports it and ends, although a
// process that left the tool's group holds its output: nothing waits for that process,
// and it does not survive.
//
// Shows: crash K8
// Shows: platform-mistakes 14
func TestToolKilled(t *testing.T) {
	for name := range (&killTest{}).halts() {
		t.Run(name, func(t *testing.T) {
			k := newKillTest(t, ModeNone)
			seconds := "86425" + strconv.Itoa(os.Getpid())
			step := k.halts()[name]
			for command := range step.script {
				step.script[command] = append([]stubStep{{Hold: seconds}}, step.script[command]...)
			}
			s := k.attempt(t, step.script)
			h := k.mustStart(t, s)
			mustAppear(t, k.mark)
			mustKill(t, k.mustTool(t, s))
			st := k.mustEnd(t, s, h)
			if r, log := k.tr.result(); st.State != run.Ended || r.Outcome != lifecycle.RunFailed || !strings.Contains(r.Error, "the tool was killed") {
				t.Errorf("%+v, report %+v\n%s", st, r, log)
			}
			if left := running(t, seconds); len(left) > 0 {
				t.Errorf("left: %v, %v", left, kill(left))
			}
			k.tr.free()
			k.mustRemain(t)
			stored := map[string]string{"apply, stored": state(1, 1), "apply, ended": state(2, 2)}
			k.mustGoOnFrom(t, stored[name]) // the last stored state
		})
	}
}

// TestHostLost kills child and tool at once, and changes the boot ID. The next
// attempt waits for the end of the lease, and continues from the last stored state.
//
// Shows: crash K5-K6 | the machine, during plan and during apply
// Shows: instances 5
func TestHostLost(t *testing.T) {
	for name, want := range map[string]string{"plan": "", "apply, stored": state(1, 1)} {
		t.Run(name, func(t *testing.T) {
			k := newKillTest(t, ModeNone)
			s := k.attempt(t, k.halts()[name].script)
			h := k.mustStart(t, s)
			mustAppear(t, k.mark)
			tool := k.mustTool(t, s)
			mustKillChild(t, k.scratch(s.Ref))
			mustKill(t, tool)
			k.here.Boot = "the next"
			if st, err := k.Observe(t.Context(), s, h); err != nil || st.State != run.Running {
				t.Fatalf("its lease is not over: %+v, %v", st, err)
			}
			g := k.observer().observation(s.Ref)
			g.since = g.since.Add(-time.Hour)
			if st, err := k.Observe(t.Context(), s, h); err != nil || st.State != run.Gone || !strings.Contains(st.Message, "lease") {
				t.Fatalf("%+v, %v", st, err)
			}
			k.mustGoOnFrom(t, want)
		})
	}
}
