// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/portaldoc"
)

// rate bounds the changes of one caller in any minute.
type rate struct {
	most int
	now  func() time.Time

	mu sync.Mutex // guards by
	by map[string]*spent
}

// spent are the changes of one caller: those of the last minute, as if they had
// come evenly over the time.
type spent struct {
	at   time.Time
	used float64
}

// maxSpent bounds the callers that are remembered. Those beyond share one place.
const maxSpent = 10_000

func newRate(most int, now func() time.Time) *rate {
	return &rate{most: most, now: now, by: map[string]*spent{}}
}

// take counts a change of a caller, or refuses it.
func (l *rate) take(caller string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	one := l.by[caller]
	if one == nil {
		if len(l.by) >= maxSpent {
			l.forget(now)
		}
		if len(l.by) >= maxSpent {
			caller = ""
		}
		if one = l.by[caller]; one == nil {
			one = &spent{at: now}
			l.by[caller] = one
		}
	}
	one.used = max(0, one.used-l.gone(now.Sub(one.at)))
	one.at = now
	if one.used > float64(l.most)-1 {
		wait := time.Duration((one.used + 1 - float64(l.most)) / float64(l.most) * float64(time.Minute))
		return &apiError{Status: 429, Reason: portaldoc.ReasonRate, After: max(1, int(wait/time.Second)),
			Text: fmt.Sprintf("more than %d changes a minute", l.most)}
	}
	one.used++
	return nil
}

// gone is how many changes a time makes up for.
func (l *rate) gone(d time.Duration) float64 { return d.Minutes() * float64(l.most) }

// forget drops those who have nothing spent any more.
func (l *rate) forget(now time.Time) {
	for caller, one := range l.by {
		if one.used <= l.gone(now.Sub(one.at)) {
			delete(l.by, caller)
		}
	}
}
