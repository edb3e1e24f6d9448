// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// Bounds of a decoded document. A parameter, up to 16 levels deep, begins six levels down.
const (
	version      = 1
	maxEncoded   = 64 << 20
	documentDeep = 24
)

// Encode encodes a document as JSON: an object with the fields of [Document].
func Encode(d *Document) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("writing the document of instances: %w", err)
	}
	if b.Len() > maxEncoded {
		return nil, newRefusal(ErrFull, "the document of instances has %d bytes: at most %d are kept", b.Len(), maxEncoded)
	}
	return b.Bytes(), nil
}

// Decode reads what [Encode] wrote: up to 64 MiB and 24 levels deep, checked before decoding.
// Unknown names are left to the caller; contents to [Check].
func Decode(b []byte) (*Document, error) {
	if len(b) > maxEncoded {
		return nil, fmt.Errorf("document of instances: %d bytes, maximum is %d", len(b), maxEncoded)
	}
	if err := syntax.CheckData(b, documentDeep); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	if err := d.checkVersionAndSize(); err != nil {
		return nil, fmt.Errorf("document of instances: %w", err)
	}
	return &d, nil
}

// checkVersionAndSize refuses documents that no machine could continue from.
func (d *Document) checkVersionAndSize() error {
	switch {
	case d.Version != version:
		return fmt.Errorf("unknown version %d", d.Version)
	case len(d.Records) > 2*maxRecords || len(d.Templates) > 4*maxRecords || len(d.Pools) > 2*maxRecords || len(d.Requests) > 2*maxRequests:
		return errors.New("more records, templates, pools or requests than a document may have")
	case hasNil(d.Templates) || hasNil(d.Records) || hasNil(d.Pools) || hasNil(d.Requests):
		return errors.New("unexpected null")
	}
	for id, r := range d.Records {
		if r.ID != id {
			return fmt.Errorf("record %q is called %q", clipForeign(id, 32), clipForeign(r.ID, 32))
		}
		tooManyRuns := len(r.Runs) > 2*maxRuns || len(r.Open) > 2*maxOpen
		tooLong := len(r.Events) > 2*maxHistory || len(r.Conditions) > 2*maxHistory
		if tooManyRuns || tooLong || len(r.Notices) > 4*maxUnreported {
			return fmt.Errorf("record %q has more runs, notices, events or conditions than a record has", id)
		}
	}
	return nil
}

func hasNil[V any](m map[string]*V) bool {
	return slices.Contains(slices.Collect(maps.Values(m)), nil)
}

const maxRecord = 16 << 10 // bytes of a record as JSON, without what a pending update adds

// size returns the bytes of a record, without parameters of its run and of what waits.
func (r *Record) size() int {
	body, err := json.Marshal(r)
	if err != nil {
		return maxRecord + 1
	}
	n := len(body)
	if r.Run != nil {
		n -= sizeOf(r.Run.Parameters)
	}
	if r.Pending != nil && r.Pending.Update != nil {
		n -= sizeOf(r.Pending.Update.Parameters)
	}
	return n
}

