// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func mustRecord(t testing.TB, s *statebackend.Store, ws string, change func(r *statebackend.Record)) statebackend.Record {
	t.Helper()
	return must.Get(s.Workspaces().Change(t.Context(), ws, func(r *statebackend.Record) error { change(r); return nil }))(t)
}

func mustWorkspace(t testing.TB, s *statebackend.Store, ws string) statebackend.Workspace {
	t.Helper()
	l := must.Get(s.List(t.Context()))(t)
	w := must.Get(l.Workspace(t.Context(), ws))(t)
	if ok, err := l.Exists(t.Context(), ws); err != nil || ok != w.Exists() {
		t.Errorf("%s exists: %t, %v; the workspace says %t", ws, ok, err, w.Exists())
	}
	return w
}

// shown returns the listed description of each workspace.
func shown(t *testing.T, s *statebackend.Store) map[string]string {
	t.Helper()
	list := must.Get(mustListing(t, s).Workspaces(t.Context()))(t)
	if !slices.IsSortedFunc(list, func(a, b statebackend.Workspace) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("not in order: %v", list)
	}
	out := map[string]string{}
	for _, w := range list {
		s := "-"
		if r := w.Live(); r != nil {
			s = fmt.Sprint(r.Seq, " ", r.Description)
		}
		if w.Head != nil {
			s += fmt.Sprint(", version ", w.Head.N)
		}
		if w.Held != nil {
			s += ", held by " + w.Held.Info.ID
		}
		out[w.Name] = s
	}
	return out
}

func recordTags(t *testing.T, s *statebackend.Store) (tags []string) {
	t.Helper()
	for _, tag := range mustTags(t, s) {
		if strings.HasPrefix(tag, "workspace-") {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// TestWorkspaces: records, states and locks of one list, nothing read twice.
func TestWorkspaces(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, c, statebackend.Options{})
		if got := shown(t, s); len(got) != 0 {
			t.Errorf("a repository that is not there: %v", got)
		}
		first := mustRecord(t, s, "prod", func(r *statebackend.Record) {
			r.Description, r.By, r.Tags = "one", "alice", map[string]string{"team": "core"}
		})
		second := mustRecord(t, s, "prod", func(r *statebackend.Record) {
			if r.Description != "one" || r.Tags["team"] != "core" {
				t.Errorf("the record to change is %+v", r)
			}
			r.Description, r.By, r.Tags["more"] = "two", "bob", ""
		})
		if first.Seq != 1 || second.Seq != 2 || !second.Created.Equal(first.Created) || second.Updated.Before(first.Updated) || first.Tags["more"] != "" || len(first.Tags) != 1 {
			t.Errorf("records %+v and %+v", first, second)
		}
		mustRecord(t, s, "my team/ä", func(r *statebackend.Record) { r.Description = "empty" })
		held := mustLock(t, s, "prod", "run")
		mustPut(t, held, testState(1, 0))
		mustStore(t, s, "by another door", testState(1, 0))
		want := map[string]string{"prod": "2 two, version 1, held by run", "my team/ä": "1 empty", "by another door": "-, version 1"}
		must.Match(t, "workspaces", shown(t, s), want)
		for who, s := range map[string]*statebackend.Store{"who wrote it": s, "another process": newStore(t, host, c, statebackend.Options{})} {
			shown(t, s)
			pages := lists(t, s, c)
			must.Match(t, who, shown(t, s), want)
			if n := c.Take(); n["GET tags"] != pages || n["GET manifest"] > 1 || sum(n) > pages+1 {
				t.Errorf("%s: requests %v, want one list and the lock", who, n)
			}
			w := mustWorkspace(t, s, "prod")
			if w.Live() == nil || w.Live().By != "bob" || w.Head == nil || w.Head.N != 1 || w.Held == nil || w.Held.Info.ID != "run" {
				t.Errorf("%s: prod is %+v", who, w)
			}
			if w := mustWorkspace(t, s, "other"); w.Exists() || w.Record != nil || w.Held != nil {
				t.Errorf("%s: no such workspace is %+v", who, w)
			}
		}
		mustUnlock(t, held)
	})
}

