// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/template"
)

// Document is all that the machine knows: what a ledger keeps. A value is never
// changed once it is in a document: [Machine.Step] copies what it touches.
type Document struct {
	Version   int                           `json:"version"`   // of the format: 1
	Templates map[string]*template.Template `json:"templates"` // snapshots that records use, by digest
	Records   map[string]*Record            `json:"records"`   // by id
	Pools     map[string]*Pool              `json:"pools"`     // by name of the template; also those that are only paused
	Requests  map[string]*Request           `json:"requests"`  // what was answered, by [Command.Key]
	Clock     Clock                         `json:"clock"`
}

// Clock is what the document knows of time.
type Clock struct {
	At     time.Time `json:"at"`              // of the last commit; time never runs behind it
	Held   string    `json:"held,omitempty"`  // why expiry and drain wait for a person; "": they do not
	Accept time.Time `json:"accept,omitzero"` // when an admin confirmed the clock

	Notices []Notice `json:"notices,omitempty"` // that it is held; not yet handed over
}

// Actor is who does something: a caller whom the server knows, with the owners
// he may act for. The zero Actor is the server itself.
type Actor struct {
	Issuer  string   `json:"issuer,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Label   string   `json:"label,omitempty"`
	Groups  []string `json:"-"` // of the issuer
	Admin   bool     `json:"-"` // of instances of this template
}

// Record is one instance.
type Record struct {
	ID         string                     `json:"id"`
	Name       string                     `json:"name,omitempty"`
	Template   string                     `json:"template"` // namespace/name
	Snapshot   string                     `json:"snapshot"` // digest, key of Document.Templates
	Source     template.Source            `json:"source"`
	Owner      template.Owner             `json:"owner,omitzero"` // zero: nobody's, in a pool
	CreatedBy  Actor                      `json:"created_by,omitzero"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Sensitive  []string                   `json:"sensitive,omitempty"` // names of Parameters that nobody is shown
	Claims     map[string]string          `json:"claims,omitempty"`    // those that the template names
	Phase      Phase                      `json:"phase"`
	Reason     string                     `json:"reason,omitempty"` // why it is in this phase
	Conditions []Condition                `json:"conditions,omitempty"`

	CreatedAt  time.Time `json:"created_at"`
	ReadyAt    time.Time `json:"ready_at,omitzero"`   // the first time
	ClaimedAt  time.Time `json:"claimed_at,omitzero"` // from a pool
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // zero: no end
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Extends    int       `json:"extends,omitempty"`
	// TTL is the lifetime from when it is ready or claimed; 0: no end. Since is
	// what the template's max counts from: creation, approval or claim.
	TTL   time.Duration `json:"ttl,omitempty"`
	Since time.Time     `json:"since,omitzero"`

	Protected string `json:"protected,omitempty"` // "", "owner" or "admin": by whom
	Pooled    bool   `json:"pooled,omitempty"`    // it was made for a pool
	Forced    bool   `json:"forced,omitempty"`    // an admin let it go beyond a limit
	Applied   bool   `json:"applied,omitempty"`   // an apply was committed: there may be a state
	Empty     bool   `json:"empty,omitempty"`     // the state listed no resources when the last attempt ended
	Revised   bool   `json:"revised,omitempty"`   // an update gave it another snapshot
	Kept      bool   `json:"kept,omitempty"`      // orphaned by its end: counts until an admin removes it
	Archived  bool   `json:"archived,omitempty"`  // what is kept of a final record is written
	Removing  bool   `json:"removing,omitempty"`  // its tags go, then the record

	// Of a workspace only: its name, "" for instances; its runs that wait for their
	// turn or for somebody, oldest first; the highest number that a run had.
	Workspace string `json:"workspace,omitempty"`
	Open      []Run  `json:"open,omitempty"`
	Numbered  int    `json:"numbered,omitempty"`
	Latest    *Ref   `json:"latest,omitempty"` // of a workspace: the attempt that was begun last

	// Pending is what waits for approval before anything runs: of a requested instance the
	// launch, of one that is there a change. nil: nothing.
	Pending  *Pending `json:"pending,omitempty"`
	Declined string   `json:"declined,omitempty"` // what the server wanted by itself and nobody approved: see revisionOf

	Offer    *Gift          `json:"offer,omitempty"`   // to whom its owner would give it; nil: to nobody
	Approved template.Owner `json:"approved,omitzero"` // whose launch or update was approved; zero: its owner's, or nobody's

	// Switch is of what was ready, or available, and whose template has a schedule; else nil.
	Switch *switching `json:"switch,omitempty"`

	Run  *Run  `json:"run,omitempty"`  // that is pending, runs, or waits for approval; nil: none
	Then *Run  `json:"then,omitempty"` // that follows Run, which is cancelled for it
	Runs []Run `json:"runs,omitempty"` // the 10 newest that ended, newest first

	Outputs    map[string]json.RawMessage `json:"outputs,omitempty"` // listed by the template, not sensitive
	Connection *template.Connection       `json:"connection,omitempty"`
	Notices    []Notice                   `json:"notices,omitempty"` // not yet handed over, or already sent before the end
	Events     []History                  `json:"events,omitempty"`  // the 10 newest, newest first
	Key        string                     `json:"key,omitempty"`     // of the request that made or claimed it
	Next       time.Time                  `json:"next,omitzero"`     // when something is pending; zero: never
}

