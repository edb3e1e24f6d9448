// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/template"
)

// Times of the rows that a template does not set.
const (
	maxLife       = 100 * 365 * 24 * time.Hour // a later end is cut to it: years have four digits
	requestWaits  = 7 * 24 * time.Hour         // row 2
	planWaits     = 24 * time.Hour             // row 4
	protectedOver = 30 * 24 * time.Hour        // row 14, without a max
	destroyAgain  = 24 * time.Hour             // row 19
	finalStays    = 7 * 24 * time.Hour         // row 22
	offerWaits    = 7 * 24 * time.Hour         // row 24
	daily         = 24 * time.Hour
)

// template returns a snapshot, or an empty template, so that a record can always end.
func (d *Document) template(digest string) *template.Template {
	if t := d.Templates[digest]; t != nil {
		return t
	}
	return &template.Template{}
}

// checkTTL refuses a lifetime that the template does not allow.
func checkTTL(tx *tx, t *template.Template, ttl time.Duration) error {
	switch {
	case ttl == 0:
		return nil
	case t.TTL == nil:
		return &template.FieldError{Path: "/ttl", Text: "instances of this template do not expire"}
	case ttl < template.MinTTL:
		return &template.FieldError{Path: "/ttl", Text: "at least 10m"}
	case t.TTL.Max > 0 && ttl > t.TTL.Max && !tx.command.Actor.Admin:
		return &template.FieldError{Path: "/ttl", Text: "at most " + span.Span(t.TTL.Max).String()}
	}
	return nil
}

// lifetimeOf returns the lifetime of an instance that a caller launches.
func lifetimeOf(e Create) time.Duration {
	switch {
	case e.Template.TTL == nil:
		return 0
	case e.TTL > 0:
		return e.TTL
	}
	return max(e.Template.TTL.Default, template.MinTTL)
}

// runTime returns how long all attempts of a run may take together.
func runTime(t *template.Template) time.Duration {
	total := time.Duration(0)
	for n := range min(t.Retries, template.MaxRetries) + 1 {
		total += min(t.Timeout, template.MaxTimeout)
		if n > 0 {
			total += retryWait(applyWaits, n)
		}
	}
	return total
}

// setEndAfter sets the end of an instance to d from now, limited to the template's max
// unless an admin launched it for longer. An instance without a lifetime gets no end.
func setEndAfter(tx *tx, r *Record, d time.Duration) {
	t := tx.doc.template(r.Snapshot)
	if t.TTL == nil || r.TTL == 0 {
		return
	}
	end := tx.now.Add(max(d, template.MinTTL))
	if t.TTL.Max > 0 && r.TTL <= t.TTL.Max {
		end = earlierOf(end, r.Since.Add(t.TTL.Max))
	}
	setEnd(tx, r, end)
}

// restoreEnd restores the end of an instance that was never ready and runs again: its failure may
// have brought it forward. Repeating it extends nothing.
func restoreEnd(tx *tx, r *Record, snapshot string) {
	end := r.Since.Add(r.TTL + runTime(tx.doc.template(snapshot)))
	if left := end.Sub(tx.now); r.ReadyAt.IsZero() && left >= template.MinTTL && end.After(r.ExpiresAt) {
		setEndAfter(tx, r, left)
	}
}

// setEnd sets an end, and forgets the conditions and notices of the end before.
func setEnd(tx *tx, r *Record, end time.Time) {
	r.ExpiresAt = earlierOf(end, tx.now.Add(maxLife))
	r.unsetCondition(ExpiresSoon)
	r.unsetCondition(ExpiredProtected)
	armNotices(tx, r)
}

// endOf returns when an instance ends, protection included; zero: never.
func (d *Document) endOf(r *Record) time.Time {
	if r.ExpiresAt.IsZero() {
		return time.Time{}
	}
	switch r.Protected {
	case "":
		return r.ExpiresAt
	case byOwner:
		if t := d.template(r.Snapshot).TTL; t != nil && t.Max > 0 {
			return laterOf(r.ExpiresAt, r.Since.Add(t.Max))
		}
		return r.ExpiresAt.Add(protectedOver)
	}
	return time.Time{}
}

// isExpired reports whether the end has come and the clock is not held.
func isExpired(tx *tx, r *Record) bool {
	what, ok := tx.doc.firstPending(r, tx.now)
	return ok && what == deadlineEnd
}

