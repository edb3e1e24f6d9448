// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
)

// wroteBody is the version of the state that a run wrote.
type wroteBody struct {
	site.Link
	Why       string // why its content is not shown
	Outputs   []value
	More      int // outputs that are not shown
	Resources site.Link
	Types     []string
}

// workspaceRun is the run that a path names: RECORD.N, as its id ends.
type workspaceRun struct {
	workspaceRef
	doc *lifecycle.Document
	rec *lifecycle.Record
	run *lifecycle.Run
}

func (s *workspaces) runIn(r *site.Request) (w workspaceRun, err error) {
	w.workspaceRef = workspaceOf(r)
	if w.doc, err = s.knownDocument(r); err != nil {
		return w, err
	}
	id, number, _ := strings.Cut(r.PathValue("run"), ".")
	n, err := strconv.Atoi(number)
	w.rec = w.doc.Records[id]
	none := site.NotFound("workspace %s has no such run, or it is no longer kept", text.Block(w.String()))
	if w.rec == nil || err != nil || strconv.Itoa(n) != number {
		return w, none
	}
	if w.run = w.rec.FindRun(n); w.run == nil || workspaceOfRecord(w.rec) != w.workspaceRef {
		return w, none
	}
	return w, nil
}

func (w workspaceRun) id() string { return w.rec.ID + "." + strconv.Itoa(w.run.N) }

// href is the page of the run, or a page below it, relative to Up.
func (w workspaceRun) href(more ...string) string {
	return w.path(append([]string{w.id()}, more...)...)
}

func (s *workspaces) show(r *site.Request) (*site.Page, error) {
	w, err := s.runIn(r)
	if err != nil {
		return nil, err
	}
	u := w.run
	body := runBody{runRow: s.row(w.workspaceRef, w.rec, u), PlanFirst: true, Watch: u.Result == "" && !u.HasPlanWaiting(), Still: r.URL.Query().Has("still")}
	body.Facts = body.facts()
	switch {
	case u.Confirmed != nil:
		body.Facts.addText("Confirmed by", actorName(*u.Confirmed))
	case u.Ask != nil && u.Ask.AutoApply && u.Kind == lifecycle.RunApply:
		body.Facts.addText("Confirmed by", "no one: it applies without confirmation")
	}
	if u.Stopped != nil {
		body.Facts.addText("Ended by", actorName(*u.Stopped))
	}
	body.Next = w.describeNext()
	if u.Plan != "" || u.Result == lifecycle.Done {
		if body.Plan, err = s.readPlanOutput(r, w); err != nil {
			return nil, err
		}
	}
	if apply := u.Kind == lifecycle.RunApply; apply || body.Plan == nil {
		if body.Log, err = s.readPhaseLog(r, w, apply); err != nil {
			return nil, err
		}
	}
	if r.Grant.May(s.rightTo(rights.Run, w.workspaceRef)) {
		body.decide(w)
	}
	if u.Kind == lifecycle.RunApply {
		if body.Wrote, err = s.findWritten(r, w); err != nil {
			return nil, err
		}
	}
	return &site.Page{
		Template: "run_page.html", Title: body.Text + " of " + text.Block(w.String()), Key: s.clock.NewKey(), Body: body, Refresh: body.Watch && !body.Still,
		Crumbs: append(s.crumbsAbove(r, w.workspaceRef), site.Link{Text: "Runs on the server", Href: w.path()}),
	}, nil
}

// showBefore is the page of a form: the run itself, in its current state.
func (s *workspaces) showBefore(r *site.Request) (*site.Page, error) {
	if _, ok := workspaceActs()[r.PathValue("act")]; !ok {
		return nil, site.NotFound("page not found")
	}
	return s.show(r)
}

func (w workspaceRun) describeNext() []string {
	why := w.doc.WaitOf(w.rec, w.run)
	switch {
	case w.run.HasPlanWaiting():
		return []string{"The plan is ready. It is applied once it is confirmed, here or where the run was started."}
	case why.Position > 0:
		return []string{fmt.Sprintf("Position %d in the queue.", why.Position)}
	case why.Message != "":
		return []string{"Waiting: " + why.Message}
	}
	return nil
}

// readPlanOutput returns the tool's output for the plan, complete.
func (s *workspaces) readPlanOutput(r *site.Request, w workspaceRun) (*planBody, error) {
	to := &wholeWriter{max: plantext.Max}
	_, there, err := s.copy(r.Context(), to, w, false)
	switch {
	case err != nil:
		return nil, err
	case !there:
		return &planBody{Missing: "The output of the plan is no longer kept.", Closed: true}, nil
	case to.over:
		return &planBody{Missing: "The plan is too large to be shown in full, and a plan that cannot be read in full cannot be confirmed here.", Closed: true}, nil
	}
	return newPlanBody(r, plainLog(to.Bytes())), nil
}