// Pending is a request that somebody has to approve. Without Update and Until it is the
// launch of the record that has it.
type Pending struct {
	By     Actor          `json:"by,omitzero"` // who asks; zero: the server
	At     time.Time      `json:"at"`
	Why    string         `json:"why,omitempty"` // the reason that was given
	Salt   string         `json:"salt"`          // random: what an approval names tells nothing of values
	Update *pendingUpdate `json:"update,omitempty"`
	Until  time.Time      `json:"until,omitzero"` // the end that an extension gives
}

// pendingUpdate is what the run of an update is made of.
type pendingUpdate struct {
	Source     template.Source            `json:"source"`
	Snapshot   string                     `json:"snapshot"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"` // all of them; nil: as they are
	Auto       bool                       `json:"auto,omitempty"`       // the server wants it by itself
}

// Run is one execution of the tool for an instance: n counts runs, Attempt the
// times that this one was started.
type Run struct {
	N       int     `json:"n"`
	Attempt int     `json:"attempt,omitempty"` // 0: not started yet
	Kind    RunKind `json:"kind"`
	Nonce   string  `json:"nonce,omitempty"`  // of the attempt; its result repeats it
	Before  string  `json:"before,omitempty"` // nonce of the attempt before, whose lock may be left
	Handle  string  `json:"handle,omitempty"` // of the executor

	By        Actor     `json:"by,omitzero"`         // who asked for it; zero: the server
	First     *Actor    `json:"first,omitempty"`     // who asked for the same when it was first tried; nil: By did
	Why       string    `json:"why,omitempty"`       // the reason that was given
	Confirmed *Actor    `json:"confirmed,omitempty"` // who approved it
	QueuedAt  time.Time `json:"queued_at"`
	NotBefore time.Time `json:"not_before,omitzero"` // of the next attempt
	StartedAt time.Time `json:"started_at,omitzero"` // of the attempt; zero: it waits in the queue
	EndedAt   time.Time `json:"ended_at,omitzero"`   // of the run, or of the attempt that made a plan which waits for approval
	Failures  int       `json:"failures,omitempty"`  // attempts that failed or were lost
	Cancel    string    `json:"cancel,omitempty"`    // why it is to end early
	Force     bool      `json:"force,omitempty"`     // and at once
	Approved  string    `json:"approved,omitempty"`  // the plan that somebody let through

	Source   template.Source `json:"source"`             // that it runs
	Snapshot string          `json:"snapshot,omitempty"` // digest of the template that it runs; "": the record's
	From     Phase           `json:"from,omitempty"`     // of the instance when it was asked for
	Auto     bool            `json:"auto,omitempty"`     // its plan is applied by itself, unless it destroys or replaces
	Plan     string          `json:"plan,omitempty"`     // digest of its plan file before sealing
	Applied  bool            `json:"applied,omitempty"`  // an attempt of it was an apply
	Planned  int             `json:"planned,omitempty"`  // the attempt whose result has that plan
	Counts   *Counts         `json:"counts,omitempty"`
	Cost     *prices.Cost    `json:"cost,omitempty"`   // of its plan; nil: it is not known
	Error    string          `json:"error,omitempty"`  // up to 1 KiB
	Result   string          `json:"result,omitempty"` // done, failed, lost or cancelled
	// Parameters, if not nil, become those of the instance when it is done.
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Off        bool                       `json:"off,omitempty"`    // the variable of a schedule has its value of what is stopped
	Switch     bool                       `json:"switch,omitempty"` // that alone is changed

	// Of a workspace only.
	Ask       *Ask      `json:"ask,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	Stopped   *Actor    `json:"stopped,omitempty"` // who cancelled or discarded it
	Changes   bool      `json:"changes,omitempty"` // of its plan
	After     *Ref      `json:"after,omitempty"`   // the attempt before this one, whose lock may be left
}

// Ref names an attempt. A result counts only if the record names it in full.
type Ref struct {
	ID      string  `json:"id"`
	Kind    RunKind `json:"kind"`
	N       int     `json:"n"`
	Attempt int     `json:"attempt"`
	Nonce   string  `json:"nonce"`
}

// Counts are the changes of a plan or of an apply.
type Counts struct {
	Add     int `json:"add"`
	Change  int `json:"change"`
	Remove  int `json:"remove"`
	Replace int `json:"replace,omitempty"` // of Remove, those that are made again
}

// History is one event of an instance.
type History struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty"` // "": the server
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Run    int       `json:"run,omitempty"` // which run came to this; 0: none
}

// Notice is told to somebody outside, at least once.
type Notice struct {
	ID   string    `json:"id"` // of the event: the same when it is told again
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Sent bool      `json:"sent,omitempty"` // handed to the queue
}

// Pool is what the machine remembers of a template.
type Pool struct {
	Paused   string    `json:"paused,omitempty"` // why no instance is made; "": not paused
	By       string    `json:"by,omitempty"`     // who paused it; "": the machine
	Failures int       `json:"failures,omitempty"`
	Backoff  time.Time `json:"backoff,omitzero"`   // no member is made before
	Revision string    `json:"revision,omitempty"` // template and module digest of the newest members
	Notices  []Notice  `json:"notices,omitempty"`  // not yet handed over
}

// Request is what a repeated request is answered with.
type Request struct {
	Caller string    `json:"caller"` // hash of issuer and subject
	Digest string    `json:"digest"` // of query and body
	Status int       `json:"status"`
	ID     string    `json:"id,omitempty"` // of the instance
	At     time.Time `json:"at"`
}
