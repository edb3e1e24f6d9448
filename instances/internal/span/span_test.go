// SPDX-License-Identifier: Apache-2.0

package span_test

import (
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/span"
)

// TestSpan reads what users write, and writes it in its short form.
func TestSpan(t *testing.T) {
	for text, want := range map[string]string{
		"8h": "8h", "1h30m": "1h30m", "90m": "1h30m", "90s": "1m30s", "1h0m5s": "1h0m5s", "24h0m0s": "24h",
		"": "0s", "0s": "0s", // of a document alone
	} {
		var s span.Span
		if err := s.UnmarshalText([]byte(text)); err != nil || s.String() != want {
			t.Errorf("%q is read as %s, %v", text, s, err)
		}
	}
	for _, text := range []string{"8", "-8h", "999ms", "87601h", "8h and more", "000000000000000000000000000000008h"} {
		if s, err := span.Parse(text); err == nil {
			t.Errorf("%q is read as %s", text, s)
		}
	}
	if s, err := span.Parse("87600h"); err != nil || time.Duration(s) != 10*365*24*time.Hour {
		t.Errorf("ten years: %s, %v", s, err)
	}
}
