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
	// PageSize is how many entries a page has.
	PageSize = 100
	// MaxPage bounds what can be paged through; who wants more takes all of it.
	MaxPage = 100
	// maxWord bounds each word of a query, in bytes.
	maxWord = 200
)

// Query says which entries are wanted; what is empty says nothing.
type Query struct {
	Decisions bool   // of this process, instead of the changes of all
	Actor     string // a part of who did it: subject, issuer, mode or address of the client
	Action    string // exactly, as the two below
	Kind      string
	Decision  string
	Outcome   string // as [Record.Result] has it
	Address   string // a part of it
	Since     time.Time
	Until     time.Time // not included
	Page      int       // from 1 on
}

// Values of the parameter "what".
const (
	WhatChanges   = "changes"
	WhatDecisions = "decisions"
)

// ParseQuery reads the parameters what (changes or decisions), actor, action, kind,
// address, decision (allowed or denied), outcome (done, refused or failed), since, until and page. A time is one of RFC
// 3339 or a day (UTC), which until includes.
func ParseQuery(v url.Values) (Query, error) {
	q := Query{Page: 1}
	for name, to := range map[string]*string{"actor": &q.Actor, "action": &q.Action, "kind": &q.Kind, "address": &q.Address, "decision": &q.Decision, "outcome": &q.Outcome} {
		*to = strings.TrimSpace(v.Get(name))
		if len(*to) > maxWord {
			return q, fmt.Errorf("%s has %d bytes, at most %d", name, len(*to), maxWord)
		}
	}
	switch what := v.Get("what"); what {
	case "", WhatChanges:
	case WhatDecisions:
		q.Decisions = true
	default:
		return q, fmt.Errorf("what is %.60q, and can be %s or %s", what, WhatChanges, WhatDecisions)
	}
	switch q.Decision {
	case "", "allowed", "denied":
	default:
		return q, fmt.Errorf("decision is %.60q, and can be allowed or denied", q.Decision)
	}
	switch q.Outcome {
	case "", access.Done, access.Refused, access.Failed:
	default:
		return q, fmt.Errorf("outcome is %.60q, and can be %s, %s or %s", q.Outcome, access.Done, access.Refused, access.Failed)
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
			return q, fmt.Errorf("page is %.60q, and can be 1 to %d", page, MaxPage)
		}
	}
	return q, nil
}

// parseTime reads a time; a day stands for its beginning and so much more.
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
		return at, fmt.Errorf("%s is %.60q, and can be such as 2026-11-22 or 2026-11-22T12:00:00Z", name, text)
	}
	return at.Add(more), nil
}

// fits reports whether an entry is wanted.
func (q *Query) fits(e *Entry) bool {
	switch {
	case q.Action != "" && e.Action != q.Action, q.Kind != "" && e.Kind != q.Kind, q.Decision != "" && e.Decision != q.Decision:
		return false
	case !q.Since.IsZero() && e.Time.Before(q.Since), !q.Until.IsZero() && !e.Time.Before(q.Until):
		return false
	case !within(e.Address, q.Address), q.Outcome != "" && e.Result() != q.Outcome:
		return false
	}
	return within(e.Subject, q.Actor) || within(e.Issuer, q.Actor) || within(e.Mode, q.Actor) || within(e.ClientIP, q.Actor)
}

// within reports whether a text has a part, in whatever case.
func within(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Found is a page of what fits a query.
type Found struct {
	View
	Total   int // that fit, of those in memory
	First   int // place of the first one that is shown, from 0 on
	Entries []*Entry
}

// Find returns a page of what fits.
func (t *Log) Find(ctx context.Context, q Query) Found {
	f := Found{View: t.View(ctx)}
	from := f.View.Entries
	if q.Decisions {
		from = t.decisions.all()
	}
	for _, e := range from {
		if q.fits(e) {
			f.Entries = append(f.Entries, e)
		}
	}
	f.Total = len(f.Entries)
	f.First = min((max(q.Page, 1)-1)*PageSize, f.Total)
	f.Entries = f.Entries[f.First:min(f.First+PageSize, f.Total)]
	return f
}
