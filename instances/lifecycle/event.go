// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/template"
)

// Command is a request of a caller, or an event of the reconciler.
type Command struct {
	Event Event
	Actor Actor // who asks; zero: the server

	// Of a request that may come again; "" otherwise. Key is a hash of caller,
	// method, path and the caller's own key; Digest of query and body.
	Key, Caller, Digest string

	// Seed is what ids and nonces are made of: 32 random bytes.
	Seed [32]byte
}

// Event is what happens: one of the types of this file.
type Event interface{ event() }

// Events of callers. ID is that of the instance.
type (
	// Create launches a template: it claims a member of a pool, or makes an
	// instance. With one instance for each owner it returns the one there is.
	Create struct {
		Template   *template.Template
		Digest     string // of Template
		Source     template.Source
		Owner      template.Owner
		Name       string
		Parameters map[string]json.RawMessage // checked
		Sensitive  []string                   // names of Parameters that nobody is shown
		Claims     map[string]string
		TTL        time.Duration // 0: the template's
		Forced     bool          // by an admin: limits do not count
		One        bool          // the newest live one of Owner and template is the answer, if there is one
		Why        string        // the reason that the caller gives
	}
	// Adopt makes a record of what a ledger lost, from its sealed result.
	Adopt struct {
		Record   Record
		Template *template.Template // snapshot of the record; nil: the document has it
	}
	Approve struct{ ID, Plan, Why string } // Plan: what was looked at, see [Awaits]; Why: a comment
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
		By  time.Duration // 0: the template's; more is an admin's
		Why string
	}
	// Transfer gives an instance to another owner. Whom its owner does not act for he
	// offers it to: that one has to take it.
	Transfer struct {
		ID string
		To template.Owner
	}
	// Take is what somebody says to an offer.
	Take struct {
		ID string
		No bool // he declines it
	}
	// Update runs another apply: with other values, or a newer source.
	Update struct {
		ID         string
		Parameters map[string]json.RawMessage // checked; only those marked update; nil: as they are
		Sensitive  []string                   // as in Create, of Parameters; nil: as it is
		Source     *template.Source           // nil: as it is
		Template   *template.Template         // of the source; nil: the snapshot stays
		Digest     string
		Why        string
	}
	// Switch stops or starts an instance whose template has a schedule.
	Switch struct {
		ID   string
		Stop bool
	}
	// Pause and Resume stop and allow new instances of a template.
	Pause  struct{ Template, Reason string }
	Resume struct{ Template string }
	// AcceptClock lets expiry go on.
	AcceptClock struct{}
)

// Events of the server.
type (
	// ExpireCheck does what is pending for an instance.
	ExpireCheck struct{ ID string }
	// Fill keeps a pool at its size: Template nil drains it.
	Fill struct {
		Name     string
		Template *template.Template
		Digest   string
		Source   template.Source
		Invalid  string // why the template cannot be used; it pauses the pool
	}
	// UpdateCheck says what is newest of a template whose instances are to be updated
	// or to show that they could be.
	UpdateCheck struct {
		ID       string
		Template *template.Template
		Digest   string
		Source   template.Source
	}
	// Schedule starts what fits of the runs that wait, up to Places in all.
	Schedule struct{ Concurrency int }
	// Started keeps the handle of an attempt.
	Started struct {
		Ref    Ref
		Handle string
	}
	// Wait tells why an attempt does not go on.
	Wait struct {
		Ref             Ref
		Reason, Message string
	}
	// Ended is the end of an attempt.
	Ended struct {
		Ref    Ref
		Result Result
		// Connection is that of the template with the outputs in it, of an apply
		// that is done.
		Connection *template.Connection
	}
	// Noticed says that a notice was handed to the queue. ID is that of the
	// effect.
	Noticed struct{ ID, Notice string }
	// Archived says that what is kept of a final record was written: it is cut
	// now.
	Archived struct{ ID string }
	// Removed says that nothing of a final record is left but itself: it goes.
	Removed struct{ ID string }
	// ClockHeld stops expiry until clocks agree: Reason "" lets it go on.
	ClockHeld struct{ Reason string }
	// Prune removes answers that are older than their time.
	Prune struct{}
	// Reconcile is what the server finds due at one moment, kept in one commit. Each
	// event counts as if it came alone, in this order, with a seed made of that of
	// the command and its place; those that are refused are passed over.
	Reconcile struct{ Events []Event }
)

// Result is how an attempt ended.
type Result struct {
	Outcome string // one of the constants
	Counts  *Counts
	Plan    string       // digest of the plan file before sealing, of a plan
	Cost    *prices.Cost // of that plan; nil: it is not known
	// PlanSize is how many bytes the plan has as text; 0: it is not known.
	PlanSize int64
	Lock     string // digest of the dependency lock file that init left
	Error    string
	// Permanent says that the error stays: another attempt would end the same.
	Permanent bool
	Outputs   map[string]json.RawMessage // those that are listed and not sensitive
	// Resources is how many the last state lists; -1: it is not known.
	Resources int
	// State reports whether the attempt stored a state.
	State bool
	// Changes reports whether the plan of a workspace changes anything, if only
	// outputs.
	Changes bool
}

// Outcomes of an attempt.
const (
	Done      = "done"
	RunFailed = "failed"
	Lost      = "lost"
	Cancelled = "cancelled"
	Held      = "held"  // somebody else holds the lock of the state
	Stale     = "stale" // the approved plan does not fit any more
)

// Effect is what the caller of [Machine.Step] does after its document was kept.
// Each may be repeated.
type Effect struct {
	Kind   string // one of the constants
	Ref    Ref    // of StartRun, CancelRun, KillRun; else only its ID counts: of Notify also a template, whose pool is meant, or "clock"
	Notice Notice
	// Again is set by [Machine.Outstanding]: whoever led before may have begun it,
	// so an attempt is looked for before it is started.
	Again bool
}

// Kinds of effects.
const (
	StartRun  = "start"
	CancelRun = "cancel"
	KillRun   = "kill" // of what was cancelled and does not end
	Notify    = "notify"
	Archive   = "archive" // write what is kept of a final record
	Remove    = "remove"  // and then its tags
)

// Answer is what a caller gets once it is kept.
type Answer struct {
	Status int     // 200 as it was, 201 made, 202 waits for somebody or something
	Record *Record // nil: the command has none
	Run    int     // of a workspace: which one it is about
	Repeat bool    // the request was answered before
}

// View is a document as it was committed.
type View struct {
	Document *Document
	AsOf     time.Time // by the clock of the registry
	Leader   string    // address of the leader; "": here, or unknown where AsOf is zero
	Leading  bool      // this replica leads
}

func (Create) event()      {}
func (Launch) event()      {}
func (Adopt) event()       {}
func (Approve) event()     {}
func (Reject) event()      {}
func (Cancel) event()      {}
func (Retry) event()       {}
func (Protect) event()     {}
func (Rename) event()      {}
func (Orphan) event()      {}
func (DestroyNow) event()  {}
func (Extend) event()      {}
func (Transfer) event()    {}
func (Take) event()        {}
func (Update) event()      {}
func (Switch) event()      {}
func (Pause) event()       {}
func (Resume) event()      {}
func (AcceptClock) event() {}
func (ExpireCheck) event() {}
func (Fill) event()        {}
func (UpdateCheck) event() {}
func (Schedule) event()    {}
func (Started) event()     {}
func (Wait) event()        {}
func (Ended) event()       {}
func (Noticed) event()     {}
func (Archived) event()    {}
func (Removed) event()     {}
func (ClockHeld) event()   {}
func (Prune) event()       {}
func (Reconcile) event()   {}