// readPhaseLog shows the end of the log of a plan or an apply, and the source of what follows.
func (s *workspaces) readPhaseLog(r *site.Request, w workspaceRun, apply bool) (*logBody, error) {
	b := &logBody{Title: "Plan", Source: w.href("log", "plan")}
	if apply {
		b.Title = "Apply"
		b.Source = w.href("log", "apply")
	}
	to := &tailWriter{}
	over, _, err := s.copy(r.Context(), to, w, apply)
	b.Live = !over
	b.Text = plainLog(to.keptTail())
	b.Cut = to.dropped
	b.Progress = to.Progress
	return b, err
}

// copy reads a log to its present end; there is false if there is no log.
func (s *workspaces) copy(ctx context.Context, to io.Writer, w workspaceRun, apply bool) (over, there bool, err error) {
	from, over, err := s.runs.PhaseLog(ctx, w.rec, w.run, apply, 0)
	if errors.Is(err, oci.ErrNotFound) {
		return over, false, nil
	}
	if err != nil || from == nil {
		return over, false, err
	}
	defer from.Close()
	_, err = io.Copy(to, io.LimitReader(from, maxLog))
	return over, true, err
}

// maxLog bounds how much of one log is read, in bytes: as much as may be stored.
const maxLog = 64 << 20

// decide adds the caller's possible actions on a run.
func (b *runBody) decide(w workspaceRun) {
	u := w.run
	add := func(name string) {
		act := workspaceActs()[name]
		b.Buttons = append(b.Buttons, button{Text: act.button, Href: w.href(name), Form: true, Kind: act.kind})
	}
	switch {
	case u.Result != "":
		return
	case u.HasPlanWaiting():
		if b.Plan != nil && !b.Plan.Closed {
			b.Seen = u.Plan
			add("confirm")
		}
		add("discard")
	case u.Cancel == "":
		add("cancel")
	case u.Active() && !u.Force:
		add("force-cancel")
	}
}

// workspaceAct is an action on a run of a workspace.
type workspaceAct struct {
	button, kind, done string
	action             rights.Action // as written to the audit log
	event              func(w workspaceRun, f *site.Form) lifecycle.Event
}

func workspaceActs() map[string]workspaceAct {
	return map[string]workspaceAct{
		"confirm": {"Confirm and apply", "primary", "Confirmed, and being applied.", "run-apply", func(w workspaceRun, f *site.Form) lifecycle.Event {
			return lifecycle.Confirm{ID: w.rec.ID, N: w.run.N, Plan: f.Get("plan")}
		}},
		"discard": {"Discard", "", "Discarded: nothing was changed.", "run-discard", func(w workspaceRun, _ *site.Form) lifecycle.Event {
			return lifecycle.Discard{ID: w.rec.ID, N: w.run.N}
		}},
		"cancel": {"Cancel", "", "The run is being cancelled.", "run-cancel", func(w workspaceRun, _ *site.Form) lifecycle.Event {
			return lifecycle.CancelOne{ID: w.rec.ID, N: w.run.N}
		}},
		"force-cancel": {"Stop immediately", "danger", "Stopped immediately. Check what it left before the next run.", "run-force-cancel", func(w workspaceRun, _ *site.Form) lifecycle.Event {
			return lifecycle.CancelOne{ID: w.rec.ID, N: w.run.N, Force: true}
		}},
	}
}

// actOnRun decides about a run. A confirmation is for the plan that was shown: the form names it.
func (s *workspaces) actOnRun(r *site.Request, f *site.Form) (*site.Answer, error) {
	act, ok := workspaceActs()[r.PathValue("act")]
	if !ok {
		return nil, site.NotFound("page not found")
	}
	w, err := s.runIn(r)
	if err != nil {
		return nil, err
	}
	event := act.event(w, f)
	_, err = s.runs.Do(r.Context(), r.Grant.Caller, event)
	switch {
	case errors.Is(err, lifecycle.ErrStalePlan):
		return &site.Answer{To: w.href(), Text: "The plan has changed since this page was loaded, and nothing was confirmed. Review it again.", Bad: true}, nil
	case errors.Is(err, lifecycle.ErrPhase):
		return &site.Answer{To: w.href(), Text: "The run has progressed since that page was loaded, and nothing was done. This is its current state.", Bad: true}, nil
	case err != nil:
		return nil, runsError(err)
	}
	confirmed, _ := event.(lifecycle.Confirm) // which names the plan; another plan is refused
	r.Grant.Record(w.String(), access.Change{Action: act.action, Run: w.run.N, Digest: confirmed.Plan, Status: http.StatusSeeOther})
	return &site.Answer{To: w.href(), Text: act.done}, nil
}

