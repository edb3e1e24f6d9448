// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "github.com/seed-141914ff/okara/instances/template"

// Launch is [Create] where somebody wrote down what he wants before the machine was
// asked: an instance with an id of its own, or a member of a pool that he made his.
// So that it can say what came of it, what Create refuses is a record too: of an
// instance that was never made, [Rejected], and a member goes, still nobody's.
type Launch struct {
	ID, Of string // Of: name of the template, which may not be there
	Create
	Refused string // why it cannot be launched, as the store knows; "": nothing speaks against it
}

// launch judges what a store was told.
func (w creations) launch(e Launch) (Answer, error) {
	r := w.doc.Records[e.ID]
	if r != nil && (!r.Pooled || r.Owner.ID != "" || !r.Phase.Live() || r.Phase == Destroying || r.Phase == DestroyFailed) || !validID(e.ID) {
		return Answer{}, refuse(ErrPhase, "instance %s was launched already", clip(e.ID, 32))
	}
	refused := e.Refused
	if refused == "" {
		if err := w.mayLaunch(e.Create, r); err != nil {
			refused = err.Error()
		}
	}
	switch {
	case r == nil && refused == "":
		return w.makeAs(e.ID, e.Create), nil
	case r == nil:
		return w.turnAway(e, refused), nil
	case refused == "":
		return w.claim(r, e.Create), nil
	}
	r = w.edit(r)
	w.note(r, "rejected", refused)
	w.endings().destroy(r, refused)
	return Answer{Status: 200, Record: r}, nil
}

// mayLaunch refuses what [Machine.Step] would refuse of a Create, but that a pool is
// empty: nobody is told to come again, so an instance is made where it may be.
func (w creations) mayLaunch(e Create, member *Record) error {
	if err := w.checkCreate(e); err != nil {
		return err
	}
	if err := w.on(e.Template); err != nil {
		return err
	}
	if err := w.within(e.Template, e.Owner, nil); err != nil {
		return err
	}
	switch {
	case member != nil && member.Phase != Available:
		return refuse(ErrPhase, "instance %s is %s and cannot be claimed", member.ID, member.Phase)
	case member != nil:
		return nil
	case e.Template.Pool != nil && e.Template.Pool.WhenEmpty == template.PoolRefuse:
		return refuse(ErrPoolEmpty, "of %s only members of the pool are given away", e.Template.Name)
	}
	if err := w.room(e.Template); err != nil {
		return err
	}
	return w.fits()
}

// turnAway makes the record of what is never made.
func (w creations) turnAway(e Launch, why string) Answer {
	if e.Template != nil {
		w.keep(e.Digest, e.Template)
	}
	r := w.put(&Record{ID: e.ID, Template: e.Of, Source: e.Source, Phase: Rejected, CreatedAt: w.now, Since: w.now, Snapshot: e.Digest})
	w.assign(r, e.Create)
	w.note(r, "rejected", why)
	w.endings().finish(r, Rejected, why)
	return Answer{Status: 200, Record: r}
}
