// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// runRow is a run in a list, of an instance or of a workspace.
type runRow struct {
	site.Link
	Workspace site.Link // zero: of an instance
	Kind      string
	Result    site.Mark
	By        string
	Queued    site.Timestamp
	Took      string
	Changes   string
	Message   string
	Error     string
}

func (row runRow) facts() (all facts) {
	all.addText("What", row.Kind)
	all.addText("Requested by", row.By)
	all.addTime("Requested", row.Queued)
	all.addText("Message", row.Message)
	all.addText("Took", row.Took)
	all.addText("Changes", row.Changes)
	return all
}

func runRows(i api.Instance, runs []api.Run, now time.Time) []runRow {
	var rows []runRow
	for _, u := range runs {
		rows = append(rows, runRowOf(i, u, now))
	}
	return rows
}

func runRowOf(i api.Instance, u api.Run, now time.Time) runRow {
	row := runRow{
		Link: site.Link{Text: fmt.Sprintf("Run %d", u.N), Href: fmt.Sprintf("%s/runs/%d", instancePath(i.ID), u.N)}, Kind: cmp.Or(text.Block(u.Switch), kindOfRun(u.Kind)),
		Result: resultOf(i, u), By: personName(u.By), Queued: site.NewTimestamp(u.QueuedAt, now), Changes: changesOf(&u), Error: text.Block(u.Error), Took: describeTook(u.StartedAt, u.EndedAt, now),
	}
	return row
}

// describeTook says how long a run took, or has been running; "": it has not begun.
func describeTook(started, ended, now time.Time) string {
	switch {
	case started.IsZero():
	case ended.After(started):
		return formatSeconds(ended.Sub(started))
	case ended.IsZero() && now.After(started):
		return formatSeconds(now.Sub(started))
	}
	return ""
}

// formatSeconds formats a duration like span, with seconds if it is short.
func formatSeconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return site.Span(d)
}

func kindOfRun(kind string) string {
	words := map[lifecycle.RunKind]string{
		lifecycle.RunApply: "create or change", lifecycle.RunPlan: "plan",
		lifecycle.RunDrift: "compare", lifecycle.RunDestroy: "destroy",
	}
	return cmp.Or(words[lifecycle.RunKind(kind)], text.Block(kind))
}

func resultOf(i api.Instance, u api.Run) site.Mark {
	switch u.Result {
	case lifecycle.Done:
		return site.Mark{Text: "done", Kind: "good"}
	case lifecycle.Cancelled, string(lifecycle.Rejected):
		if strings.HasPrefix(u.Error, "rejected") { // older records call it cancelled
			return site.Mark{Text: "rejected", Kind: "plain"}
		}
		return site.Mark{Text: "cancelled", Kind: "plain"}
	case "":
	default:
		return site.Mark{Text: text.Block(u.Result), Kind: "bad"}
	}
	switch {
	case i.Phase == string(lifecycle.Planned):
		return site.Mark{Text: "plan waiting for approval", Kind: "warn"}
	case u.StartedAt.IsZero():
		return site.Mark{Text: "waits", Kind: "plain"}
	}
	return site.Mark{Text: "running", Kind: "busy"}
}

// changesOf is what a run would change, or has changed; "": not known yet.
func changesOf(u *api.Run) string {
	if u == nil || u.Counts == nil {
		return ""
	}
	kind := lifecycle.RunKind(u.Kind)
	done := u.Result == lifecycle.Done && (kind == lifecycle.RunApply || kind == lifecycle.RunDestroy)
	return u.Counts.Words(done)
}

// countMarks returns the numbers of a plan, those of what it imports and forgets last.
func countMarks(c api.Counts) []site.Mark {
	marks, _ := site.CountChanges(c.Add, c.Change, c.Remove)
	for i, n := range []int{c.Import, c.Forget} {
		if n > 0 {
			marks = append(marks, site.Mark{Text: fmt.Sprint(n, []string{" imported", " forgotten"}[i]), Kind: "warn"})
		}
	}
	return marks
}

// addNotes says by name what a plan forgets and imports, and which checks failed.
func (f *facts) addNotes(notes []api.Note) {
	for _, kind := range [][2]string{{lifecycle.NoteCheck, "Check failed"}, {lifecycle.NoteForget, "Forgets, without destroying"}, {lifecycle.NoteImport, "Imports"}} {
		var all []string
		for _, n := range notes {
			if n.Kind == kind[0] {
				all = append(all, text.Block(n.Text))
			}
		}
		f.addText(kind[1], strings.Join(all, ", "))
	}
}

type runBody struct {
	runRow
	Facts     facts
	Log       *logBody
	Plan      *planBody // nil: there is none
	PlanFirst bool
	Next      []string
	Watch     bool
	Still     bool

	// Of a workspace only.
	Seen    string     // the plan that was shown, which is what gets confirmed
	Buttons []button   // actions on the run
	Wrote   *wroteBody // nil: not known
}

func (s *instances) showRun(r *site.Request) (*site.Page, error) {
	i, err := s.instanceOf(r)
	if err != nil {
		return nil, err
	}
	u, err := getFromAPI[api.Run](s.api, r, "instances/"+i.ID+"/runs/"+url.PathEscape(r.PathValue("n")), nil)
	if err != nil {
		return nil, err
	}
	now := s.clock()
	of := site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}
	body := runBody{runRow: runRowOf(i, u, now), Watch: u.Result == "", Still: r.URL.Query().Has("still")}
	if i.Run != nil && i.Run.N == u.N {
		body.Next = nextSteps(i, now)
	}
	body.Facts = body.facts()
	body.Facts.addNotes(u.Notes)
	body.Facts.addText("Costs", text.Block(u.Cost.String()))
	body.Facts.addText("Module", strings.TrimSpace(u.Source.Module+" "+u.Source.Version))
	if u.Approved != nil {
		body.Facts.addText("Approved by", personName(u.Approved))
	}
	body.Facts.addText("Reason", text.Block(u.Reason))
	if u.Attempt > 1 {
		body.Facts.addText("Attempt", fmt.Sprint(u.Attempt))
	}
	if readsLogs(i) {
		if body.Log, err = s.api.readRunLog(r, i.ID, u); err != nil {
			return nil, err
		}
	}
	if u.Plan != "" && i.Role != "reader" {
		if body.Plan, err = s.api.readRunPlan(r, i.ID, u.N); err != nil {
			return nil, err
		}
	}
	return &site.Page{
		Template: "run_page.html", Title: body.Text + " of " + of.Text, Body: body,
		Crumbs: []site.Link{{Text: "Instances", Href: "instances"}, of}, Command: fmt.Sprintf("okara instance logs %s --run %d", i.ID, u.N),
		Refresh: body.Watch && !body.Still,
	}, nil
}
