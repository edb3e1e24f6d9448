// SPDX-License-Identifier: Apache-2.0

package portaltest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// Store is a store of instances in memory over the real machine.
type Store struct {
	Machine *lifecycle.Machine

	mu      sync.Mutex // guards the fields below
	doc     *lifecycle.Document
	now     time.Time
	commits int
	err     error // what Do returns without doing its work; nil: Do works
	lost    bool  // Do does its work, but its answer is lost
}

// NewStore returns an empty store. Its clock stands still.
func NewStore(l lifecycle.Limits) *Store {
	return &Store{
		Machine: &lifecycle.Machine{Limits: l}, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		doc: &lifecycle.Document{Version: 1, Templates: map[string]*template.Template{}, Records: map[string]*lifecycle.Record{}, Pools: map[string]*lifecycle.Pool{}, Requests: map[string]*lifecycle.Request{}},
	}
}

// View returns the view of a leader.
func (s *Store) View(context.Context) (lifecycle.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lifecycle.View{Document: s.doc, AsOf: s.now, Leading: true}, nil
}

// Do commits a command.
func (s *Store) Do(_ context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return lifecycle.Answer{}, s.err
	}
	doc, _, answer, err := s.Machine.Step(s.doc, c, s.now)
	if err != nil {
		return lifecycle.Answer{}, err
	}
	if doc != s.doc {
		s.doc = doc
		s.commits++
	}
	if s.lost {
		return lifecycle.Answer{}, lifecycle.ErrNoLeader
	}
	return answer, nil
}

// Commits returns how often the document changed.
func (s *Store) Commits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// Break makes Do return before without doing its work, or with after lose its answer. Nil
// and false repair it.
func (s *Store) Break(before error, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = before
	s.lost = after
}

// Advance moves the clock forward.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Now returns the time of the store.
func (s *Store) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Serve commits an event of the server.
func (s *Store) Serve(t testing.TB, e lifecycle.Event) {
	t.Helper()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(s.Commits()))
	if _, err := s.Do(t.Context(), lifecycle.Command{Event: e, Seed: sha256.Sum256(n[:])}); err != nil {
		t.Fatalf("%T: %v", e, err)
	}
}

// Record returns the record of an instance.
func (s *Store) Record(t testing.TB, id string) *lifecycle.Record {
	t.Helper()
	v, _ := s.View(t.Context())
	r := v.Document.Records[id]
	if r == nil {
		t.Fatalf("there is no instance %s", id)
	}
	return r
}

// Start starts the pending run, and returns its attempt.
func (s *Store) Start(t testing.TB, id string) lifecycle.Ref {
	t.Helper()
	s.Serve(t, lifecycle.Schedule{Concurrency: 100})
	u := s.Record(t, id).Run
	if u == nil || u.Attempt == 0 {
		t.Fatalf("instance %s has no run that was started", id)
	}
	ref := u.Ref(id)
	s.Serve(t, lifecycle.Started{Ref: ref, Handle: "test"})
	return ref
}

// Finish ends the pending or running run.
func (s *Store) Finish(t testing.TB, id string, res lifecycle.Result) {
	t.Helper()
	u := s.Record(t, id).Run
	if u == nil {
		t.Fatalf("instance %s has no run", id)
	}
	ref := u.Ref(id)
	if u.StartedAt.IsZero() {
		ref = s.Start(t, id)
	}
	s.Serve(t, lifecycle.Ended{Ref: ref, Result: res})
}
