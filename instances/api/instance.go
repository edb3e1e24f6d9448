// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
)

// Masked stands for a value that nobody is shown.
const Masked = "(sensitive)"

// Instances is the answer to GET instances.
type Instances struct {
	Instances []Instance `json:"instances"` // the newest first
	Count     int        `json:"count"`     // of all that match, not only of this page
	Limit     int        `json:"limit"`     // of the caller's own live instances; 0: none
	Used      int        `json:"used"`      // the caller's own that live
	Shared    int        `json:"shared"`    // those that live and belong to groups of the caller
	Next      string     `json:"next,omitempty"`
}

// Instance is one launch of a template.
type Instance struct {
	ID         string                     `json:"id"`
	Name       string                     `json:"name,omitempty"`
	Template   string                     `json:"template"`
	Role       string                     `json:"role,omitempty"` // what the caller is to it: owner, admin, approver, reader; or receiver: it is offered to him, and that is all he sees of it
	Source     Source                     `json:"source"`
	Owner      *Owner                     `json:"owner,omitempty"` // absent: nobody's, in a pool
	CreatedBy  *Person                    `json:"created_by,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Phase      string                     `json:"phase"`
	Reason     string                     `json:"reason,omitempty"`
	Conditions []Condition                `json:"conditions,omitempty"`

	CreatedAt  time.Time `json:"created_at"`
	ReadyAt    time.Time `json:"ready_at,omitzero"`
	ClaimedAt  time.Time `json:"claimed_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // absent: no end; before it is ready the latest that is possible
	TTL        Duration  `json:"ttl,omitzero"`        // from when it is ready or claimed; absent: no end
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Next       time.Time `json:"next,omitzero"` // when something is pending

	// Of one whose template has a schedule:
	Stopped      bool      `json:"stopped,omitempty"`       // until it is started, by the schedule or by hand
	StopsAt      time.Time `json:"stops_at,omitzero"`       // the next time by the schedule; absent: only by hand
	StartsAt     time.Time `json:"starts_at,omitzero"`      // likewise
	StoppedUntil string    `json:"stopped_until,omitempty"` // starts_at of what is stopped on the clocks of the schedule, such as Mon 07:00

	Extends    int    `json:"extends"`               // times that it was extended
	ExtendsMax int    `json:"extends_max,omitempty"` // of that many
	Protected  string `json:"protected,omitempty"`   // owner or admin: by whom
	Pooled     bool   `json:"pooled,omitempty"`
	Forced     bool   `json:"forced,omitempty"`

	Run        *Run                       `json:"run,omitempty"`     // that is pending, or runs
	Plan       string                     `json:"plan,omitempty"`    // what an approval has to name
	Pending    *Pending                   `json:"pending,omitempty"` // what that lets through
	Offer      *Offer                     `json:"offer,omitempty"`
	Outputs    map[string]json.RawMessage `json:"outputs,omitempty"`
	Connection *Connection                `json:"connection,omitempty"`
	Events     []Event                    `json:"events,omitempty"` // the newest first

	// Of one instance, not of those in a list:
	Actions  []string `json:"actions,omitempty"`  // what the caller may ask for now: constants Act…
	Cost     *Cost    `json:"cost,omitempty"`     // from when it was ready or claimed
	ExtendBy Duration `json:"extend_by,omitzero"` // by how much an extension is that names no time
}

// Offer is an instance that its owner would give to somebody else.
type Offer struct {
	To      *Owner    `json:"to"`
	By      *Person   `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`             // nobody can take it after that
	Refused string    `json:"refused,omitempty"` // of one instance: why the caller, whom it is offered to, cannot take it now
}

// Pending is what waits for approval. In a list it has no values and sources.
type Pending struct {
	What   string    `json:"what"`            // one of the constants
	By     *Person   `json:"by,omitempty"`    // absent: the server
	First  *Person   `json:"first,omitempty"` // who asked for the same when it was first tried, if that is somebody else
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"` // of who asks
	Run    int       `json:"run,omitempty"`    // whose plan it is; 0: nothing is planned yet

	Values      []ValueChange `json:"values,omitempty"` // all of them, by name
	Source      Source        `json:"source,omitzero"`
	Was         *Source       `json:"was,omitempty"`      // absent: nothing was there before
	Template    string        `json:"template,omitempty"` // digest
	TemplateWas string        `json:"template_was,omitempty"`

	Changes    []ModuleChange `json:"changes,omitempty"`      // of the module, what can break a caller first
	Left       int            `json:"changes_left,omitempty"` // how many more there are
	Uncompared string         `json:"uncompared,omitempty"`   // why two versions of it were not compared; "": they were, if there are two

	TTL   Duration  `json:"ttl,omitzero"`  // of a launch; 0: no end
	Ends  time.Time `json:"ends,omitzero"` // of an extension: as it is
	Until time.Time `json:"until,omitzero"`
}

