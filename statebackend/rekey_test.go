// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// twoKeys seals with one key and opens with either.
type twoKeys struct{ old, next statebackend.Sealer }

func (k twoKeys) Seal(ctx context.Context, plain, aad []byte) ([]byte, map[string]string, error) {
	return k.next.Seal(ctx, plain, aad)
}

func (k twoKeys) Open(ctx context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error) {
	plain, err := k.next.Open(ctx, sealed, ann, aad)
	if err != nil {
		return k.old.Open(ctx, sealed, ann, aad)
	}
	return plain, err
}

// Versions get another key in place; the old one opens none.
func TestRekey(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		old, next := newSealer(t, "k"), newSealer(t, "n")
		before := newStore(t, host, nil, statebackend.Options{Sealer: old})
		mustStore(t, before, "prod", []byte("one"), []byte("two"))
		first := must.Get(before.Repo().Resolve(t.Context(), "state-prod-v1"))(t)

		l := mustLock(t, newStore(t, host, nil, statebackend.Options{Sealer: twoKeys{old, next}}), "prod", "b")
		for _, n := range []int64{2, 1} {
			must.Succeed(t, l.Rekey(t.Context(), n))
		}
		if err := l.Rekey(t.Context(), 3); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("a version that is not there: %v", err)
		}
		if v := mustPut(t, l, []byte("three")); v.N != 3 || v.Parent != 2 {
			t.Errorf("the next version is %+v", v)
		}
		mustUnlock(t, l)

		after := newStore(t, host, nil, statebackend.Options{Sealer: next})
		for n, want := range map[int64]string{1: "one", 2: "two", 3: "three"} {
			if got, _, err := after.GetVersion(t.Context(), "prod", n); err != nil || string(got) != want {
				t.Errorf("version %d: %q, %v", n, got, err)
			}
			if _, _, err := before.GetVersion(t.Context(), "prod", n); err == nil {
				t.Errorf("the old key opens version %d", n)
			}
		}
		must.Equal(t, "current state", mustGet(t, after, "prod"), "three")
		if now, err := after.Repo().Resolve(t.Context(), "state-prod-v1"); err != nil || now.Digest == first.Digest {
			t.Errorf("version 1 is still %v, %v", now.Digest, err)
		}
	})
}

// A client that lost the lock changes no version.
func TestRekeyOvertaken(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	key := statebackend.Options{Sealer: newSealer(t, "k")}
	s := newStore(t, host, nil, key)
	l := mustLock(t, s, "prod", "a")
	mustPut(t, l, []byte("one"))
	taken := must.Get(newStore(t, host, nil, key).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	before := must.Get(s.Repo().Resolve(t.Context(), "state-prod-v1"))(t)
	if err := l.Rekey(t.Context(), 1); !errors.Is(err, statebackend.ErrLockLost) {
		t.Errorf("got %v", err)
	}
	if now, err := s.Repo().Resolve(t.Context(), "state-prod-v1"); err != nil || now.Digest != before.Digest {
		t.Errorf("version 1 is %v, %v", now.Digest, err)
	}
	mustUnlock(t, taken)
	mustUnlock(t, l)
}
