// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// Machine is the life of instances as a pure function: no clock, no randomness,
// no input or output.
type Machine struct {
	Limits Limits
}

// Limits are what the server says of all templates.
type Limits struct {
	Quotas       []Quota
	ApprovalSelf bool // who asked for a run may approve it
}

// Step returns the document after a command, what is then to be done, and what
// the caller is told. It leaves d alone and copies what it changes; a command
// that changes nothing returns d itself, so that nothing need be kept. Time never
// runs behind the last commit. An error of one of the kinds of this package
// comes with d and no effects: the command is refused, and nothing of it stays.
func (m *Machine) Step(d *Document, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	now = later(now.UTC().Round(0), d.Clock.At)
	if p, ok := c.Event.(Pass); ok {
		return m.pass(d, p, c, now)
	}
	w := &work{Machine: m, doc: d, old: d, command: c, now: now}
	answer, err := w.answer()
	if err != nil {
		return d, nil, Answer{}, err
	}
	w.close()
	return w.doc, w.effects, answer, nil
}

// pass takes the events of a [Pass] one after the other.
func (m *Machine) pass(d *Document, p Pass, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	var effects []Effect
	for i, e := range p.Events {
		if _, nested := e.(Pass); nested {
			continue
		}
		after, more, _, err := m.Step(d, Command{Event: e, Actor: c.Actor, Seed: derive(c.Seed, i)}, now)
		if err == nil {
			d, effects = after, append(effects, more...)
		}
	}
	return d, effects, Answer{Status: 200}, nil
}

// dispatch does what the event of the command says.
func (w *work) dispatch() (Answer, error) {
	switch e := w.command.Event.(type) {
	case Create:
		return w.create(e)
	case Launch:
		return w.launch(e)
	case Adopt:
		return w.adopt(e)
	case Approve:
		return w.approve(e)
	case Reject:
		return w.reject(e)
	case Cancel:
		return w.cancel(e)
	case Retry:
		return w.retry(e)
	case Protect:
		return w.protect(e)
	case Rename:
		return w.rename(e)
	case Orphan:
		return w.orphan(e)
	case DestroyNow:
		return w.destroyNow(e)
	case Extend:
		return w.extend(e)
	case Transfer:
		return w.transfer(e)
	case Update:
		return w.update(e)
	case Pause:
		return w.pause(e)
	case Resume:
		return w.resume(e)
	case AcceptClock:
		return w.acceptClock()
	}
	return w.ofWorkspace()
}

// ofWorkspace does what the event says of a workspace.
func (w *work) ofWorkspace() (Answer, error) {
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

// serve does what the server's own events say: one that meets a record that it
// does not fit changes nothing.
func (w *work) serve() (Answer, error) {
	switch e := w.command.Event.(type) {
	case Tick:
		w.tick(e.ID)
	case Fill:
		w.fill(e)
	case Offer:
		w.offer(e)
	case Schedule:
		w.schedule(e.Places)
	case Started:
		w.started(e)
	case Wait:
		w.wait(e)
	case Ended:
		w.ended(e)
	case Noticed:
		w.noticed(e)
	case Archived:
		w.archived(e.ID)
	case Removed:
		w.removed(e.ID)
	case ClockHeld:
		w.clockHeld(e.Reason)
	case Prune:
		w.prune()
	default:
		return Answer{}, refuse(ErrInvalid, "no such event")
	}
	return Answer{Status: 200}, nil
}