// TestChangeRecord counts requests; a change of nothing writes nothing.
func TestChangeRecord(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		c := &ocitest.Count{}
		s := newStore(t, host, c, statebackend.Options{})
		mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description, r.By, r.Project = "one", "alice", "p" })
		pages := lists(t, s, c)
		same := mustRecord(t, s, "prod", func(r *statebackend.Record) { r.By = "bob" })
		if n := c.Take(); same.By != "alice" || sum(n) != pages {
			t.Errorf("no change: %+v, requests %v", same, n)
		}
		mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Mode = "remote" })
		if n := c.Take(); n["PUT manifest"] != 1 || sum(n) != pages+1 {
			t.Errorf("a change: requests %v, want a list and a PUT", n)
		}
		errStop := errors.New("stop")
		if _, err := s.Workspaces().Change(t.Context(), "prod", func(*statebackend.Record) error { return errStop }); err != errStop {
			t.Errorf("an error of the change: %v", err)
		}
		for name, change := range map[string]func(r *statebackend.Record){
			"mode":     func(r *statebackend.Record) { r.Mode = "agent" },
			"tag":      func(r *statebackend.Record) { r.Tags = map[string]string{strings.Repeat("k", 200): ""} },
			"too long": func(r *statebackend.Record) { r.Description = strings.Repeat("d", 2000) },
		} {
			if _, err := s.Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error { change(r); return nil }); !errors.Is(err, statebackend.ErrRecord) {
				t.Errorf("%s: %v, want ErrRecord", name, err)
			}
		}
		if got := mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "a\nb" }); got.Description != "a b" || got.Seq != 3 || got.Project != "p" {
			t.Errorf("after what was refused: %+v", got)
		}
	})
}

// TestRecordNewest: the highest number, then the larger hash, of valid records.
func TestRecordNewest(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	l := mustListing(t, s)
	var race []statebackend.Record // two servers that change it at once
	for _, text := range []string{"left", "right"} {
		r := must.Get(l.Change(t.Context(), "prod", func(r *statebackend.Record) error { r.Description = text; return nil }))(t)
		race = append(race, r)
	}
	want := race[0]
	if race[1].Tag > race[0].Tag {
		want = race[1]
	}
	check := func(what string) {
		t.Helper()
		for _, s := range []*statebackend.Store{s, newStore(t, host, nil, statebackend.Options{})} {
			r, err := mustListing(t, s).Record(t.Context(), "prod")
			if err != nil || r == nil || r.Tag != want.Tag {
				t.Errorf("%s: %+v, %v, want %s", what, r, err, want.Tag)
			}
		}
	}
	check("two at once")
	m := must.Get(s.Repo().Fetch(t.Context(), want.Tag))(t)
	hex := want.Tag[len(want.Tag)-8:]
	for _, tag := range []string{"workspace-prod-000009-" + hex, "workspace-prod-999999-ffffffff", "workspace-dev-000001-" + hex} {
		must.Succeed(t, s.Repo().PutTag(t.Context(), tag, m))
	}
	check("forged tags above")
	if w := mustWorkspace(t, s, "dev"); w.Exists() {
		t.Errorf("a forged record made a workspace: %+v", w)
	}
	want = mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "next" })
	must.Equal(t, "next number", want.Seq, 2)
	check("the next one")
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	dangling := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
	mustRecord(t, dangling, "prod", func(r *statebackend.Record) { r.Description = "one" })
	g.Add("infra/state", "workspace-prod-000002-01234567")
	if w := mustWorkspace(t, dangling, "prod"); w.Live() == nil || w.Live().Seq != 1 {
		t.Errorf("a record that is listed and cannot be read: %+v", w)
	}
}

// TestRecordAway: an unreadable object never counts as absent.
func TestRecordAway(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) { recordAway(t, ocitest.Direct{Handler: h}) })
}

func recordAway(t *testing.T, registry http.RoundTripper) {
	const host = "registry.test"
	mustRecord(t, newStore(t, host, registry, statebackend.Options{}), "prod", func(r *statebackend.Record) { r.Description = "one" })
	for _, kind := range []string{"tags", "manifest"} {
		f := &ocitest.Fault{Base: registry, Match: ocitest.On("GET", kind), Do: ocitest.Status(503, 0), Times: -1}
		s := newStore(t, host, f, statebackend.Options{})
		l, err := s.List(t.Context())
		if err == nil {
			_, err = l.Exists(t.Context(), "prod")
		}
		if !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, oci.ErrNotFound) {
			t.Errorf("%s: %v", kind, err)
		}
		_, err = s.Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error { r.Description = "two"; return nil })
		if !errors.Is(err, oci.ErrUnavailable) {
			t.Errorf("%s: change: %v", kind, err)
		}
	}
	if w := mustWorkspace(t, newStore(t, host, registry, statebackend.Options{}), "prod"); w.Live().Description != "one" {
		t.Errorf("something was written: %+v", w.Record)
	}
}

