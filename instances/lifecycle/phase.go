// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"
)

// Phase is the stage of an instance's life.
type Phase string

// Phases. All but the last three are live.
const (
	Requested     Phase = "requested"    // waits for approval of the request
	Planned       Phase = "planned"      // waits for approval of exactly one plan
	Provisioning  Phase = "provisioning" // its first apply is pending or runs
	Updating      Phase = "updating"     // another apply is pending or runs
	Available     Phase = "available"    // a pool member without an owner
	Ready         Phase = "ready"
	Failed        Phase = "failed"
	Destroying    Phase = "destroying"
	DestroyFailed Phase = "destroy_failed"
	Destroyed     Phase = "destroyed" // nothing is left
	Orphaned      Phase = "orphaned"  // its resources stay, and nothing manages them
	Rejected      Phase = "rejected"  // nothing was made
)

// Phases returns all phases.
func Phases() []Phase {
	return []Phase{Requested, Planned, Provisioning, Updating, Available, Ready, Failed, Destroying, DestroyFailed, Destroyed, Orphaned, Rejected}
}

// IsKnown reports whether there is such a phase.
func (p Phase) IsKnown() bool { return slices.Contains(Phases(), p) }

// Live reports whether an instance counts as existing: it has, or may have, resources.
func (p Phase) Live() bool { return p != Destroyed && p != Orphaned && p != Rejected }

// RunKind is what a run does.
type RunKind string

// Kinds of runs.
const (
	RunApply   RunKind = "apply"
	RunPlan    RunKind = "plan"  // an apply up to its plan, which is reviewed
	RunDrift   RunKind = "drift" // a plan that only refreshes
	RunDestroy RunKind = "destroy"
)

// Condition is a fact about an instance besides its phase.
type Condition struct {
	Type    string `json:"type"`             // one of the constants below
	Reason  string `json:"reason,omitempty"` // of Waiting: one word
	Message string `json:"message,omitempty"`
}

// Types of conditions, and reasons of Waiting.
const (
	Drifted          = "Drifted"
	UpdateAvailable  = "UpdateAvailable"
	ExpiresSoon      = "ExpiresSoon"
	ExpiredProtected = "ExpiredProtected"
	Waiting          = "Waiting"

	WaitQueued            = "Queued"
	WaitRetry             = "Retry" // an attempt failed, the next one is delayed
	WaitStateLocked       = "StateLocked"
	WaitCredentialMissing = "CredentialMissing"
)

// verb is what a caller does to an instance, as worded in refusals.
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

// phaseAdmits is the table of what callers may do in each phase.
func phaseAdmits(v verb, p Phase) bool {
	switch v {
	case verbApprove, verbReject: // rows 2, 4
		return p == Requested || p == Planned
	case verbCancel: // rows 2, 4, 7
		return p == Requested || p == Planned || p == Provisioning || p == Updating
	case verbRetry: // rows 16, 19; between attempts see [Record.admitsVerb]
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
		return canExpire(p)
	case verbProtect, verbFree, verbRename, verbTransfer, verbTake, verbDecline: // rows 21, 24
		return p.Live() && !slices.Contains([]Phase{Requested, Planned, Available, Destroying}, p)
	}
	return false
}

// admitsVerb reports whether a verb applies to what waits for approval, or between two attempts:
// retry starts the next one now, cancel ends retrying.
func (r *Record) admitsVerb(v verb, now time.Time) bool {
	switch v {
	case verbApprove, verbReject:
		return r.waitsForChange()
	case verbCancel:
		return r.waitsForChange() || r.Phase == Destroying && r.Run.isWaiting() && r.Run.Failures > 0
	case verbRetry:
		return r.Run.isWaiting() && r.Run.NotBefore.After(now)
	}
	return false
}

// canExpire reports whether an end applies in a phase: rows 12 to 14.
func canExpire(p Phase) bool {
	return p.Live() && !slices.Contains([]Phase{Requested, Available, Destroying, DestroyFailed}, p)
}

// findInstance returns the record of an event, and refuses what its phase, or its end, forbids.
func findInstance(tx *tx, id string, v verb) (*Record, error) {
	r := tx.doc.Records[id]
	switch {
	case r == nil || r.Workspace != "": // workspaces have their own events
		return nil, newRefusal(ErrNotFound, "instance %s not found", clipForeign(id, 64))
	case !phaseAdmits(v, r.Phase) && !r.admitsVerb(v, tx.now):
		return nil, newRefusal(ErrPhase, "instance %s is %s and cannot be %s", r.ID, r.Phase, v)
	case isExpired(tx, r):
		return nil, newRefusal(ErrPhase, "instance %s has expired and cannot be %s", r.ID, v)
	}
	return r, nil
}
