// SPDX-License-Identifier: Apache-2.0

package auditlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/must"
)

// gatedWriter blocks each write until the gate opens.
type gatedWriter struct {
	bytes.Buffer
	gate   chan struct{}
	writes int
	err    error
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.gate
	w.writes++
	if w.err != nil {
		return 0, w.err
	}
	return w.Buffer.Write(p)
}

// TestAuditLog: nobody waits for a slow disk until too much is pending; nothing is lost or torn.
func TestAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &gatedWriter{gate: make(chan struct{})}
		l := auditlog.NewWriter(w, func(err error) { t.Error(err) })
		var want []string
		for i := range 1000 {
			line := fmt.Sprintf("line %d\n", i)
			want = append(want, line)
			must.Get(l.Write([]byte(line)))(t)
			synctest.Wait() // the first one is being written, the others are pending
		}
		long := strings.Repeat("x", 2<<20) + "\n"
		want = append(want, long, "last\n")
		must.Get(l.Write([]byte(long)))(t)
		var late sync.WaitGroup
		waits := true
		late.Go(func() { _, _ = l.Write([]byte("last\n")); waits = false })
		synctest.Wait()
		if !waits {
			t.Error("there is no bound")
		}
		close(w.gate)
		late.Wait()
		must.Succeed(t, l.Close())
		if got := slices.Collect(strings.Lines(w.String())); !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d in their order", len(got), len(want))
		}
		if w.writes > 3 {
			t.Errorf("%d writes", w.writes)
		}
		if _, err := l.Write([]byte("x")); err == nil {
			t.Error("a closed log takes records")
		}
	})
}

// TestAuditLogFails shows that the error of a full disk is reported.
func TestAuditLogFails(t *testing.T) {
	full := errors.New("no space left on device")
	w := &gatedWriter{gate: make(chan struct{}), err: full}
	close(w.gate)
	var heard []error
	l := auditlog.NewWriter(w, func(err error) { heard = append(heard, err) })
	must.Get(l.Write([]byte("x\n")))(t)
	must.Succeed(t, l.Close())
	if len(heard) != 1 || !errors.Is(heard[0], full) {
		t.Errorf("heard %v", heard)
	}
}
