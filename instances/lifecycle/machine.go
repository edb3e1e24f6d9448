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

// handleRequest handles the event of the command.
func handleRequest(tx *tx) (Answer, error) {
	switch e := tx.command.Event.(type) {
	case Create:
		return createInstance(tx, e)
	case Launch:
		return launchInstance(tx, e)
	case Adopt:
		return adoptInstance(tx, e)
	case Approve:
		return approveInstance(tx, e)
	case Reject:
		return rejectInstance(tx, e)
	case Cancel:
		return cancelInstance(tx, e)
	case Retry:
		return retryInstance(tx, e)
	case Protect:
		return protectInstance(tx, e)
	case Rename:
		return renameInstance(tx, e)
	case Orphan:
		return orphanInstance(tx, e)
	case DestroyNow:
		return destroyInstance(tx, e)
	case Extend:
		return extendInstance(tx, e)
	case Transfer:
		return transferInstance(tx, e)
	case Take:
		return takeOffer(tx, e)
	case Update:
		return updateInstance(tx, e)
	case Switch:
		return switchInstance(tx, e)
	case Pause:
		return pauseTemplate(tx, e)
	case Resume:
		return resumeTemplate(tx, e)
	case AcceptClock:
		return acceptClock(tx)
	}
	return handleWorkspaceRequest(tx)
}

// handleWorkspaceRequest handles events of workspaces.
func handleWorkspaceRequest(tx *tx) (Answer, error) {
	switch e := tx.command.Event.(type) {
	case OpenWorkspace:
		return openWorkspace(tx, e)
	case Enqueue:
		return enqueueRun(tx, e)
	case Confirm:
		return confirmRun(tx, e)
	case Discard:
		return discardRun(tx, e)
	case CancelOne:
		return cancelRun(tx, e)
	case CloseWorkspace:
		return closeWorkspace(tx, e)
	}
	return handleServerEvent(tx)
}

// handleServerEvent handles the server's events. An event that does not fit its record
// changes nothing.
func handleServerEvent(tx *tx) (Answer, error) {
	switch e := tx.command.Event.(type) {
	case ExpireCheck:
		handleDeadlines(tx, e.ID)
	case Fill:
		fillPool(tx, e)
	case UpdateCheck:
		checkUpdate(tx, e)
	case Schedule:
		scheduleRuns(tx, e.Concurrency)
	case Started:
		recordHandle(tx, e)
	case Wait:
		recordWait(tx, e)
	case Ended:
		endAttempt(tx, e)
	case Noticed:
		markNoticed(tx, e)
	case Archived:
		markArchived(tx, e.ID)
	case Removed:
		dropRemoved(tx, e.ID)
	case ClockHeld:
		holdClock(tx, e.Reason)
	case Prune:
		pruneRequests(tx)
	default:
		return Answer{}, refuse(template.ErrInvalid, "no such event")
	}
	return Answer{Status: 200}, nil
}
