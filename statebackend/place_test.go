// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// sealedStore opens a repository with keys.
func sealedStore(t *testing.T, host, name string, o statebackend.Options) *statebackend.Store {
	t.Helper()
	if o.Sealer == nil {
		o.Sealer = newSealer(t, "k")
	}
	o.Tool = "test"
	return openStore(t, host, name, o)
}

func openStore(t *testing.T, host, name string, o statebackend.Options) *statebackend.Store {
	t.Helper()
	r := must.Get(oci.OpenRepo(host+"/"+name, oci.Options{PlainHTTP: true}))(t)
	return statebackend.New(r, o)
}

func secret(serial int, text string) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"l","outputs":{"text":%q}}`, serial, text)
}

// mustStore writes states to a workspace, one version each.
func mustStore(t testing.TB, s *statebackend.Store, ws string, states ...[]byte) {
	t.Helper()
	l := mustLock(t, s, ws, "writer of "+ws)
	for _, state := range states {
		mustPut(t, l, state)
	}
	mustUnlock(t, l)
}

// forge puts the manifest under one tag under others, after change has edited it.
func forge(t *testing.T, from *statebackend.Store, tag string, to *statebackend.Store, change func(*format.StateManifest), tags ...string) {
	t.Helper()
	m, err := from.Repo().Fetch(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	sm := must.Get(format.ParseState(m))(t)
	stored := must.Get(from.Repo().ReadBlob(t.Context(), sm.Layer, 1<<20))(t)
	change(&sm)
	for _, b := range []oci.Blob{oci.EmptyBlob(), oci.BytesBlob(sm.Layer.MediaType, stored)} {
		must.Succeed(t, to.Repo().PushBlob(t.Context(), b))
	}
	if m, err = format.NewStateManifest(sm); err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		must.Succeed(t, to.Repo().PutTag(t.Context(), tag, m))
	}
}

// A writer without key makes no reader with keys accept a state of another place, by any manifest.
//
// Shows: mistakes 3 | a sealed state could be put in the place of another one, or of a newer one |
// a reader with keys accepts only data that was sealed for this repository, workspace and version,
// and nothing unencrypted
func TestSealedStateStaysInItsPlace(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	prod := []string{"state-prod", "state-prod-v3"}
	other := sealedStore(t, host, "infra/other", statebackend.Options{})
	mustStore(t, other, "prod", secret(1, "o1"), secret(2, "o2"), secret(3, "other"))
	plain := openStore(t, host, "infra/plain", statebackend.Options{})
	mustStore(t, plain, "prod", secret(1, "p1"), secret(2, "p2"), secret(9, "forged"))
	deleted := openStore(t, host, "infra/deleted", statebackend.Options{})
	l := mustLock(t, deleted, "prod", "x")
	must.Succeed(t, l.Delete(t.Context()))
	mustUnlock(t, l)
	for i, tc := range []struct {
		name  string
		from  *statebackend.Store // nil: the repository itself
		tag   string
		forge func(*format.StateManifest)
	}{
		{"an older version under a new number", nil, "state-prod-v1", func(m *format.StateManifest) { m.N = 3 }},
		{"an older version that claims the number", nil, "state-prod-v1", func(m *format.StateManifest) { m.N, m.Origin.Version = 3, 3 }},
		{"another workspace's", nil, "state-dev-v3", func(m *format.StateManifest) { m.Workspace = "prod" }},
		{"another workspace's that claims to be ours", nil, "state-dev-v3", func(m *format.StateManifest) { m.Workspace, m.Origin.Workspace = "prod", "prod" }},
		{"another repository's", other, "state-prod-v3", func(*format.StateManifest) {}},
		{"another repository's that claims to be ours", other, "state-prod-v3", func(m *format.StateManifest) { m.Origin.Repository = "infra/r" }},
		{"one in clear", plain, "state-prod-v3", func(*format.StateManifest) {}},
		{"one in clear that says that it is sealed", plain, "state-prod-v3", func(m *format.StateManifest) {
			m.Envelope = map[string]string{"vnd.okara.state.envelope": "1", "vnd.okara.state.envelope.wraps": "[]"}
			m.Layer.MediaType += "+encrypted"
		}},
		{"no state, in clear", deleted, "state-prod-v1", func(m *format.StateManifest) { m.N = 3 }},
		{"no state, said of a sealed one", nil, "state-prod-v2", func(m *format.StateManifest) { m.N, m.Empty, m.Deleted = 3, true, true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := fmt.Sprintf("infra/r%d", i)
			s := sealedStore(t, host, name, statebackend.Options{})
			mustStore(t, s, "dev", secret(1, "d1"), secret(2, "d2"), secret(3, "dev"))
			mustStore(t, s, "prod", secret(1, "prod1"), secret(2, "prod2"), secret(3, "prod3"))
			from := tc.from
			if from == nil {
				from = s
			}
			forge(t, from, tc.tag, s, func(m *format.StateManifest) {
				tc.forge(m)
				if m.Origin.Repository == "infra/r" {
					m.Origin.Repository = name
				}
			}, prod...)
			refused := func(what string, state []byte, err error) {
				t.Helper()
				if err == nil || errors.Is(err, oci.ErrNotFound) || len(state) > 0 {
					t.Errorf("%s: %q, %v", what, state, err)
				}
			}
			for _, strict := range []bool{false, true} {
				state, _, err := sealedStore(t, host, name, statebackend.Options{StrictReads: strict}).Get(t.Context(), "prod")
				refused("read", state, err)
			}
			state, _, err := s.GetVersion(t.Context(), "prod", 3)
			refused("version 3", state, err)
			l := mustLock(t, sealedStore(t, host, name, statebackend.Options{}), "prod", "victim")
			state, _, err = l.Get(t.Context())
			refused("read under a lock", state, err)
			_, same, err := l.Succeeds(t.Context(), secret(4, "next"))
			refused("successor", nil, err)
			_, err = l.Head(t.Context())
			refused("head", nil, err)
			if same {
				t.Error("the same state")
			}
			_, err = sealedStore(t, host, name, statebackend.Options{}).TakeOver(t.Context(), "prod", statebackend.LockInfo{})
			refused("takeover", nil, err)
			must.Equal(t, "workspaces", strings.Join(workspaces(t, s), " "), "dev prod")
		})
	}
}

// A takeover seals the head again under its own number, and also a version without
// state; a version whose number alone was changed does not open.
//
// Shows: mistakes 3
func TestTakeOverSealsAnew(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	s := sealedStore(t, host, "infra/state", statebackend.Options{})
	mustStore(t, s, "prod", secret(1, "one"))
	mustLock(t, s, "prod", "gone")
	l := must.Get(sealedStore(t, host, "infra/state", statebackend.Options{}).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	state, v, err := l.Get(t.Context())
	if err != nil || !bytes.Equal(state, secret(1, "one")) || v.N < 100_000 || !v.Encrypted || v.Serial != 1 {
		t.Errorf("%q, %+v, %v", state, v, err)
	}
	m := must.Get(s.Repo().Fetch(t.Context(), fmt.Sprintf("state-prod-v%d", v.N)))(t)
	if sm, err := format.ParseState(m); err != nil || sm.Origin.Version != v.N || sm.Origin.Repository != "infra/state" {
		t.Errorf("origin %+v, %v", sm.Origin, err)
	}
	must.Succeed(t, l.Delete(t.Context()))
	mustUnlock(t, l)
	mustLock(t, s, "prod", "gone again")
	if l, err = sealedStore(t, host, "infra/state", statebackend.Options{}).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*statebackend.Store{s, openStore(t, host, "infra/state", statebackend.Options{})} {
		if _, _, err := s.Get(t.Context(), "prod"); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("deleted workspace: %v", err)
		}
	}
	mustUnlock(t, l)
	mustStore(t, s, "new", secret(1, "x"))
	if got := workspaces(t, s); len(got) != 1 || got[0] != "new" {
		t.Errorf("workspaces %q", got)
	}
	mustLock(t, s, "new", "gone")
	if _, err := openStore(t, host, "infra/state", statebackend.Options{}).TakeOver(t.Context(), "new", statebackend.LockInfo{}); err == nil {
		t.Error("took over a sealed state without a key")
	}
}

// Only a store with Unsealed set reads versions in clear and writes above them, and it
// does not seal existing ones.
//
// Shows: mistakes 3
func TestUnsealed(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	plain := openStore(t, host, "infra/state", statebackend.Options{})
	mustStore(t, plain, "prod", secret(1, "one"))
	mustLock(t, plain, "prod", "gone")
	strict := sealedStore(t, host, "infra/state", statebackend.Options{})
	if _, _, err := strict.Get(t.Context(), "prod"); !errors.Is(err, statebackend.ErrUnsealed) || !strings.Contains(states.Remedy(err), "okara state push") {
		t.Errorf("read: %v", err)
	}
	if _, err := strict.TakeOver(t.Context(), "prod", statebackend.LockInfo{}); !errors.Is(err, statebackend.ErrUnsealed) {
		t.Errorf("takeover: %v", err)
	}
	l := must.Get(sealedStore(t, host, "infra/state", statebackend.Options{Unsealed: true}).TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "push"}))(t)
	if _, _, err := strict.Get(t.Context(), "prod"); !errors.Is(err, statebackend.ErrUnsealed) {
		t.Errorf("the takeover vouched for a state in clear: %v", err)
	}
	if _, same, err := l.Succeeds(t.Context(), secret(1, "one")); same || err != nil {
		t.Errorf("the same state in clear: %t, %v", same, err)
	}
	if _, _, err := l.Succeeds(t.Context(), secret(1, "two")); !errors.Is(err, statebackend.ErrStale) {
		t.Errorf("another state of that serial: %v", err)
	}
	mustPut(t, l, secret(1, "one"))
	mustUnlock(t, l)
	if got, v, err := strict.Get(t.Context(), "prod"); err != nil || !v.Encrypted || !bytes.Equal(got, secret(1, "one")) {
		t.Errorf("after push: %q, %+v, %v", got, v, err)
	}
}
