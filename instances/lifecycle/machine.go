// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	"github.com/seed-141914ff/okara/instances/template"
)

// Machine implements the life of instances as a pure function: no clock, no randomness,
// no input or output.
type Machine struct {
	Limits Limits
}

// Limits are the server's settings for all templates.
type Limits struct {
	Quotas       []Quota
	ApprovalSelf bool // the requester of a run may approve it
}

// Step returns the document after a command, the effects to carry out, and the answer
// for the caller. It does not change d and copies what it changes; a command that
// changes nothing returns d, so nothing need be stored. Time never goes back behind the
// last commit. An error of one of the kinds of this package comes with d and no
// effects: the command is refused without a trace.
func (m *Machine) Step(d *Document, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	now = later(now.UTC().Round(0), d.Clock.At)
	if p, ok := c.Event.(Reconcile); ok {
		return m.reconcile(d, p, c, now)
	}
	w := &step{Machine: m, doc: d, old: d, command: c, now: now}
	answer, err := w.notices().answer()
	if err != nil {
		return d, nil, Answer{}, err
	}
	w.close()
	return w.doc, w.effects, answer, nil
}

// reconcile applies the events of a [Reconcile] one after the other.
func (m *Machine) reconcile(d *Document, p Reconcile, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	var effects []Effect
	for i, e := range p.Events {
		if _, nested := e.(Reconcile); nested {
			continue
		}
		after, more, _, err := m.Step(d, Command{Event: e, Actor: c.Actor, Seed: derive(c.Seed, i)}, now)
		if err == nil {
			d = after
			effects = append(effects, more...)
		}
	}
	return d, effects, Answer{Status: 200}, nil
}

// dispatch handles the event of the command.
func (w *step) dispatch() (Answer, error) {
	switch e := w.command.Event.(type) {
	case Create:
		return w.creations().create(e)
	case Launch:
		return w.creations().launch(e)
	case Adopt:
		return w.creations().adopt(e)
	case Approve:
		return w.approvals().approve(e)
	case Reject:
		return w.approvals().reject(e)
	case Cancel:
		return w.changes().cancel(e)
	case Retry:
		return w.changes().retry(e)
	case Protect:
		return w.changes().protect(e)
	case Rename:
		return w.changes().rename(e)
	case Orphan:
		return w.changes().orphan(e)
	case DestroyNow:
		return w.changes().destroyNow(e)
	case Extend:
		return w.endings().extend(e)
	case Transfer:
		return w.changes().transfer(e)
	case Take:
		return w.changes().take(e)
	case Update:
		return w.changes().update(e)
	case Switch:
		return switchesOf(w).byHand(e)
	case Pause:
		return w.changes().pause(e)
	case Resume:
		return w.changes().resume(e)
	case AcceptClock:
		return w.changes().acceptClock()
	}
	return w.workspaceRuns().ofWorkspace()
}

// ofWorkspace handles events of workspaces.
func (w workspaceRuns) ofWorkspace() (Answer, error) {
	switch e := w.command.Event.(type) {
	case OpenWorkspace:
		return w.openWorkspace(e)
	case Enqueue:
		return w.enqueue(e)
	case Confirm:
		return w.confirm(e)
	case Discard:
		return w.discard(e)
	case CancelOne:
		return w.cancelOne(e)
	case CloseWorkspace:
		return w.closeWorkspace(e)
	}
	return w.serve()
}

// serve handles the server's events. An event that does not fit its record changes
// nothing.
func (w *step) serve() (Answer, error) {
	switch e := w.command.Event.(type) {
	case ExpireCheck:
		w.endings().expireCheck(e.ID)
	case Fill:
		w.poolMembers().fill(e)
	case UpdateCheck:
		w.poolMembers().checkUpdate(e)
	case Schedule:
		w.runQueue().schedule(e.Concurrency)
	case Started:
		w.runQueue().started(e)
	case Wait:
		w.runQueue().wait(e)
	case Ended:
		w.outcomes().ended(e)
	case Noticed:
		w.notices().noticed(e)
	case Archived:
		w.endings().archived(e.ID)
	case Removed:
		w.endings().removed(e.ID)
	case ClockHeld:
		w.changes().clockHeld(e.Reason)
	case Prune:
		w.notices().prune()
	default:
		return Answer{}, refuse(template.ErrInvalid, "no such event")
	}
	return Answer{Status: 200}, nil
}
