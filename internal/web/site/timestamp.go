// SPDX-License-Identifier: Apache-2.0

package site

import (
	"fmt"
	"github.com/seed-141914ff/okara/internal/text"
	"strconv"
	"time"
)

// Timestamp is a time with its age in words.
type Timestamp struct {
	time.Time
	Ago string
}

// NewTimestamp returns a time with its age at now.
func NewTimestamp(t, now time.Time) Timestamp {
	if t.IsZero() {
		return Timestamp{}
	}
	return Timestamp{t, agoText(now.Sub(t))}
}

// agoText returns an age in words, in the largest unit that fits; a negative age is in the future.
func agoText(d time.Duration) string {
	form := "%s ago"
	if d < 0 {
		form = "in %s"
		d = -d
	}
	if d < time.Minute {
		return "just now"
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * 24 * time.Hour, "year"}, {30 * 24 * time.Hour, "month"}, {24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / unit.length); n > 0 {
			return fmt.Sprintf(form, text.Plural(n, unit.name))
		}
	}
	return ""
}

// Span returns a duration in words, in its two largest units.
func Span(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return twoUnits(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return twoUnits(d/day, "d", d%day/time.Hour, "h")
}

func twoUnits(a time.Duration, unit string, b time.Duration, smaller string) string {
	text := strconv.FormatInt(int64(a), 10) + " " + unit
	if b > 0 {
		text += " " + strconv.FormatInt(int64(b), 10) + " " + smaller
	}
	return text
}