// TestRecordLostAnswer writes one record, whether or not the answer was lost.
func TestRecordLostAnswer(t *testing.T) {
	for name, act := range map[string]ocitest.Act{"before": ocitest.FailBefore, "after": ocitest.FailAfter} {
		f := &ocitest.Fault{Match: ocitest.OnTag(http.MethodPut), Do: act}
		s := newStore(t, ocitest.New(t, ocitest.Quirks{}), f, statebackend.Options{})
		r := mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "one" })
		must.Match(t, name, recordTags(t, s), []string{r.Tag})
	}
}

// TestLockDeletedWorkspace refuses by the list that a lock makes, without another request.
func TestLockDeletedWorkspace(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	c := &ocitest.Count{}
	s := newStore(t, host, c, statebackend.Options{})
	mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = "mine" })
	there := func(ctx context.Context, l *statebackend.Listing) error {
		if ok, err := l.Exists(ctx, "prod"); err != nil || ok {
			return err
		}
		return oci.ErrNotFound
	}
	l := must.Get(s.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "run"}, there))(t)
	mustPut(t, l, testState(1, 0))
	must.Succeed(t, l.DeleteWorkspace(t.Context(), nil, "", "bob"))
	mustUnlock(t, l)
	pages := lists(t, s, c)
	if _, err := s.LockWhen(t.Context(), "prod", statebackend.LockInfo{ID: "old"}, there); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("lock of a deleted workspace: %v", err)
	}
	if n := c.Take(); sum(n) != pages {
		t.Errorf("requests %v, want a list", n)
	}
}

// TestListingView reads the highest version of a list, regardless of state-W.
func TestListingView(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	view := func() (string, error) {
		got := ""
		_, err := mustListing(t, s).View(t.Context(), "prod", func(b []byte, _ statebackend.Version) error { got = string(b); return nil })
		return got, err
	}
	if got, err := view(); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("no state: %q, %v", got, err)
	}
	l := mustLock(t, s, "prod", "a")
	mustPut(t, l, testState(1, 0))
	old := must.Get(s.Repo().Fetch(t.Context(), "state-prod"))(t)
	mustPut(t, l, testState(2, 0))
	mustUnlock(t, l)
	must.Succeed(t, s.Repo().PutTag(t.Context(), "state-prod", old))
	if got, err := view(); err != nil || got != string(testState(2, 0)) {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestPruneKeepsRecords removes versions but no records.
func TestPruneKeepsRecords(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{})
		for i := range 3 {
			mustRecord(t, s, "prod", func(r *statebackend.Record) { r.Description = fmt.Sprint(i) })
		}
		want := recordTags(t, s)
		l := mustLock(t, s, "prod", "a")
		for i := range 4 {
			mustPut(t, l, testState(i, 0))
		}
		mustUnlock(t, l)
		gone, err := s.Workspaces().Prune(t.Context(), "prod", 1)
		if err != nil && !errors.Is(err, oci.ErrUnsupported) || err == nil && len(gone) != 3 {
			t.Errorf("removed %v, %v", gone, err)
		}
		must.Match(t, "records", recordTags(t, s), want)
		if w := mustWorkspace(t, newStore(t, host, nil, statebackend.Options{}), "prod"); w.Live() == nil || w.Live().Description != "2" {
			t.Errorf("record %+v", w.Record)
		}
	})
}

// TestReplicateRecord copies the newest record, with and without a state.
func TestReplicateRecord(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		src, dst := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
		mustWrite(t, src, 1)
		mustRecord(t, src, "empty", func(r *statebackend.Record) { r.Description = "no state" })
		for i := range 2 {
			mustRecord(t, src, "prod", func(r *statebackend.Record) { r.Description = fmt.Sprint(i) })
			names, err := src.Replicas().Workspaces(t.Context())
			if diff := cmp.Diff([]string{"empty", "prod"}, names); diff != "" || err != nil {
				t.Fatalf("replicable: %v (-want +got):\n%s", err, diff)
			}
			for _, name := range names {
				must.Get(src.Replicas().Replicate(t.Context(), dst, name))(t)
			}
			if diff := cmp.Diff(shown(t, src), shown(t, dst)); diff != "" {
				t.Errorf("run %d (-source +copy):\n%s", i, diff)
			}
		}
		if tags := recordTags(t, dst); len(tags) != 2 && !strings.HasSuffix(t.Name(), "/no-delete") {
			t.Errorf("older records stay: %v", tags)
		}
		if _, err := dst.Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error { r.Description = "x"; return nil }); !errors.Is(err, statebackend.ErrReplica) {
			t.Errorf("a change of the copy: %v", err)
		}
		if _, err := src.Replicas().Replicate(t.Context(), dst, "nothing"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("neither state nor record: %v", err)
		}
	})
}
