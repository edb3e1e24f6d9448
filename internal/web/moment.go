// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"time"
)

// moment is a time with how long ago that is, in words.
type moment struct {
	time.Time
	Ago string
}

// when is the moment of a time, as seen now.
func (s *server) when(t time.Time) moment { return seenAt(t, s.o.Now()) }

// seenAt is that of a time as seen at now.
func seenAt(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{t, ago(now.Sub(t))}
}

// ago says how long ago something was, in the largest unit that fits.
func ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * 24 * time.Hour, "year"}, {30 * 24 * time.Hour, "month"}, {24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / unit.length); n > 0 {
			return plural(n, unit.name) + " ago"
		}
	}
	return ""
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
