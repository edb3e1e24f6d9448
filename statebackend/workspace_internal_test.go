// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestMaxWorkspaces refuses one more workspace, but not a change of an existing one.
func TestMaxWorkspaces(t *testing.T) {
	r := must.Get(oci.OpenRepo(ocitest.New(t, ocitest.Quirks{})+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	s := New(r, Options{})
	if s.maxWorkspaces != 5000 {
		t.Errorf("at most %d workspaces", s.maxWorkspaces)
	}
	s.maxWorkspaces = 3
	change := func(ws, text string) error {
		_, err := s.Workspaces().Change(t.Context(), ws, func(r *Record) error { r.Description = text; return nil })
		return err
	}
	underLock := func(ws string, do func(*Lock) error) {
		t.Helper()
		must.Succeed(t, s.Hold(t.Context(), ws, LockInfo{ID: "x"}, do))
	}
	underLock("by another door", func(l *Lock) error {
		_, err := l.Put(t.Context(), []byte(`{"version":4,"serial":1,"lineage":"l"}`))
		return err
	})
	for _, ws := range []string{"a", "b", "a", "by another door"} {
		if err := change(ws, "text of "+ws); err != nil {
			t.Errorf("%s: %v", ws, err)
		}
	}
	if err := change("c", ""); !errors.Is(err, ErrRecord) {
		t.Errorf("a fourth: %v", err)
	}
	underLock("a", func(l *Lock) error { return l.DeleteWorkspace(t.Context(), nil, "", "me") })
	if err := change("c", ""); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	if err := change("a", "again"); !errors.Is(err, ErrRecord) {
		t.Errorf("the deleted one again: %v", err)
	}
}

// TestHeadCacheBound: a full cache evicts entries, never the newest.
func TestHeadCacheBound(t *testing.T) {
	m := headCache{kept: map[string]remembered{}}
	for i := range 100 {
		tag := fmt.Sprint(i % 70)
		m.keepValue(tag, Head{Workspace: fmt.Sprint(i)}, 1<<20)
		if h, ok := recallValue[Head](&m, tag); !ok || h.Workspace != fmt.Sprint(i) {
			t.Fatalf("tag %s is %+v, %t", tag, h, ok)
		}
		if _, ok := recallValue[*Record](&m, tag); ok {
			t.Fatal("a version is a record")
		}
		size := 0
		for _, r := range m.kept {
			size += r.size
		}
		if size != m.size || size > maxHeadCache {
			t.Fatalf("%d entries of %d bytes, counted as %d", len(m.kept), size, m.size)
		}
	}
	if len(m.kept) < 20 {
		t.Errorf("%d entries are left", len(m.kept))
	}
}
