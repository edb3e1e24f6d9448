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

// Runs keeps the runs of workspaces of execution mode remote, and executes them. It
// is asked once the right is decided and what the client sent is checked; it decides
// about no right.
//
// Where another process decides, and does not answer, errors are around
// [oci.ErrUnavailable].
type Runs interface {
	// View tells what is known of the runs of a workspace. It is asked by most
	// commands, so it must be cheap.
	View(ctx context.Context, w Workspace) (RunView, error)
	// Open returns the id of the record of a workspace, which it makes if there is
	// none. It may come twice.
	Open(ctx context.Context, w Workspace, by access.Caller) (record string, err error)
	// Repository is where the uploads of a record are. It makes no request.
	Repository(w Workspace, record string) (*oci.Repo, error)
	// CheckEnvironment refuses a variable of the environment that means something to a
	// run itself.
	CheckEnvironment(name string) error
	// Create queues a run. One with the same key that is at most 10 minutes old is
	// that run again: its answer was lost. ErrNoRun: this is not the record of the
	// workspace; ErrTooManyRuns.
	Create(ctx context.Context, w Workspace, record string, n NewRun) (Run, error)
	// Act decides about a run: the first wins. The same action of the same caller
	// again is no error, whatever came after it. ErrNoRun; ErrRunStatus.
	Act(ctx context.Context, w Workspace, record string, n int, d Decision) (Run, error)
	// Log reads at most limit bytes of the log of a phase from an offset on. What is
	// at an offset never changes, on no replica; a log only grows. End says that
	// nothing follows, also because there never was a log. Where nothing is there yet it may
	// wait for some seconds.
	Log(ctx context.Context, w Workspace, record string, n int, p Phase, offset, limit int64) (part []byte, end bool, err error)
	// PlanJSON is a [PlanDocument] of a run that was to save its plan; nil: there is none.
	PlanJSON(ctx context.Context, w Workspace, record string, n int) ([]byte, error)
	// Queue tells what waits and runs of an organization.
	Queue(ctx context.Context, organization string) (RunQueue, error)
	// End ends the record of a workspace that is being deleted, if it has one.
	// ErrRunPending while a run is not final.
	End(ctx context.Context, w Workspace, by access.Caller) error
}

// Errors of [Runs].
var (
	ErrNoRun       = errors.New("there is no such run")
	ErrRunStatus   = errors.New("the status of the run does not allow it")
	ErrRunPending  = errors.New("a run of the workspace has not ended")
	ErrTooManyRuns = errors.New("too many runs of the workspace have not ended")
)

// Workspace names a workspace as addresses do, wherever its state is.
type Workspace struct{ Organization, Name string }

// RunView is what is known of the runs of a workspace.
type RunView struct {
	Record string // its id; "": there is none yet
	Runs   []Run  // newest first: all that are not final, and the newest of the others
}

// RunQueue is what waits of an organization, in the order in which it will start, and
// how many runs there are that do not.
type RunQueue struct {
	Waiting []QueuedRun
	Running int
}

// QueuedRun is a run that waits.
type QueuedRun struct {
	Workspace
	Record string
	N      int
}

// NewRun is a run that somebody asks for.
type NewRun struct {
	Key           string // of a repeated request
	Configuration string // of the upload: 16 hex digits
	Manifest      string // digest of the upload: what runs is this and nothing else
	Archive       string // digest of its only layer, a tar.gz
	Size          int64  // of the layer, in bytes
	RunOptions
	Environment map[string]string // of the tool, in plan and apply
	Masked      []string          // values that no log may show
	By          access.Caller
}

// RunOptions are what a run is to do.
type RunOptions struct {
	Speculative bool // it plans and no more
	AutoApply   bool
	Destroy     bool
	RefreshOnly bool
	NoRefresh   bool
	SavePlan    bool                       // its plan waits until somebody applies it
	Targets     []string                   // addresses: of -target
	Replace     []string                   // and of -replace
	Variables   map[string]json.RawMessage // of the plan; nobody is shown them
	Message     string
}

// Run is one run of a workspace.
type Run struct {
	N int // of its record
	RunOptions
	Status        RunStatus
	Configuration string
	HasChanges    bool
	Add           int
	Change        int
	Remove        int
	Plan          string // digest: what a confirmation lets through; "": there is none
	Created       time.Time
	Cancelled     bool   // somebody asked for its end
	Error         string // for people
}

// RunStatus is where a run is.
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

// PlanDocument is what the tool says of a plan: `show -json`, and the schemas of the
// resources in it as of `providers schema -json`.
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

// Decision is what somebody decides about a run.
type Decision struct {
	Action  RunAction
	Plan    string // of RunConfirm: the plan that was seen
	By      access.Caller
	Comment string
}

// RunAction is what can be done to a run.
type RunAction string

// Actions.
const (
	RunConfirm     RunAction = "apply"
	RunDiscard     RunAction = "discard"
	RunCancel      RunAction = "cancel"
	RunForceCancel RunAction = "force-cancel" // only after RunCancel
)

// ForLeader reports whether a request below /api/v2/ is about runs, so that one of
// several servers decides: the one that executes them. path is that of the request
// without what stands before /api/v2/. Uploads are not among them, which are large
// and need the registry only.
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

// Signed reports whether the right to a path is in the path, such as that to a log: the
// tools send no token there.
func Signed(path string) bool {
	return strings.HasPrefix(path, prefix+"logs/") || strings.HasPrefix(path, prefix+"uploads/")
}

const (
	// recentTime is how old a list may be of which the next request of a command makes
	// use.
	recentTime = 2 * time.Second
	// maxRecent bounds what is kept of lists, in bytes.
	maxRecent = 16 << 20
)

// recent keeps the lists by which workspaces were shown to commands. A command reads
// its workspace twice and then locks it: one list does for all, as if the command had
// been slow. Its handle is as old as the list, so that a deletion since is seen.
type recent struct {
	mu   sync.Mutex // guards the fields below
	kept map[reader]dated
	size int
}

// reader is a command that reads a workspace, known by its connection.
type reader struct {
	workspaceRef
	connection, subject string
}

func readerOf(r *http.Request, p workspaceRef, g access.Grant) reader {
	return reader{p, r.RemoteAddr, subjectOf(g.Caller)}
}

// dated is a list with the time before it was made.
type dated struct {
	list *statebackend.Listing
	at   time.Time
}

// keep remembers a list for a command, unless there is no room.
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

// get returns the list that was kept for a command, a nil one for none of a moment ago.
func (r *recent) get(by reader, now time.Time) dated {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.kept[by]; d.list != nil && now.Sub(d.at).Abs() <= recentTime {
		return d
	}
	return dated{}
}

// forget has whoever reads the workspace next look at the registry.
func (r *recent) forget(p workspaceRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for by := range r.kept {
		if by.workspaceRef == p {
			r.drop(by)
		}
	}
}

// drop forgets what one command read. The caller holds r.mu.
func (r *recent) drop(by reader) {
	r.size -= r.kept[by].list.Size()
	delete(r.kept, by)
}
