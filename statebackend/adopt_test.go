// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// mustFailOver copies three states, writes two more, and takes the copy over, which gets one.
func mustFailOver(t *testing.T, old, copied *statebackend.Store) {
	t.Helper()
	mustWrite(t, old, 1, 2, 3)
	must.Get(old.Replicas().Replicate(t.Context(), copied, "prod"))(t)
	mustWrite(t, old, 4, 5)
	mustTakeOver(t, copied, 6)
}

// mustTakeOver takes the workspace over, and writes a state.
func mustTakeOver(t *testing.T, s *statebackend.Store, serial int) {
	t.Helper()
	l := must.Get(s.TakeOver(t.Context(), "prod", statebackend.LockInfo{Who: "failover"}))(t)
	mustPut(t, l, replicaState(serial))
	mustUnlock(t, l)
}

// mustAdopt makes dst a copy of src, and returns how many versions were copied.
func mustAdopt(t *testing.T, src, dst *statebackend.Store, kept ...int64) int {
	t.Helper()
	copied, got := must.GetBoth(src.Replicas().Adopt(t.Context(), dst, "prod", false))(t)
	if diff := cmp.Diff(kept, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("kept (-want +got):\n%s", diff)
	}
	return len(copied)
}

// serial reads the serial of the current state.
func serial(t *testing.T, s *statebackend.Store) uint64 {
	t.Helper()
	_, v := must.GetBoth(s.Get(t.Context(), "prod"))(t)
	return v.Serial
}

// TestFailBack: what the old primary wrote after the last copy is kept and returned each time; a
// second failover works.
//
// Shows: copies 2 | the old primary becomes the replica; versions that only it has are kept and
// reported each time, whatever their numbers; it completes after an interruption at any write
func TestFailBack(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
		mustFailOver(t, old, now)
		must.Equal(t, "versions copied", mustAdopt(t, now, old, 5, 4), 2)
		must.Equal(t, "the copy reads serial", serial(t, old), 6)
		for n := int64(1); n <= 5; n++ {
			if b, _, err := old.GetVersion(t.Context(), "prod", n); err != nil || !bytes.Equal(b, replicaState(int(n))) {
				t.Errorf("version %d of the copy: %v", n, err)
			}
		}
		if _, err := replicaStore(t, host, "infra/state", nil).Lock(t.Context(), "prod", statebackend.LockInfo{}); !errors.Is(err, statebackend.ErrReplica) {
			t.Errorf("lock in the copy: %v", err)
		}
		mustWrite(t, now, 7)
		must.Equal(t, "versions copied by a second run", mustAdopt(t, now, old, 5, 4), 1)
		must.Equal(t, "versions copied by a third run", mustAdopt(t, now, old, 5, 4), 0)
		mustWrite(t, now, 8)
		if got, err := now.Replicas().Replicate(t.Context(), old, "prod"); err != nil || len(got) != 1 {
			t.Errorf("plain run afterwards: %v, %v", got, err)
		}
		mustTakeOver(t, old, 9)
		mustWrite(t, now, 10)
		must.Equal(t, "versions copied after the second fail-over", mustAdopt(t, old, now, newestOf(t, now)), 2)
		must.Equal(t, "after the second fail-over the copy reads serial", serial(t, now), 9)
	})
}

func newestOf(t *testing.T, s *statebackend.Store) int64 {
	t.Helper()
	v := must.Get(s.Current(t.Context(), "prod"))(t)
	return v.N
}

// TestFailBackAbove: the old primary was used after the failover, and its numbers are
// above those of the new one, or equal. They are kept, and the new one moves above them.
//
// Shows: copies 2
func TestFailBackAbove(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, old, now *statebackend.Store){
		"forced": func(t *testing.T, old, _ *statebackend.Store) {
			mustLock(t, old, "prod", "dead")
			mustTakeOver(t, old, 7)
			mustTakeOver(t, old, 8)
		},
		"same numbers": func(t *testing.T, old, now *statebackend.Store) {
			mustLock(t, old, "prod", "dead")
			mustTakeOver(t, old, 7)
			for newestOf(t, old) < newestOf(t, now) {
				mustWrite(t, old, 8)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := ocitest.New(t, ocitest.Quirks{})
			old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
			mustFailOver(t, old, now)
			use(t, old, now)
			above := newestOf(t, old)
			if above < newestOf(t, now) {
				t.Fatalf("the old one has %d, the new one %d", above, newestOf(t, now))
			}
			for range 2 {
				_, kept, err := now.Replicas().Adopt(t.Context(), old, "prod", false)
				if err != nil || len(kept) < 3 || kept[0] != above {
					t.Fatalf("kept %v, %v; want those down to 4 from %d", kept, err, above)
				}
				if got := serial(t, old); got != 6 || newestOf(t, old) != newestOf(t, now) || newestOf(t, now) <= above {
					t.Errorf("the copy reads serial %d of version %d; the new one has %d", got, newestOf(t, old), newestOf(t, now))
				}
			}
		})
	}
}