func (s *workspaces) streamLog(r *site.Request, to http.ResponseWriter) error {
	phase := r.PathValue("phase")
	if phase != "plan" && phase != "apply" {
		return site.NotFound("page not found")
	}
	if _, err := s.runIn(r); err != nil {
		return err
	}
	offset, _, err := service.LastEvent(r.Request)
	if err != nil {
		return err
	}
	var waits lifecycle.WaitState
	next := func(ctx context.Context, out *service.Stream) (bool, error) {
		w, err := s.runIn(r)
		if err != nil {
			return true, err
		}
		if now := w.doc.WaitOf(w.rec, w.run); now != waits {
			waits = now
			out.Send("", "wait", now)
		}
		from, over, err := s.runs.PhaseLog(ctx, w.rec, w.run, phase == "apply", offset)
		if from != nil {
			offset, err = out.Text(from, offset, maxLog, over, func(offset int64) string { return strconv.FormatInt(offset, 10) })
			from.Close()
		}
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return true, err
		}
		if over {
			out.Send("", "end", map[string]string{"result": workspaceMark(w.run).Text})
		}
		return over, nil
	}
	again := func(context.Context) error { return site.Holds(s.mayAct(rights.Read))(r) }
	who := r.Grant.Caller
	return s.streams.Answer(to, r.Request, who.Mode+"\n"+who.Issuer+"\n"+who.Subject, again, next)
}

// Bounds of what a run wrote, as shown on its page.
const (
	wroteVersions = 20 // newest ones, which are searched for the run
	wroteTypes    = 20
)

func (s *workspaces) findWritten(r *site.Request, w workspaceRun) (*wroteBody, error) {
	name, workspace, there := s.stateOf(r, w.workspaceRef)
	if there == nil {
		return nil, nil //nolint:nilnil // the page does without
	}
	versions, err := s.states.Versions(r.Context(), name, workspace, there.Numbers[:min(len(there.Numbers), wroteVersions)])
	if err != nil {
		return nil, err
	}
	by := fmt.Sprintf("/%s.%d", w.rec.ID, w.run.N)     // its page
	before := fmt.Sprintf("%s/%d/", w.rec.ID, w.run.N) // the subject of its token, in versions that earlier releases wrote
	for _, v := range versions {
		if !strings.HasSuffix(v.Run, by) && !strings.HasPrefix(v.Who, before) {
			continue
		}
		var d *states.VersionView
		if err := s.background.Do(r.Grant.Caller, func() (err error) {
			d, err = s.states.Document(r.Context(), name, workspace, v.N)
			return err
		}); err != nil {
			return nil, err
		}
		at := fmt.Sprintf("states/%s/%s/%d", site.EscapePath(name), site.EscapePath(workspace), v.N)
		b := &wroteBody{Link: site.Link{Text: fmt.Sprintf("version %d", v.N), Href: at}, Why: d.Why, Resources: site.Link{Href: at + "/resources"}}
		b.fillVersion(d)
		return b, nil
	}
	return nil, nil //nolint:nilnil // it wrote nothing, or too long ago
}

// fillVersion adds outputs and resources. A value that is sensitive anywhere is not shown; the
// page of the version can show it on request.
func (b *wroteBody) fillVersion(d *states.VersionView) {
	if d.Document == nil {
		return
	}
	types := map[string]int{}
	count := 0
	for _, res := range d.Resources() {
		if res.Mode != states.ModeOutput {
			if res.Mode == states.ModeManaged {
				types[res.Type]++
				count++
			}
			continue
		}
		if len(b.Outputs) == site.RowsPerPage {
			b.More++
			continue
		}
		b.Outputs = append(b.Outputs, outputValue(d, res))
	}
	b.Resources.Text = text.Plural(count, "resource")
	for name, n := range types {
		b.Types = append(b.Types, fmt.Sprintf("%s %d", site.Clip(text.Block(name)), n))
	}
	slices.Sort(b.Types)
	if more := len(b.Types) - wroteTypes; more > 0 {
		b.Types = append(b.Types[:wroteTypes], fmt.Sprintf("%d more types", more))
	}
}

func outputValue(d *states.VersionView, res states.Resource) value {
	out := value{Name: site.Clip(text.Block(res.Name))}
	values, _ := d.Values(res.Address)
	lines := make([]string, 0, len(values))
	for _, v := range values {
		if v.Sensitive {
			out.Masked = true
			return out
		}
		path := strings.TrimPrefix(strings.TrimPrefix(v.Path, "value"), ".")
		lines = append(lines, strings.TrimPrefix(path+" = "+site.Indented(v.JSON), " = "))
	}
	out.Text = text.Clip(text.Block(strings.Join(lines, "\n")), states.MaxValue)
	return out
}
