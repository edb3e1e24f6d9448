// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time span in readable form: "8h", "1h30m", "90s".
type Duration time.Duration

// maxDuration is longer than any allowed lifetime: ten years.
const maxDuration = 10 * 365 * 24 * time.Hour

// ParseDuration reads a span from a second to ten years.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || len(s) > 32 || d < time.Second || d > maxDuration {
		return 0, fmt.Errorf("%.32q: want a time span such as 8h or 30m", s)
	}
	return Duration(d), nil
}

func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText returns a text that [ParseDuration] reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDuration], and also accepts "" and "0s" as zero.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	if s := string(b); s == "" || s == "0s" {
		*d = 0
		return nil
	}
	*d, err = ParseDuration(string(b))
	return err
}
