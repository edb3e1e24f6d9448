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

// A run that failed is repeated after the least of these, then after twice as long, up
// to the most.
const (
	minBackOff = time.Second
	maxBackOff = 10 * time.Minute
)

// schedule knows when entries ran and when the next run is pending. It is kept in memory:
// after a start everything is due.
type schedule struct {
	mu    sync.Mutex // guards the fields below
	runs  map[types.NamespacedName]*past
	asked map[types.NamespacedName]bool // somebody changed a Version, or what the namespace may, since the last run began
}

// past is the last run of an entry.
type past struct {
	uid        types.UID
	generation int64
	request    string
	at         time.Time
	next       time.Time // zero: none by itself
	failed     int       // runs that failed in a row
	examined   time.Time // when the last run began in which nothing failed; zero: there was none
}

// pending reports whether a run is pending, and else how long it takes until one is; 0 for
// never.
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

// begin notes that a run begins: who asks from now on asks for another one.
func (s *schedule) begin(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, name)
}

// ran notes a run, and returns how long it takes until the next one. A tenth of the
// interval is by chance, so that entries made at once do not stay together.
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

// note is what there is to know of a run of an entry that was just now.
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

// examine notes a run in which nothing failed.
func (s *schedule) examine(e *entry, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.runs[client.ObjectKeyFromObject(e)]; p != nil {
		p.examined = began
	}
}

// examined is when the last run began in which nothing failed, of this object as it is
// and as somebody asked for it: else it is zero, and the run examines everything.
func (s *schedule) examined(e *entry) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.runs[client.ObjectKeyFromObject(e)]
	if p == nil || p.uid != e.GetUID() || p.generation != e.GetGeneration() || p.request != e.request() {
		return time.Time{}
	}
	return p.examined
}

// park notes a run that met a limit: the next one is due after the pause.
func (s *schedule) park(e *entry, now time.Time, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(e, now).next = now.Add(pause)
}

// ask makes a run due, also while one goes on.
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
