// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// replicaStore opens a repository of a registry over a transport.
func replicaStore(t *testing.T, host, name string, transport http.RoundTripper) *statebackend.Store {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/"+name, oci.Options{PlainHTTP: true, Transport: transport, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	return statebackend.New(r, statebackend.Options{Tool: "test"})
}

func replicaState(serial int) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"a","outputs":{},"resources":[%q]}`, serial, strings.Repeat("x", 2000))
}

// mustWrite writes states with these serials under one lock.
func mustWrite(t *testing.T, s *statebackend.Store, serials ...int) {
	t.Helper()
	l := must.Get(s.Lock(t.Context(), "prod", statebackend.LockInfo{Who: "test"}))(t)
	for _, serial := range serials {
		must.Get(l.Put(t.Context(), replicaState(serial)))(t)
	}
	must.Succeed(t, l.Unlock(t.Context()))
}

// Shows: copies 1 | a replica is read-only, follows its source, resumes after an interruption, and
// keeps as many versions as configured
func TestReplicate(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		src, dst := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "dr/state", nil)
		mustWrite(t, src, 1, 2, 3)
		got, err := src.Replicas().Replicate(t.Context(), dst, "prod")
		if err != nil {
			t.Fatal(err)
		}
		must.Match(t, "copied", got, []int64{1, 2, 3})
		mustWrite(t, src, 4)
		if got, err = src.Replicas().Replicate(t.Context(), dst, "prod"); err != nil || len(got) != 1 || got[0] != 4 {
			t.Errorf("second run copied %v, %v", got, err)
		}
		for n := int64(1); n <= 4; n++ {
			state, v, err := dst.GetVersion(t.Context(), "prod", n)
			if err != nil || !bytes.Equal(state, replicaState(int(n))) {
				t.Errorf("version %d of the replica: %+v, %v", n, v, err)
			}
		}
		if locks, err := dst.Locks(t.Context()); err != nil || len(locks) > 0 {
			t.Errorf("locks of the replica: %v, %v", locks, err)
		}
	})
}

// Shows: copies 1
func TestReplicaIsReadOnly(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src := replicaStore(t, host, "infra/state", nil)
	mustWrite(t, src, 1, 2)
	must.Get(src.Replicas().Replicate(t.Context(), replicaStore(t, host, "dr/state", nil), "prod"))(t)
	dst := replicaStore(t, host, "dr/state", nil) // another process
	if _, err := dst.Lock(t.Context(), "prod", statebackend.LockInfo{}); !errors.Is(err, statebackend.ErrReplica) {
		t.Fatalf("lock in a replica: %v", err)
	}
	if state, _, err := dst.Get(t.Context(), "prod"); err != nil || !bytes.Equal(state, replicaState(2)) {
		t.Errorf("read of a replica: %v", err)
	}
	l := must.Get(dst.TakeOver(t.Context(), "prod", statebackend.LockInfo{Who: "failover"}))(t)
	must.Get(l.Put(t.Context(), replicaState(3)))(t)
	must.Succeed(t, l.Unlock(t.Context()))
	if _, err := src.Replicas().Replicate(t.Context(), dst, "prod"); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("replicating into a repository that was taken over: %v", err)
	}
	mustWrite(t, replicaStore(t, host, "dr/state", nil), 4) // locks work there after the takeover
}

func TestReplicateRefuses(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src, other := replicaStore(t, host, "infra/state", nil), replicaStore(t, host, "other/state", nil)
	mustWrite(t, src, 1)
	mustWrite(t, other, 7)
	if _, err := src.Replicas().Replicate(t.Context(), other, "prod"); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("replicating over states: %v", err)
	}
	if _, err := src.Replicas().Replicate(t.Context(), replicaStore(t, host, "dr/state", nil), "absent"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("replicating nothing: %v", err)
	}
	if _, err := other.Replicas().Replicate(t.Context(), replicaStore(t, host, "dr/state", nil), "prod"); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("replicating into the replica of another repository: %v", err)
	}
}

// TestReplicateResumes cuts a run at each write to the destination. A reader always
// sees a state of the source there, and the next run completes.
//
// Shows: copies 1
func TestReplicateResumes(t *testing.T) {
	for nth := 1; ; nth++ {
		host := ocitest.New(t, ocitest.Quirks{})
		src := replicaStore(t, host, "infra/state", nil)
		mustWrite(t, src, 1, 2, 3)
		fault := &ocitest.Fault{Match: writes, Nth: nth, Times: -1, Do: ocitest.FailBefore}
		_, err := src.Replicas().Replicate(t.Context(), replicaStore(t, host, "dr/state", fault), "prod")
		if err == nil {
			if nth < 8 {
				t.Fatalf("a whole run had %d writes", nth-1)
			}
			return
		}
		dst := replicaStore(t, host, "dr/state", nil)
		state, v, err := dst.Get(t.Context(), "prod")
		if err == nil && !bytes.Equal(state, replicaState(int(v.Serial))) {
			t.Errorf("cut at write %d: version %d has other bytes", nth, v.N)
		}
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("cut at write %d: %v", nth, err)
		}
		if _, err := src.Replicas().Replicate(t.Context(), dst, "prod"); err != nil {
			t.Fatalf("after a cut at write %d: %v", nth, err)
		}
		if state, _, err := dst.Get(t.Context(), "prod"); err != nil || !bytes.Equal(state, replicaState(3)) {
			t.Errorf("after a cut at write %d the replica has another state: %v", nth, err)
		}
	}
}

func writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }
