// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestRecordsOld removes replaced records after an hour, and no other tag with them.
func TestRecordsOld(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		now := time.Now()
		s := newStore(t, host, nil, statebackend.Options{Now: func() time.Time { return now }})
		var tags []string
		for i := range 3 {
			for _, ws := range []string{"prod", "dev"} {
				tags = append(tags, mustRecord(t, s, ws, func(r *statebackend.Record) { r.Description = fmt.Sprint(i) }).Tag)
			}
		}
		slices.Sort(tags)
		must.Match(t, "within the hour", recordTags(t, s), tags)
		now = now.Add(2 * time.Hour)
		tags = append(tags, mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "late" }).Tag)
		if strings.HasSuffix(t.Name(), "/no-delete") {
			slices.Sort(tags)
		} else {
			tags = slices.DeleteFunc(tags, func(tag string) bool {
				return strings.HasPrefix(tag, "workspace-prod-") && !strings.HasPrefix(tag, "workspace-prod-000004-")
			})
			slices.Sort(tags)
		}
		must.Match(t, "after it", recordTags(t, s), tags)
		for _, ws := range []string{"prod", "dev"} {
			if w := mustWorkspace(t, newStore(t, host, nil, statebackend.Options{}), ws); !w.Exists() {
				t.Errorf("%s is gone", ws)
			}
		}
	})
}

// TestRecordRate bounds a workspace's records in an hour, of all processes.
func TestRecordRate(t *testing.T) {
	now := time.Now()
	o := statebackend.Options{Now: func() time.Time { return now }}
	host := ocitest.New(t, ocitest.Quirks{})
	stores := []*statebackend.Store{newStore(t, host, nil, o), newStore(t, host, nil, o)}
	change := func(i int) error {
		now = now.Add(time.Second)
		_, err := stores[i%2].Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error { r.Description = fmt.Sprint(i); return nil })
		return err
	}
	for i := range 60 {
		if err := change(i); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if err := change(60); !errors.Is(err, oci.ErrRateLimited) {
		t.Errorf("the 61st in an hour: %v", err)
	}
	mustRecord(t, stores[0], "dev", func(r *statebackend.Record) { r.Description = "other" })
	now = now.Add(time.Hour)
	if err := change(61); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

// TestDeleteWorkspace writes the record before it deletes, and may be interrupted.
func TestDeleteWorkspace(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		now := time.Now()
		s := newStore(t, host, nil, statebackend.Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
		made := mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description, r.By = "mine", "alice" })
		l := mustLock(t, s, "prod", "run")
		mustPut(t, l, testState(1, 0))
		for range 2 { // it may be repeated
			must.Succeed(t, l.DeleteWorkspace(t.Context(), nil, "", "bob"))
		}
		mustUnlock(t, l)
		for _, s := range []*statebackend.Store{s, newStore(t, host, nil, statebackend.Options{})} {
			w := mustWorkspace(t, s, "prod")
			if r := w.Record; w.Exists() || r == nil || !r.Deleted || r.Description != "mine" || r.By != "bob" || r.Seq != 2 || !r.Created.Equal(made.Created) || !r.Updated.After(made.Updated) {
				t.Errorf("deleted: %+v, record %+v", w, w.Record)
			}
			if got := shown(t, s); len(got) != 0 {
				t.Errorf("still there: %v", got)
			}
		}
		if _, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("state: %v", err)
		}
		again := mustRecord(t, s, "prod", func(r *statebackend.Record) {
			if r.Description != "" || r.Seq != 0 {
				t.Errorf("made again from %+v", r)
			}
			r.By = "carol"
		})
		if again.Seq != 3 || !again.Created.After(made.Created) || again.Deleted || again.Description != "" {
			t.Errorf("made again: %+v", again)
		}
		if got := shown(t, s); got["prod"] != "3 " {
			t.Errorf("made again: %v", got)
		}
	})
}

// TestDeleteWorkspaceCut stops between the record and the state: the workspace still
// exists by its state.
//
// Shows: cloud 27
func TestDeleteWorkspaceCut(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) { deleteWorkspaceCut(t, ocitest.Direct{Handler: h}) })
}

func deleteWorkspaceCut(t *testing.T, registry http.RoundTripper) {
	const host = "registry.test"
	f := &ocitest.Fault{Base: registry, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/state-prod-v2")
	}, Do: ocitest.Refuse, Times: -1}
	s := newStore(t, host, f, statebackend.Options{})
	mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "mine" })
	l := mustLock(t, s, "prod", "run")
	mustPut(t, l, testState(1, 0))
	if err := l.DeleteWorkspace(t.Context(), nil, "", "bob"); err == nil {
		t.Fatal("the deletion was not cut off")
	}
	mustUnlock(t, l)
	if w := mustWorkspace(t, s, "prod"); !w.Exists() || w.Live() != nil || w.Head == nil || !w.Record.Deleted {
		t.Errorf("cut off: %+v", w)
	}
	if got := shown(t, s); got["prod"] != "-, version 1" {
		t.Errorf("cut off: %v", got)
	}
	whole := newStore(t, host, registry, statebackend.Options{})
	must.Succeed(t, whole.Hold(t.Context(), "prod", statebackend.LockInfo{ID: "again"}, func(l *statebackend.Lock) error {
		return l.DeleteWorkspace(t.Context(), nil, "", "bob")
	}))
	if w := mustWorkspace(t, whole, "prod"); w.Exists() {
		t.Errorf("deleted at last: %+v", w)
	}
}

// TestDeleteWorkspaceOther: without a record here, or split.
func TestDeleteWorkspaceOther(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	door := newStore(t, host, nil, statebackend.Options{})
	org, split := replicaStore(t, host, "org", nil), replicaStore(t, host, "org.web", nil)
	remove := func(s, records *statebackend.Store, ws, name string) {
		t.Helper()
		l := mustLock(t, s, ws, "x")
		mustPut(t, l, testState(1, 0))
		must.Succeed(t, l.DeleteWorkspace(t.Context(), records, name, "bob"))
		mustUnlock(t, l)
	}
	remove(door, nil, "prod", "")
	if w := mustWorkspace(t, door, "prod"); w.Exists() || w.Record == nil || !w.Record.Deleted {
		t.Errorf("by another door: %+v", w)
	}
	mustRecord(t, org, "web", func(r *statebackend.Record) { r.State = format.StateSplit })
	remove(split, org, "default", "web")
	if w := mustWorkspace(t, org, "web"); w.Exists() || w.Record.State != format.StateSplit {
		t.Errorf("split: %+v", w)
	}
	if tags := recordTags(t, split); len(tags) != 0 {
		t.Errorf("records beside the state: %v", tags)
	}
	l := mustLock(t, door, "never", "x")
	must.Succeed(t, l.DeleteWorkspace(t.Context(), nil, "", "bob"))
	mustUnlock(t, l)
	if w := mustWorkspace(t, door, "never"); w.Record != nil {
		t.Errorf("what never was has a record: %+v", w.Record)
	}
	lost := mustLock(t, door, "prod", "lost")
	must.Succeed(t, newStore(t, host, nil, statebackend.Options{}).ForceUnlock(t.Context(), "prod", "lost"))
	if err := lost.DeleteWorkspace(t.Context(), nil, "", "bob"); !errors.Is(err, statebackend.ErrLockLost) {
		t.Errorf("without the lock: %v", err)
	}
}
