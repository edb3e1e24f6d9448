// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestPause is how often a request by annotation is heard.
const requestPause = 30 * time.Second

// schedule knows when entries ran and when the next run is due. It is kept in memory:
// after a start everything is due.
type schedule struct {
	mu   sync.Mutex // guards the field below
	runs map[types.NamespacedName]*past
}

// past is the last run of an entry.
type past struct {
	uid        types.UID
	generation int64
	request    string
	at         time.Time
	next       time.Time // zero: none by itself
	again      bool      // it failed, or somebody changed a Version
}

// due reports whether a run is due, and else how long it takes until one is; 0 for
// never.
func (s *schedule) due(e *entry, now time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.runs[client.ObjectKeyFromObject(e)]
	switch {
	case p == nil || p.uid != e.GetUID() || p.again || p.generation != e.GetGeneration():
		return true, 0
	case e.request() != p.request:
		wait := p.at.Add(requestPause).Sub(now)
		return wait <= 0, max(wait, 0)
	case p.next.IsZero():
		return false, 0
	}
	wait := p.next.Sub(now)
	return wait <= 0, max(wait, 0)
}

// ran notes a run, and returns how long it takes until the next one. A tenth of the
// interval is by chance, so that entries made at once do not stay together.
func (s *schedule) ran(e *entry, failed bool, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[types.NamespacedName]*past{}
	}
	p := &past{uid: e.GetUID(), generation: e.GetGeneration(), request: e.request(), at: now, again: failed}
	wait := e.run.Interval.Length()
	if wait > 0 {
		wait = wait*9/10 + rand.N(wait/5)
		p.next = now.Add(wait)
	}
	s.runs[client.ObjectKeyFromObject(e)] = p
	return wait
}

// park notes a run that met a limit: the next one is due after the pause.
func (s *schedule) park(e *entry, now time.Time, pause time.Duration) {
	s.ran(e, false, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[client.ObjectKeyFromObject(e)].next = now.Add(pause)
}

// ask makes a run due.
func (s *schedule) ask(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.runs[name]; p != nil {
		p.again = true
	}
}

func (s *schedule) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, name)
}
