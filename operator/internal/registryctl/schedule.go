// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestPause is the shortest time between two runs requested by annotation.
const requestPause = 30 * time.Second

// A failed run is repeated after minBackOff, doubled up to maxBackOff.
const (
	minBackOff = time.Second
	maxBackOff = 10 * time.Minute
)

// recordPause is how old status.lastSyncTime gets before a run that found nothing new writes it.
const recordPause = 24 * time.Hour

// pastRuns knows the last run of each entry. It is kept in memory: the first run of an entry after a
// start examines everything.
type pastRuns struct {
	mu   sync.Mutex // guards the field below
	runs map[types.NamespacedName]past
}

// past is the last run of an entry.
type past struct {
	uid        types.UID
	generation int64
	request    string
	at         time.Time
	examined   time.Time // when the last run without a failure began; zero: there was none
}

// of returns the last run of an entry as it is now, apart from its request.
func (s *pastRuns) of(e *entry) (past, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.runs[client.ObjectKeyFromObject(e)]
	return p, ok && p.uid == e.GetUID() && p.generation == e.GetGeneration()
}

// tooSoon is how long a run that a user requested has to wait.
func (s *pastRuns) tooSoon(e *entry, now time.Time) time.Duration {
	p, ok := s.of(e)
	if !ok || p.request == e.requestedRun() {
		return 0
	}
	return p.at.Add(requestPause).Sub(now)
}

// examined is when the last good run began, if nothing changed; zero: all is examined.
func (s *pastRuns) examined(e *entry) time.Time {
	p, ok := s.of(e)
	if !ok || p.request != e.requestedRun() {
		return time.Time{}
	}
	return p.examined
}

// note stores a run that ended, and reports whether it was the first of this object and generation.
func (s *pastRuns) note(e *entry, now time.Time, succeeded bool) (first bool) {
	had, again := s.of(e)
	p := past{uid: e.GetUID(), generation: e.GetGeneration(), request: e.requestedRun(), at: now}
	switch {
	case succeeded:
		p.examined = e.began
	case again && had.request == p.request:
		p.examined = had.examined
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[types.NamespacedName]past{}
	}
	s.runs[client.ObjectKeyFromObject(e)] = p
	return !again
}

// begin reports whether this is the first that is known of an entry, which is known from now on.
func (s *pastRuns) begin(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := client.ObjectKeyFromObject(e)
	if _, known := s.runs[name]; known {
		return false
	}
	if s.runs == nil {
		s.runs = map[types.NamespacedName]past{}
	}
	s.runs[name] = past{uid: e.GetUID(), generation: e.GetGeneration(), request: e.requestedRun()}
	return true
}

func (s *pastRuns) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, name)
}

// untilTurn is how long the next run of an entry has to wait. Its turns are given by its interval and
// its UID, at least half an interval after the last run: a restart moves none, and entries that were
// created together are spread.
func (e *entry) untilTurn(now, last time.Time) time.Duration {
	interval := e.run.Interval.Length()
	if interval == 0 {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(e.GetUID())) // never fails
	turn := time.Duration(hash.Sum64() % uint64(interval))
	pause := max(0, last.Add(interval/2).Sub(now))
	return pause + interval - (time.Duration(now.UnixNano())+pause-turn)%interval
}

// lastSync is when the entry was last seen to be up to date; known is false if it must have missed
// a turn since, while no operator ran.
func (e *entry) lastSync(now time.Time) (at time.Time, known bool) {
	if e.list == nil {
		return time.Time{}, true
	}
	if e.list.LastSyncTime == nil {
		return time.Time{}, false
	}
	longest := e.run.Interval.Length() * 3 / 2
	if e.run.Interval.Length() < recordPause {
		longest += recordPause
	}
	at = e.list.LastSyncTime.Time
	return at, now.Sub(at) <= longest && at.Sub(now) <= time.Minute // another clock may have been ahead
}
