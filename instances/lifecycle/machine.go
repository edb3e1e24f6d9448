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

// Events of the server; requests of callers are beside what they do.

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
