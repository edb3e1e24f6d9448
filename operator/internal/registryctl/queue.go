// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds of runs at once, of all entries and of an origin's, and of starts a second and in a burst.
const (
	maxRuns       = 16
	maxOriginRuns = 4
	maxStarts     = 20
	maxStartBurst = 100
)

// fairQueue decides who may run: namespaces take turns, and their origins. Without a slot an entry
// leaves its worker, and is woken.
type fairQueue struct {
	mu      sync.Mutex // guards the fields below
	scans   int        // max runs at once in the queue for the scanner
	starts  *rate.Limiter
	held    map[entryKey]*waiter // entries that have a slot
	busy    map[string]int       // slots taken, by origin
	used    map[string]bool      // records in use by a run
	waits   map[entryKey]*waiter
	origins []*originQueue       // queues that are not empty, the next one first
	limited map[string]time.Time // until when no requests are sent, by origin and credential
	alarm   *time.Timer          // when the next run may start; nil: no run waits for that
}

// entryKey identifies an entry, of which there is one run at a time.
type entryKey struct {
	kind string
	name types.NamespacedName
}

// waiter is an entry that waits or runs.
type waiter struct {
	entryKey
	origin string
	record string // Versions of one address have one record, so they take turns
	wake   func() // nil while its worker is in acquire
}

// originQueue holds the entries of a namespace that wait for an origin.
type originQueue struct {
	namespace, origin string
	list              []*waiter
}

func newFairQueue(scans int) *fairQueue {
	return &fairQueue{
		scans:  max(scans, 1),
		starts: rate.NewLimiter(maxStarts, maxStartBurst), held: map[entryKey]*waiter{}, busy: map[string]int{},
		used: map[string]bool{}, waits: map[entryKey]*waiter{}, limited: map[string]time.Time{},
	}
}

// acquire reports whether an entry has a slot; if not, it calls wake once it has.
func (t *fairQueue) acquire(p entryKey, origin, record string, wake func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.held[p]; ok {
		return true // it was woken for this slot
	}
	w := t.waits[p]
	if w == nil {
		w = &waiter{entryKey: p, origin: origin, record: record}
		t.waits[p] = w
		t.originQueueOf(p.name.Namespace, origin).addWaiter(w)
	}
	w.wake = nil
	t.grantSlots()
	w.wake = wake
	_, ok := t.held[p]
	return ok
}

func (l *originQueue) addWaiter(w *waiter) { l.list = append(l.list, w) }

// originQueueOf returns the queue of a namespace and an origin, which it adds at the end.
func (t *fairQueue) originQueueOf(namespace, origin string) *originQueue {
	i := slices.IndexFunc(t.origins, func(l *originQueue) bool { return l.namespace == namespace && l.origin == origin })
	if i < 0 {
		i = len(t.origins)
		t.origins = append(t.origins, &originQueue{namespace: namespace, origin: origin})
	}
	return t.origins[i]
}

func (t *fairQueue) release(p entryKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.held[p]
	if !ok {
		return
	}
	delete(t.held, p)
	delete(t.used, w.record)
	if t.busy[w.origin]--; t.busy[w.origin] == 0 {
		delete(t.busy, w.origin)
	}
	t.grantSlots()
}

// grantSlots gives away the free slots. The queues of a namespace that got one go to the end.
func (t *fairQueue) grantSlots() {
	for len(t.held) < maxRuns {
		i := slices.IndexFunc(t.origins, func(l *originQueue) bool { return t.busy[l.origin] < t.maxRunsOf(l.origin) && t.nextWaiter(l) >= 0 })
		if i < 0 {
			return
		}
		if !t.starts.Allow() {
			t.wait()
			return
		}
		l := t.origins[i]
		next := t.nextWaiter(l)
		w := l.list[next]
		if l.list = slices.Delete(l.list, next, next+1); len(l.list) == 0 {
			t.origins = slices.Delete(t.origins, i, i+1)
		}
		delete(t.waits, w.entryKey)
		t.held[w.entryKey] = w
		t.busy[l.origin]++
		t.used[w.record] = true
		t.toEnd(l)
		if w.wake != nil {
			w.wake()
		}
	}
}

// nextWaiter is the index of the first waiter whose record is not in use, or -1.
func (t *fairQueue) nextWaiter(l *originQueue) int {
	return slices.IndexFunc(l.list, func(w *waiter) bool { return !t.used[w.record] })
}

// maxRunsOf is how many runs there may be at once for an origin or the scanner.
func (t *fairQueue) maxRunsOf(origin string) int {
	if origin == scanQueue {
		return t.scans
	}
	return maxOriginRuns
}

// toEnd moves got's namespace behind others, and got last.
func (t *fairQueue) toEnd(got *originQueue) {
	behind := func(l *originQueue) int {
		switch {
		case l == got:
			return 2
		case l.namespace == got.namespace:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(t.origins, func(a, b *originQueue) int { return behind(a) - behind(b) })
}

// wait calls grantSlots again when the next run may start.
func (t *fairQueue) wait() {
	if t.alarm != nil {
		return
	}
	next := t.starts.Reserve()
	delay := next.Delay()
	next.Cancel()
	t.alarm = time.AfterFunc(delay, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.alarm = nil
		t.grantSlots()
	})
}

// limitOrigin stops requests to an origin until a time; the zero time lifts that.
func (t *fairQueue) limitOrigin(origin string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.IsZero() {
		delete(t.limited, origin)
	} else {
		t.limited[origin] = until
	}
}

// pause is how long an origin must not be asked yet.
func (t *fairQueue) pause(origin string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.limited[origin]
	if ok && !now.Before(until) {
		delete(t.limited, origin)
	}
	return max(until.Sub(now), 0)
}
