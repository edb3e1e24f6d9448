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
		return m.stepAll(d, p, c, now)
	}
	if c.Event == nil {
		return d, nil, Answer{}, refuse(template.ErrInvalid, "no such event")
	}
	tx := &tx{machine: m, doc: d, old: d, command: c, now: now}
	answer, err := answerCommand(tx)
	if err != nil {
		return d, nil, Answer{}, err
	}
	tx.close()
	return tx.doc, tx.effects, answer, nil
}

// stepAll applies the events of a [Reconcile] one after the other.
func (m *Machine) stepAll(d *Document, p Reconcile, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	var effects []Effect
	for i, e := range p.Events {
		if _, nested := e.(Reconcile); nested {
			continue
		}
		after, more, _, err := m.Step(d, Command{Event: e, Actor: c.Actor, Seed: deriveValue(c.Seed, i)}, now)
		if err == nil {
			d = after
			effects = append(effects, more...)
		}
	}
	return d, effects, Answer{Status: 200}, nil
}

// accepted answers an event of the server.
var accepted = Answer{Status: 200}

// Requests of callers.

func (e Create) apply(tx *tx) (Answer, error)         { return createInstance(tx, e) }
func (e Launch) apply(tx *tx) (Answer, error)         { return launchInstance(tx, e) }
func (e Adopt) apply(tx *tx) (Answer, error)          { return adoptInstance(tx, e) }
func (e Approve) apply(tx *tx) (Answer, error)        { return approveInstance(tx, e) }
func (e Reject) apply(tx *tx) (Answer, error)         { return rejectInstance(tx, e) }
func (e Cancel) apply(tx *tx) (Answer, error)         { return cancelInstance(tx, e) }
func (e Retry) apply(tx *tx) (Answer, error)          { return retryInstance(tx, e) }
func (e Protect) apply(tx *tx) (Answer, error)        { return protectInstance(tx, e) }
func (e Rename) apply(tx *tx) (Answer, error)         { return renameInstance(tx, e) }
func (e Orphan) apply(tx *tx) (Answer, error)         { return orphanInstance(tx, e) }
func (e DestroyNow) apply(tx *tx) (Answer, error)     { return destroyInstance(tx, e) }
func (e Extend) apply(tx *tx) (Answer, error)         { return extendInstance(tx, e) }
func (e Transfer) apply(tx *tx) (Answer, error)       { return transferInstance(tx, e) }
func (e Take) apply(tx *tx) (Answer, error)           { return takeOffer(tx, e) }
func (e Update) apply(tx *tx) (Answer, error)         { return updateInstance(tx, e) }
func (e Switch) apply(tx *tx) (Answer, error)         { return switchInstance(tx, e) }
func (e Pause) apply(tx *tx) (Answer, error)          { return pauseTemplate(tx, e) }
func (e Resume) apply(tx *tx) (Answer, error)         { return resumeTemplate(tx, e) }
func (e OpenWorkspace) apply(tx *tx) (Answer, error)  { return openWorkspace(tx, e) }
func (e Enqueue) apply(tx *tx) (Answer, error)        { return enqueueRun(tx, e) }
func (e Confirm) apply(tx *tx) (Answer, error)        { return confirmRun(tx, e) }
func (e Discard) apply(tx *tx) (Answer, error)        { return discardRun(tx, e) }
func (e CancelOne) apply(tx *tx) (Answer, error)      { return cancelRun(tx, e) }
func (e CloseWorkspace) apply(tx *tx) (Answer, error) { return closeWorkspace(tx, e) }
func (AcceptClock) apply(tx *tx) (Answer, error)      { return acceptClock(tx) }

// Events of the server.

func (e ExpireCheck) apply(tx *tx) (Answer, error) { handleDeadlines(tx, e.ID); return accepted, nil }
func (e Fill) apply(tx *tx) (Answer, error)        { fillPool(tx, e); return accepted, nil }
func (e UpdateCheck) apply(tx *tx) (Answer, error) { checkUpdate(tx, e); return accepted, nil }
func (e Schedule) apply(tx *tx) (Answer, error)    { scheduleRuns(tx, e); return accepted, nil }
func (e Started) apply(tx *tx) (Answer, error)     { recordHandle(tx, e); return accepted, nil }
func (e Wait) apply(tx *tx) (Answer, error)        { recordWait(tx, e); return accepted, nil }
func (e Ended) apply(tx *tx) (Answer, error)       { endAttempt(tx, e); return accepted, nil }
func (e Noticed) apply(tx *tx) (Answer, error)     { markNoticed(tx, e); return accepted, nil }
func (e Archived) apply(tx *tx) (Answer, error)    { markArchived(tx, e.ID); return accepted, nil }
func (e Removed) apply(tx *tx) (Answer, error)     { dropRemoved(tx, e.ID); return accepted, nil }
func (e ClockHeld) apply(tx *tx) (Answer, error)   { holdClock(tx, e.Reason); return accepted, nil }
func (Prune) apply(tx *tx) (Answer, error)         { pruneRequests(tx); return accepted, nil }

// apply refuses a Reconcile within another one.
func (Reconcile) apply(*tx) (Answer, error) {
	return Answer{}, refuse(template.ErrInvalid, "no such event")
}
