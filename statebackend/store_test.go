// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func newStore(t testing.TB, host string, transport http.RoundTripper, o statebackend.Options) *statebackend.Store {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{Transport: transport, PlainHTTP: true}))(t)
	return statebackend.New(r, o)
}

func mustLock(t testing.TB, s *statebackend.Store, ws, id string) *statebackend.Lock {
	t.Helper()
	return must.Get(s.Lock(t.Context(), ws, statebackend.LockInfo{ID: id, Who: "alice@" + id, Operation: "OperationTypeApply"}))(t)
}

func mustPut(t testing.TB, l *statebackend.Lock, state []byte) statebackend.Version {
	t.Helper()
	return must.Get(l.Put(t.Context(), state))(t)
}

func mustUnlock(t testing.TB, l *statebackend.Lock) {
	t.Helper()
	must.Succeed(t, l.Unlock(t.Context()))
}

func mustGet(t testing.TB, s *statebackend.Store, ws string) string {
	t.Helper()
	state, _ := must.GetBoth(s.Get(t.Context(), ws))(t)
	return string(state)
}

func testState(serial int, filler int) []byte {
	return fmt.Appendf(nil, `{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"l-1","outputs":{"x":{"value":%q}}}`, serial, strings.Repeat("ab", filler/2))
}

func TestStoreLifeCycle(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{Tool: "test"})
		if _, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrNotFound) {
			t.Fatalf("get from an empty repository: %v", err)
		}
		for i := range 3 {
			l := mustLock(t, s, "prod", fmt.Sprintf("id-%d", i))
			if _, err := newStore(t, host, nil, statebackend.Options{}).Lock(t.Context(), "prod", statebackend.LockInfo{}); !isLockedBy(err, fmt.Sprintf("id-%d", i)) {
				t.Errorf("second lock: %v", err)
			}
			want := string(testState(i, 100<<(5*i)))
			v := mustPut(t, l, []byte(want))
			if v.N != int64(i+1) || v.Serial != uint64(i) || v.Lineage != "l-1" {
				t.Errorf("version: got %+v", v)
			}
			got, gv, err := l.Get(t.Context())
			if err != nil || string(got) != want || gv.N != v.N {
				t.Errorf("get under the lock: %d bytes, %+v, %v", len(got), gv, err)
			}
			mustUnlock(t, l)
			mustUnlock(t, l)
			if got := mustGet(t, s, "prod"); got != want {
				t.Errorf("get: %d bytes, want %d", len(got), len(want))
			}
		}
		var ns []int64
		for v, err := range s.History(t.Context(), "prod") {
			if err != nil {
				t.Fatal(err)
			}
			ns = append(ns, v.N)
		}
		must.Match(t, "history", ns, []int64{3, 2, 1})
		if got, _, err := s.GetVersion(t.Context(), "prod", 1); err != nil || !bytes.Equal(got, testState(0, 100)) {
			t.Errorf("version 1: %q, %v", got, err)
		}
		testDelete(t, s)
	})
}

// TestHistorySays checks that a version says in words why it was written, and in which run.
func TestHistorySays(t *testing.T) {
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{Tool: "test"})
	for i, tt := range []struct{ operation, info, why, run string }{
		{"OperationTypeApply", "okara pid 1, tofu pid 2 on h, https://ci.example.com/7", "apply", "https://ci.example.com/7"},
		{"OperationTypeInvalid", "", "import, or another command without a plan", ""},
		{"tfe.v2", "https://okara.example.com/ui/runs/acme/prod/3", "a command through a cloud block", "https://okara.example.com/ui/runs/acme/prod/3"},
		{"push", "see javascript:alert(1)", "push", ""},
		{"OperationTypePlan", "https://me:secret@ci.example.com/7", "plan", ""},
	} {
		l := must.Get(s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: fmt.Sprint("id-", i), Operation: tt.operation, Info: tt.info}))(t)
		mustPut(t, l, testState(i, 100))
		mustUnlock(t, l)
		for v, err := range s.History(t.Context(), "prod") {
			if err != nil || v.Why() != tt.why || v.Run != tt.run {
				t.Errorf("%s: why %q, run %q, %v", tt.operation, v.Why(), v.Run, err)
			}
			break
		}
	}
}

func testDelete(t *testing.T, s *statebackend.Store) {
	l := mustLock(t, s, "prod", "del")
	must.Succeed(t, l.Delete(t.Context()))
	mustUnlock(t, l)
	if _, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("get after delete: %v", err)
	}
	if got := workspaces(t, s); len(got) != 0 {
		t.Errorf("workspaces after delete: %q", got)
	}
	l = mustLock(t, s, "prod", "again")
	if v := mustPut(t, l, []byte(`{}`)); v.N != 5 {
		t.Errorf("version after revival: %d", v.N)
	}
	mustUnlock(t, l)
	if got := workspaces(t, s); !slices.Equal(got, []string{"prod"}) {
		t.Errorf("workspaces after revival: %q", got)
	}
}

