// SPDX-License-Identifier: Apache-2.0

package lifecycle

// Phase is where an instance is in its life.
type Phase string

// Phases. All but the last three are live.
const (
	Requested     Phase = "requested"    // waits for approval of the request
	Planned       Phase = "planned"      // waits for approval of exactly one plan
	Provisioning  Phase = "provisioning" // its first apply is due or runs
	Updating      Phase = "updating"     // another apply is due or runs
	Available     Phase = "available"    // a member of a pool that nobody owns
	Ready         Phase = "ready"
	Failed        Phase = "failed"
	Destroying    Phase = "destroying"
	DestroyFailed Phase = "destroy_failed"
	Destroyed     Phase = "destroyed" // nothing is left
	Orphaned      Phase = "orphaned"  // its resources are left to people
	Rejected      Phase = "rejected"  // nothing was made
)

// Live reports whether an instance of the phase counts: it has, or may have,
// resources.
func (p Phase) Live() bool { return p != Destroyed && p != Orphaned && p != Rejected }

// RunKind is what a run does.
type RunKind string

// Kinds of runs.
const (
	RunApply   RunKind = "apply"
	RunPlan    RunKind = "plan"  // an apply up to its plan, which somebody approves
	RunDrift   RunKind = "drift" // a plan that only refreshes
	RunDestroy RunKind = "destroy"
)

// Condition is what is true of an instance beside its phase.
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
	WaitRetry             = "Retry" // an attempt failed, the next one has its time
	WaitStateLocked       = "StateLocked"
	WaitCredentialMissing = "CredentialMissing"
)
