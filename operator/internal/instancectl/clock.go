// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// clocksApart is how far this clock may be from the API server's for instances to expire.
const clocksApart = 5 * time.Minute

// Clock is the API server's time, by the Date of its responses; until the first, this machine's.
type Clock struct {
	Here func() time.Time // of this machine; nil: time.Now

	mu     sync.Mutex
	offset time.Duration // time of the API server minus that of this machine
	latest time.Time     // last result of Now; time never goes back
}

func (c *Clock) localTime() time.Time {
	if c.Here == nil {
		return time.Now()
	}
	return c.Here()
}

// Watch returns a transport that reads the time from the responses of next.
func (c *Clock) Watch(next http.RoundTripper) http.RoundTripper { return &watched{c, next} }

type watched struct {
	clock *Clock
	next  http.RoundTripper
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err == nil {
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			w.clock.recordServerTime(date, w.clock.localTime())
		}
	}
	return resp, err
}

// recordServerTime records the time of the API server. Its header has whole seconds, cut off.
func (c *Clock) recordServerTime(date, here time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := date.Sub(here)
	if offset < 0 && offset > -time.Second {
		offset = 0
	}
	c.offset = offset
}

// Now is the time of the API server, never before the last result.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.localTime().Add(c.offset).UTC().Round(0)
	if now.Before(c.latest) {
		now = c.latest
	}
	c.latest = now
	return now
}

// Held is the reason why no instance expires now, or "".
func (c *Clock) Held() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offset.Abs() <= clocksApart {
		return ""
	}
	return fmt.Sprintf("the clocks of the operator and of the API server are %s apart: set the one that is wrong", c.offset.Abs().Round(time.Second))
}
