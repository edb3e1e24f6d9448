// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strconv"
	"strings"
)

// LogPosition is a position in the log of a run, as in the event ids of its stream: each
// attempt has a log of its own.
type LogPosition struct {
	Attempt int   // from 1 on
	Offset  int64 // of the next byte in the log of that attempt
}

// String returns the id of an event: ATTEMPT-OFFSET.
func (p LogPosition) String() string { return fmt.Sprintf("%d-%d", p.Attempt, p.Offset) }

// ParseLogPosition reads what [LogPosition.String] returns, and nothing else.
func ParseLogPosition(s string) (LogPosition, error) {
	attempt, offset, _ := strings.Cut(s, "-")
	n, err := strconv.Atoi(attempt)
	at, oerr := strconv.ParseInt(offset, 10, 64)
	p := LogPosition{n, at}
	outside := n < 1 || at < 0
	if err != nil || oerr != nil || outside || p.String() != s {
		return LogPosition{}, fmt.Errorf("%.40q: want ATTEMPT-OFFSET such as 1-4096", s)
	}
	return p, nil
}
