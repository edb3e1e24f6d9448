// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
)

const (
	// PageSize is the number of entries on a page.
	PageSize = 100
	// MaxPage bounds paging; an export has all entries.
	MaxPage = 100
	// maxWord bounds each text of a query, in bytes.
	maxWord = 200
)

// Query selects entries; empty fields match all.
type Query struct {
	Decisions bool   // of this process, instead of the changes of all processes
	Actor     string // part of subject, issuer, mode or client address
	Action    string // exact, like the two below
	Kind      string
	Decision  string
	Outcome   string // a value of [Record.Result]
	Address   string // part of it
	Since     time.Time
	Until     time.Time // exclusive
	Page      int       // from 1
}

// Values of the parameter "what".
const (
	WhatChanges   = "changes"
	WhatDecisions = "decisions"
)

// ParseQuery reads what (changes or decisions), actor, action, kind, address, decision (allowed,
// denied), outcome (done, refused, failed), since, until (RFC 3339, or a whole day, UTC) and page.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{Page: 1}
	for name, to := range map[string]*string{"actor": &q.Actor, "action": &q.Action, "kind": &q.Kind, "address": &q.Address, "decision": &q.Decision, "outcome": &q.Outcome} {
		*to = strings.TrimSpace(v.Get(name))
		if len(*to) > maxWord {
			return q, fmt.Errorf("%s has %d bytes, the limit is %d", name, len(*to), maxWord)
		}
	}
	switch what := v.Get("what"); what {
	case "", WhatChanges:
	case WhatDecisions:
		q.Decisions = true
	default:
		return q, fmt.Errorf("invalid what %.60q: must be %s or %s", what, WhatChanges, WhatDecisions)
	}
	switch q.Decision {
	case "", "allowed", "denied":
	default:
		return q, fmt.Errorf("invalid decision %.60q: must be allowed or denied", q.Decision)
	}
	switch q.Outcome {
	case "", access.Done, access.Refused, access.Failed:
	default:
		return q, fmt.Errorf("invalid outcome %.60q: must be %s, %s or %s", q.Outcome, access.Done, access.Refused, access.Failed)
	}
	var err error
	if q.Since, err = parseTime("since", v.Get("since"), 0); err != nil {
		return q, err
	}
	if q.Until, err = parseTime("until", v.Get("until"), day); err != nil {
		return q, err
	}
	if page := v.Get("page"); page != "" {
		if q.Page, err = strconv.Atoi(page); err != nil || q.Page < 1 || q.Page > MaxPage {
			return q, fmt.Errorf("invalid page %.60q: must be 1 to %d", page, MaxPage)
		}
	}
	return q, nil
}

// parseTime parses a time. A day means its start plus more.
func parseTime(name, text string, more time.Duration) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("%s %.60q is not a date or time such as 2026-11-22 or 2026-11-22T12:00:00Z", name, text)
	}
	return at.Add(more), nil
}

func (q *Query) matchesEntry(e *Entry) bool {
	switch {
	case q.Action != "" && e.Action != q.Action, q.Kind != "" && e.Kind != q.Kind, q.Decision != "" && e.Decision != q.Decision,
		!q.Since.IsZero() && e.Time.Before(q.Since), !q.Until.IsZero() && !e.Time.Before(q.Until),
		!containsText(e.Address, q.Address), q.Outcome != "" && e.Result() != q.Outcome:
		return false
	}
	return containsText(e.Subject, q.Actor) || containsText(e.Issuer, q.Actor) || containsText(e.Mode, q.Actor) || containsText(e.ClientIP, q.Actor)
}

// containsText reports whether text contains part, ignoring case.
func containsText(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Found is a page of the entries that match a query.
type Found struct {
	View
	Total   int // number of matching entries in memory
	First   int // index of the first one that is shown, from 0
	Entries []*Entry
}

// Find returns a page of the matching entries.
func (t *Log) Find(ctx context.Context, q Query) Found {
	f := Found{View: t.View(ctx)}
	from := f.View.Entries
	if q.Decisions {
		from = t.decisions.allDecisions()
	}
	for _, e := range from {
		if q.matchesEntry(e) {
			f.Entries = append(f.Entries, e)
		}
	}
	f.Total = len(f.Entries)
	f.First = min((max(q.Page, 1)-1)*PageSize, f.Total)
	f.Entries = f.Entries[f.First:min(f.First+PageSize, f.Total)]
	return f
}
