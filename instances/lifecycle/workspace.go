// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/addr"
)

// A workspace has, of an instance, only runs: no owner, lifetime or pool; its state is elsewhere,
// so it ends without a run. Users request runs with a configuration each: a plan, then, if that
// plan is confirmed, its apply. Waiting runs are in [Record.Open], the current one in [Record.Run].

// Bounds of a workspace.
const (
	maxPending       = 10 // runs whose plan was not begun
	maxOpen          = 12 // those, and plans that wait for confirmation
	maxWorkspace     = 255
	maxWorkspaceSize = 24 << 10 // bytes of its record as JSON
)

// Discarded is the result of a workspace run whose plan was discarded.
const Discarded = "discarded"

// Ask is the request for a run of a workspace.
type Ask struct {
	Key         string `json:"key,omitempty"`    // of the request: a repeated key returns the same run
	Upload      string `json:"upload,omitempty"` // the configuration that it runs
	Input       string `json:"input,omitempty"`  // digest of the document with variables and addresses; "": none
	Message     string `json:"message,omitempty"`
	Speculative bool   `json:"speculative,omitempty"` // its plan is never applied
	Save        bool   `json:"save,omitempty"`        // its plan waits without blocking other runs
	AutoApply   bool   `json:"auto_apply,omitempty"`
	Destroy     bool   `json:"destroy,omitempty"`
	RefreshOnly bool   `json:"refresh_only,omitempty"`
	NoRefresh   bool   `json:"no_refresh,omitempty"`
}

// Events of callers about workspaces.
type (
	// OpenWorkspace makes the record of a workspace, or returns the existing one.
	OpenWorkspace struct {
		Template  *template.Template // of its organization, for its runs
		Digest    string
		Workspace string
	}
	// Enqueue adds a run to a workspace.
	Enqueue struct {
		ID       string
		Template *template.Template
		Digest   string
		Source   template.Source // Digest and Archive of the configuration
		Ask      Ask
	}
	// Confirm allows exactly one plan of a workspace to be applied.
	Confirm struct {
		ID   string
		N    int
		Plan string
	}
	// Discard ends a run that was not begun, or whose plan waits.
	Discard struct {
		ID string
		N  int
	}
	// CancelOne ends a run of a workspace; Force kills one that was asked to end.
	CancelOne struct {
		ID    string
		N     int
		Force bool
	}
	// CloseWorkspace ends the record of a workspace that has no open runs.
	CloseWorkspace struct{ ID string }
)

// IsWorkspaceTemplate reports whether a template is that of an organization's workspaces.
func IsWorkspaceTemplate(template string) bool {
	return strings.HasPrefix(template, addr.TemplateReserved+"/")
}

// WorkspaceTemplate returns the name of the template of an organization's workspaces.
func WorkspaceTemplate(organization string) string {
	return addr.TemplateReserved + "/" + organization
}

// Organization returns the organization of a workspace's record; "" of an instance's.
func (r *Record) Organization() string {
	if r.Workspace == "" {
		return ""
	}
	return strings.TrimPrefix(r.Template, addr.TemplateReserved+"/")
}

// WorkspaceRecord returns the live record of a workspace; nil if there is none.
func (d *Document) WorkspaceRecord(organization, workspace string) *Record {
	template := WorkspaceTemplate(organization)
	for _, r := range d.Records {
		if r.Workspace == workspace && r.Template == template && r.Phase.Live() {
			return r
		}
	}
	return nil
}

func (e OpenWorkspace) applyTo(tx *tx) (Answer, error) {
	switch {
	case e.Template == nil || e.Digest == "" || !IsWorkspaceTemplate(e.Template.Name):
		return Answer{}, &template.FieldError{Path: "/template", Text: "not a workspace of an organization"}
	case e.Workspace == "" || len(e.Workspace) > maxWorkspace:
		return Answer{}, &template.FieldError{Path: "/workspace", Text: "not the name of a workspace"}
	}
	if r := tx.doc.WorkspaceRecord(strings.TrimPrefix(e.Template.Name, addr.TemplateReserved+"/"), e.Workspace); r != nil {
		return Answer{Status: 200, Record: r}, nil
	}
	if err := checkRoom(tx); err != nil {
		return Answer{}, err
	}
	r := addRecord(tx, tx.newID(), e.Template, e.Digest, template.Source{})
	r.Workspace = e.Workspace
	r.Phase = Ready
	r.CreatedBy = tx.storedActor()
	tx.recordEvent(r, "created", e.Workspace)
	return Answer{Status: 201, Record: r}, nil
}