// TestFailBackResumes cuts the run at each of its writes. The next run completes, and
// no kept version is forgotten.
//
// Shows: copies 2
func TestFailBackResumes(t *testing.T) {
	for nth, cut := 1, true; cut; nth++ {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) { cut = cutFailBack(t, h, nth) })
		if !cut && nth < 10 {
			t.Errorf("a whole run had %d writes", nth-1)
		}
	}
}

// cutFailBack returns false if the run has no write of that number.
func cutFailBack(t *testing.T, h http.Handler, nth int) bool {
	began := time.Now()
	open := func(name string, transport http.RoundTripper) *statebackend.Store {
		r := must.Get(oci.OpenRepo(abandonedHost+"/"+name, oci.Options{PlainHTTP: true, Transport: transport, Retry: oci.Retry{MaxAttempts: 1}}))(t)
		return statebackend.New(r, statebackend.Options{Tool: "test", Uptime: func() time.Duration { return time.Since(began) }})
	}
	old, now := open("infra/state", ocitest.Direct{Handler: h}), open("dr/state", ocitest.Direct{Handler: h})
	mustFailOver(t, old, now)
	mustLock(t, old, "prod", "dead")
	mustTakeOver(t, old, 7)
	above := newestOf(t, old)
	fault := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Match: writes, Nth: nth, Times: -1, Do: ocitest.FailBefore}
	if _, _, err := open("dr/state", fault).Replicas().Adopt(t.Context(), open("infra/state", fault), "prod", false); err == nil {
		return false
	}
	now = open("dr/state", ocitest.Direct{Handler: h})
	if held, err := now.Held(t.Context(), "prod"); err == nil && held != nil { // the run could not release the lock that it took to move above
		must.Succeed(t, now.ForceUnlock(t.Context(), "prod", held.Info.ID))
	}
	_, kept, err := now.Replicas().Adopt(t.Context(), old, "prod", false)
	if err != nil || len(kept) < 4 || kept[0] != above || kept[len(kept)-1] != 4 {
		t.Fatalf("after a cut at write %d: kept %v, %v", nth, kept, err)
	}
	if got := serial(t, old); got != 6 {
		t.Errorf("after a cut at write %d the copy reads serial %d", nth, got)
	}
	return true
}

// TestAdoptRefuses: a call that would lose a primary is refused, with a remedy.
//
// Shows: copies 3 | a primary is never lost: refusals, and an attempt to lock that began earlier
func TestAdoptRefuses(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
	mustWrite(t, old, 1)
	must.Get(old.Replicas().Replicate(t.Context(), now, "prod"))(t)
	refused := func(src, dst *statebackend.Store, want statebackend.RemedyKind) {
		t.Helper()
		_, _, err := src.Replicas().Adopt(t.Context(), dst, "prod", false)
		e, _ := errors.AsType[*statebackend.RemediedError](err)
		if !errors.Is(err, statebackend.ErrReplica) || want != 0 && (e == nil || e.Remedy.Kind != want) {
			t.Errorf("adopting %s: %v", dst.Repo(), err)
		}
	}
	refused(now, old, statebackend.RemedyPromote) // nothing was taken over
	mustTakeOver(t, now, 2)
	other := replicaStore(t, host, "third/state", nil)
	must.Get(now.Replicas().Replicate(t.Context(), other, "prod"))(t)
	refused(old, other, statebackend.RemedyPromote) // a copy of a third repository
	refused(now, replicaStore(t, strings.Replace(host, "127.0.0.1", "localhost", 1), "dr/state", nil), 0)
	mustWrite(t, now, 3) // it did not become a copy of itself

	dead := mustLock(t, old, "prod", "dead")
	_, _, err := now.Replicas().Adopt(t.Context(), old, "prod", false)
	locked, ok := errors.AsType[*statebackend.LockedError](err)
	if !ok || locked.Held.ID != dead.Info().ID {
		t.Fatalf("adopting what somebody holds: %v", err)
	}
	must.Succeed(t, replicaStore(t, host, "infra/state", nil).ForceUnlock(t.Context(), "prod", locked.Held.ID))
	mustAdopt(t, now, old)

	if _, err := other.Workspaces().Change(t.Context(), "prod", func(r *statebackend.Record) error { r.Description = "x"; return nil }); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("a record in a copy: %v", err)
	}
	_, err = old.Replicas().Replicate(t.Context(), now, "prod")
	if e, ok := errors.AsType[*statebackend.RemediedError](err); !ok || e.Remedy.Kind != statebackend.RemedyAdopt {
		t.Errorf("a plain run into what was taken over: %v", err)
	}
}

