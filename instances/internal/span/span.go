// SPDX-License-Identifier: Apache-2.0

package span

import (
	"fmt"
	"strings"
	"time"
)

// Span is a time span in readable form: "8h", "1h30m", "90s".
type Span time.Duration

// maxSpan is longer than any allowed lifetime: ten years.
const maxSpan = 10 * 365 * 24 * time.Hour

// Parse reads a span from a second to ten years.
func Parse(s string) (Span, error) {
	d, err := time.ParseDuration(s)
	if err != nil || len(s) > 32 || d < time.Second || d > maxSpan {
		return 0, fmt.Errorf("%.32q is not a duration such as 8h or 30m", s)
	}
	return Span(d), nil
}

func (d Span) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText returns a text that [Parse] reads.
func (d Span) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [Parse], and also accepts "" and "0s" as zero.
func (d *Span) UnmarshalText(b []byte) (err error) {
	if s := string(b); s == "" || s == "0s" {
		*d = 0
		return nil
	}
	*d, err = Parse(string(b))
	return err
}
