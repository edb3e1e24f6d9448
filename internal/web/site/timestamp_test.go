// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/web/site"
)

// TestTimestamp says how far a time is from now, before and after it.
func TestTimestamp(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "just now", 30 * time.Second: "just now", -3 * time.Hour: "3 hours ago", 90 * time.Minute: "in 1 hour", 49 * time.Hour: "in 2 days"} {
		if got := site.NewTimestamp(now.Add(d), now).Ago; got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
