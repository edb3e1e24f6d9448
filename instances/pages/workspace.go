// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Runs gives access to the runs of workspaces on the server that executes them.
type Runs interface {
	// Document returns the document that this replica knows.
	Document(ctx context.Context) (*lifecycle.Document, error)
	// PhaseLog returns the existing log of a plan or an apply from a byte on, and whether it is
	// complete. Without a log it returns nil.
	PhaseLog(ctx context.Context, rec *lifecycle.Record, u *lifecycle.Run, apply bool, offset int64) (from io.ReadCloser, over bool, err error)
	// Do commits an event of a caller.
	Do(ctx context.Context, by access.Caller, e lifecycle.Event) (lifecycle.Answer, error)
}

// RunsOptions configure the pages of runs of workspaces. Kit, Runs and States are required.
type RunsOptions struct {
	Kit    *service.Kit
	Runs   Runs
	States *states.States // which runs write
	Now    site.Clock     // nil: time.Now
	Pace   service.Pace   // of log streams
}

// NewRuns returns the pages of runs of workspaces. The right to read the state of a
// workspace includes reading the output of its runs; the right to run includes deciding.
func NewRuns(o RunsOptions) site.Set {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &workspaces{runs: o.Runs, states: o.States, background: site.NewRenderLimiter(), clock: o.Now, streams: service.NewStreams(o.Kit, o.Pace)}
	return site.Set{Templates: files, State: w.linksBeside, Routes: func(r *site.Routes) {
		r.Show("GET /ui/runs", site.List, w.listNewest) // lists only what the caller may read
		r.Show("GET /ui/runs/{organization}/{workspace}", w.mayAct(rights.Read), w.list)
		r.Show("GET /ui/runs/{organization}/{workspace}/{run}", w.mayAct(rights.Read), w.show)
		r.Stream("GET /ui/runs/{organization}/{workspace}/{run}/log/{phase}", w.mayAct(rights.Read), w.streamLog)
		r.Show("GET /ui/runs/{organization}/{workspace}/{run}/{act}", w.mayAct(rights.Read), w.showBefore)
		r.Post("POST /ui/runs/{organization}/{workspace}/{run}/{act}", site.Holds(w.mayAct(rights.Run)), w.actOnRun)
	}}
}

// workspaces serves the pages of runs of workspaces.
type workspaces struct {
	runs       Runs
	states     *states.States
	background site.RenderLimiter
	clock      site.Clock
	streams    *service.Streams
}

// workspaceRef names a workspace as tfe.v2 does, independent of where its state is.
type workspaceRef struct{ organization, workspace string }

func workspaceOf(r *site.Request) workspaceRef {
	return workspaceRef{r.PathValue("organization"), r.PathValue("workspace")}
}

// workspaceOfRecord returns the workspace of a record; zero for an instance.
func workspaceOfRecord(rec *lifecycle.Record) workspaceRef {
	return workspaceRef{rec.Organization(), rec.Workspace}
}

func (p workspaceRef) String() string { return p.organization + "/" + p.workspace }

// path is the page of the runs of the workspace, or a page below it, relative to Up.
func (p workspaceRef) path(more ...string) string {
	all := append([]string{"runs", p.organization, p.workspace}, more...)
	for i := range all {
		all[i] = site.EscapePath(all[i])
	}
	return strings.Join(all, "/")
}

func (s *workspaces) mayAct(action rights.Action) site.Right {
	return func(r *site.Request) (rights.Right, error) { return s.rightTo(action, workspaceOf(r)), nil }
}

func (s *workspaces) rightTo(action rights.Action, p workspaceRef) rights.Right {
	return rights.StateRight(s.states.Layout(), action, p.organization, p.workspace)
}

// knownDocument returns the document that this replica knows. If no leader answers, the page
// states the time of the copy.
func (s *workspaces) knownDocument(r *site.Request) (*lifecycle.Document, error) {
	if at, err := time.Parse(time.RFC3339, r.Reply.Get("Okara-As-Of")); err == nil {
		r.AsOf = at
	}
	d, err := s.runs.Document(r.Context())
	return d, runsError(err)
}

// runsError maps a refusal by the leader to an answer.
func runsError(err error) error {
	switch {
	case errors.Is(err, lifecycle.ErrNoLeader):
		return &service.Error{Status: http.StatusServiceUnavailable, Text: "no replica that executes runs is available"}
	case errors.Is(err, lifecycle.ErrNotFound):
		return site.NotFound("run not found, or its record was removed")
	}
	return err
}

// linksBeside links to the runs of the workspace of a state, if there are any; beside the list
// of all states, to the runs of all workspaces.
func (s *workspaces) linksBeside(r *site.Request, name, workspace string) []site.Link {
	d, err := s.runs.Document(r.Context())
	if err != nil {
		return nil // the page is shown without it
	}
	if name == "" {
		if len(s.rows(r, d)) == 0 {
			return nil
		}
		return []site.Link{{Text: "Runs on the server", Href: "runs"}}
	}
	p := workspaceRef{name, workspace}
	if of, its, split := s.states.Layout().SplitState(name); split && workspace == "default" {
		p = workspaceRef{of, its}
	}
	if d.WorkspaceRecord(p.organization, p.workspace) == nil {
		return nil
	}
	return []site.Link{{Text: "Runs on the server", Href: p.path()}}
}

// workspaceRunsBody lists runs of one workspace, or the newest ones of all workspaces.
type workspaceRunsBody struct {
	Rows []runRow
	All  bool // of all workspaces
}

