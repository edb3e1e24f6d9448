// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// A sealed replica is read by its original's name, until a failover.
func TestPrimary(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src := sealedStore(t, host, "infra/state", statebackend.Options{})
	mustStore(t, src, "prod", secret(1, "one"), secret(2, "two"))
	plain := openStore(t, host, "dr/state", statebackend.Options{})
	must.Get(openStore(t, host, "infra/state", statebackend.Options{}).Replicas().Replicate(t.Context(), plain, "prod"))(t)
	alone := sealedStore(t, host, "dr/state", statebackend.Options{})
	if _, _, err := alone.Get(t.Context(), "prod"); !errors.Is(err, statebackend.ErrUnsealed) {
		t.Errorf("a copy whose original nobody named: %v", err)
	}
	replica := func() *statebackend.Store {
		return sealedStore(t, host, "dr/state", statebackend.Options{Primary: "infra/state"})
	}
	if got, _, err := replica().Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, secret(2, "two")) {
		t.Errorf("replica: %q, %v", got, err)
	}
	l := must.Get(replica().TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "failover"}))(t)
	mustUnlock(t, l)
	mustStore(t, replica(), "prod", secret(3, "three"))
	first := l.Fence()
	for _, s := range []*statebackend.Store{alone, replica()} {
		for n, want := range map[int64][]byte{first: secret(2, "two"), first + 1: secret(3, "three")} {
			if got, _, err := s.GetVersion(t.Context(), "prod", n); err != nil || !bytes.Equal(got, want) {
				t.Errorf("version %d after the failover: %q, %v", n, got, err)
			}
		}
	}
	if got, _, err := replica().GetVersion(t.Context(), "prod", 1); err != nil || !bytes.Equal(got, secret(1, "one")) {
		t.Errorf("version 1 after the failover: %q, %v", got, err)
	}
	// The original continues, and reaches the same numbers by a takeover of its own.
	mustLock(t, src, "prod", "gone")
	l = must.Get(sealedStore(t, host, "infra/state", statebackend.Options{}).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	for v := l.Fence(); v <= first+1; {
		v = mustPut(t, l, secret(3, "primary")).N
	}
	mustUnlock(t, l)
	tag := fmt.Sprintf("state-prod-v%d", first+2)
	forge(t, src, tag, plain, func(*format.StateManifest) {}, tag, "state-prod")
	for _, strict := range []bool{false, true} {
		s := sealedStore(t, host, "dr/state", statebackend.Options{Primary: "infra/state", StrictReads: strict})
		if got, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, statebackend.ErrUnsealed) {
			t.Errorf("the original's version above the failover: %q, %v", got, err)
		}
	}
}

// A replica that is sealed again needs no name, and refuses plain copies.
func TestReseal(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	src := sealedStore(t, host, "infra/state", statebackend.Options{})
	dst := sealedStore(t, host, "dr/state", statebackend.Options{})
	mustStore(t, src, "prod", secret(1, "one"), secret(2, "two"))
	l := mustLock(t, src, "prod", "delete")
	must.Succeed(t, l.Delete(t.Context()))
	mustUnlock(t, l)
	mustStore(t, src, "prod", secret(4, "four"))
	if copied, err := src.Replicas().Reseal(t.Context(), dst, "prod"); err != nil || len(copied) != 4 {
		t.Fatalf("%v, %v", copied, err)
	}
	for n, want := range map[int64][]byte{1: secret(1, "one"), 2: secret(2, "two"), 4: secret(4, "four")} {
		if got, v, err := dst.GetVersion(t.Context(), "prod", n); err != nil || !bytes.Equal(got, want) || !v.Encrypted {
			t.Errorf("version %d: %q, %v", n, got, err)
		}
	}
	if _, _, err := dst.GetVersion(t.Context(), "prod", 3); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("deleted version: %v", err)
	}
	if got, _, err := dst.Get(t.Context(), "prod"); err != nil || !bytes.Equal(got, secret(4, "four")) {
		t.Errorf("current: %q, %v", got, err)
	}
	mustStore(t, src, "prod", secret(5, "five"))
	if _, err := src.Replicas().Replicate(t.Context(), dst, "prod"); !errors.Is(err, statebackend.ErrReplica) {
		t.Errorf("copying above versions that were sealed anew: %v", err)
	}
	if copied, err := src.Replicas().Reseal(t.Context(), dst, "prod"); err != nil || len(copied) != 1 {
		t.Errorf("second run: %v, %v", copied, err)
	}
	if _, err := src.Replicas().Reseal(t.Context(), openStore(t, host, "dr/plain", statebackend.Options{}), "prod"); err == nil {
		t.Error("sealed without a key")
	}
}
