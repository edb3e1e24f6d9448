// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// Masked replaces a value that is hidden from everyone.
const Masked = "(sensitive)"

// Instances is the answer to GET instances.
type Instances struct {
	Instances []Instance `json:"instances"` // the newest first
	Count     int        `json:"count"`     // of all matching instances, not only of this page
	Limit     int        `json:"limit"`     // on the caller's own live instances; 0: no limit
	Used      int        `json:"used"`      // live instances of the caller
	Shared    int        `json:"shared"`    // live instances of the caller's groups
	Next      string     `json:"next,omitempty"`
}

// Instance is one launch of a template.
type Instance struct {
	ID         string                     `json:"id"`
	Name       string                     `json:"name,omitempty"`
	Template   string                     `json:"template"`
	Title      string                     `json:"title,omitempty"` // of the template
	Role       string                     `json:"role,omitempty"`  // of the caller: owner, admin, approver, reader; or receiver: the instance is offered to the caller, who sees no more than the offer
	Source     Source                     `json:"source"`
	Owner      *Owner                     `json:"owner,omitempty"` // absent: no owner, in a pool
	CreatedBy  *Person                    `json:"created_by,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Phase      string                     `json:"phase"`
	Reason     string                     `json:"reason,omitempty"`
	Conditions []Condition                `json:"conditions,omitempty"`

	CreatedAt  time.Time `json:"created_at"`
	ReadyAt    time.Time `json:"ready_at,omitzero"`
	ClaimedAt  time.Time `json:"claimed_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // absent: no end; before it is ready the latest possible time
	TTL        span.Span `json:"ttl,omitzero"`        // from when it is ready or claimed; absent: no end
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Next       time.Time `json:"next,omitzero"` // when the next pending step is due

	// Only if the template has a schedule:
	Stopped      bool      `json:"stopped,omitempty"`       // until it is started, by the schedule or by hand
	StopsAt      time.Time `json:"stops_at,omitzero"`       // the next time by the schedule; absent: only by hand
	StartsAt     time.Time `json:"starts_at,omitzero"`      // likewise
	StoppedUntil string    `json:"stopped_until,omitempty"` // starts_at in the time zone of the schedule, such as Mon 07:00; only while stopped
	Hours        string    `json:"hours,omitempty"`         // both times in the time zone of the schedule, in words

	Extends    int    `json:"extends"`               // number of extensions so far
	ExtendsMax int    `json:"extends_max,omitempty"` // maximum number of extensions
	Protected  string `json:"protected,omitempty"`   // owner or admin: by whom
	Pooled     bool   `json:"pooled,omitempty"`
	Forced     bool   `json:"forced,omitempty"`

	Run        *Run                       `json:"run,omitempty"`     // the pending or running one
	Plan       string                     `json:"plan,omitempty"`    // the digest that an approval has to name
	Pending    *Pending                   `json:"pending,omitempty"` // what an approval covers
	Offer      *Offer                     `json:"offer,omitempty"`
	Cost       *Cost                      `json:"cost,omitempty"` // from when it was ready or claimed
	Outputs    map[string]json.RawMessage `json:"outputs,omitempty"`
	Connection *Connection                `json:"connection,omitempty"`
	Events     []Event                    `json:"events,omitempty"`  // the newest first
	Actions    []string                   `json:"actions,omitempty"` // what the caller may request now: constants Act…; in lists only approve and reject

	// Only in the answer for one instance, not in lists:
	ExtendBy span.Span `json:"extend_by,omitzero"` // length of an extension whose request names none
}

// Offer is an instance that its owner has offered to another owner.
type Offer struct {
	To      *Owner    `json:"to"`
	By      *Person   `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`             // the offer cannot be taken later
	Refused string    `json:"refused,omitempty"` // why the caller cannot take it now; not in lists
}

