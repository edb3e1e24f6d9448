// SPDX-License-Identifier: Apache-2.0

package service

import (
	"sync"
	"time"
)

// Rate bounds what each of many does in any minute. It is safe for concurrent use.
type Rate struct {
	most int
	now  func() time.Time

	mu sync.Mutex // guards by
	by map[string]*done
}

// done is what one of them did in the last minute, as if it had come evenly over the
// time.
type done struct {
	at   time.Time
	used float64
}

// maxDone bounds those that are remembered. Those beyond share one place.
const maxDone = 10_000

// NewRate returns a bound of so many a minute.
func NewRate(most int, now func() time.Time) *Rate {
	return &Rate{most: most, now: now, by: map[string]*done{}}
}

// Take counts one more of somebody, or says how long to wait for it.
func (l *Rate) Take(who string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	one := l.by[who]
	if one == nil {
		if len(l.by) >= maxDone {
			l.forget(now)
		}
		if len(l.by) >= maxDone {
			who = ""
		}
		if one = l.by[who]; one == nil {
			one = &done{at: now}
			l.by[who] = one
		}
	}
	one.used = max(0, one.used-l.gone(now.Sub(one.at)))
	one.at = now
	if one.used > float64(l.most)-1 {
		return time.Duration((one.used + 1 - float64(l.most)) / float64(l.most) * float64(time.Minute)), false
	}
	one.used++
	return 0, true
}

// gone is how many changes a time makes up for.
func (l *Rate) gone(d time.Duration) float64 { return d.Minutes() * float64(l.most) }

// forget drops those who have nothing spent any more.
func (l *Rate) forget(now time.Time) {
	for who, one := range l.by {
		if one.used <= l.gone(now.Sub(one.at)) {
			delete(l.by, who)
		}
	}
}