// What waits for approval.
const (
	PendingLaunch = "launch" // before anything runs
	PendingUpdate = "update" // likewise
	PendingPlan   = "plan"   // exactly one plan
	PendingExtend = "extend" // a later end
)

// ValueChange is a parameter as it is and as it would be. A value that nobody is shown is
// [Masked], and Changed tells all the same.
type ValueChange struct {
	Name    string          `json:"name"`
	Old     json.RawMessage `json:"old,omitempty"` // absent: none
	New     json.RawMessage `json:"new,omitempty"`
	Changed bool            `json:"changed,omitempty"`
}

// ModuleChange is one thing that is not the same in two versions of a module.
type ModuleChange struct {
	What     string `json:"what"` // input, output, provider, resource or data source
	Name     string `json:"name"`
	Change   string `json:"change"`             // added, removed or changed
	Detail   string `json:"detail,omitempty"`   // what it is now, and was before; one line, short
	Breaking bool   `json:"breaking,omitempty"` // it can break a caller
}

// Actions on an instance.
const (
	ActApprove   = "approve"
	ActReject    = "reject"
	ActExtend    = "extend"
	ActRetry     = "retry"
	ActCancel    = "cancel"
	ActUpdate    = "update"
	ActRename    = "rename" // asked for as an update of the name
	ActStop      = "stop"   // of what has a schedule
	ActStart     = "start"
	ActProtect   = "protect"
	ActUnprotect = "unprotect"
	ActTransfer  = "transfer"
	ActTake      = "take"    // what is offered
	ActDecline   = "decline" // likewise
	ActDestroy   = "destroy"
	ActOrphan    = "orphan"
)

// Source is the module that an instance runs.
type Source struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	Digest  string `json:"digest,omitempty"`
	Path    string `json:"path,omitempty"`
}

// Owner is who an instance belongs to.
type Owner struct {
	Kind   string `json:"kind"` // user, group or claim
	Issuer string `json:"issuer,omitempty"`
	ID     string `json:"id"`
	Label  string `json:"label,omitempty"`
}

// Person is somebody who did something.
type Person struct {
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject"`
	Label   string `json:"label,omitempty"`
}

// Condition is what is true of an instance beside its phase.
type Condition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Connection tells how to reach what was made.
type Connection struct {
	Type    string `json:"type"` // web or instructions
	URL     string `json:"url,omitempty"`
	Message string `json:"message,omitempty"`
}

// Event is one thing that happened to an instance.
type Event struct {
	At       time.Time `json:"at"`
	Instance string    `json:"instance,omitempty"` // in the stream of all
	Template string    `json:"template,omitempty"`
	Phase    string    `json:"phase,omitempty"` // after it
	Actor    string    `json:"actor,omitempty"` // "": the server
	Action   string    `json:"action"`
	Detail   string    `json:"detail,omitempty"`
}

// Run is one execution of the tool for an instance.
type Run struct {
	N         int       `json:"n"`
	Attempt   int       `json:"attempt,omitempty"`
	Kind      string    `json:"kind"`
	By        *Person   `json:"by,omitempty"`     // absent: the server
	Reason    string    `json:"reason,omitempty"` // that was given
	Approved  *Person   `json:"approved_by,omitempty"`
	QueuedAt  time.Time `json:"queued_at"`
	NotBefore time.Time `json:"not_before,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Source    Source    `json:"source"`
	Plan      string    `json:"plan,omitempty"`
	Counts    *Counts   `json:"counts,omitempty"`
	Error     string    `json:"error,omitempty"`
	Result    string    `json:"result,omitempty"` // done, failed, lost or cancelled; "": it is not over
	Switch    string    `json:"switch,omitempty"` // stop or start, where that is all it does
	Position  int       `json:"place,omitempty"`  // in the queue, the next one being 1; 0: it does not wait

	Cost *prices.Cost `json:"cost,omitempty"` // of the plan; absent: the server has no prices, or it is not known
}

// Counts are the changes of a plan or of an apply.
type Counts struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Remove  int `json:"remove"`
	Replace int `json:"replace,omitempty"`
}

// Runs is the answer to GET instances/ID/runs.
type Runs struct {
	Runs []Run `json:"runs"` // the newest first
}

// Outputs is the answer to GET instances/ID/outputs. Sensitive ones are [Masked].
type Outputs struct {
	Outputs    map[string]json.RawMessage `json:"outputs"`
	Connection *Connection                `json:"connection,omitempty"`
}

// Resources is the answer to GET instances/ID/resources.
type Resources struct {
	Resources []string `json:"resources"` // addresses of what the last state has, data sources aside
}

// ShownOutput is the answer to POST instances/ID/outputs/reveal.
type ShownOutput struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Sensitive bool            `json:"sensitive"`
}
