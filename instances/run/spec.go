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

// Spec is one attempt: all that an executor needs, and nothing secret.
type Spec struct {
	Ref lifecycle.Ref `json:"ref"`
	Run string        `json:"run"` // for display: TEMPLATE ID run N

	Repository string          `json:"repository"` // of the instance: state, source, results; with host
	Workspace  string          `json:"workspace"`  // of its state there
	Ledger     string          `json:"ledger"`     // repository of the ledger, which must name this attempt
	Source     template.Source `json:"source"`
	Snapshot   string          `json:"snapshot,omitempty"` // digest of the template, for the report

	Variables   map[string]json.RawMessage `json:"variables,omitempty"` // for plan, as a JSON file
	Sensitive   []string                   `json:"sensitive,omitempty"` // names of Variables whose values are masked
	Outputs     []string                   `json:"outputs,omitempty"`   // that the result lists
	Credentials []string                   `json:"credentials,omitempty"`
	Approve     bool                       `json:"approve,omitempty"`  // the plan waits for somebody
	Plan        string                     `json:"plan,omitempty"`     // digest of the plan that was approved
	PlanTag     string                     `json:"plan_tag,omitempty"` // where it is
	Took        string                     `json:"took,omitempty"`     // id of the lock of an attempt that was lost
	State       string                     `json:"state,omitempty"`    // where the tool has its state: "", this attempt serves it; [StateTFE]
	Remote      *Remote                    `json:"remote,omitempty"`   // of StateTFE
	Limits      Limits                     `json:"limits"`
}

// StateTFE says that the tool has its state at the server, by tfe.v2, as it has on
// the machine of a person: it locks there, and writes there.
const StateTFE = "tfe"

// Remote is what a run of a workspace has beside what a run of an instance has.
type Remote struct {
	Organization string `json:"organization"`
	Workspace    string `json:"workspace"`
	RunID        string `json:"run_id"`          // as tfe.v2 has it
	Input        string `json:"input,omitempty"` // digest of its [RemoteInput]; "": none
	Destroy      bool   `json:"destroy,omitempty"`
	RefreshOnly  bool   `json:"refresh_only,omitempty"`
	NoRefresh    bool   `json:"no_refresh,omitempty"`
	Save         bool   `json:"save,omitempty"` // somebody may look at the plan later, and apply it
}

// RemoteInput is what a person gave for one run, with the variables of the workspace.
type RemoteInput struct {
	Variables   map[string]json.RawMessage `json:"variables,omitempty"`
	Environment map[string]string          `json:"environment,omitempty"` // of the tool
	Masked      []string                   `json:"masked,omitempty"`      // values that the log does not show
	Targets     []string                   `json:"targets,omitempty"`
	Replace     []string                   `json:"replace,omitempty"`
	Salt        string                     `json:"salt,omitempty"` // so that the digest, which others read, tells nothing of the rest
}

// LockID is the id of the lock that an attempt takes: who finds it lost takes
// the lock over by that id, see [Spec.Took].
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

// Handle names an attempt for its executor: up to 256 bytes.
type Handle string

// State of an attempt.
type State string

// States.
const (
	Running State = "running"
	Ended   State = "done"
	Gone    State = "lost"
)

// Status is what an executor sees of an attempt.
type Status struct {
	State   State
	Waiting string           // why a running one does not go on; a reason of [lifecycle.Waiting]
	Message string           // beside Waiting
	Result  lifecycle.Result // of Ended
}

// Executor runs attempts.
type Executor interface {
	// Start begins an attempt. It may be repeated: the same Ref is one run.
	Start(ctx context.Context, s Spec) (Handle, error)
	// Observe tells how an attempt goes, after a restart and on any replica. The
	// handle is "" where nobody knows whether the attempt was started: one that
	// was not is Gone.
	Observe(ctx context.Context, s Spec, h Handle) (Status, error)
	// Destroy is Start of a run that destroys.
	Destroy(ctx context.Context, s Spec) (Handle, error)
}

// Canceller ends attempts early, where an executor can.
type Canceller interface {
	Cancel(ctx context.Context, s Spec, h Handle) error
}

// Killer ends the tool of an attempt at once, where an executor can.
type Killer interface {
	Kill(ctx context.Context, s Spec, h Handle) error
}

// Ender tells when to look at an attempt again, where an executor can.
type Ender interface {
	// Ended returns a channel that is closed once the attempt has ended; nil: this
	// process does not hear of it.
	Ended(r lifecycle.Ref) <-chan struct{}
}

// Tidier removes what attempts left on this machine, where an executor can.
type Tidier interface {
	// Tidy removes the folders of instances that are gone; asOf is when gone was known.
	Tidy(asOf time.Time, gone func(id string) bool) error
}

// LogSource reads the log of an attempt while it runs, where an executor can.
type LogSource interface {
	Log(ctx context.Context, s Spec, h Handle, offset int64) (io.ReadCloser, error)
}
