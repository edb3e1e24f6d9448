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
	"time"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestAudit writes lines twice and reads them, on every registry, plain and sealed.
func TestAudit(t *testing.T) {
	keys := must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="}}))(t)
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx, r := t.Context(), ocitest.Repo(t, host)
		tag := auditlog.AuditTag{Day: time.Date(2026, 1, 2, 23, 30, 0, 0, time.FixedZone("", -3600)), ID: "0123456789abcdef", Part: 1}
		if want := "audit-20260103-0123456789abcdef-0001"; tag.String() != want {
			t.Fatalf("tag %s, want %s", tag, want)
		}
		if _, _, err := auditlog.ReadAudit(ctx, r, nil, tag, ""); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("no lines: %v", err)
		}
		other := tag
		for i, s := range []artifact.Sealer{nil, keys} {
			tag.Part = i + 1
			for _, text := range []string{"one\n", "one\ntwo\n"} {
				must.Succeed(t, auditlog.PutAudit(ctx, r, s, tag, []byte(text)))
				got, at, err := auditlog.ReadAudit(ctx, r, s, tag, "")
				if err != nil || string(got) != text {
					t.Errorf("lines %q, %v", got, err)
				}
				if got, again, err := auditlog.ReadAudit(ctx, r, s, tag, at); err != nil || got != nil || again != at {
					t.Errorf("what is known: %q, %s, %v", got, again, err)
				}
			}
		}
		if _, _, err := auditlog.ReadAudit(ctx, r, nil, tag, ""); !errors.Is(err, oci.ErrUnsupported) {
			t.Errorf("sealed, without keys: %v", err)
		}
		if _, _, err := auditlog.ReadAudit(ctx, r, keys, other, ""); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("in clear, with keys: %v", err)
		}
		m := must.Get(r.Fetch(ctx, tag.String()))(t)
		must.Succeed(t, r.PutTag(ctx, other.String(), m))
		if _, _, err := auditlog.ReadAudit(ctx, r, keys, other, ""); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("sealed for another tag: %v", err)
		}
		if err := auditlog.PutAudit(ctx, r, nil, tag, []byte(strings.Repeat("x", auditlog.MaxAuditPart+1))); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
	})
}

func TestParseAuditTag(t *testing.T) {
	for tag, want := range map[string]bool{
		"audit-20260103-0123456789abcdef-0001": true, "audit-20260103-0123456789abcdef-9999": true, "audit-20260103-0123456789abcdef-0000": false,
		"audit-20260103-0123456789abcdef-1": false, "audit-20260103-0123456789abcdef-10000": false, "audit-20261303-0123456789abcdef-0001": false,
		"audit-20260103-0123456789ABCDEF-0001": false, "xaudit-20260103-0123456789abcdef-0001": false, "count-20260103-0123456789abcdef": false,
	} {
		if got, ok := auditlog.ParseAuditTag(tag); ok != want || ok && got.String() != tag {
			t.Errorf("%s: %v %t", tag, got, ok)
		}
	}
}

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