// Pending is what waits for approval. In a list it lacks sources, and has only the values
// that change, the first few.
type Pending struct {
	What   string    `json:"what"`            // one of the constants
	By     *Person   `json:"by,omitempty"`    // absent: the server
	First  *Person   `json:"first,omitempty"` // who made the first request for it, if that is a different person
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"` // given by the requester
	Run    int       `json:"run,omitempty"`    // the run that made the plan; 0: nothing is planned yet

	Values      []ValueChange `json:"values,omitempty"` // by name
	Source      Source        `json:"source,omitzero"`
	Was         *Source       `json:"was,omitempty"`      // absent: there was no source before
	Template    string        `json:"template,omitempty"` // digest
	TemplateWas string        `json:"template_was,omitempty"`

	Changes    []ModuleChange `json:"changes,omitempty"`      // of the module, breaking changes first
	Left       int            `json:"changes_left,omitempty"` // number of further changes
	Uncompared string         `json:"uncompared,omitempty"`   // why two versions of the module were not compared; "": they were, if there are two

	TTL   span.Span `json:"ttl,omitzero"`  // of a launch; 0: no end
	Ends  time.Time `json:"ends,omitzero"` // of an extension: the present end
	Until time.Time `json:"until,omitzero"`
}

// Kinds of pending approvals.
const (
	PendingLaunch = "launch" // before anything runs
	PendingUpdate = "update" // likewise
	PendingPlan   = "plan"   // exactly one plan
	PendingExtend = "extend" // a later end
)

// ValueChange is a parameter before and after the change. A hidden value is [Masked];
// Changed is set even then.
type ValueChange struct {
	Name    string          `json:"name"`
	Old     json.RawMessage `json:"old,omitempty"` // absent: none
	New     json.RawMessage `json:"new,omitempty"`
	Changed bool            `json:"changed,omitempty"`
}

// ModuleChange is one difference between two versions of a module.
type ModuleChange struct {
	What     string `json:"what"` // tool, provider, input, output, resource or data source
	Name     string `json:"name"`
	Change   string `json:"change"`           // added, removed or changed
	Effect   string `json:"effect,omitempty"` // breaks, may break or new
	Detail   string `json:"detail,omitempty"` // its new and its old form; one short line
	Breaking bool   `json:"breaking,omitempty"`
}

// Actions on an instance.
const (
	ActApprove   = "approve"
	ActReject    = "reject"
	ActExtend    = "extend"
	ActRetry     = "retry"
	ActCancel    = "cancel"
	ActUpdate    = "update"
	ActRename    = "rename" // requested as an update of the name
	ActStop      = "stop"   // only with a schedule
	ActStart     = "start"
	ActProtect   = "protect"
	ActUnprotect = "unprotect"
	ActTransfer  = "transfer"
	ActTake      = "take"    // accepts an offer
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

// These are shown as they are stored.
type (
	Owner      = template.Owner
	Person     = lifecycle.Actor // a user or other caller who did something
	Condition  = lifecycle.Condition
	Connection = template.Connection // how to reach what the instance made
	Counts     = lifecycle.Counts    // of changes in a plan or an apply
	Note       = lifecycle.Note      // on a plan: what it forgets or imports, or a failed check
	Cost       = template.Cost       // for display only
)

// Event is a past event of an instance.
type Event struct {
	At       time.Time `json:"at"`
	Instance string    `json:"instance,omitempty"` // only in the stream of all instances
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
	Reason    string    `json:"reason,omitempty"` // of the request
	Approved  *Person   `json:"approved_by,omitempty"`
	QueuedAt  time.Time `json:"queued_at"`
	NotBefore time.Time `json:"not_before,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Source    Source    `json:"source"`
	Plan      string    `json:"plan,omitempty"`
	Counts    *Counts   `json:"counts,omitempty"`
	Notes     []Note    `json:"notes,omitempty"`
	Error     string    `json:"error,omitempty"`
	Result    string    `json:"result,omitempty"` // done, failed, lost or cancelled; "": it is not over
	Switch    string    `json:"switch,omitempty"` // stop or start, if the run does only that
	Position  int       `json:"place,omitempty"`  // in the queue, the next one being 1; 0: not waiting

	Cost *prices.Cost `json:"cost,omitempty"` // of the plan; absent: not known, or the server has no prices
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
	Resources []string `json:"resources"` // addresses in the last state, without data sources
}

// ShownOutput is the answer to POST instances/ID/outputs/reveal.
type ShownOutput struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Sensitive bool            `json:"sensitive"`
}