// expireInstance implements row 13, whatever the state of template, module or server.
func expireInstance(tx *tx, r *Record) {
	t := tx.doc.Templates[r.Snapshot]
	keeps := t != nil && t.TTL != nil && t.TTL.OnExpire == "keep"
	if keeps && (r.Applied || r.Run.Active()) {
		orphanExpired(tx, r)
		return
	}
	tx.recordEvent(r, "expired", "")
	startDestroy(tx, r, "it has expired")
}

// orphanExpired keeps an expired instance's resources for an admin, once no apply runs.
func orphanExpired(tx *tx, r *Record) {
	if r.Run.Active() && r.Run.Kind != RunDrift {
		r.Then = nil
		stopRun(tx, r, endCame)
		return
	}
	tx.recordEvent(r, "expired", "orphaned")
	r.Kept = true
	orphanResources(tx, r, endCame)
}

const endCame = "it has expired"

// applyTo implements row 12.
func (e Extend) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbExtend)
	if err != nil {
		return Answer{}, err
	}
	if r.ExpiresAt.IsZero() {
		return Answer{}, newRefusal(ErrNoEnd, "instance %s does not expire", r.ID)
	}
	ttl := template.TTL{}
	if t := tx.doc.template(r.Snapshot); t.TTL != nil {
		ttl = *t.TTL
	}
	end, err := extendedEnd(tx, r, ttl, e.By)
	if err != nil {
		return Answer{}, err
	}
	r = tx.edit(r)
	if isEndUnapproved(tx, r, end) {
		tx.recordEvent(r, "extension requested", "until "+end.Format(time.RFC3339))
		return askApproval(tx, r, Pending{By: tx.storedActor(), Why: e.Why, Until: end})
	}
	tx.recordEvent(r, "extended", "until "+end.Format(time.RFC3339))
	applyExtension(tx, r, end, cmp.Or(e.By, ttl.Extend))
	return Answer{Status: 200, Record: r}, nil
}

// applyExtension applies an extension; before the first ready it lengthens the lifetime.
func applyExtension(tx *tx, r *Record, end time.Time, by time.Duration) {
	if r.ReadyAt.IsZero() {
		r.TTL += min(by, growthLeft(tx, r, tx.doc.template(r.Snapshot).TTL))
	}
	r.Extends++
	setEnd(tx, r, end)
}

// growthLeft returns how much longer the lifetime may be that has not begun.
func growthLeft(tx *tx, r *Record, ttl *template.TTL) time.Duration {
	if tx.command.Actor.Admin || ttl == nil || ttl.Max == 0 {
		return maxLife
	}
	return max(ttl.Max-r.TTL, 0)
}

// isEndUnapproved reports whether an end beyond the template's default has to be approved.
func isEndUnapproved(tx *tx, r *Record, end time.Time) bool {
	t := tx.doc.template(r.Snapshot)
	if t.Approval != template.ApprovalRequest || t.TTL == nil {
		return false
	}
	from := r.ReadyAt
	if from.IsZero() {
		from = r.Since
	}
	return end.After(from.Add(max(t.TTL.Default, template.MinTTL)))
}

func extendedEnd(tx *tx, r *Record, ttl template.TTL, by time.Duration) (time.Time, error) {
	by = cmp.Or(by, ttl.Extend)
	admin := tx.command.Actor.Admin
	switch {
	case r.Pending != nil && !r.Pending.Until.IsZero():
		return time.Time{}, newRefusal(ErrPhase, "an extension of instance %s is waiting for approval", r.ID)
	case by < 0 || by == 0 && admin:
		return time.Time{}, &template.FieldError{Path: "/by", Text: "must be more than 0"}
	case by == 0:
		return time.Time{}, newRefusal(ErrExtends, "instances of %s cannot be extended", r.Template)
	case !admin && ttl.Extends > 0 && r.Extends >= ttl.Extends:
		return time.Time{}, newRefusal(ErrExtends, "extended %d of %d times", r.Extends, ttl.Extends)
	case !admin && by > ttl.Extend:
		return time.Time{}, newRefusal(ErrDenied, "only an admin can extend by more than %s", span.Span(ttl.Extend))
	}
	end := laterOf(r.ExpiresAt, tx.now).Add(by)
	if !admin && ttl.Max > 0 {
		end = earlierOf(end, r.Since.Add(ttl.Max))
	}
	if !end.After(r.ExpiresAt) && !(r.ReadyAt.IsZero() && growthLeft(tx, r, &ttl) > 0) {
		return time.Time{}, newRefusal(ErrExtends, "instance %s must expire within %s of its start", r.ID, span.Span(ttl.Max))
	}
	return laterOf(end, r.ExpiresAt), nil
}
