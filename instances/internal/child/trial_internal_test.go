// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/must"
)

// trial is an instance with the folder of its attempts.
type trial struct {
	*runtest.Instance
	dir   string        // of the attempts
	order sandbox.Order // with the specification of the last one
	named atomic.Pointer[func() (bool, string, error)]
	pace  pace
}

func newTrial(t *testing.T, host string, files map[string]string) *trial {
	t.Helper()
	self := must.Get(os.Executable())(t)
	tr := &trial{Instance: runtest.NewInstance(t, host, files), dir: filepath.Join(t.TempDir(), "runs", "abc")}
	tr.order = sandbox.Order{
		Spec: *tr.Spec, Program: self, Okara: self, Isolation: sandbox.Isolation{Mode: sandbox.ModeNone}, Registry: sandbox.Registry{Prefix: host + "/okara"}, StateKeys: runtest.StateKeys,
	}
	tr.Spec = &tr.order.Spec
	tr.pace = pace{held: 100 * time.Millisecond, poll: 10 * time.Millisecond, persist: 20 * time.Second, pause: 50 * time.Millisecond, grace: 20 * time.Second, push: 20 * time.Millisecond}
	tr.names(true, "")
	return tr
}

// module makes the files the source of the next attempts.
func (tr *trial) module(files map[string]string) {
	tr.T.Helper()
	if size := tr.Module(files); tr.order.Registry.BuiltIn {
		tr.order.Spec.Source.Size = size
	}
}

func (tr *trial) names(named bool, cancel string) {
	f := func() (bool, string, error) { return named, cancel, nil }
	tr.named.Store(&f)
}

// next returns the child of another attempt.
func (tr *trial) next() *child {
	tr.T.Helper()
	tr.Next()
	ref := tr.Spec.Ref
	tr.order.Scratch = filepath.Join(tr.dir, fmt.Sprintf("%d-%d", ref.N, ref.Attempt))
	c := newChild(Options{
		Order: tr.order, Getenv: func(name string) string { return map[string]string{"HTTP_PROXY": "", "NO_PROXY": "127.0.0.1"}[name] },
		Named: func(context.Context, lifecycle.Ref) (Standing, error) {
			named, cancel, err := (*tr.named.Load())()
			return Standing{Named: named, Cancel: cancel}, err
		},
		UserAgent: "okara/test",
	}, tr.pace)
	c.start = func(t sandbox.Command) (startedTool, error) {
		t.Alone = false // other tests have children too
		return c.Order.Start(c.dir, t)
	}
	return c
}

// run runs another attempt to its end.
func (tr *trial) run() (run.Report, string) {
	tr.T.Helper()
	c := tr.next()
	if err := c.run(tr.T.Context()); err != nil {
		tr.T.Fatal(err)
	}
	return tr.Result()
}
