// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"
	"time"
)

// Rate bounds the number of actions per key and minute. It is safe for concurrent use.
type Rate struct {
	max int
	now func() time.Time

	mu sync.Mutex // guards by
	by map[string]*done
}

// done is what one key used in the last minute. Its use decays evenly over time.
type done struct {
	at   time.Time
	used float64
}

// maxDone bounds the keys that are remembered. Keys beyond it share one entry.
const maxDone = 10_000

// NewRate returns a bound of limit actions per key and minute.
func NewRate(limit int, now func() time.Time) *Rate {
	return &Rate{max: limit, now: now, by: map[string]*done{}}
}

// Allow counts one action of key, or returns how long to wait before the next is allowed.
func (l *Rate) Allow(key string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	entry := l.by[key]
	if entry == nil {
		if len(l.by) >= maxDone {
			l.forgetIdle(now)
		}
		if len(l.by) >= maxDone {
			key = ""
		}
		if entry = l.by[key]; entry == nil {
			entry = &done{at: now}
			l.by[key] = entry
		}
	}
	entry.used = max(0, entry.used-l.decayedIn(now.Sub(entry.at)))
	entry.at = now
	if entry.used > float64(l.max)-1 {
		return time.Duration((entry.used + 1 - float64(l.max)) / float64(l.max) * float64(time.Minute)), false
	}
	entry.used++
	return 0, true
}

// decayedIn returns by how many actions the use of a key decays in the time d.
func (l *Rate) decayedIn(d time.Duration) float64 { return d.Minutes() * float64(l.max) }

// forgetIdle drops keys whose use has decayed to zero.
func (l *Rate) forgetIdle(now time.Time) {
	for key, entry := range l.by {
		if entry.used <= l.decayedIn(now.Sub(entry.at)) {
			delete(l.by, key)
		}
	}
}
