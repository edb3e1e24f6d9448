// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestPause is the shortest time between two runs requested by annotation.
const requestPause = 30 * time.Second

// A failed run is repeated after minBackOff, then after twice as long each time, up to
// maxBackOff.
const (
	minBackOff = time.Second
	maxBackOff = 10 * time.Minute
)

// schedule knows when entries ran and when their next run is due. It is kept in memory:
// after a start every entry is due.
type schedule struct {
	mu    sync.Mutex // guards the fields below
	runs  map[types.NamespacedName]*past
	asked map[types.NamespacedName]bool // a Version, or the rights of the namespace, changed since the last run began
}

// past is the last run of an entry.
type past struct {
	uid        types.UID
	generation int64
	request    string
	at         time.Time
	next       time.Time // zero: no run without a request
	failed     int       // runs that failed in a row
	examined   time.Time // when the last run without a failure began; zero: there was none
}

// pending reports whether a run is due, and if not, how long it takes until one is (0:
// never).
func (s *schedule) pending(e *entry, now time.Time) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := client.ObjectKeyFromObject(e)
	p := s.runs[name]
	switch {
	case p == nil || p.uid != e.GetUID() || s.asked[name] || p.generation != e.GetGeneration():
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

// begin notes that a run begins: later calls of ask make another run due.
func (s *schedule) begin(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, name)
}

// ran records a run, and returns how long it takes until the next one. The interval varies
// at random by a tenth, so that entries created together do not stay in step.
func (s *schedule) ran(e *entry, failed bool, now time.Time) time.Duration {
	wait := e.run.Interval.Length()
	wait = wait*9/10 + rand.N(wait/5+1)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.note(e, now)
	if failed {
		wait = min(minBackOff<<min(p.failed, 20), maxBackOff)
		p.failed++
	} else {
		p.failed = 0
	}
	if wait > 0 {
		p.next = now.Add(wait)
	}
	return wait
}

// note stores a run of an entry at time now, and returns it.
func (s *schedule) note(e *entry, now time.Time) *past {
	if s.runs == nil {
		s.runs = map[types.NamespacedName]*past{}
	}
	name := client.ObjectKeyFromObject(e)
	p := &past{uid: e.GetUID(), generation: e.GetGeneration(), request: e.request(), at: now}
	if before := s.runs[name]; before != nil && before.uid == p.uid && before.generation == p.generation {
		p.failed = before.failed
		if before.request == p.request {
			p.examined = before.examined
		}
	}
	s.runs[name] = p
	return p
}

// examine records that the run which began at that time had no failure.
func (s *schedule) examine(e *entry, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.runs[client.ObjectKeyFromObject(e)]; p != nil {
		p.examined = began
	}
}

// examined is when the last run without a failure began, if the object and its request are
// still the same. Else it is zero, and the run examines everything.
func (s *schedule) examined(e *entry) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.runs[client.ObjectKeyFromObject(e)]
	if p == nil || p.uid != e.GetUID() || p.generation != e.GetGeneration() || p.request != e.request() {
		return time.Time{}
	}
	return p.examined
}

// park records a run that hit a rate limit: the next one is due after the pause.
func (s *schedule) park(e *entry, now time.Time, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(e, now).next = now.Add(pause)
}

// ask makes a run due, even while one is under way.
func (s *schedule) ask(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[types.NamespacedName]bool{}
	}
	s.asked[name] = true
}

func (s *schedule) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, name)
	delete(s.asked, name)
}
