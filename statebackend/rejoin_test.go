// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"errors"
	"math"
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

// TestResumeBesideDanglingClaim joins a lock beside an unreadable first claim, as after a power
// cut; the next write reaches a third server, also once a command ended that claim.
//
// Shows: servers 7
func TestResumeBesideDanglingClaim(t *testing.T) {
	g := &ocitest.DanglingTags{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		g.Add("infra/state", format.StateTag{Kind: format.LockClaim, Fragment: "prod", N: 1, X: format.ClaimX("a", 7)}.String())
		a, b := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{}), newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		mustLock(t, a, "prod", "a")
		l, err := b.Resume(t.Context(), "prod", "a")
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, l, []byte("1"))
		c := newStore(t, abandonedHost, ocitest.Direct{Handler: g}, statebackend.Options{})
		must.Succeed(t, c.ForceUnlock(t.Context(), "prod", format.ClaimX("a", 7)))
		if l, err = c.Resume(t.Context(), "prod", "a"); err != nil {
			t.Fatal(err)
		}
		mustPut(t, l, []byte("2"))
		if _, err := b.Release(t.Context(), "prod", "a"); err != nil {
			t.Error(err)
		}
		mustUnlock(t, mustLock(t, a, "prod", "next"))
	})
}

// TestResumeAfterSecondLock: a claim from before a forced end arrives late; the client holds its
// second lock, on any server.
//
// Shows: servers 7
func TestResumeAfterSecondLock(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		mustLock(t, a, "prod", "a")
		_, m := claimOf(t, a)
		must.Succeed(t, b.ForceUnlock(t.Context(), "prod", "a"))
		mustLock(t, b, "prod", "a")
		late := format.StateTag{Kind: format.LockClaim, Fragment: "prod", N: 1, X: format.ClaimX("a", 7)}
		must.Succeed(t, a.Repo().PutTag(t.Context(), late.String(), m))
		l := must.Get(newStore(t, host, nil, statebackend.Options{}).Resume(t.Context(), "prod", "a"))(t)
		mustPut(t, l, []byte("1"))
	})
}

// TestResumedWhileRegistryAway: while the registry refuses, the lock is not called lost, since
// tools would not repeat.
//
// Shows: servers 7
func TestResumedWhileRegistryAway(t *testing.T) {
	const never = math.MaxInt
	h := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		f := &ocitest.Fault{Base: ocitest.Direct{Handler: h}, Match: ocitest.On("GET", "tags"), Times: -1, Nth: never, Do: ocitest.Status(503, -1)}
		a, b := newStore(t, abandonedHost, f, statebackend.Options{}), newStore(t, abandonedHost, ocitest.Direct{Handler: h}, statebackend.Options{})
		put := func(s *statebackend.Store, state string) error {
			return s.Resumed(t.Context(), "prod", "a", func(l *statebackend.Lock) error {
				_, err := l.Put(t.Context(), []byte(state))
				return err
			})
		}
		mustLock(t, a, "prod", "a")
		must.Succeed(t, put(b, "1"))
		f.Nth = f.Seen() + 2 // the list by which the lock is joined again
		if err := put(a, "2"); !errors.Is(err, oci.ErrUnavailable) || errors.Is(err, statebackend.ErrLockLost) {
			t.Errorf("the registry is away: %v", err)
		}
		f.Nth = never
		if err := put(a, "2"); err != nil {
			t.Error(err)
		}
		must.Equal(t, "state", mustGet(t, b, "prod"), "2")
	})
}

// TestLockAgainBesideOrphan: a claim without tombstone of a forced lock holds nothing, and answers
// no second LOCK.
//
// Shows: servers 7
func TestLockAgainBesideOrphan(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b, c := newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{}), newStore(t, host, nil, statebackend.Options{})
		mustLock(t, a, "prod", "a")
		tag, _ := claimOf(t, a)
		must.Get(b.Resume(t.Context(), "prod", "a"))(t)
		end := must.Get(format.NewLockManifest(format.LockManifest{
			Kind: format.KindTombstone, Workspace: "prod", Fence: tag.N, Nonce: tag.X, Reason: format.ReasonForced, Created: time.Now(),
		}))(t)
		tag.Kind = format.ForceTombstone
		must.Succeed(t, a.Repo().PutTag(t.Context(), tag.String(), end))
		l := mustLock(t, b, "prod", "a")
		if _, err := c.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "c"}); !isLockedBy(err, "a") {
			t.Errorf("lock beside the second lock: %v", err)
		}
		mustPut(t, l, []byte("1"))
	})
}

