// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Offer is an offer of an instance to an owner for whom the present owner does not act. Until it is
// accepted the instance stays the present owner's, and is not changed otherwise.
type Offer struct {
	To template.Owner `json:"to"` // of the issuer of the owner
	By Actor          `json:"by"`
	At time.Time      `json:"at"`
}

// Until returns when the offer lapses.
func (g *Offer) Until() time.Time { return g.At.Add(offerWaits) }

// applyTo implements row 21. An owner may give to themselves or a group of theirs, an admin to
// anybody, within the new owner's quota. To others an owner offers, and withdraws by a transfer to
// the present owner.
func (e Transfer) applyTo(tx *tx) (Answer, error) {
	r, err := findInstance(tx, e.ID, verbTransfer)
	if err != nil {
		return Answer{}, err
	}
	t := tx.doc.template(r.Snapshot)
	a := tx.command.Actor
	switch {
	case r.Owner.ID == "":
		return Answer{}, newRefusal(ErrPhase, "instance %s belongs to a pool", r.ID)
	case !t.Admits(e.To):
		return Answer{}, &template.FieldError{Path: "/to", Text: "the template does not allow this owner"}
	case !a.Admin && !a.canActFor(r.Owner):
		return Answer{}, newRefusal(ErrDenied, "only the owner or an admin can transfer an instance")
	case e.To.Same(r.Owner) && r.Offer != nil:
		return endOffer(tx, r, "offer withdrawn", ""), nil
	case !a.Admin && !a.canActFor(e.To):
		return offerInstance(tx, r, e.To)
	}
	if err := checkQuotas(tx, t, e.To, r); err != nil {
		return Answer{}, err
	}
	return giveInstance(tx, r, e.To, "transferred"), nil
}

// giveInstance gives an instance to another owner. Offers, approvals and pending changes end.
func giveInstance(tx *tx, r *Record, to template.Owner, action string) Answer {
	r = tx.edit(r)
	if r.Approved.ID == "" && needsApproval(tx, r, "", template.ApprovalRequest) {
		r.Approved = r.Owner
	}
	if r.Pending != nil && !to.Same(r.Owner) {
		tx.recordEvent(r, "cancelled", "a change that "+r.Owner.Kind+" "+r.Owner.ID+" requested")
		r.Pending = nil
		tx.unusedTemplates = true
	}
	r.Owner = to
	r.Offer = nil
	r.Owner.Label = clipForeign(to.Label, 128)
	tx.recordEvent(r, action, to.Kind+" "+to.ID)
	return Answer{Status: 200, Record: r}
}

// offerInstance offers an instance to another owner, replacing an earlier offer.
func offerInstance(tx *tx, r *Record, to template.Owner) (Answer, error) {
	if to.Issuer != r.Owner.Issuer {
		return Answer{}, newRefusal(ErrDenied, "only an admin can transfer an instance to an owner of another issuer")
	}
	r = tx.edit(r)
	to.Label = clipForeign(to.Label, 128)
	r.Offer = &Offer{To: to, By: tx.storedActor(), At: tx.now}
	tx.recordEvent(r, "offered", to.Kind+" "+to.ID)
	addNotice(tx, r, noticeOffered)
	return Answer{Status: 202, Record: r}, nil
}

// applyTo implements row 24: the recipient accepts an offer, within limits, or declines it.
func (e Take) applyTo(tx *tx) (Answer, error) {
	v := verbTake
	if e.No {
		v = verbDecline
	}
	r, err := findInstance(tx, e.ID, v)
	if err != nil {
		return Answer{}, err
	}
	a := tx.command.Actor
	switch {
	case r.Offer == nil || hasOfferLapsed(tx, r):
		return Answer{}, newRefusal(ErrPhase, "instance %s is not offered to anyone now", r.ID)
	case !a.canActFor(r.Offer.To):
		return Answer{}, newRefusal(ErrDenied, "instance %s is offered to another owner", r.ID)
	case e.No:
		return endOffer(tx, r, "declined", ""), nil
	}
	t := tx.doc.template(r.Snapshot)
	to := r.Offer.To
	if !t.Admits(to) {
		return Answer{}, newRefusal(ErrDenied, "the current template of instance %s does not allow this owner", r.ID)
	}
	if err := checkQuotas(tx, t, to, r); err != nil {
		return Answer{}, err
	}
	if a.isOwner(to) {
		to.Label = a.Label
	}
	answer := giveInstance(tx, r, to, "taken")
	addNotice(tx, answer.Record, noticeTaken)
	return answer, nil
}

func endOffer(tx *tx, r *Record, action, why string) Answer {
	r = tx.edit(r)
	r.Offer = nil
	tx.recordEvent(r, action, why)
	return Answer{Status: 200, Record: r}
}

// hasOfferLapsed reports whether an offer has lapsed, as far as the clock is trusted.
func hasOfferLapsed(tx *tx, r *Record) bool {
	return tx.doc.Clock.Held == "" && !r.Offer.Until().After(tx.now)
}

func (a Actor) canActFor(o template.Owner) bool {
	return a.isOwner(o) || o.Kind == template.OwnerGroup && o.Issuer == a.Issuer && slices.Contains(a.Groups, o.ID)
}

// checkOffer checks that an offered instance is live, and the other owner of the same issuer.
func checkOffer(_ *Document, _ string, r *Record) string {
	g := r.Offer
	switch {
	case g == nil:
	case r.Owner.ID == "" || g.To.ID == "" || g.To.Issuer != r.Owner.Issuer:
		return "offered without an owner, without a recipient or across issuers"
	case g.To.Same(r.Owner):
		return "offered to its owner"
	case !r.Phase.Live() || r.Phase == Requested || r.Phase == Destroying:
		return string(r.Phase) + ", and offered"
	}
	return ""
}