func workspaces(t testing.TB, s *statebackend.Store) []string {
	t.Helper()
	var names []string
	for name, err := range s.Workspaces().All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func TestWorkspaceNames(t *testing.T) {
	names := []string{
		"prod", "prod-v2", "ws-abc", strings.Repeat("n", 200), "Ünïcode/with spaces", "prod-v2-f", "default", "v1", "-v1",
		"prod-000000000001-0123456789abcdef", "prod-000000000001-0123456789abcdef-f", "state-prod", ".", "Prod",
	}
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	for i, name := range names {
		l := mustLock(t, s, name, fmt.Sprint("id", i))
		mustPut(t, l, []byte(name))
	}
	for i, name := range names {
		if got := mustGet(t, s, name); got != name {
			t.Errorf("state of %q: got %q", name, got)
		}
		l, ok := s.Holding(name, fmt.Sprint("id", i))
		if !ok {
			t.Fatalf("lock of %q is not held", name)
		}
		mustUnlock(t, l)
	}
	slices.Sort(names)
	must.Match(t, "workspaces", workspaces(t, s), names)
	if held, err := s.Locks(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("locks left: %v, %v", held, err)
	}
}

// The number of requests of a warm store on distribution is as documented.
//
// Shows: servers 8 | requests to the registry for an apply: 13, and 15 in a new process
func TestRequestCounts(t *testing.T) {
	for _, tc := range []struct {
		name         string
		q            ocitest.Quirks
		lock, unlock map[string]int
		total, cold  int
	}{
		{
			name: "delete", total: 13, cold: 15,
			lock:   map[string]int{"GET tags": 3, "PUT manifest": 2},
			unlock: map[string]int{"DELETE manifest": 1},
		},
		{
			name: "no delete", q: ocitest.Quirks{NoDelete: true}, total: 15, cold: 18,
			lock:   map[string]int{"GET tags": 3, "GET manifest": 1, "PUT manifest": 2},
			unlock: map[string]int{"PUT manifest": 2},
		},
		{
			name: "tag by tag", q: ocitest.Quirks{TagDeleteOnly: true}, total: 14, cold: 18,
			lock:   map[string]int{"GET tags": 3, "PUT manifest": 2},
			unlock: map[string]int{"DELETE manifest": 2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &ocitest.Count{}
			tc.q.NoSinglePost = true
			host := ocitest.New(t, tc.q)
			s := newStore(t, host, c, statebackend.Options{Compression: "none", Usage: countUsage("")})
			apply := func(i int, size int) (lock, get, put, unlock map[string]int) {
				l := mustLock(t, s, "prod", fmt.Sprint(i))
				lock = c.Take()
				if _, _, err := l.Get(t.Context()); err != nil && !errors.Is(err, oci.ErrNotFound) {
					t.Fatal(err)
				}
				get = c.Take()
				mustPut(t, l, testState(i, size))
				put = c.Take()
				mustUnlock(t, l)
				return lock, get, put, c.Take()
			}
			apply(0, 100)    // cold
			apply(1, 64<<10) // the previous state is small
			lock, get, put, unlock := apply(2, 64<<10)
			for _, d := range []struct {
				name      string
				got, want map[string]int
			}{
				{"lock", lock, tc.lock},
				{"get", get, map[string]int{"GET manifest": 1, "GET blob": 1}},
				{"put", put, map[string]int{"POST upload": 1, "PUT upload": 1, "PUT manifest": 2, "GET tags": 1}},
				{"unlock", unlock, tc.unlock},
			} {
				must.Match(t, d.name, d.got, d.want)
			}
			if got := sum(lock) + sum(get) + sum(put) + sum(unlock); got > tc.total {
				t.Errorf("one apply: %d requests, want at most %d", got, tc.total)
			}
			apply(3, 100)
			_, get, _, _ = apply(4, 100)
			must.Match(t, "get of a small state", get, map[string]int{"GET manifest": 1})
			_, _, put, _ = apply(4, 100) // the same bytes
			if got := sum(put); got != 3 {
				t.Errorf("put of the same bytes: %v", put)
			}
			s = newStore(t, host, c, statebackend.Options{Compression: "none", Usage: countUsage("")}) // like another process
			lock, get, put, unlock = apply(5, 64<<10)
			if got := sum(lock) + sum(get) + sum(put) + sum(unlock); got > tc.cold {
				t.Errorf("one apply of a new process: %d requests, want at most %d: %v %v %v %v", got, tc.cold, lock, get, put, unlock)
			}
		})
	}
}

func sum(n map[string]int) int {
	total := 0
	for v := range maps.Values(n) {
		total += v
	}
	return total
}

func TestLockHeldIsReadOnly(t *testing.T) {
	c := &ocitest.Count{}
	host := ocitest.New(t, ocitest.Quirks{})
	mustLock(t, newStore(t, host, nil, statebackend.Options{}), "prod", "one")
	s := newStore(t, host, c, statebackend.Options{})
	_, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "two"})
	if !isLockedBy(err, "one") {
		t.Fatalf("lock: %v", err)
	}
	n := c.Take()
	delete(n, "GET ping")
	must.Match(t, "requests", n, map[string]int{"GET tags": 1, "GET manifest": 1})
	if want := "okara state unlock " + host + "/infra/state -w prod --id one"; !strings.Contains(states.Remedy(err), want) {
		t.Errorf("message %q lacks %q", err, want)
	}
}

