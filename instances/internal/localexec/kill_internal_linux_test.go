// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// killTest runs real children; only the tool is a script.
type killTest struct {
	*localTest
	tr   *runtest.Instance
	mark string // file that the stub creates when it halts
}

func newKillTest(t *testing.T, isolation string) *killTest {
	t.Helper()
	k := &killTest{tr: runtest.NewInstance(t, ocitest.New(t, ocitest.Quirks{}), nil), mark: filepath.Join(t.TempDir(), "mark")}
	self := must.Get(os.Executable())(t)
	tool := filepath.Join(t.TempDir(), "tofu")
	runtest.MustWrite(t, tool, "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'OpenTofu v1.12.6'; exit; fi\nexec "+self+" \"$@\"\n")
	must.Succeed(t, os.Chmod(tool, 0o755))
	k.localTest = newLocal(t, func(o *LocalOptions) {
		o.Program, o.Isolation = tool, isolation
		o.Order = func(context.Context, run.Attempt) (sandbox.Order, error) {
			return sandbox.Order{StateKeys: runtest.StateKeys, Registry: sandbox.Registry{Prefix: k.tr.Host + "/okara", PlainHTTP: true}}, nil
		}
		o.Instance = func(context.Context, run.Attempt) (records.InstanceRepo, error) { return k.tr.Repo, nil }
		o.State = func(context.Context, run.Attempt) (*statebackend.Store, error) { return k.tr.Store, nil }
	})
	return k
}

// attempt sets up the next attempt, over the lock and state before.
func (k *killTest) attempt(t *testing.T, s runtest.Script) run.Attempt {
	t.Helper()
	k.tr.Module(s.Module())
	before := k.tr.Spec.Ref
	k.tr.Next()
	spec := *k.tr.Spec
	if before.Attempt > 0 {
		spec.Took = run.LockID(before)
	}
	b := must.Get(json.Marshal(stubOrder{Real: true}))(t)
	spec.Variables = map[string]json.RawMessage{"stub": b}
	repo := must.Get(oci.OpenRepo(spec.Ledger, oci.Options{}))(t)
	ledger := fmt.Sprintf(`{"lineage":"l","serial":%d,"records":{%q:{"id":%[2]q,"run":{"n":%d,"attempt":%d,"kind":%q,"nonce":%q}}}}`,
		spec.Ref.Attempt, spec.Ref.ID, spec.Ref.N, spec.Ref.Attempt, spec.Ref.Kind, spec.Ref.Nonce)
	must.Succeed(t, statebackend.New(repo, statebackend.Options{Sealer: k.tr.Repo.Sealer}).Hold(t.Context(), "ledger", statebackend.LockInfo{}, func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(ledger))
		return err
	}))
	return spec
}

// mustKill kills a process and waits until it is gone.
func mustKill(t *testing.T, p sandbox.Process) {
	t.Helper()
	must.Succeed(t, p.Signal(syscall.SIGKILL))
	runtest.Await(t, "the death of a process", func() bool { return !p.Alive() })
}

// mustTool returns the tool process of an attempt.
func (k *killTest) mustTool(t *testing.T, s run.Attempt) (p sandbox.Process) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(k.scratch(s.Ref), "tool.json"))
	if err != nil || json.Unmarshal(b, &p) != nil || p.PID <= 1 {
		t.Fatalf("%s, %v", b, err)
	}
	return p
}

// mustGoOnFrom runs another attempt, which must find a state or "".
func (k *killTest) mustGoOnFrom(t *testing.T, want string) {
	t.Helper()
	apply := []runtest.Step{{State: runtest.State(9, 3)}, {Print: runtest.Applied}}
	if want != "" {
		apply = append([]runtest.Step{{Read: true}}, apply...)
	}
	s := k.attempt(t, runtest.Script{"apply": apply})
	if _, _, err := k.tr.Store.Get(t.Context(), "default"); want == "" && !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a state: %v", err)
	}
	st := k.mustEnd(t, s, k.mustStart(t, s))
	r, log := k.tr.Result()
	if st.State != run.Ended || r.Outcome != lifecycle.Done || !strings.Contains(log, want) {
		t.Errorf("%+v, report %+v, want the state %s\n%s", st, r, want, log)
	}
	k.tr.WantState(runtest.State(9, 3))
	k.tr.MustBeFree()
	k.mustRemain(t)
}

// TestHostLost kills child and tool at once, and changes the boot ID. The next
// attempt waits for the end of the lease, and continues from the last stored state.
//
// Shows: crash K5-K6 | the machine, during plan and during apply
// Shows: instances 5
func TestHostLost(t *testing.T) {
	for name, want := range map[string]string{"plan": "", "apply": runtest.State(1, 1)} {
		t.Run(name, func(t *testing.T) {
			k := newKillTest(t, sandbox.ModeNone)
			halt := []runtest.Step{{Mark: k.mark}, {Await: k.mark + ".on"}}
			if want != "" {
				halt = append([]runtest.Step{{State: want}}, halt...)
			}
			s := k.attempt(t, runtest.Script{name: halt})
			h := k.mustStart(t, s)
			runtest.MustAppear(t, k.mark)
			tool := k.mustTool(t, s)
			mustKillChild(t, k.scratch(s.Ref))
			mustKill(t, tool)
			k.here.Boot = "the next"
			if st, err := k.Observe(t.Context(), s, h); err != nil || st.State != run.Running {
				t.Fatalf("its lease is not over: %+v, %v", st, err)
			}
			g := k.observationOf(s.Ref)
			g.since = g.since.Add(-time.Hour)
			if st, err := k.Observe(t.Context(), s, h); err != nil || st.State != run.Gone || !strings.Contains(st.Message, "lease") {
				t.Fatalf("%+v, %v", st, err)
			}
			k.mustGoOnFrom(t, want)
		})
	}
}
