// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Kinds of notices. A notice before the end has the lead time appended: expires_30m0s.
const (
	noticeReady         = "ready"
	NoticeFailed        = "failed"
	noticeDestroyed     = "destroyed"
	NoticeDestroyFailed = "destroy_failed"
	NoticeRejected      = "rejected"
	noticeDrifted       = "drifted"
	noticeApproval      = "approval_wanted"
	noticeOffered       = "offered"
	noticeTaken         = "taken"
	noticeProtected     = "expired_protected"
	noticePool          = "pool_paused"
	noticeClock         = "clock_held"
	noticeExpires       = "expires" // prefix of the kind
)

const (
	ofClock       = "clock" // used in place of an ID in effects
	maxUnreported = 12      // notices of a record besides those before its end
)

// addNotice adds a notice about an instance that has an owner.
func addNotice(tx *tx, r *Record, kind string) {
	switch {
	case r.Owner.ID != "":
		r.Notices = appendNotice(tx, r.Notices, r.ID, kind)
	case isKeptOnceSent(kind):
		addSentNotice(tx, r, kind)
	}
}

func addSentNotice(tx *tx, r *Record, kind string) {
	r.Notices = append(r.Notices, Notice{ID: r.ID + "-" + kind, Kind: kind, At: tx.now, Sent: true})
}

// appendNotice adds a notice to be handed to the queue.
func appendNotice(tx *tx, notices []Notice, of, kind string) []Notice {
	n := Notice{ID: fmt.Sprintf("%s-%s-%d", of, kind, tx.now.UnixMilli()), Kind: kind, At: tx.now}
	if slices.ContainsFunc(notices, func(o Notice) bool { return o.ID == n.ID }) {
		return notices
	}
	if len(notices) >= maxUnreported+template.MaxNotices {
		notices = notices[1:]
	}
	tx.effects = append(tx.effects, Effect{Kind: Notify, Ref: Ref{ID: of}, Notice: n})
	return append(slices.Clone(notices), n)
}

// markNoticed records that a notice was queued; those before an end are kept, to be sent once.
func markNoticed(tx *tx, e Noticed) {
	if r := tx.doc.Records[e.ID]; r != nil {
		if notices, ok := markSent(r.Notices, e.Notice); ok {
			tx.edit(r).Notices = notices
		}
		return
	}
	if p := tx.doc.Pools[e.ID]; p != nil {
		if notices, ok := markSent(p.Notices, e.Notice); ok {
			tx.editPool(e.ID).Notices = notices
			tidyPool(tx, e.ID)
		}
		return
	}
	if notices, ok := markSent(tx.doc.Clock.Notices, e.Notice); ok && e.ID == ofClock {
		tx.editDocument().Clock.Notices = notices
	}
}

// markSent marks or removes a notice that was handed to the queue.
func markSent(notices []Notice, id string) ([]Notice, bool) {
	i := slices.IndexFunc(notices, func(n Notice) bool { return n.ID == id && !n.Sent })
	if i < 0 {
		return nil, false
	}
	after := slices.Clone(notices)
	if !isKeptOnceSent(after[i].Kind) {
		return slices.Delete(after, i, i+1), true
	}
	after[i].Sent = true
	if kind := after[i].Kind; kind == noticeProtected {
		last := after[i]
		after = slices.DeleteFunc(after, func(n Notice) bool { return n.Kind == kind && n.Sent && n.At.Before(last.At) })
	}
	return after, true
}

// isKeptOnceSent reports whether a notice is kept after it was handed to the queue.
func isKeptOnceSent(kind string) bool { return kind == noticeProtected || isBeforeEnd(kind) }

func isBeforeEnd(kind string) bool {
	return len(kind) > len(noticeExpires) && kind[:len(noticeExpires)+1] == noticeExpires+"_"
}

func noticeBefore(lead time.Duration) string { return noticeExpires + "_" + lead.String() }

// unsentEffects returns the effects of notices that were not yet handed to the queue.
func unsentEffects(notices []Notice, of string) []Effect {
	var all []Effect
	for _, n := range notices {
		if !n.Sent {
			all = append(all, Effect{Kind: Notify, Ref: Ref{ID: of}, Notice: n})
		}
	}
	return all
}

// armNotices drops the notices of the previous end. Those whose time before the new end
// has already passed count as sent.
func armNotices(tx *tx, r *Record) {
	r.Notices = slices.DeleteFunc(r.Notices, func(n Notice) bool { return isBeforeEnd(n.Kind) || n.Kind == noticeProtected })
	if r.ExpiresAt.IsZero() {
		return
	}
	for _, lead := range tx.doc.leadTimes(r) {
		if at := r.ExpiresAt.Add(-lead); !at.After(tx.now) {
			addSentNotice(tx, r, noticeBefore(lead))
		}
	}
}

// leadTimes returns how long before its end notices about an instance are sent.
func (d *Document) leadTimes(r *Record) []time.Duration {
	all := d.template(r.Snapshot).Notices
	return all[:min(len(all), template.MaxNotices)]
}

// hasNotice reports whether a notice of a kind was made since the end was set.
func (r *Record) hasNotice(kind string) bool {
	return slices.ContainsFunc(r.Notices, func(n Notice) bool { return n.Kind == kind })
}

// reportEnd adds a notice of the coming end, once a lead time, the last of several passed ones.
func reportEnd(tx *tx, r *Record) {
	last := time.Duration(-1)
	for _, lead := range tx.doc.leadTimes(r) {
		if r.hasNotice(noticeBefore(lead)) || r.ExpiresAt.Add(-lead).After(tx.now) {
			continue
		}
		if last < 0 || lead < last {
			last = lead
		}
		addSentNotice(tx, r, noticeBefore(lead))
	}
	if last < 0 {
		return
	}
	r.Notices = slices.DeleteFunc(r.Notices, func(n Notice) bool { return n.Kind == noticeBefore(last) })
	r.setCondition(ExpiresSoon, "", "it ends at "+r.ExpiresAt.Format(time.RFC3339))
	addNotice(tx, r, noticeBefore(last))
}

// reportProtected implements row 14: the end has come, and protection keeps the instance.
func reportProtected(tx *tx, r *Record) {
	r.setCondition(ExpiredProtected, "", "expired at "+r.ExpiresAt.Format(time.RFC3339))
	r.Notices = slices.DeleteFunc(r.Notices, func(n Notice) bool { return n.Kind == noticeProtected })
	addNotice(tx, r, noticeProtected)
}
