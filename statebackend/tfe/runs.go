// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Runs stores and executes the runs of workspaces of execution mode remote. Callers have checked
// the right and the client's input.
//
// If another process decides and does not answer, errors wrap [oci.ErrUnavailable].
type Runs interface {
	// View returns the runs of a workspace. Most commands need it, so it must be cheap.
	View(ctx context.Context, w Workspace) (RunView, error)
	// Open returns the id of a workspace's record, which it creates if there is none.
	Open(ctx context.Context, w Workspace, by access.Caller) (record string, err error)
	// Repository returns the repository of a record's uploads. It sends no request.
	Repository(w Workspace, record string) (*oci.Repo, error)
	// CheckEnvironment refuses an environment variable that has a meaning for the run itself.
	CheckEnvironment(name string) error
	// Create queues a run, or returns the one with the same key of the last 10 minutes, whose
	// answer was lost. ErrNoRun: this is not the record of the workspace; ErrTooManyRuns.
	Create(ctx context.Context, w Workspace, record string, n NewRun) (Run, error)
	// Act decides about a run; the first decision wins. The same caller may repeat an action,
	// whatever came after it. ErrNoRun; ErrRunStatus.
	Act(ctx context.Context, w Workspace, record string, n int, d Decision) (Run, error)
	// Log reads at most limit bytes of a phase's log from an offset on. The bytes at an offset
	// never change, on any replica. end says that nothing follows, also if there never was a log.
	// If there is nothing at the offset yet, Log may wait for some seconds.
	Log(ctx context.Context, w Workspace, record string, n int, p Phase, offset, limit int64) (part []byte, end bool, err error)
	// PlanJSON returns the [PlanDocument] of a run with a saved plan; nil if there is none.
	PlanJSON(ctx context.Context, w Workspace, record string, n int) ([]byte, error)
	// ReadUses returns the document of what the plan of a run was made of, see [statebackend.WithUsage]; nil:
	// it is not known.
	ReadUses(ctx context.Context, w Workspace, record string, n int) ([]byte, error)
	// Queue returns the waiting and running runs of an organization.
	Queue(ctx context.Context, organization string) (RunQueue, error)
	// End ends the record, if any, of a deleted workspace. ErrRunPending while a run is not final.
	End(ctx context.Context, w Workspace, by access.Caller) error
}

// Errors of [Runs].
var (
	ErrNoRun       = errors.New("run not found")
	ErrRunStatus   = errors.New("not allowed in the status of the run")
	ErrRunPending  = errors.New("a run of the workspace has not ended")
	ErrTooManyRuns = errors.New("too many runs of the workspace have not ended")
)

// Workspace names a workspace as addresses do, wherever its state is stored.
type Workspace struct{ Organization, Name string }

// RunView is the list of runs of a workspace.
type RunView struct {
	Record string // the record's id; "": there is none yet
	Runs   []Run  // newest first: all that are not final, and the newest of the others
}

// RunQueue is an organization's waiting runs, in order of start, and the number of running ones.
type RunQueue struct {
	Waiting []QueuedRun
	Running int
}

// QueuedRun is a waiting run.
type QueuedRun struct {
	Workspace
	Record string
	N      int
}

// NewRun is a request for a run.
type NewRun struct {
	Key           string // the same for repeated requests
	Configuration string // id of the upload: 16 hex digits
	Manifest      string // digest of the upload: the run uses exactly this one
	Archive       string // digest of its only layer, a tar.gz
	Size          int64  // of the layer, in bytes
	RunOptions
	Environment map[string]string // for the tool, in plan and apply
	Masked      []string          // values to hide in logs
	By          access.Caller
}

// RunOptions say what a run does.
type RunOptions struct {
	Speculative bool // plan only
	AutoApply   bool
	Destroy     bool
	RefreshOnly bool
	NoRefresh   bool
	SavePlan    bool                       // keep the plan until it is applied
	Targets     []string                   // resource addresses for -target
	Replace     []string                   // resource addresses for -replace
	Variables   map[string]json.RawMessage // of the plan; never shown
	Message     string
}

// Run is one run of a workspace.
type Run struct {
	N int // unique within its record
	RunOptions
	Status        RunStatus
	Configuration string
	HasChanges    bool
	Add           int
	Change        int
	Remove        int
	Plan          string // digest of the plan that a confirmation approves; "": there is none
	Created       time.Time
	Cancelled     bool   // cancellation was requested
	Error         string // for display
	Repeated      bool   // what was asked for was done by an earlier request
}

// RunStatus is the stage of a run.
type RunStatus string