func findWorkspace(tx *tx, id string) (*Record, error) {
	r := tx.doc.Records[id]
	if r == nil || r.Workspace == "" || !r.Phase.Live() {
		return nil, newRefusal(ErrNotFound, "workspace %s not found", clipForeign(id, 64))
	}
	return r, nil
}

// findRun returns a run of a workspace, open or ended, with its record.
func findRun(tx *tx, id string, n int) (*Record, *Run, error) {
	r, err := findWorkspace(tx, id)
	if err != nil {
		return nil, nil, err
	}
	run := r.FindRun(n)
	if run == nil {
		return nil, nil, newRefusal(ErrNotFound, "run %d not found", n)
	}
	return r, run, nil
}

// askedAgain is how long a repeated request returns the same run.
const askedAgain = 10 * time.Minute

// findRequestedRun returns the number of the run that a request made; 0: none.
func findRequestedRun(r *Record, key string, now time.Time) int {
	for _, run := range r.AllRuns() {
		if key != "" && run.Ask != nil && run.Ask.Key == key && now.Sub(run.CreatedAt) < askedAgain {
			return run.N
		}
	}
	return 0
}

// applyTo adds a run, or returns the run of a repeated request.
func (e Enqueue) applyTo(tx *tx) (Answer, error) {
	r, err := findWorkspace(tx, e.ID)
	if err != nil {
		return Answer{}, err
	}
	if e.Template == nil || e.Digest == "" || e.Template.Name != r.Template || e.Source.Archive == "" {
		return Answer{}, &template.FieldError{Path: "/template", Text: "no configuration to run"}
	}
	e.Ask.Message = clipForeign(e.Ask.Message, 256)
	if n := findRequestedRun(r, e.Ask.Key, tx.now); n > 0 {
		return Answer{Status: 200, Record: r, Run: n, Repeat: true}, nil
	}
	pending := 0
	for _, run := range openRuns(r) {
		if run.Plan == "" {
			pending++
		}
	}
	if pending >= maxPending || len(r.Open) >= maxOpen {
		return Answer{}, newRefusal(ErrFull, "workspace %s has %d pending runs: confirm, discard or cancel some", r.Workspace, pending)
	}
	r = tx.edit(r)
	tx.keepTemplate(e.Digest, e.Template)
	if r.Snapshot != e.Digest { // for the next runs
		r.Snapshot = e.Digest
		tx.unusedTemplates = true
	}
	r.Numbered++
	r.Open = append(r.Open, Run{
		N: r.Numbered, Kind: RunPlan, By: tx.storedActor(), CreatedAt: tx.now, QueuedAt: tx.now, Source: e.Source, Snapshot: e.Digest, From: Ready, Ask: new(e.Ask),
	})
	n := r.Numbered
	advanceRuns(tx, r)
	return Answer{Status: 201, Record: r, Run: n}, nil
}

// advanceRuns makes the next run current: a confirmed plan first, then the oldest; beside an
// unconfirmed plan only what changes nothing.
func advanceRuns(tx *tx, r *Record) {
	if r.Run == nil {
		if i := nextOpenRun(r); i >= 0 {
			run := r.Open[i]
			r.Open = slices.Delete(slices.Clone(r.Open), i, i+1)
			r.Run = &run
			awaitAttempt(tx, r, 0, WaitQueued, "")
		} else {
			r.unsetCondition(Waiting)
		}
	}
	switch {
	case r.Run != nil:
		r.Phase = Updating
	case hasPlanToConfirm(r):
		r.Phase = Planned
	default:
		r.Phase = Ready
	}
}

