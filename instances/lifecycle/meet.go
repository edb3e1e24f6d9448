// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

// verb is what a caller does to an instance, as a refusal says it.
type verb string

const (
	verbApprove  verb = "approved"
	verbReject   verb = "rejected"
	verbCancel   verb = "cancelled"
	verbRetry    verb = "retried"
	verbProtect  verb = "protected"
	verbFree     verb = "unprotected"
	verbRename   verb = "renamed"
	verbOrphan   verb = "orphaned"
	verbDestroy  verb = "destroyed"
	verbExtend   verb = "extended"
	verbTransfer verb = "transferred"
	verbTake     verb = "taken"
	verbDecline  verb = "declined"
	verbUpdate   verb = "updated"
	verbStop     verb = "stopped"
	verbStart    verb = "started"
)

// admits is the table of what callers may do in which phase.
func admits(v verb, p Phase) bool {
	switch v {
	case verbApprove, verbReject: // rows 2, 4
		return p == Requested || p == Planned
	case verbCancel: // rows 2, 4, 7
		return p == Requested || p == Planned || p == Provisioning || p == Updating
	case verbRetry: // rows 16, 19; between attempts see [Record.admits]
		return p == Failed || p == DestroyFailed
	case verbUpdate: // rows 10, 19
		return p == Ready || p == Failed || p == DestroyFailed
	case verbStop, verbStart: // row 25
		return p == Ready || p == Failed || p == Updating
	case verbOrphan: // row 20
		return p == Ready || p == Failed || p == DestroyFailed
	case verbDestroy: // rows 2, 15
		return p.Live() && p != Destroying
	case verbExtend: // row 12
		return ends(p)
	case verbProtect, verbFree, verbRename, verbTransfer, verbTake, verbDecline: // rows 21, 24
		return p.Live() && p != Requested && p != Planned && p != Available && p != Destroying
	}
	return false
}

// admits reports whether a verb is about a change that waits for approval, or about a
// run between two attempts: the next one is made at once, or, of a run that destroys,
// not at all for now.
func (r *Record) admits(v verb, now time.Time) bool {
	switch v {
	case verbApprove, verbReject:
		return r.waitsForChange()
	case verbCancel:
		return r.waitsForChange() || r.Phase == Destroying && r.Run.waits() && r.Run.Failures > 0
	case verbRetry:
		return r.Run.waits() && r.Run.NotBefore.After(now)
	}
	return false
}

// ends reports whether an end counts in a phase: rows 12 to 14.
func ends(p Phase) bool {
	return p.Live() && p != Requested && p != Available && p != Destroying && p != DestroyFailed
}

// meet returns the record that a caller's event is about. It refuses what its
// phase does not let happen; a record whose end has come is as good as ended.
func (w *work) meet(id string, v verb) (*Record, error) {
	r := w.doc.Records[id]
	switch {
	case r == nil || r.isWorkspace(): // which has events of its own
		return nil, refuse(ErrNotFound, "no such instance: %s", clip(id, 64))
	case !admits(v, r.Phase) && !r.admits(v, w.now):
		return nil, refuse(ErrPhase, "instance %s is %s and cannot be %s", r.ID, r.Phase, v)
	case w.endings().expired(r):
		return nil, refuse(ErrPhase, "instance %s has come to its end and cannot be %s", r.ID, v)
	}
	return r, nil
}