// shrink drops texts of old runs, old events and runs, then the largest outputs, until it fits.
func (r *Record) shrink() {
	limit := maxRecord
	if r.Workspace != "" {
		limit = maxWorkspaceSize
	}
	if r.size() <= limit {
		return
	}
	for i := range r.Runs {
		if i > 0 {
			r.Runs[i].Error = clipForeign(r.Runs[i].Error, 120)
		}
	}
	for _, keep := range []int{6, 3, 1} {
		if r.size() <= limit {
			return
		}
		r.Events = r.Events[:min(len(r.Events), keep)]
		r.Runs = r.Runs[:min(len(r.Runs), keep)]
	}
	if len(r.Outputs) > 0 {
		r.Outputs = maps.Clone(r.Outputs)
	}
	for len(r.Outputs) > 0 && r.size() > limit {
		names := sortedKeys(r.Outputs)
		delete(r.Outputs, slices.MaxFunc(names, func(a, b string) int { return len(r.Outputs[a]) - len(r.Outputs[b]) }))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Document is all that the machine knows and a ledger stores. No value in it is ever changed.
type Document struct {
	Version   int                           `json:"version"`   // of the format: 1
	Templates map[string]*template.Template `json:"templates"` // snapshots that records use, by digest
	Records   map[string]*Record            `json:"records"`   // by id
	Pools     map[string]*Pool              `json:"pools"`     // by template name; also those that are only paused
	Requests  map[string]*Request           `json:"requests"`  // answers given, by [Command.Key]
	Clock     Clock                         `json:"clock"`
}

// Clock is what the document knows of time.
type Clock struct {
	At     time.Time `json:"at"`              // of the last commit; time never goes back behind it
	Held   string    `json:"held,omitempty"`  // why expiry and drain wait for an admin; "": they do not
	Accept time.Time `json:"accept,omitzero"` // when an admin confirmed the clock

	Notices []Notice `json:"notices,omitempty"` // about the hold; not yet handed to the queue
}

// Actor is a known caller, with the owners it may act for. The zero Actor is the server itself.
type Actor struct {
	Issuer  string   `json:"issuer,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Label   string   `json:"label,omitempty"`
	Groups  []string `json:"-"` // of the issuer
	Admin   bool     `json:"-"` // for instances of this template
}

// Record is one instance.
type Record struct {
	ID         string                     `json:"id"`
	Name       string                     `json:"name,omitempty"`
	Template   string                     `json:"template"` // namespace/name
	Snapshot   string                     `json:"snapshot"` // digest, key of Document.Templates
	Source     template.Source            `json:"source"`
	Owner      template.Owner             `json:"owner,omitzero"` // zero: none, in a pool
	CreatedBy  Actor                      `json:"created_by,omitzero"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Sensitive  []string                   `json:"sensitive,omitempty"` // names of Parameters whose values are not shown
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
	// TTL is the lifetime from when the instance is ready or claimed; 0: no end. Since
	// is when the template's max starts to count: creation, approval or claim.
	TTL   time.Duration `json:"ttl,omitempty"`
	Since time.Time     `json:"since,omitzero"`

	Protected string `json:"protected,omitempty"` // who protected it: "", "owner" or "admin"
	Pooled    bool   `json:"pooled,omitempty"`    // it was made for a pool
	Forced    bool   `json:"forced,omitempty"`    // an admin let it go beyond a limit
	Applied   bool   `json:"applied,omitempty"`   // an apply was committed: there may be a state
	Untouched bool   `json:"untouched,omitempty"` // every attempt so far ended before the tool was told to apply anything
	Made      bool   `json:"made,omitempty"`      // a state with resources was seen, and none without since
	Unsure    bool   `json:"unsure,omitempty"`    // it was adopted after a failed run, and no state with resources was seen since
	Empty     bool   `json:"empty,omitempty"`     // the state listed no resources when the last attempt ended
	Revised   bool   `json:"revised,omitempty"`   // an update gave it another snapshot
	Kept      bool   `json:"kept,omitempty"`      // orphaned by its end: counts until an admin removes it
	// Left has the addresses of resources that its runs stopped managing and did not destroy.
	Left     []string `json:"left,omitempty"`
	Archived bool     `json:"archived,omitempty"` // the archive of a final record is written
	Removing bool     `json:"removing,omitempty"` // its tags are being removed, then the record

	// Of a workspace only: its name, else ""; its open runs, oldest first; the highest run number.
	Workspace string `json:"workspace,omitempty"`
	Open      []Run  `json:"open,omitempty"`
	Numbered  int    `json:"numbered,omitempty"`
	Latest    *Ref   `json:"latest,omitempty"` // of a workspace: the latest attempt that was begun

	// Pending waits for approval before anything runs: a launch, or a change. nil: nothing.
	Pending  *Pending `json:"pending,omitempty"`
	Declined string   `json:"declined,omitempty"` // the automatic update that was not approved: see updateOf

	Offer    *Offer         `json:"offer,omitempty"`   // to whom the owner offers it; nil: no offer
	Approved template.Owner `json:"approved,omitzero"` // owner for whom a launch or update was approved; zero: the present owner, or none

	// Switch is set if the template has a schedule, once the instance was ready or available.
	Switch *switching `json:"switch,omitempty"`

	Run  *Run  `json:"run,omitempty"`  // pending, running, or waiting for approval; nil: none
	Then *Run  `json:"then,omitempty"` // follows Run, which is cancelled for it
	Runs []Run `json:"runs,omitempty"` // the 10 newest that ended, newest first

	Outputs    map[string]json.RawMessage `json:"outputs,omitempty"` // listed by the template, not sensitive
	Connection *template.Connection       `json:"connection,omitempty"`
	Notices    []Notice                   `json:"notices,omitempty"` // not yet handed to the queue, or sent before the end
	Events     []History                  `json:"events,omitempty"`  // the 10 newest, newest first
	Key        string                     `json:"key,omitempty"`     // of the request that made or claimed it
	Next       time.Time                  `json:"next,omitzero"`     // the earliest deadline; zero: none
}

// Pending is a request to be approved; without Update and Until the launch of its record.
type Pending struct {
	By     Actor          `json:"by,omitzero"` // the requester; zero: the server
	At     time.Time      `json:"at"`
	Why    string         `json:"why,omitempty"` // the reason given
	Salt   string         `json:"salt"`          // random, so that the digest an approval names does not reveal values
	Update *pendingUpdate `json:"update,omitempty"`
	Until  time.Time      `json:"until,omitzero"` // the new end of an extension
}

// pendingUpdate holds what the run of an update is made of.
type pendingUpdate struct {
	Source     template.Source            `json:"source"`
	Snapshot   string                     `json:"snapshot"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"` // all of them; nil: unchanged
	Auto       bool                       `json:"auto,omitempty"`       // an automatic update of the server
}

// Run is one execution of the tool, number N, started Attempt times.
type Run struct {
	N       int     `json:"n"`
	Attempt int     `json:"attempt,omitempty"` // 0: not started yet
	Kind    RunKind `json:"kind"`
	Nonce   string  `json:"nonce,omitempty"`  // of the attempt; its result repeats it
	Before  string  `json:"before,omitempty"` // nonce of the previous attempt, whose lock may be left
	Handle  string  `json:"handle,omitempty"` // of the executor

	By        Actor     `json:"by,omitzero"`         // the requester; zero: the server
	First     *Actor    `json:"first,omitempty"`     // the first requester, if this run repeats another; nil: By
	Why       string    `json:"why,omitempty"`       // the reason given
	Confirmed *Actor    `json:"confirmed,omitempty"` // the approver
	QueuedAt  time.Time `json:"queued_at"`
	NotBefore time.Time `json:"not_before,omitzero"` // of the next attempt
	StartedAt time.Time `json:"started_at,omitzero"` // of the attempt; zero: waiting in the queue
	EndedAt   time.Time `json:"ended_at,omitzero"`   // of the run, or of the attempt whose plan waits for approval
	Failures  int       `json:"failures,omitempty"`  // attempts that failed or were lost
	Cancel    string    `json:"cancel,omitempty"`    // why it should end early
	Force     bool      `json:"force,omitempty"`     // kill it at once
	Approved  string    `json:"approved,omitempty"`  // the plan that was approved

	Source   template.Source `json:"source"`             // what it runs
	Snapshot string          `json:"snapshot,omitempty"` // digest of the template that it runs; "": the record's
	From     Phase           `json:"from,omitempty"`     // phase of the instance when it was requested
	Auto     bool            `json:"auto,omitempty"`     // apply the plan automatically, unless it destroys or replaces
	Plan     string          `json:"plan,omitempty"`     // digest of its plan file before sealing
	Applied  bool            `json:"applied,omitempty"`  // an attempt of this run may have changed something
	Planned  int             `json:"planned,omitempty"`  // the attempt that made the plan
	Counts   *Counts         `json:"counts,omitempty"`
	Notes    []Note          `json:"notes,omitempty"`
	Cost     *prices.Cost    `json:"cost,omitempty"`   // of its plan; nil: not known
	Error    string          `json:"error,omitempty"`  // up to 1 KiB
	Result   string          `json:"result,omitempty"` // done, failed, lost, cancelled, rejected or discarded
	// Parameters, if not nil, become those of the instance when it is done.
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Off        bool                       `json:"off,omitempty"`    // the schedule's variable has the value for a stopped instance
	Switch     bool                       `json:"switch,omitempty"` // the run changes only that

	// Of a workspace only.
	Ask       *Ask      `json:"ask,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	Stopped   *Actor    `json:"stopped,omitempty"` // who cancelled or discarded it
	Changes   bool      `json:"changes,omitempty"` // whether its plan changes anything
	After     *Ref      `json:"after,omitempty"`   // the previous attempt, whose lock may be left
}

// Ref identifies an attempt. Only results of the record's own attempt count.
type Ref struct {
	ID      string  `json:"id"`
	Kind    RunKind `json:"kind"`
	N       int     `json:"n"`
	Attempt int     `json:"attempt"`
	Nonce   string  `json:"nonce"`
}

// Counts are the changes of a plan or of an apply.
type Counts = plantext.Counts

// Note names what a plan does beside its changes: up to [MaxNotes] of a run.
type Note struct {
	Kind string `json:"kind"` // one of the constants
	Text string `json:"text"` // an address, or what a check says; up to [MaxLeftAddress] bytes
}

// Kinds of notes.
const (
	NoteForget = "forget" // a resource is no longer managed, and not destroyed
	NoteImport = "import" // one that exists will be managed
	NoteCheck  = "check"  // a check block failed
)

// History is one event of an instance.
type History struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty"` // "": the server
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Run    int       `json:"run,omitempty"` // the run that led to this; 0: none
}

// Notice is a message to an external receiver, sent at least once.
type Notice struct {
	ID   string    `json:"id"` // of the event: the same if it is sent again
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Sent bool      `json:"sent,omitempty"` // handed to the queue
}

// Pool is the state that the machine keeps for a template.
type Pool struct {
	Paused   string    `json:"paused,omitempty"` // why no instances are made; "": not paused
	By       string    `json:"by,omitempty"`     // who paused it; "": the machine
	Failures int       `json:"failures,omitempty"`
	Backoff  time.Time `json:"backoff,omitzero"`   // no member is made before this time
	Revision string    `json:"revision,omitempty"` // of the newest members: see revisionOf
	Notices  []Notice  `json:"notices,omitempty"`  // not yet handed to the queue
}

// Request is the stored answer for a repeated request.
type Request struct {
	Caller string    `json:"caller"` // hash of issuer and subject
	Digest string    `json:"digest"` // of query and body
	Status int       `json:"status"`
	ID     string    `json:"id,omitempty"` // of the instance
	At     time.Time `json:"at"`
}