func TestPrune(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{MaxVersions: 2})
		for i := range 5 {
			mustStore(t, s, "prod", fmt.Append(nil, i))
		}
		gone, err := s.Workspaces().Prune(t.Context(), "prod", 1)
		if errors.Is(err, oci.ErrUnsupported) {
			t.Skip("the registry deletes nothing")
		}
		if err != nil || !slices.Equal(gone, []int64{4}) {
			t.Errorf("pruned %v, %v", gone, err)
		}
		must.Equal(t, "state", mustGet(t, s, "prod"), "4")
	})
}

// TestPruneFreesManifests: a registry keeps an untagged manifest and its blobs
// indefinitely, so prune deletes it. One that another tool has tagged stays.
//
// Shows: mistakes 24 | disk space in the built-in registry was never freed | prune deletes
// manifests too; content that no tag refers to is deleted, every hour and during pushes; `make
// year`: 365 days with 3,476 kills ended with 2,007,040 bytes used, all of them reachable
func TestPruneFreesManifests(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	var versions []oci.Descriptor
	for i := range 4 {
		mustStore(t, s, "prod", fmt.Append(nil, i))
		m := must.Get(r.Fetch(t.Context(), fmt.Sprint("state-prod-v", i+1)))(t)
		versions = append(versions, m.Descriptor)
		if i == 1 {
			must.Succeed(t, r.PutTag(t.Context(), "before-migration", m))
		}
	}
	if gone, err := s.Workspaces().Prune(t.Context(), "prod", 1); err != nil || !slices.Equal(gone, []int64{1, 2, 3}) {
		t.Fatalf("pruned %v, %v", gone, err)
	}
	for i, d := range versions {
		_, err := r.Fetch(t.Context(), d.Digest.String())
		if stays := i == 1 || i == 3; stays != (err == nil) {
			t.Errorf("version %d: %v", i+1, err)
		}
	}
	if _, err := r.Fetch(t.Context(), "before-migration"); err != nil {
		t.Error(err)
	}
}

func TestCompression(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	want := testState(1, 100<<10)
	for _, how := range []string{"", "zstd", "gzip", "none"} {
		s := newStore(t, host, nil, statebackend.Options{Compression: how})
		l := mustLock(t, s, "prod", "id-"+how)
		v := mustPut(t, l, want)
		mustUnlock(t, l)
		got, _, err := newStore(t, host, nil, statebackend.Options{}).Get(t.Context(), "prod")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes, %v", how, len(got), err)
		}
		if small := v.Size < 10<<10; small != (how != "none") {
			t.Errorf("%q: stored %d bytes", how, v.Size)
		}
	}
}

func TestCancelledLockLeavesNothing(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	ctx, cancel := context.WithCancel(t.Context())
	f := &ocitest.Fault{Match: ocitest.On("GET", "tags"), Nth: 2, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		cancel()
		return nil, ctx.Err()
	}}
	if _, err := newStore(t, host, f, statebackend.Options{}).Lock(ctx, "prod", statebackend.LockInfo{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("lock: %v", err)
	}
	mustUnlock(t, mustLock(t, newStore(t, host, nil, statebackend.Options{}), "prod", "next"))
}

// A takeover's tags go after a week: a late claim must find its tombstone.
func TestCleanUp(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		now := time.Now()
		o := statebackend.Options{Now: func() time.Time { return now }}
		a, b := newStore(t, host, nil, o), newStore(t, host, nil, o)
		la := mustLock(t, a, "prod", "a")
		mustPut(t, la, []byte("a"))
		must.Succeed(t, b.ForceUnlock(t.Context(), "prod", "a"))
		apply := func(id string) int {
			mustStore(t, b, "prod", []byte(id))
			tags := must.Get(b.Repo().Snapshot(t.Context()))(t)
			n := 0
			for _, tag := range tags.Tags {
				if st, ok := format.ParseStateTag(tag); ok && (st.Kind == format.LockClaim || st.Kind == format.ForceTombstone) {
					n++
				}
			}
			return n
		}
		young := apply("b")
		if young < 2 {
			t.Errorf("%d claims and tombstones after a takeover, want them kept", young)
		}
		now = now.Add(8 * 24 * time.Hour)
		if old := apply("c"); old != 0 && young == 2 { // else the registry deletes nothing
			t.Errorf("%d claims and tombstones are left after a week", old)
		}
		if _, err := la.Put(t.Context(), []byte("late")); !errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("put of the overtaken holder: %v", err)
		}
	})
}
