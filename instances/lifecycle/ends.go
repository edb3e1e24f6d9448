// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"strings"
	"time"

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

// template returns a snapshot. If the document does not have it, the result is an empty
// template, so that a record can always end.
func (d *Document) template(digest string) *template.Template {
	if t := d.Templates[digest]; t != nil {
		return t
	}
	return &template.Template{}
}

// checkTTL refuses a lifetime that the template does not allow.
func (w endings) checkTTL(t *template.Template, ttl time.Duration) error {
	switch {
	case ttl == 0:
		return nil
	case t.TTL == nil:
		return &template.FieldError{Path: "/ttl", Text: "instances of this template have no end"}
	case ttl < template.MinTTL:
		return &template.FieldError{Path: "/ttl", Text: "at least 10m"}
	case t.TTL.Max > 0 && ttl > t.TTL.Max && !w.command.Actor.Admin:
		return &template.FieldError{Path: "/ttl", Text: "at most " + span(t.TTL.Max)}
	}
	return nil
}

// ttl returns the lifetime of an instance that a caller launches.
func (w endings) ttl(e Create) time.Duration {
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
			total += retryAfter(n)
		}
	}
	return total
}

// endAfter sets the end of an instance to d from now, limited to the template's max
// unless an admin launched it for longer. An instance without a lifetime gets no end.
func (w endings) endAfter(r *Record, d time.Duration) {
	t := w.doc.template(r.Snapshot)
	if t.TTL == nil || r.TTL == 0 {
		return
	}
	end := w.now.Add(max(d, template.MinTTL))
	if t.TTL.Max > 0 && r.TTL <= t.TTL.Max {
		end = sooner(end, r.Since.Add(t.TTL.Max))
	}
	w.setEnd(r, end)
}

// endAnew restores the end that the launch gave to an instance that was never ready and
// is run again, since its failure may have brought the end forward. Repeating this does
// not extend the lifetime.
func endAnew(w *step, r *Record, snapshot string) {
	end := r.Since.Add(r.TTL + runTime(w.doc.template(snapshot)))
	if left := end.Sub(w.now); r.ReadyAt.IsZero() && left >= template.MinTTL && end.After(r.ExpiresAt) {
		w.endings().endAfter(r, left)
	}
}

// setEnd sets an end, and forgets the conditions and notices of the end before.
func (w endings) setEnd(r *Record, end time.Time) {
	r.ExpiresAt = sooner(end, w.now.Add(maxLife))
	r.unset(ExpiresSoon)
	r.unset(ExpiredProtected)
	w.notices().armNotices(r)
}

// end returns when an instance ends, protection included; zero: never. It needs the
// template only for how long protection lasts.
func (d *Document) end(r *Record) time.Time {
	if r.ExpiresAt.IsZero() {
		return time.Time{}
	}
	switch r.Protected {
	case "":
		return r.ExpiresAt
	case byOwner:
		if t := d.template(r.Snapshot).TTL; t != nil && t.Max > 0 {
			return later(r.ExpiresAt, r.Since.Add(t.Max))
		}
		return r.ExpiresAt.Add(protectedOver)
	}
	return time.Time{}
}

// expired reports whether the end of an instance has come and the clock is not held. It
// is checked before anything else of a record.
func (w endings) expired(r *Record) bool {
	what, ok := w.doc.firstPending(r, w.now)
	return ok && what == deadlineEnd
}

// expire implements row 13, whatever the state of template, module or server.
func (w endings) expire(r *Record) {
	t := w.doc.Templates[r.Snapshot]
	keeps := t != nil && t.TTL != nil && t.TTL.OnExpire == "keep"
	if keeps && (r.Applied || r.Run.active()) {
		w.orphan(r)
		return
	}
	w.note(r, "expired", "")
	w.destroy(r, "it has expired")
}

// orphan keeps the resources of an expired instance for an admin to remove, once no
// apply is running.
func (w endings) orphan(r *Record) {
	if r.Run.active() && r.Run.Kind != RunDrift {
		r.Then = nil
		w.runQueue().stop(r, endCame)
		return
	}
	w.note(r, "expired", "orphaned")
	r.Kept = true
	w.abandon(r, endCame)
}