// claimOf returns the claim of prod with the highest number.
func claimOf(t *testing.T, s *statebackend.Store) (format.StateTag, oci.Manifest) {
	t.Helper()
	list := must.Get(s.Repo().Snapshot(t.Context()))(t)
	claims := slices.DeleteFunc(list.Tags, func(tag string) bool { return !strings.HasPrefix(tag, "locked-prod-") })
	newest := slices.Max(claims)
	m := must.Get(s.Repo().Fetch(t.Context(), newest))(t)
	tag, _ := format.ParseStateTag(newest)
	return tag, m
}

// beforePut calls do once before a PUT of a version.
type beforePut struct{ do func() }

func (b *beforePut) RoundTrip(r *http.Request) (*http.Response, error) {
	if do := b.do; do != nil && r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/state-prod-v") {
		b.do = nil
		do()
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestLateSeal: two servers answer a LOCK after a forced end and copy the state. The client writes,
// then the slower copy arrives: what was written stays the newest, for everybody.
//
// Shows: servers 7
func TestLateSeal(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		first := newStore(t, host, nil, statebackend.Options{})
		mustPut(t, mustLock(t, first, "prod", "first"), []byte("1"))
		forced, m := claimOf(t, first) // as an older program ends it, without a copy
		forced.Kind = format.ForceTombstone
		must.Succeed(t, first.Repo().PutTag(t.Context(), forced.String(), m))
		fast, slow := &beforePut{}, &beforePut{}
		a, b := newStore(t, host, fast, statebackend.Options{}), newStore(t, host, slow, statebackend.Options{})
		at, goOn, done := make(chan struct{}), make(chan struct{}), make(chan *statebackend.Lock, 1)
		slow.do = func() { close(at); <-goOn }
		fast.do = func() { // its claim is there
			go func() {
				l, err := b.Lock(t.Context(), "prod", statebackend.LockInfo{ID: "a"})
				if err != nil {
					t.Error(err)
				}
				done <- l
			}()
			<-at
		}
		l := mustLock(t, a, "prod", "a")
		written := mustPut(t, l, []byte("2"))
		close(goOn)
		late := <-done
		if late == nil {
			return
		}
		if got, v, err := late.Get(t.Context()); err != nil || string(got) != "2" || v.N != written.N {
			t.Errorf("the slower server reads %q, version %d, %v", got, v.N, err)
		}
		must.Equal(t, "read", mustGet(t, newStore(t, host, nil, statebackend.Options{StrictReads: true}), "prod"), "2")
		mustPut(t, late, []byte("3"))
		if _, err := b.Release(t.Context(), "prod", "a"); err != nil {
			t.Error(err)
		}
		next := mustLock(t, first, "prod", "next")
		if got, _, err := next.Get(t.Context()); err != nil || string(got) != "3" {
			t.Errorf("the next holder reads %q, %v", got, err)
		}
	})
}

// TestWriteRepeatedAfterDeath: a server died between a version and state-W, and the client repeated
// the write elsewhere. What that one acknowledges is what any server of the lock reads.
//
// Shows: servers 2
func TestWriteRepeatedAfterDeath(t *testing.T) {
	killed := func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errors.New("killed") }
	for name, fault := range map[string]ocitest.Act{"moves": nil, "never moves": ocitest.Status(http.StatusMethodNotAllowed, 0)} {
		t.Run(name, func(t *testing.T) {
			ocitest.Each(t, func(t *testing.T, host string) {
				store := func(do ocitest.Act) *statebackend.Store {
					f := &ocitest.Fault{Times: -1, Do: do, Match: func(r *http.Request) bool {
						return do != nil && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/state-prod")
					}}
					return newStore(t, host, f, statebackend.Options{})
				}
				write := func(l *statebackend.Lock) error {
					_, err := l.Push(t.Context(), testState(2, 10), false)
					return err
				}
				la := mustLock(t, store(fault), "prod", "a")
				mustPut(t, la, testState(1, 10))
				for _, do := range []ocitest.Act{killed, fault} {
					if fault != nil {
						do = fault
					}
					must.Succeed(t, store(do).Resumed(t.Context(), "prod", "a", write))
				}
				if v, err := la.Latest(t.Context()); !errors.Is(err, statebackend.ErrLockLost) {
					t.Errorf("the first server reads serial %d, %v after another one acknowledged serial 2", v.Serial, err)
				}
			})
		})
	}
}
