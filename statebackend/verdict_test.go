// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func TestVerdict(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := newStore(t, host, nil, statebackend.Options{})
	if _, err := s.Verdicts().Newest(t.Context()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("no verdict: %v", err)
	}
	want := format.Verdict{Locking: statebackend.LockingRefused, Reason: "two sides did not see each other", Host: host}
	must.Succeed(t, s.Verdicts().Record(t.Context(), want))
	if got, err := s.Verdicts().Newest(t.Context()); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("verdict (-want +got):\n%s, %v", cmp.Diff(want, got), err)
	}
	c := &ocitest.Count{}
	_, err := newStore(t, host, c, statebackend.Options{}).Lock(t.Context(), "prod", statebackend.LockInfo{})
	if !errors.Is(err, statebackend.ErrUnsafe) || !strings.Contains(err.Error(), want.Reason) || !strings.Contains(states.Remedy(err), "unsafe_locking") {
		t.Errorf("lock: %v", err)
	}
	if n := c.Take(); n["PUT manifest"]+n["POST upload"] > 0 {
		t.Errorf("a refused lock wrote: %v", n)
	}
	mustUnlock(t, mustLock(t, newStore(t, host, nil, statebackend.Options{UnsafeLocking: true}), "prod", "override"))

	want.Locking, want.DeleteDigest, want.DigestDropsTags = statebackend.LockingExact, true, true
	must.Succeed(t, s.Verdicts().Record(t.Context(), want))
	s = newStore(t, host, c, statebackend.Options{})
	l := mustLock(t, s, "prod", "exact")
	c.Take()
	mustUnlock(t, l)
	must.Match(t, "unlock by a process that read the verdict", c.Take(), map[string]int{"DELETE manifest": 1})
}

// Lists of hosted registries get time to settle; cached ones are refused.
func TestHostVerdict(t *testing.T) {
	for host, want := range map[string]struct {
		wait time.Duration
		err  error
	}{
		"registry.test": {},
		"ghcr.io":       {wait: 2 * time.Second},
		"123456789012.dkr.ecr.eu-central-1.amazonaws.com": {wait: 2 * time.Second},
		"acme.azurecr.io": {err: statebackend.ErrUnsafe},
		"docker.io":       {err: statebackend.ErrUnsafe},
	} {
		h := ocitest.Handler(t, ocitest.Quirks{})
		synctest.Test(t, func(t *testing.T) {
			s, begin := newStore(t, host, ocitest.Direct{Handler: h}, statebackend.Options{}), time.Now()
			l, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{})
			if !errors.Is(err, want.err) || time.Since(begin) != want.wait {
				t.Errorf("%s: %v after %s, want %v after %s", host, err, time.Since(begin), want.err, want.wait)
			}
			if err == nil {
				mustUnlock(t, l)
			}
		})
	}
}

// A lagging list is waited for, ten seconds; then no claim is left.
func TestStaleList(t *testing.T) {
	for _, tc := range []struct {
		late int
		ok   bool
	}{{2, true}, {100, false}} {
		h := ocitest.Handler(t, ocitest.Quirks{LateList: tc.late})
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, "registry.test", ocitest.Direct{Handler: h}, statebackend.Options{})
			l, err := s.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
			if (err == nil) != tc.ok {
				t.Fatalf("%d late lists: %v", tc.late, err)
			}
			if tc.ok {
				mustPut(t, l, []byte("state"))
				mustUnlock(t, l)
				return
			}
			if !strings.Contains(err.Error(), "does not show its own writes") {
				t.Errorf("lock: %v", err)
			}
			for range tc.late {
				must.Get(s.Repo().Snapshot(t.Context()))(t)
			}
			if held, err := s.Locks(t.Context()); err != nil || len(held) > 0 {
				t.Errorf("locks left: %v, %v", held, err)
			}
		})
	}
}

func TestCachedListIsRefused(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{CachedList: true})
	mustLockFail := func(o statebackend.Options) error {
		_, err := newStore(t, host, nil, o).Lock(t.Context(), "prod", statebackend.LockInfo{})
		return err
	}
	// A repository that does not exist yet has no list that could be cached.
	r := must.Get(oci.OpenRepo(host+"/infra/state", oci.Options{PlainHTTP: true}))(t)
	must.Get(r.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob()}, Root: mustVerdict(t)}))(t)
	must.Succeed(t, r.PutTag(t.Context(), "other", mustVerdict(t)))
	if err := mustLockFail(statebackend.Options{}); !errors.Is(err, statebackend.ErrUnsafe) {
		t.Errorf("lock: %v", err)
	}
	if err := mustLockFail(statebackend.Options{UnsafeLocking: true}); err != nil {
		t.Errorf("lock with the override: %v", err)
	}
}

func mustVerdict(t *testing.T) oci.Manifest {
	t.Helper()
	return must.Get(format.NewVerdict(format.Verdict{}))(t)
}