const endCame = "it has expired"

// extend implements row 12.
func (w endings) extend(e Extend) (Answer, error) {
	r, err := w.lookup(e.ID, verbExtend)
	if err != nil {
		return Answer{}, err
	}
	if r.ExpiresAt.IsZero() {
		return Answer{}, refuse(ErrNoEnd, "instance %s has no end", r.ID)
	}
	ttl := template.TTL{}
	if t := w.doc.template(r.Snapshot); t.TTL != nil {
		ttl = *t.TTL
	}
	end, err := w.extended(r, ttl, e.By)
	if err != nil {
		return Answer{}, err
	}
	r = w.edit(r)
	if w.unapprovedEnd(r, end) {
		w.note(r, "extension requested", "until "+end.Format(time.RFC3339))
		return w.approvals().ask(r, Pending{By: w.person(), Why: e.Why, Until: end})
	}
	w.note(r, "extended", "until "+end.Format(time.RFC3339))
	w.endLater(r, end, cmp.Or(e.By, ttl.Extend))
	return Answer{Status: 200, Record: r}, nil
}

// endLater applies an extension. The lifetime of an instance that was never ready has
// not begun, so the lifetime grows too.
func (w endings) endLater(r *Record, end time.Time, by time.Duration) {
	if r.ReadyAt.IsZero() {
		r.TTL += min(by, w.growth(r, w.doc.template(r.Snapshot).TTL))
	}
	r.Extends++
	w.setEnd(r, end)
}

// growth returns by how much the lifetime of an instance that was never ready may grow.
func (w endings) growth(r *Record, ttl *template.TTL) time.Duration {
	if w.command.Actor.Admin || ttl == nil || ttl.Max == 0 {
		return maxLife
	}
	return max(ttl.Max-r.TTL, 0)
}

// unapprovedEnd reports whether an end has to be approved: one beyond the template's
// default lifetime, if launches need approval.
func (w endings) unapprovedEnd(r *Record, end time.Time) bool {
	t := w.doc.template(r.Snapshot)
	if t.Approval != template.ApprovalRequest || t.TTL == nil {
		return false
	}
	from := r.ReadyAt
	if from.IsZero() {
		from = r.Since
	}
	return end.After(from.Add(max(t.TTL.Default, template.MinTTL)))
}

// extended returns the end after an extension.
func (w endings) extended(r *Record, ttl template.TTL, by time.Duration) (time.Time, error) {
	if by == 0 {
		by = ttl.Extend
	}
	admin := w.command.Actor.Admin
	switch {
	case r.Pending != nil && !r.Pending.Until.IsZero():
		return time.Time{}, refuse(ErrPhase, "an extension of instance %s waits for approval", r.ID)
	case by < 0 || by == 0 && admin:
		return time.Time{}, &template.FieldError{Path: "/by", Text: "more than 0 is needed"}
	case by == 0:
		return time.Time{}, refuse(ErrExtends, "instances of %s cannot be extended", r.Template)
	case !admin && ttl.Extends > 0 && r.Extends >= ttl.Extends:
		return time.Time{}, refuse(ErrExtends, "extended %d of %d times", r.Extends, ttl.Extends)
	case !admin && by > ttl.Extend:
		return time.Time{}, refuse(ErrDenied, "only an admin extends by more than %s", span(ttl.Extend))
	}
	end := later(r.ExpiresAt, w.now).Add(by)
	if !admin && ttl.Max > 0 {
		end = sooner(end, r.Since.Add(ttl.Max))
	}
	if !end.After(r.ExpiresAt) && !(r.ReadyAt.IsZero() && w.growth(r, &ttl) > 0) {
		return time.Time{}, refuse(ErrExtends, "instance %s ends at the latest %s after it began", r.ID, span(ttl.Max))
	}
	return later(end, r.ExpiresAt), nil
}

// span formats a duration without parts that are zero.
func span(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 && d != 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 && d != 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
