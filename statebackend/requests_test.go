// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// TestRequestsWithoutState: the list tells of no state, the lease costs nothing at first, and where
// the registry is known to delete no list verifies it.
func TestRequestsWithoutState(t *testing.T) {
	c := &ocitest.Count{}
	host := ocitest.New(t, ocitest.Quirks{})
	mustStore(t, newStore(t, host, nil, statebackend.Options{}), "beside", testState(1, 0))
	s := newStore(t, host, c, statebackend.Options{LockTTL: time.Hour, DigestDeletes: true})
	l := mustLock(t, s, "prod", "a")
	must.Match(t, "lock", withPing(c.Take()), map[string]int{"GET ping": 0, "GET tags": 3, "PUT manifest": 2})
	if _, _, err := l.Get(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("no state: %v", err)
	}
	list, err := l.List(t.Context())
	if err != nil || !list.Has("state-beside") || list.Has("state-prod") {
		t.Errorf("list: %v", err)
	}
	mustUnlock(t, l)
	must.Match(t, "look and unlock", c.Take(), map[string]int{"GET tags": 1, "DELETE manifest": 1})
	if held, err := s.Held(t.Context(), "prod"); held != nil || err != nil {
		t.Errorf("held: %+v, %v", held, err)
	}
}

// withPing ignores a probe of the scheme.
func withPing(n map[string]int) map[string]int {
	n["GET ping"] = 0
	return n
}

// TestDigestDeletesWrong: a registry that is said to delete, and does not, still locks.
func TestDigestDeletesWrong(t *testing.T) {
	for _, q := range []ocitest.Quirks{{NoDelete: true}, {TagDeleteOnly: true}} {
		s := newStore(t, ocitest.New(t, q), nil, statebackend.Options{DigestDeletes: true})
		for i := range 3 {
			mustStore(t, s, "prod", testState(i+1, 0))
		}
		if held, err := s.Held(t.Context(), "prod"); held != nil || err != nil {
			t.Errorf("%+v: held: %+v, %v", q, held, err)
		}
	}
}

// TestReplicateMounts copies within one registry without moving the states.
func TestReplicateMounts(t *testing.T) {
	for _, mounts := range []bool{true, false} {
		c := &ocitest.Count{}
		host := ocitest.New(t, ocitest.Quirks{NoMount: !mounts})
		src, dst := replicaStore(t, host, "infra/source", c), replicaStore(t, host, "infra/copy", c)
		l := must.Get(src.Lock(t.Context(), "prod", statebackend.LockInfo{Who: "test"}))(t)
		var states [][]byte
		for serial := range 3 {
			states = append(states, testState(serial+1, 100))
			mustPut(t, l, states[serial])
		}
		mustUnlock(t, l)
		c.Take()
		must.Get(src.Replicas().Replicate(t.Context(), dst, "prod"))(t)
		got := c.Take()
		if moved := got["GET blob"]; mounts != (moved == 0) || moved > 3 {
			t.Errorf("mounts %v: %v", mounts, got)
		}
		if state, _, err := dst.Get(t.Context(), "prod"); err != nil || !bytes.Equal(state, states[2]) {
			t.Errorf("copy: %s, %v", state, err)
		}
	}
}