// TestAdoptBothWays: of two calls that copy each other's repository one is first.
func TestAdoptBothWays(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	one, two := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
	mustFailOver(t, one, two)
	late := replicaStore(t, host, "dr/state", &meanwhile{do: func() { mustAdopt(t, two, one, 5, 4) }})
	_, _, err := one.Replicas().Adopt(t.Context(), late, "prod", false)
	e, ok := errors.AsType[*statebackend.RemediedError](err)
	if !ok || e.Remedy.Kind != statebackend.RemedyPromote || !strings.Contains(err.Error(), one.Repo().String()+" is a read-only copy of "+two.Repo().String()) {
		t.Errorf("adopting what adopts at the same moment: %v", err)
	}
	mustAdopt(t, two, one, 5, 4)
	mustWrite(t, two, 7)
}

// meanwhile runs do before the first mark of a replica is written.
type meanwhile struct {
	once sync.Once
	do   func()
}

func (m *meanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/"+format.TagReplica) {
		m.once.Do(m.do)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestAdoptAndLock: an attempt to lock that began before the mark does not win after it.
//
// Shows: copies 3
func TestAdoptAndLock(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
	mustFailOver(t, old, now)
	stop := &ocitest.Fault{
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/locked-prod-")
		},
		Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			mustAdopt(t, now, old, 5, 4)
			return next.RoundTrip(r)
		},
	}
	if _, err := replicaStore(t, host, "infra/state", stop).Lock(t.Context(), "prod", statebackend.LockInfo{}); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("lock: %v", err)
	}
	if held, err := old.Held(t.Context(), "prod"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
}

// TestAdoptRecords: the record of the source takes precedence in the copy, whichever was
// changed more often, and a workspace that only the copy has stays there.
//
// Shows: copies 2
func TestAdoptRecords(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
		mustFailOver(t, old, now)
		describe := func(s *statebackend.Store, ws, text string) {
			t.Helper()
			mustRecord(t, s, ws, func(r *statebackend.Record) { r.Description = text })
		}
		describe(now, "prod", "new primary")
		for _, text := range []string{"a", "b", "c"} {
			describe(old, "prod", text)
		}
		describe(old, "lone", "only here")
		for range 2 {
			mustAdopt(t, now, old, 5, 4)
			if w := mustWorkspace(t, old, "prod"); w.Live() == nil || w.Live().Description != "new primary" {
				t.Errorf("record of the copy: %+v", w.Record)
			}
		}
		if _, _, err := now.Replicas().Adopt(t.Context(), old, "lone", false); err != nil {
			t.Errorf("a workspace that only the copy has: %v", err)
		}
		if _, _, err := now.Replicas().Adopt(t.Context(), old, "nowhere", false); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("a workspace that none has: %v", err)
		}
	})
}

// TestAdoptSealed: between repositories of different names, sealed versions are sealed
// again, and then open in the old primary without the name of the other.
//
// Shows: copies 2
func TestAdoptSealed(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	old := sealedStore(t, host, "infra/state", statebackend.Options{})
	now := sealedStore(t, host, "dr/state", statebackend.Options{Primary: "infra/state"})
	mustStore(t, old, "prod", secret(1, "one"))
	must.Get(old.Replicas().Replicate(t.Context(), now, "prod"))(t)
	mustStore(t, old, "prod", secret(2, "lost"))
	l, err := now.TakeOver(t.Context(), "prod", statebackend.LockInfo{Who: "failover"})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, l, secret(3, "three"))
	mustUnlock(t, l)
	_, _, err = now.Replicas().Adopt(t.Context(), old, "prod", false)
	if e, ok := errors.AsType[*statebackend.RemediedError](err); !ok || e.Remedy.Kind != statebackend.RemedyReseal {
		t.Fatalf("without sealing anew: %v", err)
	}
	if _, err := old.Replicas().Mark(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("the refused one is a copy: %v", err)
	}
	for range 2 {
		if _, kept, err := now.Replicas().Adopt(t.Context(), old, "prod", true); err != nil || len(kept) != 1 || kept[0] != 2 {
			t.Fatalf("kept %v, %v", kept, err)
		}
	}
	if got, _, err := old.Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, secret(3, "three")) {
		t.Errorf("the old primary reads %q, %v", got, err)
	}
	if got, _, err := old.GetVersion(t.Context(), "prod", 2); err != nil || !bytes.Equal(got, secret(2, "lost")) {
		t.Errorf("what it keeps: %q, %v", got, err)
	}
}

// TestReplicateDiverged: a source that was rolled back and then used has other versions
// under the numbers of its copy. That is an error, and the copy does not count as current.
//
// Shows: copies 4 | a replica that has diverged is never reported as catching up
func TestReplicateDiverged(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src, dst := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
	mustWrite(t, src, 1, 2)
	must.Get(src.Replicas().Replicate(t.Context(), dst, "prod"))(t)
	for _, tag := range []string{"state-prod-v2", "state-prod"} {
		must.Succeed(t, src.Repo().Untag(t.Context(), tag))
	}
	src = replicaStore(t, host, "infra/state", nil)
	mustWrite(t, src, 7)
	_, err := src.Replicas().Replicate(t.Context(), dst, "prod")
	if e, ok := errors.AsType[*statebackend.RemediedError](err); !ok || e.Remedy.Kind != statebackend.RemedyAdopt {
		t.Fatalf("replicating: %v", err)
	}
	mustAdopt(t, src, dst, 2)
	must.Equal(t, "the copy reads serial", serial(t, dst), 7)
}

// TestReplicaIsPruned: a copy keeps the configured number of versions, never gets a
// dropped one again, and keeps versions of its own for a month beyond that.
//
// Shows: copies 1
func TestReplicaIsPruned(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		var log bytes.Buffer
		old, now := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
		mustFailOver(t, old, now)
		mustAdopt(t, now, old, 5, 4)
		r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true}))(t)
		copied := statebackend.New(r, statebackend.Options{MaxVersions: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 4 {
			mustWrite(t, now, 7+i)
			must.Get(now.Replicas().Replicate(t.Context(), copied, "prod"))(t)
		}
		must.Equal(t, "the copy reads serial", serial(t, old), 10)
		list := must.Get(copied.List(t.Context()))(t)
		left := list.Numbers("prod")
		if strings.HasSuffix(t.Name(), "/no-delete") {
			if strings.Count(log.String(), "could not be removed") != 1 {
				t.Errorf("log:\n%s", log.String())
			}
			return
		}
		if len(left) != 5 || left[3] != 5 || left[4] != 4 {
			t.Errorf("versions of the copy: %v, want three and what it keeps", left)
		}
	})
}

// TestReplicateNewest: a new copy that keeps two versions gets two.
//
// Shows: copies 1
func TestReplicateNewest(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src := replicaStore(t, host, "infra/state", nil)
	mustWrite(t, src, 1, 2, 3, 4)
	r := must.Get(oci.OpenRepo(host+"/dr/state", oci.Options{PlainHTTP: true}))(t)
	dst := statebackend.New(r, statebackend.Options{MaxVersions: 2})
	for range 2 {
		got := must.Get(src.Replicas().Replicate(t.Context(), dst, "prod"))(t)
		if list, err := dst.List(t.Context()); err != nil || len(list.Numbers("prod")) != 2 || serial(t, dst) != 4 {
			t.Errorf("copied %v: %v, %v", got, list.Numbers("prod"), err)
		}
	}
}
