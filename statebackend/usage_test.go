// SPDX-License-Identifier: Apache-2.0

package statebackend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// countUsage records how many versions there are, and a filler.
func countUsage(filler string) func(state, before []byte) []byte {
	return func(_, before []byte) []byte {
		return fmt.Appendf(nil, `{"n":%d,"filler":%q}`, bytes.Count(before, []byte("1"))+1, filler)
	}
}

func usageOf(t *testing.T, s *statebackend.Store, n int64) string {
	t.Helper()
	return string(must.Get(statebackend.ReadUsage(t.Context(), s, "prod", n))(t))
}

// TestUsage: a version has its document, also compressed, sealed, copied by a takeover, encrypted
// with another key, restored and replicated. Nobody reads it without the key of the state.
func TestUsage(t *testing.T) {
	large := strings.Repeat("0123456789", 3000)
	const first, second = `{"n":1,"filler":""}`, `{"n":2,"filler":""}`
	ocitest.Each(t, func(t *testing.T, host string) {
		s := newStore(t, host, nil, statebackend.Options{Usage: countUsage("")})
		mustStore(t, s, "prod", testState(1, 0), testState(2, 0))
		must.Equal(t, "first", usageOf(t, s, 1), first)
		must.Equal(t, "second, after the first", usageOf(t, s, 2), second)
		taken := must.Get(s.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
		mustUnlock(t, taken)
		must.Equal(t, "taken over", usageOf(t, s, must.Get(s.Current(t.Context(), "prod"))(t).N), second)

		l := mustLock(t, s, "prod", "c")
		v := must.Get(l.Restore(statebackend.WithUsageOf(t.Context(), s, "prod", 1), testState(1, 0), false))(t)
		must.Equal(t, "restored", usageOf(t, s, v.N), first)
		v = must.Get(l.Put(statebackend.WithUsage(t.Context(), countUsage(large)), testState(9, 0)))(t)
		must.Equal(t, "compressed", len(usageOf(t, s, v.N)), len(large)+len(first))
		v = must.Get(l.Put(statebackend.WithUsage(t.Context(), countUsage(strings.Repeat(large, 10))), testState(10, 0)))(t)
		must.Equal(t, "too large", usageOf(t, s, v.N), "")
		must.Succeed(t, l.Delete(t.Context()))
		mustUnlock(t, l)
		list := must.Get(s.List(t.Context()))(t)
		for _, tag := range list.Newest() {
			if h, b, err := list.Made(t.Context(), tag); err != nil || h.Workspace != "" && h.Workspace != "prod" || b != nil {
				t.Errorf("deleted: %+v %s %v", h, b, err)
			}
		}
	})
	host := ocitest.New(t, ocitest.Quirks{})
	key, other := newSealer(t, "k"), newSealer(t, "n")
	o := statebackend.Options{Sealer: key, Usage: countUsage(large)}
	s := newStore(t, host, nil, o)
	mustStore(t, s, "prod", testState(1, 0))
	clear := newStore(t, host, nil, statebackend.Options{})
	for name, reader := range map[string]*statebackend.Store{"no key": clear, "another key": newStore(t, host, nil, statebackend.Options{Sealer: other})} {
		must.Equal(t, name, usageOf(t, reader, 1), "")
	}
	m := must.Get(s.Repo().Fetch(t.Context(), "state-prod-v1"))(t)
	if bytes.Contains(m.Bytes, []byte("0123456789")) || bytes.Contains(m.Bytes, []byte("filler")) {
		t.Error("the document is in clear")
	}
	taken := must.Get(s.TakeOver(t.Context(), "prod", statebackend.LockInfo{ID: "b"}))(t)
	n := must.Get(s.Current(t.Context(), "prod"))(t).N
	must.Equal(t, "sealed again", len(usageOf(t, s, n)), len(large)+len(first))
	mustUnlock(t, taken)
	l := mustLock(t, newStore(t, host, nil, statebackend.Options{Sealer: twoKeys{key, other}}), "prod", "c")
	must.Succeed(t, l.Rekey(t.Context(), n))
	mustUnlock(t, l)
	must.Equal(t, "the old key", usageOf(t, s, n), "")
	must.Equal(t, "the new key", len(usageOf(t, newStore(t, host, nil, statebackend.Options{Sealer: other}), n)), len(large)+len(first))
	list := must.Get(newStore(t, host, nil, statebackend.Options{Sealer: other}).List(t.Context()))(t)
	h, b, err := list.Made(t.Context(), list.Newest()[0])
	if err != nil || h.N != n || len(b) != len(large)+len(first) {
		t.Errorf("newest: %+v, %d bytes, %v", h, len(b), err)
	}

	// A state that the tool encrypted reveals nothing without a key of okara's.
	mustStore(t, newStore(t, host, nil, statebackend.Options{Usage: countUsage("")}), "tool", []byte(`{"serial":1,"lineage":"x","meta":{},"encrypted_data":"x","encryption_version":"v0"}`))
	if b, err := statebackend.ReadUsage(t.Context(), clear, "tool", 1); err != nil || b != nil {
		t.Errorf("encrypted by the tool: %s, %v", b, err)
	}
}

// TestRecordAgain: a run that changed nothing records what it used, and asks the registry only if that differs.
func TestRecordAgain(t *testing.T) {
	key := newSealer(t, "k")
	for name, o := range map[string]statebackend.Options{"clear": {}, "sealed": {Sealer: key}} {
		t.Run(name, func(t *testing.T) {
			c := &ocitest.Count{}
			host := ocitest.New(t, ocitest.Quirks{})
			o.Usage = countUsage("")
			s := newStore(t, host, c, o)
			mustStore(t, s, "prod", testState(1, 0))
			run := func(workspace string) *statebackend.Lock {
				l := mustLock(t, s, workspace, "run")
				must.Get(l.Head(t.Context()))(t)
				_, _, _ = l.Get(t.Context()) // as the tool does, also of a state that it encrypts
				mustUnlock(t, l)
				c.Take()
				return l
			}
			again := func(l *statebackend.Lock, document string) bool {
				return recordAgain(t, l, document)
			}
			must.Equal(t, "the same", again(run("prod"), `{"n":1,"filler":""}`), false)
			must.Match(t, "requests", withPing(c.Take()), map[string]int{"GET ping": 0})
			must.Equal(t, "another", again(run("prod"), `{"n":5}`), true)
			must.Equal(t, "recorded", usageOf(t, s, 2), `{"n":5}`)
			state, v, err := s.Get(t.Context(), "prod")
			if err != nil || v.N != 2 || !bytes.Equal(state, testState(1, 0)) {
				t.Errorf("version %d, %v: %s", v.N, err, state)
			}
			late := run("prod")
			mustStore(t, s, "prod", testState(2, 0))
			must.Equal(t, "another client wrote", again(late, `{"n":6}`), false)
			must.Equal(t, "newest", must.Get(s.Current(t.Context(), "prod"))(t).N, int64(3))

			mustStore(t, s, "tool", []byte(`{"serial":1,"lineage":"x","meta":{},"encrypted_data":"x","encryption_version":"v0"}`))
			must.Equal(t, "encrypted by the tool", again(run("tool"), `{"n":7}`), o.Sealer != nil)
			wrote := mustLock(t, s, "prod", "writes")
			must.Get(wrote.Put(t.Context(), testState(3, 0)))(t)
			mustUnlock(t, wrote)
			must.Equal(t, "a run that wrote", again(wrote, `{"n":8}`), false)
		})
	}
	host := ocitest.New(t, ocitest.Quirks{})
	mustStore(t, newStore(t, host, nil, statebackend.Options{Sealer: key, Usage: countUsage("")}), "prod", testState(1, 0))
	l := mustLock(t, newStore(t, host, nil, statebackend.Options{Sealer: twoKeys{newSealer(t, "n"), key}}), "prod", "run")
	must.Get(l.Head(t.Context()))(t)
	mustUnlock(t, l)
	large := make([]byte, 18<<10)
	rand.NewChaCha8([32]byte{}).Read(large)
	must.Equal(t, "a record too large once sealed", recordAgain(t, l, fmt.Sprintf("%x", large)[:35<<10]), false)
}

func recordAgain(t *testing.T, l *statebackend.Lock, document string) bool {
	t.Helper()
	wrote, held, locked, err := statebackend.RecordAgain(t.Context(), l, func(before []byte) []byte {
		if string(before) == document {
			return nil
		}
		return []byte(document)
	}, 0, nil)
	if held != nil || locked != nil || err != nil {
		t.Fatal(held, locked, err)
	}
	return wrote
}

// TestRecordAgainKeepsHistory: however often a state is recorded again, every state stays, and every version
// that a run wrote.
func TestRecordAgainKeepsHistory(t *testing.T) {
	s := newStore(t, ocitest.New(t, ocitest.Quirks{}), nil, statebackend.Options{MaxVersions: 3, Usage: countUsage("")})
	mustStore(t, s, "prod", testState(1, 0), testState(2, 0), testState(3, 0))
	versions := func() string { return fmt.Sprint(must.Get(s.List(t.Context()))(t).Numbers("prod")) }
	for i := range 4 {
		l := mustLock(t, s, "prod", "run")
		must.Get(l.Head(t.Context()))(t)
		mustUnlock(t, l)
		must.Equal(t, "recorded", recordAgain(t, l, fmt.Sprintf(`{"n":%d}`, i)), true)
		must.Equal(t, "versions", versions(), fmt.Sprint([]int{4 + i, 3, 2, 1}))
	}
	mustStore(t, s, "prod", testState(4, 0))
	must.Equal(t, "after a change", versions(), "[8 3 2]")
	must.Equal(t, "record", usageOf(t, s, 3), `{"n":1,"filler":""}`)
}
