// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
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

// Step returns the document after a command, the effects to carry out, and the answer. It copies
// what it changes; a command that changes nothing returns d. Time never goes back behind the last
// commit. An error of this package's kinds comes with d and no effects: the command is refused
// without a trace.
func (m *Machine) Step(d *Document, c Command, now time.Time) (*Document, []Effect, Answer, error) {
	now = laterOf(now.UTC().Round(0), d.Clock.At)
	if p, ok := c.Event.(Reconcile); ok {
		return m.stepAll(d, p, c, now)
	}
	if c.Event == nil {
		return d, nil, Answer{}, newRefusal(template.ErrInvalid, "no such event")
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

func (e ExpireCheck) applyTo(tx *tx) (Answer, error) { handleDeadlines(tx, e.ID); return accepted, nil }
func (e Fill) applyTo(tx *tx) (Answer, error)        { fillPool(tx, e); return accepted, nil }
func (e UpdateCheck) applyTo(tx *tx) (Answer, error) { checkUpdate(tx, e); return accepted, nil }
func (e Schedule) applyTo(tx *tx) (Answer, error)    { scheduleRuns(tx, e); return accepted, nil }
func (e Started) applyTo(tx *tx) (Answer, error)     { recordHandle(tx, e); return accepted, nil }
func (e Wait) applyTo(tx *tx) (Answer, error)        { recordWait(tx, e); return accepted, nil }
func (e Ended) applyTo(tx *tx) (Answer, error)       { endAttempt(tx, e); return accepted, nil }
func (e Noticed) applyTo(tx *tx) (Answer, error)     { markNoticed(tx, e); return accepted, nil }
func (e Archived) applyTo(tx *tx) (Answer, error)    { markArchived(tx, e.ID); return accepted, nil }
func (e Removed) applyTo(tx *tx) (Answer, error)     { dropRemoved(tx, e.ID); return accepted, nil }
func (e ClockHeld) applyTo(tx *tx) (Answer, error)   { holdClock(tx, e.Reason); return accepted, nil }
func (Prune) applyTo(tx *tx) (Answer, error)         { pruneRequests(tx); return accepted, nil }

// applyTo refuses a Reconcile within another one.
func (Reconcile) applyTo(*tx) (Answer, error) {
	return Answer{}, newRefusal(template.ErrInvalid, "no such event")
}

// Store keeps the document of all records.
type Store interface {
	// View returns the document as it was committed last.
	View(ctx context.Context) (View, error)
	// Do returns when the command is committed or refused, with the errors of [Machine.Step], and
	// ErrNoLeader if that is unknown; it may be sent again under its key.
	Do(ctx context.Context, c Command) (Answer, error)
}

// Command is a request of a caller, or an event of the reconciler.
type Command struct {
	Event Event
	Actor Actor // the caller; zero: the server

	// Key (a hash of caller, method, path and the caller's key), Caller, and Digest (of query and
	// body) are set for requests that may be repeated, else "".
	Key, Caller, Digest string

	// Of is the instance for which rights were decided, and Owner whose it was then.
	Of    string
	Owner template.Owner

	// Seed is the source of IDs and nonces: 32 random bytes.
	Seed [32]byte
}

// Event is one of the types here and in workspace.go. The server's change nothing if they misfit.
type Event interface {
	applyTo(tx *tx) (Answer, error)
}

// Events of callers. ID is the instance's.
type (
	// Create launches a template: it claims a pool member, or makes an instance. If the
	// owner may have only one instance and has it, that one is returned.
	Create struct {
		Template   *template.Template
		Digest     string // of Template
		Source     template.Source
		Owner      template.Owner
		Name       string
		Parameters map[string]json.RawMessage // checked
		Sensitive  []string                   // names of Parameters whose values are not shown
		Claims     map[string]string
		TTL        time.Duration // 0: the template's default
		Forced     bool          // by an admin: limits do not count
		One        bool          // return the newest live instance of Owner and template if there is one
		Why        string        // the reason that the caller gives
		Version    string        // of the module, if the caller named one
		Given      []string      // names of the parameters that the caller named
	}
	// Adopt restores the record of an instance that a ledger lost, from its sealed result.
	Adopt struct {
		Record   Record
		Template *template.Template // snapshot of the record; nil: the document has it
	}
	Approve struct{ ID, Plan, Why string } // Plan: what the approver saw, see [Awaits]; Why: a comment
	Reject  struct{ ID, Reason string }
	Cancel  struct{ ID string }
	Retry   struct{ ID string }
	Protect struct {
		ID string
		On bool
	}
	Rename     struct{ ID, Name string }
	Orphan     struct{ ID, Reason string }
	DestroyNow struct{ ID string }
	Extend     struct {
		ID  string
		By  time.Duration // 0: the template's extension; only an admin may give more
		Why string
	}
	// Transfer gives an instance to another owner. If the present owner does not act
	// for that one, it becomes an offer that the other has to accept.
	Transfer struct {
		ID string
		To template.Owner
	}
	// Take accepts or declines an offer.
	Take struct {
		ID string
		No bool // decline the offer
	}
	// Update runs another apply, with other values or a newer source.
	Update struct {
		ID         string
		Parameters map[string]json.RawMessage // checked; only those marked update; nil: unchanged
		Sensitive  []string                   // as in Create, of Parameters; nil: unchanged
		Source     *template.Source           // nil: unchanged
		Template   *template.Template         // of the source; nil: the snapshot is kept
		Digest     string
		Why        string
	}
	// Switch stops or starts an instance whose template has a schedule.
	Switch struct {
		ID   string
		Stop bool
	}
	// PauseTemplate and ResumeTemplate stop and allow new instances of a template.
	PauseTemplate  struct{ Template, Reason string }
	ResumeTemplate struct{ Template string }
	// AcceptClock lets expiry continue.
	AcceptClock struct{}
)

// Events of the server.
type (
	// ExpireCheck handles the passed deadlines of an instance.
	ExpireCheck struct{ ID string }
	// Fill keeps a pool at its size. A nil Template drains the pool.
	Fill struct {
		Name     string
		Template *template.Template
		Digest   string
		Source   template.Source
		Invalid  string // why the template cannot be used; it pauses the pool
	}
	// UpdateCheck tells an instance the newest version, which it takes or shows.
	UpdateCheck struct {
		ID       string
		Template *template.Template
		Digest   string
		Source   template.Source
	}
	// Schedule starts waiting runs, up to Concurrency running in all.
	Schedule struct{ Concurrency int }
	// Started records the executor's handle of an attempt.
	Started struct {
		Ref    Ref
		Handle string
	}
	// Wait reports why an attempt does not proceed.
	Wait struct {
		Ref             Ref
		Reason, Message string
	}
	// Ended reports the end of an attempt.
	Ended struct {
		Ref    Ref
		Result Result
		// Connection is the template's, with the outputs of a successful apply.
		Connection *template.Connection
	}
	// Noticed reports that a notice was handed to the queue. ID is that of the effect.
	Noticed struct{ ID, Notice string }
	// Archived reports that a final record's archive is written. The record is cut then.
	Archived struct{ ID string }
	// Removed reports that only the final record is left. It is dropped then.
	Removed struct{ ID string }
	// ClockHeld stops expiry until clocks agree; an empty Reason lets it continue.
	ClockHeld struct{ Reason string }
	// Prune removes the stored answers of requests that are too old.
	Prune struct{}
	// Reconcile holds what is due at one time, committed together: applied in order, as if alone,
	// each with a seed derived from the command's; what is refused is skipped.
	Reconcile struct{ Events []Event }
)

// Result is the outcome of an attempt, in its report too.
type Result struct {
	Outcome   string                     `json:"outcome"` // one of the constants
	Counts    *Counts                    `json:"counts,omitempty"`
	Notes     []Note                     `json:"notes,omitempty"`     // on its plan
	Plan      string                     `json:"plan,omitempty"`      // digest of the plan file before sealing, of a plan
	Cost      *prices.Cost               `json:"cost,omitempty"`      // of that plan; nil: not known, or there are no prices
	PlanSize  int64                      `json:"plan_size,omitempty"` // of the plan as text, in bytes; 0: not known
	Lock      string                     `json:"lock,omitempty"`      // digest of the dependency lock file that init left
	Error     string                     `json:"error,omitempty"`     // up to 1 KiB
	Permanent bool                       `json:"permanent,omitempty"` // another attempt would end with the same error
	Outputs   map[string]json.RawMessage `json:"outputs,omitempty"`   // those that the template lists and that are not sensitive
	Resources int                        `json:"resources"`           // in the last state; -1: not known
	State     bool                       `json:"state,omitempty"`     // a state was stored
	Untouched bool                       `json:"untouched,omitempty"` // it ended before the tool was told to apply anything
	// Left has what a destroy left behind: up to MaxLeft addresses of MaxLeftAddress bytes.
	Left    []string `json:"left,omitempty"`
	Changes bool     `json:"changes,omitempty"` // the plan of a workspace changes something, perhaps outputs only
}

// Bounds of Result.Left and Result.Notes.
const (
	MaxLeft        = 20
	MaxNotes       = 10
	MaxLeftAddress = 200
)

// Outcomes of an attempt.
const (
	Done      = "done"
	RunFailed = "failed"
	Lost      = "lost"
	Cancelled = "cancelled"
	Held      = "held"  // another run holds the lock of the state
	Stale     = "stale" // the approved plan no longer matches
)

// Effect is what to do once the document is stored. It may be repeated.
type Effect struct {
	Kind   string // one of the constants
	Ref    Ref    // of StartRun, CancelRun, KillRun; else only ID is set: for Notify it may also be a template, meaning its pool, or "clock"
	Notice Notice
	// Again says that an earlier leader may have started the attempt, so look for it first.
	Again bool
}

// Kinds of effects.
const (
	StartRun  = "start"
	CancelRun = "cancel"
	KillRun   = "kill" // for a cancelled run that does not end
	Notify    = "notify"
	Archive   = "archive" // write the archive of a final record
	Remove    = "remove"  // remove the tags of an archived record
)

// Answer is what a caller gets once the document is stored.
type Answer struct {
	Status int     // 200 done or unchanged, 201 made, 202 waits for approval or a run
	Record *Record // nil: the command concerns none
	Run    int     // of a workspace: the number of the run concerned
	Repeat bool    // the request was answered before
}

// View is a document as of a commit.
type View struct {
	Document *Document
	AsOf     time.Time // by the clock of the registry
	Leader   string    // address of the leader; "": here, or unknown where AsOf is zero
	Leading  bool      // this replica leads
}