// hasPlanToConfirm reports whether a plan waits for confirmation and is not just saved.
func hasPlanToConfirm(r *Record) bool {
	return slices.ContainsFunc(r.Open, func(run Run) bool { return run.HasPlanWaiting() && !run.Ask.Save })
}

// nextOpenRun returns the index of the open run that is next; -1: none.
func nextOpenRun(r *Record) int {
	if i := slices.IndexFunc(r.Open, func(run Run) bool { return run.Approved != "" }); i >= 0 {
		return i
	}
	waits := hasPlanToConfirm(r)
	return slices.IndexFunc(r.Open, func(run Run) bool {
		return run.Plan == "" && (!waits || run.Ask.Speculative || run.Ask.Save)
	})
}

// applyTo allows exactly one plan to be applied, by the right to run, without a second person.
func (e Confirm) applyTo(tx *tx) (Answer, error) {
	r, run, err := findRun(tx, e.ID, e.N)
	switch {
	case err != nil:
		return Answer{}, err
	case run.Confirmed != nil && run.Confirmed.isSame(tx.command.Actor) && run.Plan == e.Plan:
		return Answer{Status: 200, Record: r, Run: e.N, Repeat: true}, nil
	case !run.HasPlanWaiting():
		return Answer{}, newRefusal(ErrPhase, "run %d cannot be confirmed", e.N)
	case e.Plan != run.Plan:
		return Answer{}, newRefusal(ErrStalePlan, "the plan changed since you reviewed it")
	}
	r = tx.edit(r)
	run = r.FindRun(e.N)
	run.approve(tx.now)
	run.Confirmed = new(tx.storedActor())
	tx.recordEvent(r, "confirmed", run.Plan)
	advanceRuns(tx, r)
	return Answer{Status: 200, Record: r, Run: e.N}, nil
}

// approve makes the apply of its plan the next attempt of a run.
func (r *Run) approve(now time.Time) {
	r.Approved = r.Plan
	r.Kind = RunApply
	r.QueuedAt = now
}

func (e Discard) applyTo(tx *tx) (Answer, error) {
	r, run, err := findRun(tx, e.ID, e.N)
	switch {
	case err != nil:
		return Answer{}, err
	case run.Result == Discarded && run.Stopped != nil && run.Stopped.isSame(tx.command.Actor):
		return Answer{Status: 200, Record: r, Run: e.N, Repeat: true}, nil
	case run.Result != "" || run.Active() || run.Approved != "":
		return Answer{}, newRefusal(ErrPhase, "run %d cannot be discarded", e.N)
	}
	r = tx.edit(r)
	tx.recordEvent(r, "discarded", "")
	r.FindRun(e.N).Stopped = new(tx.storedActor())
	closeRun(tx, r, e.N, Discarded, "discarded"+byActor(tx))
	advanceRuns(tx, r)
	return Answer{Status: 200, Record: r, Run: e.N}, nil
}

func (a Actor) isSame(b Actor) bool { return a.Issuer == b.Issuer && a.Subject == b.Subject }

// byActor names the actor for the end of a sentence.
func byActor(tx *tx) string {
	if actor := tx.actorName(); actor != "" {
		return " by " + actor
	}
	return ""
}

// isStoppedBy reports whether a run is being cancelled, or was by the actor, and not discarded.
func (r *Run) isStoppedBy(a Actor) bool {
	if r.Result == "" && r.Cancel != "" {
		return true
	}
	return r.Stopped != nil && r.Result != Discarded && r.Stopped.isSame(a)
}

func (e CancelOne) applyTo(tx *tx) (Answer, error) {
	r, run, err := findRun(tx, e.ID, e.N)
	switch {
	case err != nil:
		return Answer{}, err
	case run.isStoppedBy(tx.command.Actor) && (!e.Force || run.Force):
		return Answer{Status: 200, Record: r, Run: e.N, Repeat: true}, nil
	case run.Result != "" || run.HasPlanWaiting() || e.Force && run.Cancel == "":
		return Answer{}, newRefusal(ErrPhase, "run %d cannot be cancelled", e.N)
	}
	r = tx.edit(r)
	run = r.FindRun(e.N)
	tx.recordEvent(r, "cancelled", "")
	if !e.Force {
		run.Stopped = new(tx.storedActor())
	}
	switch {
	case e.Force:
		run.Force = true
		tx.addEffect(KillRun, r.Run.Ref(r.ID))
	case run.Active():
		stopRun(tx, r, "cancelled"+byActor(tx))
	default:
		closeRun(tx, r, e.N, Cancelled, "cancelled"+byActor(tx))
		advanceRuns(tx, r)
	}
	return Answer{Status: 202, Record: r, Run: e.N}, nil
}

