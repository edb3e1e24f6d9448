// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"testing"
	"time"
)

// TestClockSet sets the clock, which makes files of running pushes look old, or
// old ones new.
//
// Shows: mistakes 21
func TestClockSet(t *testing.T) {
	const age, year = 24 * time.Hour, 365 * 24 * time.Hour
	type look struct {
		clock, passed time.Duration
		want          bool
	}
	for name, looks := range map[string][]look{
		"steady":   {{0, 0, true}, {time.Hour, time.Hour, true}, {year, year, true}},
		"slewed":   {{0, 0, true}, {time.Hour + 30*time.Second, time.Hour, true}, {2*time.Hour + time.Minute, 2 * time.Hour, true}},
		"forward":  {{0, 0, true}, {year, time.Hour, false}, {year + 20*time.Hour, 21 * time.Hour, false}, {year + 25*time.Hour, 26 * time.Hour, true}},
		"backward": {{0, 0, true}, {-year, time.Hour, false}, {25*time.Hour - year, 26*time.Hour + time.Minute, true}},
		"twice":    {{0, 0, true}, {year, time.Hour, false}, {23 * time.Hour, 23 * time.Hour, false}, {27 * time.Hour, 27 * time.Hour, false}, {48 * time.Hour, 48 * time.Hour, true}},
	} {
		var c settling
		for i, l := range looks {
			if got := c.isSettledAt(l.clock, l.passed, age); got != l.want {
				t.Errorf("%s: look %d: settled %t, want %t", name, i, got, l.want)
			}
		}
	}
}