func (s *workspaces) row(p workspaceRef, rec *lifecycle.Record, u *lifecycle.Run) runRow {
	row := runRow{
		Link: site.Link{Text: fmt.Sprintf("Run %d", u.N), Href: p.path(rec.ID + "." + strconv.Itoa(u.N))}, Workspace: site.Link{Text: text.Block(p.String()), Href: p.path()},
		Kind: "plan and apply", Result: workspaceMark(u), By: actorName(u.By), Queued: s.clock.When(u.CreatedAt), Changes: workspaceChanges(u), Error: text.Block(u.Error),
		Took: describeTook(u.StartedAt, u.EndedAt, s.clock()),
	}
	if a := u.Ask; a != nil {
		row.Message = text.Block(a.Message)
		switch {
		case a.Speculative:
			row.Kind = "plan only"
		case a.Destroy:
			row.Kind = "destroy"
		case a.RefreshOnly:
			row.Kind = "refresh"
		}
	}
	return row
}

func actorName(a lifecycle.Actor) string {
	return text.Block(cmp.Or(a.Label, a.Subject, "unknown"))
}

func workspaceMark(u *lifecycle.Run) site.Mark {
	apply := u.Kind == lifecycle.RunApply
	switch {
	case u.Result == lifecycle.Done && apply:
		return site.Mark{Text: "applied", Kind: "good"}
	case u.Result == lifecycle.Done && !u.Changes:
		return site.Mark{Text: "no changes", Kind: "good"}
	case u.Result == lifecycle.Done:
		return site.Mark{Text: "planned", Kind: "good"}
	case u.Result == lifecycle.Cancelled, u.Result == lifecycle.Discarded:
		return site.Mark{Text: u.Result, Kind: "plain"}
	case u.Result != "":
		return site.Mark{Text: text.Block(u.Result), Kind: "bad"}
	case u.Cancel != "":
		return site.Mark{Text: "being cancelled", Kind: "busy"}
	case u.Active() && apply:
		return site.Mark{Text: "applies", Kind: "busy"}
	case u.Active():
		return site.Mark{Text: "plans", Kind: "busy"}
	case u.Approved != "":
		return site.Mark{Text: "confirmed", Kind: "busy"}
	case u.Plan != "":
		return site.Mark{Text: "waiting for confirmation", Kind: "warn"}
	}
	return site.Mark{Text: "waits", Kind: "plain"}
}

// workspaceChanges is what a plan would change, or what was changed; "": not known, or
// nothing.
func workspaceChanges(u *lifecycle.Run) string {
	if u.Counts == nil {
		return ""
	}
	done := u.Kind == lifecycle.RunApply && u.Result == lifecycle.Done
	return u.Counts.Words(done)
}

// rows returns the newest runs of the workspaces that the caller may read.
func (s *workspaces) rows(r *site.Request, d *lifecycle.Document) []runRow {
	var all []runRow
	for _, rec := range d.Records {
		p := workspaceOfRecord(rec)
		if p == (workspaceRef{}) || !rec.Phase.Live() || !r.Grant.May(s.rightTo(rights.Read, p)) {
			continue
		}
		for _, u := range rec.AllRuns() {
			all = append(all, s.row(p, rec, u))
		}
	}
	slices.SortFunc(all, func(a, b runRow) int { return cmp.Or(b.Queued.Compare(a.Queued.Time), cmp.Compare(a.Href, b.Href)) })
	return all[:min(len(all), site.RowsPerPage)]
}

func (s *workspaces) listNewest(r *site.Request) (*site.Page, error) {
	if err := r.AllowLogin(); err != nil {
		return nil, err
	}
	d, err := s.knownDocument(r)
	if err != nil {
		return nil, err
	}
	return &site.Page{
		Template: "workspace_runs.html", Title: "Runs on the server", Crumbs: []site.Link{{Text: "States", Href: "states"}}, Body: workspaceRunsBody{Rows: s.rows(r, d), All: true},
	}, nil
}

func (s *workspaces) list(r *site.Request) (*site.Page, error) {
	d, err := s.knownDocument(r)
	if err != nil {
		return nil, err
	}
	p := workspaceOf(r)
	rec := d.WorkspaceRecord(p.organization, p.workspace)
	if rec == nil {
		return nil, site.NotFound("workspace %s had no run on this server", text.Block(p.String()))
	}
	var body workspaceRunsBody
	for _, u := range rec.AllRuns() {
		body.Rows = append(body.Rows, s.row(p, rec, u))
	}
	return &site.Page{Template: "workspace_runs.html", Title: "Runs of " + text.Block(p.String()), Crumbs: s.crumbsAbove(r, p), Body: body}, nil
}

// crumbsAbove returns the links above a page of the workspace: to its state, if it has one.
func (s *workspaces) crumbsAbove(r *site.Request, p workspaceRef) []site.Link {
	all := []site.Link{{Text: "States", Href: "states"}}
	if name, workspace, w := s.stateOf(r, p); w != nil {
		all = append(all, site.Link{Text: text.Block(p.String()), Href: "states/" + site.EscapePath(name) + "/" + site.EscapePath(workspace)})
	}
	return all
}

// stateOf finds the state of a workspace; nil: none was written, or it cannot be read.
func (s *workspaces) stateOf(r *site.Request, p workspaceRef) (name, workspace string, w *states.Workspace) {
	layout := s.states.Layout()
	if slices.Contains(layout.Split, p.organization) {
		name = p.organization + "." + p.workspace
		if w, err := s.states.Workspace(r.Context(), name, "default"); err == nil && len(w.Numbers) > 0 {
			return name, "default", w
		}
	}
	if w, err := s.states.Workspace(r.Context(), p.organization, p.workspace); err == nil && len(w.Numbers) > 0 {
		return p.organization, p.workspace, w
	}
	return "", "", nil // the page is shown without it
}
