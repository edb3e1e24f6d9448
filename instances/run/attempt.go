// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
)

// Attempt is one execution of the tool: all that an executor needs, without secrets.
type Attempt struct {
	lifecycle.Ref `json:"ref"`
	Run           string                     `json:"run"` // for display: TEMPLATE ID run N
	Source        template.Source            `json:"source"`
	Variables     map[string]json.RawMessage `json:"variables,omitempty"` // for plan, as a JSON file
	Outputs       []string                   `json:"outputs,omitempty"`   // outputs that the result lists
	Credentials   []string                   `json:"credentials,omitempty"`
	Limits        Limits                     `json:"limits"`

	Begun     bool      `json:"-"` // it may have begun before
	Cancelled bool      `json:"-"` // a user asked to end it early
	Started   time.Time `json:"-"` // when its time began
	Deadline  time.Time `json:"-"` // when it has failed; zero: its executor ends it by its Limits
	Approved  string    `json:"-"` // the plan that was approved; "": none

	Machine
	Cluster `json:"-"`

	template *template.Template
	scope    template.Scope // of the connection
}

// Machine is what only an attempt on one machine has: its place in the registry, and its lock.
type Machine struct {
	Handle      Handle   `json:"-"`                      // "": none, or not known
	Repository  string   `json:"repository"`             // of the instance, with host: state, source, results
	Workspace   string   `json:"workspace"`              // of its state in that repository
	Ledger      string   `json:"ledger"`                 // repository of the ledger, which must name this attempt
	Snapshot    string   `json:"snapshot,omitempty"`     // digest of the template, for the report
	Sensitive   []string `json:"sensitive,omitempty"`    // names of Variables whose values are masked
	Approve     bool     `json:"approve,omitempty"`      // the plan waits for approval
	Plan        string   `json:"plan,omitempty"`         // digest of the plan that was approved
	PlanTag     string   `json:"plan_tag,omitempty"`     // tag of that plan
	Took        string   `json:"took,omitempty"`         // ID of the lock of a lost attempt
	State       string   `json:"state,omitempty"`        // where the tool has its state: "": this attempt serves it; [StateTFE]
	Remote      *Remote  `json:"remote,omitempty"`       // of StateTFE
	RequireLock bool     `json:"require_lock,omitempty"` // the configuration must have a lock of modules
	Stored      bool     `json:"stored,omitempty"`       // a state with resources was stored: a destroy without one would leave them
}

// Cluster is what only an attempt in a cluster has.
type Cluster struct {
	UID       string // of the Instance
	Namespace string // of what the instance makes; it exists when the attempt is advanced
}

// StateTFE means that the tool keeps its state at the server, by tfe.v2, as it does on a
// user's machine: it locks and writes the state there.
const StateTFE = "tfe"

// Remote holds what only a run of a workspace has.
type Remote struct {
	Organization string `json:"organization"`
	Workspace    string `json:"workspace"`
	RunID        string `json:"run_id"`          // as in tfe.v2
	Input        string `json:"input,omitempty"` // digest of its [RemoteInput]; "": none
	Destroy      bool   `json:"destroy,omitempty"`
	RefreshOnly  bool   `json:"refresh_only,omitempty"`
	NoRefresh    bool   `json:"no_refresh,omitempty"`
	Save         bool   `json:"save,omitempty"` // the plan may be reviewed and applied later
}

// RemoteInput holds the values given for one run, with the variables of the workspace.
type RemoteInput struct {
	Variables   map[string]json.RawMessage `json:"variables,omitempty"`
	Environment map[string]string          `json:"environment,omitempty"` // of the tool's process
	Masked      []string                   `json:"masked,omitempty"`      // values that the log does not show
	Targets     []string                   `json:"targets,omitempty"`
	Replace     []string                   `json:"replace,omitempty"`
	Salt        string                     `json:"salt,omitempty"` // so that the digest, which others can read, does not reveal the rest
}

// LockID returns the ID of the lock that an attempt takes. After a lost attempt, the next
// one takes the lock over by that ID, see [Machine.Took].
func LockID(r lifecycle.Ref) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", r.ID, r.N, r.Attempt, r.Nonce))
	return hex.EncodeToString(sum[:16])
}

// Limits bound one attempt.
type Limits struct {
	Timeout time.Duration `json:"timeout"`
	Memory  int64         `json:"memory,omitempty"`  // bytes
	Scratch int64         `json:"scratch,omitempty"` // bytes; 0: 2 GiB
	Log     int64         `json:"log,omitempty"`     // bytes; 0: 16 MiB
}

// Handle is an executor's name for an attempt: up to 256 bytes.
type Handle string

// State of an attempt.
type State string

// States.
const (
	Running State = "running"
	Ended   State = "done"
	Gone    State = "lost"
)

// Status is the state of an attempt as an executor sees it.
type Status struct {
	State   State
	Handle  Handle           // of an attempt that this call began
	Waiting string           // why a running attempt does not proceed; a reason of [lifecycle.Waiting]
	Message string           // text for Waiting
	Result  lifecycle.Result // if State is Ended
}

// Executor carries out attempts. Every call may be repeated, and none waits for an attempt
// to end: the same Ref is the same attempt.
type Executor interface {
	// Advance begins an attempt or takes its next step, and reports its status, also after a
	// restart and on any replica. One that has Begun, but never did on a machine, is Gone.
	Advance(ctx context.Context, a Attempt) (Status, error)
	// Cancel asks an attempt to end early, or with force at once.
	Cancel(ctx context.Context, a Attempt, force bool) error
}

// MachineExecutor is an executor whose attempts are processes, which leave logs and folders.
type MachineExecutor interface {
	Executor
	// Ended returns a channel that is closed once the attempt has ended; nil if this
	// process is not notified of it.
	Ended(r lifecycle.Ref) <-chan struct{}
	// Log returns the log of an attempt from a byte on, as far as it is written.
	Log(ctx context.Context, a Attempt, offset int64) (io.ReadCloser, error)
	// Tidy removes what instances that are gone left on this machine; asOf is the time of
	// that knowledge.
	Tidy(asOf time.Time, gone func(id string) bool) error
}

// ClusterExecutor is an executor whose attempts are objects, which manage what they made.
type ClusterExecutor interface {
	Executor
	// Release orphans what an instance made, and reports whether nothing manages it.
	Release(ctx context.Context, a Attempt) (bool, error)
}