// applyTo ends a workspace's record. Nothing is destroyed: its state is elsewhere.
func (e CloseWorkspace) applyTo(tx *tx) (Answer, error) {
	r, err := findWorkspace(tx, e.ID)
	if err != nil {
		return Answer{}, err
	}
	if r.Run != nil || len(r.Open) > 0 {
		return Answer{}, newRefusal(ErrPhase, "workspace %s has runs that have not ended: cancel or discard them", r.Workspace)
	}
	r = tx.edit(r)
	tx.recordEvent(r, "closed", "")
	finishRecord(tx, r, Destroyed, "the workspace was deleted")
	return Answer{Status: 200, Record: r}, nil
}

// endWorkspaceAttempt handles the end of a workspace's attempt, which is not retried.
func endWorkspaceAttempt(tx *tx, r *Record, res Result) {
	run := r.Run
	switch {
	case res.Outcome == Held && run.Cancel == "":
		awaitAttempt(tx, r, lockedAgain, WaitStateLocked, res.Error)
		return
	case res.Outcome == Done && run.Kind == RunApply:
		closeRun(tx, r, run.N, Done, "")
	case run.Cancel != "" && res.Outcome != Lost:
		closeRun(tx, r, run.N, Cancelled, run.Cancel)
	case res.Outcome == Done:
		keepWorkspacePlan(tx, r, res)
	default:
		closeRun(tx, r, run.N, outcomeOf(res.Outcome), failureText(res))
	}
	advanceRuns(tx, r)
}

// keepWorkspacePlan stores a plan, if it may be applied.
func keepWorkspacePlan(tx *tx, r *Record, res Result) {
	run := r.Run
	run.Changes = res.Changes
	switch {
	case !res.Changes || run.Ask.Speculative:
		closeRun(tx, r, run.N, Done, "")
		return
	case !isValidPlan(res.Plan):
		closeRun(tx, r, run.N, RunFailed, "the plan has no digest")
		return
	}
	run.Plan = res.Plan
	run.Planned = run.Attempt
	run.EndedAt = tx.now
	if run.Ask.AutoApply && !run.Ask.Save {
		run.approve(tx.now)
	}
	r.Run = nil
	r.Open = append(slices.Clone(r.Open), *run)
	slices.SortFunc(r.Open, func(a, b Run) int { return a.N - b.N })
}

// closeRun moves a run of a workspace to the ended ones.
func closeRun(tx *tx, r *Record, n int, result, text string) {
	run := *r.FindRun(n)
	if r.Run != nil && r.Run.N == n {
		r.Run = nil
		r.unsetCondition(Waiting)
	}
	r.Open = slices.DeleteFunc(slices.Clone(r.Open), func(o Run) bool { return o.N == n })
	run.Source = template.Source{}
	run.Snapshot = ""
	run.From = ""
	run.Approved = ""
	addEnded(tx, r, run, result, text)
}

// planDeadlines returns when plans that nobody confirms are discarded.
func planDeadlines(r *Record) []deadline {
	var all []deadline
	for i := range r.Open {
		if r.Open[i].HasPlanWaiting() {
			all = append(all, deadline{deadlinePlan, r.Open[i].EndedAt.Add(planWaits)})
		}
	}
	return all
}

// discardOldPlans discards the plans of a workspace that waited too long.
func discardOldPlans(tx *tx, r *Record) {
	for _, run := range slices.Clone(r.Open) {
		if run.HasPlanWaiting() && !run.EndedAt.Add(planWaits).After(tx.now) {
			closeRun(tx, r, run.N, Discarded, "the plan was not confirmed in time")
		}
	}
	advanceRuns(tx, r)
}
