// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of the stored answers to requests that may be repeated.
const (
	requestAge  = time.Hour
	maxRequests = 2000
)

// answerCommand returns the stored answer of a repeated request, or dispatches it.
func answerCommand(tx *tx) (Answer, error) {
	key := tx.command.Key
	if key == "" {
		return applyAllowed(tx)
	}
	if q := tx.doc.Requests[key]; q != nil && tx.now.Sub(q.At) < requestAge {
		if q.Digest != tx.command.Digest {
			return Answer{}, newRefusal(ErrKeyReused, "the key was used for another request")
		}
		return Answer{Status: q.Status, Record: tx.doc.Records[q.ID], Repeat: true}, nil
	}
	if r := findByKey(tx, key); r != nil {
		return Answer{Status: 200, Record: r, Repeat: true}, nil
	}
	a, err := applyAllowed(tx)
	if err == nil {
		rememberAnswer(tx, a)
	}
	return a, err
}

// applyAllowed refuses a request if the instance got another owner since its rights were decided.
func applyAllowed(tx *tx) (Answer, error) {
	c := tx.command
	if r := tx.doc.Records[c.Of]; r != nil && !c.Actor.Admin && !r.Owner.Same(c.Owner) {
		return Answer{}, newRefusal(ErrDenied, "instance %s now has another owner", r.ID)
	}
	return c.Event.applyTo(tx)
}

// findByKey returns the record that a Create with this key ever made or claimed.
func findByKey(tx *tx, key string) *Record {
	if _, ok := tx.command.Event.(Create); !ok {
		return nil
	}
	for _, r := range tx.doc.Records {
		if r.Key == key {
			return r
		}
	}
	return nil
}

func rememberAnswer(tx *tx, a Answer) {
	q := &Request{Caller: tx.command.Caller, Digest: tx.command.Digest, Status: a.Status, At: tx.now}
	if a.Record != nil {
		q.ID = a.Record.ID
	}
	if len(tx.doc.Requests) >= maxRequests {
		pruneRequests(tx)
	}
	for len(tx.doc.Requests) >= maxRequests {
		delete(tx.editRequests(), surplusRequest(tx))
	}
	tx.editRequests()[tx.command.Key] = q
}

// surplusRequest returns the oldest answer's key, of the caller with the most.
func surplusRequest(tx *tx) string {
	count := map[string]int{}
	limit := ""
	for _, q := range tx.doc.Requests {
		count[q.Caller]++
	}
	for caller, n := range count {
		if n > count[limit] || n == count[limit] && caller < limit {
			limit = caller
		}
	}
	oldest := ""
	for key, q := range tx.doc.Requests {
		o := tx.doc.Requests[oldest]
		older := o == nil || q.At.Before(o.At) || q.At.Equal(o.At) && key < oldest
		if q.Caller == limit && older {
			oldest = key
		}
	}
	return oldest
}

// pruneRequests deletes the answers older than an hour.
func pruneRequests(tx *tx) {
	for key, q := range tx.doc.Requests {
		if tx.now.Sub(q.At) >= requestAge {
			delete(tx.editRequests(), key)
		}
	}
}

// Errors of [Machine.Step] and checks, besides [template.ErrInvalid]; refusals wrap one.
var (
	ErrNotFound  = errors.New("no such instance")
	ErrPhase     = errors.New("not possible in this phase") // the instance cannot do this now
	ErrExtends   = errors.New("cannot be extended further")
	ErrNoEnd     = errors.New("the instance does not expire")
	ErrStalePlan = errors.New("the plan changed since you reviewed it")
	ErrProtected = errors.New("the instance is protected")
	ErrDenied    = errors.New("not allowed")
	ErrKeyReused = errors.New("the key was used for another request")
	ErrPoolEmpty = errors.New("the pool is empty")
	ErrPaused    = errors.New("the template is paused")
	ErrExists    = errors.New("the owner has an instance with other values")
	ErrFull      = errors.New("instance limit reached")
	ErrNoLeader  = errors.New("no leader available") // of the store
)

// refusal is an error of one of the kinds above with its own text.
type refusal struct {
	kind error
	text string
}

func (e *refusal) Error() string { return e.text }
func (e *refusal) Unwrap() error { return e.kind }

func newRefusal(kind error, format string, args ...any) error {
	return &refusal{kind: kind, text: fmt.Sprintf(format, args...)}
}

// QuotaError refuses what would exceed a limit, or reports how much of one is used.
type QuotaError struct {
	Limit, Used int
	What        string   // holder of the limit: you, group g, template t
	Of          string   // template that the limit counts; "": more than one
	IDs         []string // live instances that count, sorted; nil for a template's limit
}

func (e *QuotaError) Error() string {
	has := " has "
	if e.What == "you" {
		has = " have "
	}
	text := fmt.Sprintf("%s%s%d of %d instances", e.What, has, e.Used, e.Limit)
	if e.Of != "" && e.What != "template "+e.Of {
		text += " of " + e.Of
	}
	if ids := e.IDs; len(ids) > 10 {
		return text + ": " + strings.Join(ids[:10], ", ") + ", …"
	} else if len(ids) > 0 {
		return text + ": " + strings.Join(ids, ", ")
	}
	return text
}