// Statuses of runs. Those from RunPlannedAndFinished on are final.
const (
	RunPending            RunStatus = "pending"
	RunPlanning           RunStatus = "planning"
	RunPlanned            RunStatus = "planned"
	RunPlannedAndSaved    RunStatus = "planned_and_saved"
	RunConfirmed          RunStatus = "confirmed"
	RunApplying           RunStatus = "applying"
	RunPlannedAndFinished RunStatus = "planned_and_finished"
	RunApplied            RunStatus = "applied"
	RunErrored            RunStatus = "errored"
	RunDiscarded          RunStatus = "discarded"
	RunCanceled           RunStatus = "canceled"
)

// PlanDocument is a plan as `show -json` has it, with the schemas of `providers schema -json`.
type PlanDocument struct {
	Plan    json.RawMessage `json:"plan"`
	Schemas json.RawMessage `json:"schemas"`
}

// Phase is a part of a run that has a log.
type Phase string

// Phases.
const (
	PhasePlan  Phase = "plan"
	PhaseApply Phase = "apply"
)

// Decision is a caller's decision about a run.
type Decision struct {
	Action  RunAction
	Plan    string // for RunConfirm: the plan that the caller has seen
	By      access.Caller
	Comment string
}

// RunAction is an action on a run.
type RunAction string

// Actions.
const (
	RunConfirm     RunAction = "apply"
	RunDiscard     RunAction = "discard"
	RunCancel      RunAction = "cancel"
	RunForceCancel RunAction = "force-cancel" // only after RunCancel
)

// ForLeader reports whether a request below /api/v2/ concerns runs, so that the server that
// executes them must answer it. path is without what precedes /api/v2/. Uploads are not included:
// they are large and need only the registry.
func ForLeader(r *http.Request, path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	part := strings.Split(rest, "/")
	if !ok {
		return false
	}
	last := part[len(part)-1]
	switch part[0] {
	case "runs", "plans", "applies", "logs":
		return true
	case "organizations":
		switch {
		case len(part) == 4 && part[2] == "runs", len(part) == 3 && part[2] == "capacity":
			return true
		case len(part) < 4 || part[2] != "workspaces":
			return false
		}
		return r.Method == http.MethodDelete || last == "safe-delete"
	case "workspaces":
		switch last {
		case "configuration-versions", "runs", "safe-delete", "force-unlock":
			return true
		}
		return len(part) == 2 && r.Method == http.MethodDelete
	}
	return false
}

// Signed reports whether a path carries its own signed right, such as that of a log, and no token.
func Signed(path string) bool {
	return strings.HasPrefix(path, prefix+"logs/") || strings.HasPrefix(path, prefix+"uploads/")
}

const (
	// recentTime is the maximum age of a list that the next request of a command reuses.
	recentTime = 2 * time.Second
	// maxRecent bounds the memory of the kept lists, in bytes.
	maxRecent = 16 << 20
)

// recent keeps the lists from which commands saw workspaces. A command reads its workspace twice
// and then locks it: one list serves all three, as if the command were slow. The command ID is as
// old as the list, so that a later deletion is noticed.
type recent struct {
	mu   sync.Mutex // guards the fields below
	kept map[reader]dated
	size int
}

// reader is a command that reads a workspace, identified by its connection.
type reader struct {
	workspaceRef
	connection, subject string
}

func readerOf(r *http.Request, p workspaceRef, g access.Grant) reader {
	return reader{p, r.RemoteAddr, subjectOf(g.Caller)}
}

// dated is a list with the time just before it was requested.
type dated struct {
	list *statebackend.Listing
	at   time.Time
}

// keep stores a list for a command, unless there is no room.
func (r *recent) keep(by reader, d dated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, old := range r.kept {
		if other == by || d.at.Sub(old.at).Abs() > recentTime {
			r.drop(other)
		}
	}
	if size := d.list.Size(); r.size+size <= maxRecent {
		r.kept[by] = d
		r.size += size
	}
}

// get returns the list that was kept for a command; a nil one if there is no recent one.
func (r *recent) get(by reader, now time.Time) dated {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.kept[by]; d.list != nil && now.Sub(d.at).Abs() <= recentTime {
		return d
	}
	return dated{}
}

// forget makes the next read of the workspace ask the registry.
func (r *recent) forget(p workspaceRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for by := range r.kept {
		if by.workspaceRef == p {
			r.drop(by)
		}
	}
}

// drop forgets the list of one command. The caller holds r.mu.
func (r *recent) drop(by reader) {
	r.size -= r.kept[by].list.Size()
	delete(r.kept, by)
}
