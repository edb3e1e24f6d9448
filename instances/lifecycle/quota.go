// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	"github.com/seed-141914ff/okara/instances/template"
)

// maxRecords is how many records a document may have before it takes no new ones.
const maxRecords = 5000

// Quota limits live records of an owner.
type Quota struct {
	Name      string
	Groups    []string // groups it applies to; empty: every owner
	Templates []string // globs; empty: all
	User      int      // 0: no limit
	Group     int
}

// Counts reports whether an instance counts against limits: live ones do, and orphans that nobody
// removed. A failed one without resources counts only while a change of it waits; not while it is
// destroyed.
func (r *Record) Counts() bool {
	bare := r.Empty || !r.Applied
	if bare && isIdle(r) && r.Owner.ID != "" && r.Pending == nil {
		return false
	}
	return r.Phase.Live() || r.Kept && !r.Removing
}

// isIdle reports whether an instance makes nothing and is not about to.
func isIdle(r *Record) bool {
	ends := r.Phase == Destroying || r.Phase == DestroyFailed
	return r.Phase == Failed || ends && (r.Run == nil || r.Run.Kind == RunDestroy)
}

// checkCountsAgain refuses a run of an uncounted instance that would then exceed a limit.
func checkCountsAgain(tx *tx, r *Record) error {
	if r.Counts() || r.Forced || r.Phase != Failed {
		return nil
	}
	t := tx.doc.template(r.Snapshot)
	if err := checkQuotas(tx, t, r.Owner, nil); err != nil {
		return err
	}
	return checkTemplateLimit(tx, t)
}

// Quotas returns an owner's limits and their use, with the actor's groups if that is the owner.
func (m *Machine) Quotas(d *Document, t *template.Template, o template.Owner, a Actor) []QuotaError {
	var all []QuotaError
	what := nameOwner(o, a)
	if t.PerOwner > 0 {
		q := d.usageOf(o, func(r *Record) bool { return r.Template == t.Name })
		q.Limit = t.PerOwner
		q.What = what
		q.Of = t.Name
		all = append(all, q)
	}
	if limit, globs, ok := m.highestQuota(t.Name, o, a); ok {
		q := d.usageOf(o, func(r *Record) bool { return template.Matches(globs, r.Template) })
		q.Limit = limit
		q.What = what
		all = append(all, q)
	}
	return all
}

// nameOwner names an owner from the caller's point of view.
func nameOwner(o template.Owner, a Actor) string {
	switch {
	case o.Kind != template.OwnerUser:
		return o.Kind + " " + clipForeign(o.ID, 64)
	case a.isOwner(o):
		return "you"
	}
	return "the owner"
}

func (a Actor) isOwner(o template.Owner) bool {
	return o.Kind == template.OwnerUser && a.Issuer == o.Issuer && a.Subject == o.ID && a.Subject != ""
}

func (d *Document) usageOf(o template.Owner, of func(*Record) bool) QuotaError {
	var q QuotaError
	for _, r := range d.Records {
		if r.Counts() && r.Owner.Same(o) && of(r) {
			q.Used++
			q.IDs = append(q.IDs, r.ID)
		}
	}
	slices.Sort(q.IDs)
	return q
}

// highestQuota returns the server's highest limit for an owner and template, and what it counts.
func (m *Machine) highestQuota(name string, o template.Owner, a Actor) (limit int, templates []string, ok bool) {
	for _, q := range m.Limits.Quotas {
		n := q.Group
		if o.Kind == template.OwnerUser {
			n = q.User
		}
		applies := n > 0 && q.appliesTo(o, a) && template.Matches(q.Templates, name)
		if applies && (!ok || n > limit) {
			limit = n
			templates = q.Templates
			ok = true
		}
	}
	return limit, templates, ok
}

func (q Quota) appliesTo(o template.Owner, a Actor) bool {
	switch {
	case len(q.Groups) == 0:
		return true
	case o.Kind == template.OwnerGroup:
		return slices.Contains(q.Groups, o.ID)
	}
	return a.isOwner(o) && slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(q.Groups, g) })
}

// checkQuotas refuses one more instance of an owner at a limit; except is not counted.
func checkQuotas(tx *tx, t *template.Template, o template.Owner, except *Record) error {
	for _, q := range tx.machine.Quotas(tx.doc, t, o, tx.command.Actor) {
		if except != nil && slices.Contains(q.IDs, except.ID) {
			q.Used--
		}
		if q.Used >= q.Limit {
			return &q
		}
	}
	return nil
}

func (d *Document) countOf(template string) int {
	n := 0
	for _, r := range d.Records {
		if r.Template == template && r.Counts() {
			n++
		}
	}
	return n
}

// checkTemplateLimit refuses one more instance of a template that is at its limit.
func checkTemplateLimit(tx *tx, t *template.Template) error {
	limit := t.Limit()
	if n := tx.doc.countOf(t.Name); limit > 0 && n >= limit {
		return &QuotaError{Limit: limit, Used: n, What: "template " + t.Name, Of: t.Name}
	}
	return nil
}

// checkRoom refuses one more record if the document is full.
func checkRoom(tx *tx) error {
	if len(tx.doc.Records) >= maxRecords {
		return newRefusal(ErrFull, "the limit of %d instances is reached", len(tx.doc.Records))
	}
	return nil
}
