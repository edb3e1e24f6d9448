// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
)

// memoryStore is a Store in memory that leads while a test lets it: each change is a commit, whose
// effects follow in order. Before it first leads it accepts commands, and delivers nothing.
type memoryStore struct {
	machine *lifecycle.Machine
	now     func() time.Time

	mu      sync.Mutex // guards the fields below
	doc     *lifecycle.Document
	commits int
	leads   bool
	ended   bool // it has led, but no longer leads
	changed chan struct{}
	effects []lifecycle.Effect // not yet delivered
	some    chan struct{}      // there are some
	// lose drops committed effects, as a dying leader does; nil: none.
	lose       func(lifecycle.Effect) bool
	reconciles []lifecycle.Reconcile // each of which was a commit
}

func newMemoryStore(now func() time.Time) *memoryStore {
	return &memoryStore{
		machine: &lifecycle.Machine{}, now: now,
		doc:     &lifecycle.Document{Version: 1},
		changed: make(chan struct{}), some: make(chan struct{}, 1),
	}
}

func (m *memoryStore) View(context.Context) (lifecycle.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lifecycle.View{Document: m.doc, AsOf: m.now(), Leading: m.leads}, nil
}

func (m *memoryStore) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memoryStore) Do(_ context.Context, c lifecycle.Command) (lifecycle.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return lifecycle.Answer{}, lifecycle.ErrNoLeader
	}
	after, effects, answer, err := m.machine.Step(m.doc, c, m.now())
	if err != nil || after == m.doc {
		return answer, err
	}
	m.doc = after
	m.commits++
	if p, ok := c.Event.(lifecycle.Reconcile); ok {
		m.reconciles = append(m.reconciles, p)
	}
	for _, e := range effects {
		if m.lose == nil || !m.lose(e) {
			m.effects = append(m.effects, e)
		}
	}
	m.tell()
	return answer, nil
}

// tell reports a change to waiting callers. The caller holds mu.
func (m *memoryStore) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
	select {
	case m.some <- struct{}{}:
	default:
	}
}

// lead makes the store lead until ctx ends, and delivers effects, outstanding ones first.
func (m *memoryStore) lead(ctx context.Context, begin func(context.Context, []lifecycle.Effect)) {
	m.mu.Lock()
	m.leads, m.ended = true, false
	m.effects = m.machine.Outstanding(m.doc)
	m.tell()
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leads, m.ended, m.effects = false, true, nil
		m.tell()
	}()
	for {
		m.mu.Lock()
		list := m.effects
		m.effects = nil
		m.mu.Unlock()
		if len(list) > 0 {
			begin(ctx, list)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-m.some:
		}
	}
}

// must commits an event, which has to succeed, and returns the record in the answer.
func (m *memoryStore) must(t *testing.T, e lifecycle.Event, who lifecycle.Actor) *lifecycle.Record {
	t.Helper()
	a, err := m.Do(t.Context(), m.command(e, who))
	if err != nil {
		t.Fatalf("%T: %v", e, err)
	}
	return a.Record
}

// command makes a command from an event, with a unique seed.
func (m *memoryStore) command(e lifecycle.Event, who lifecycle.Actor) lifecycle.Command {
	m.mu.Lock()
	defer m.mu.Unlock()
	seed := sha256.Sum256([]byte(strconv.Itoa(m.commits) + m.now().String() + who.Subject))
	return lifecycle.Command{Event: e, Actor: who, Seed: seed}
}

// record returns an instance as committed last; nil: there is none.
func (m *memoryStore) record(id string) *lifecycle.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc.Records[id]
}

// count returns how many commits there were.
func (m *memoryStore) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits
}
