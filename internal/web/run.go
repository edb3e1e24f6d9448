// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/portaldoc"
)

// runRow is a run among others.
type runRow struct {
	link
	N       int
	Kind    string
	Result  mark
	By      string
	Queued  moment
	Took    string
	Changes string
	Error   string
}

func runRows(i portaldoc.Instance, runs []portaldoc.Run, now time.Time) []runRow {
	var rows []runRow
	for _, u := range runs {
		rows = append(rows, runRowOf(i, u, now))
	}
	return rows
}

func runRowOf(i portaldoc.Instance, u portaldoc.Run, now time.Time) runRow {
	row := runRow{
		link: link{fmt.Sprintf("Run %d", u.N), fmt.Sprintf("%s/runs/%d", instancePath(i.ID), u.N)}, N: u.N, Kind: kindOfRun(u.Kind),
		Result: resultOf(i, u), By: personName(u.By), Queued: seenAt(u.QueuedAt, now), Changes: changesOf(u.Counts), Error: clean(u.Error),
	}
	switch {
	case u.StartedAt.IsZero():
	case u.EndedAt.After(u.StartedAt):
		row.Took = seconds(u.EndedAt.Sub(u.StartedAt))
	case u.EndedAt.IsZero() && now.After(u.StartedAt):
		row.Took = seconds(now.Sub(u.StartedAt))
	}
	return row
}

// seconds is span with the seconds of what is short.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return span(d)
}

func kindOfRun(kind string) string {
	switch instance.RunKind(kind) {
	case instance.RunApply:
		return "make or change"
	case instance.RunPlan:
		return "plan"
	case instance.RunDrift:
		return "compare"
	case instance.RunDestroy:
		return "destroy"
	}
	return clean(kind)
}

// resultOf is how a run ended, or what it does.
func resultOf(i portaldoc.Instance, u portaldoc.Run) mark {
	switch u.Result {
	case instance.Done:
		return mark{"done", "good"}
	case instance.Cancelled:
		return mark{"cancelled", "plain"}
	case "":
	default:
		return mark{clean(u.Result), "bad"}
	}
	switch {
	case i.Phase == string(instance.Planned):
		return mark{"plan waits for approval", "warn"}
	case u.StartedAt.IsZero():
		return mark{"waits", "plain"}
	}
	return mark{"at work", "busy"}
}

// changesOf is what a run changes, or changed; "": nobody knows yet.
func changesOf(c *portaldoc.Counts) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%d added, %d changed, %d removed", c.Add, c.Change, c.Remove)
	if c.Replace > 0 {
		text += fmt.Sprintf(", %d of them replaced", c.Replace)
	}
	return text
}

// runBody is one run of an instance.
type runBody struct {
	runRow
	Instance link
	Attempt  int
	Facts    []fact
	Log      *logBody
	Plan     *planBody // nil: there is none
	Next     []string
	Watch    bool
	Still    bool
}

func (s *server) runShow(r *request) (*page, error) {
	i, err := s.instanceIn(r)
	if err != nil {
		return nil, err
	}
	u, err := get[portaldoc.Run](s, r, "instances/"+i.ID+"/runs/"+url.PathEscape(r.PathValue("n")), nil)
	if err != nil {
		return nil, err
	}
	now := s.o.Now()
	body := runBody{runRow: runRowOf(i, u, now), Instance: link{nameOfInstance(i), instancePath(i.ID)}, Attempt: u.Attempt, Watch: u.Result == "", Still: r.URL.Query().Has("still")}
	if i.Run != nil && i.Run.N == u.N {
		body.Next = nextSteps(i, now)
	}
	body.Facts = []fact{{Name: "What", Text: body.Kind}, {Name: "Asked for by", Text: body.By}, {Name: "Asked for", When: s.when(u.QueuedAt)}}
	for _, f := range []fact{{Name: "Took", Text: body.Took}, {Name: "Changes", Text: body.Changes}, {Name: "Module", Text: strings.TrimSpace(u.Source.Module + " " + u.Source.Version)}} {
		if f.Text != "" {
			body.Facts = append(body.Facts, f)
		}
	}
	if u.Approved != nil {
		body.Facts = append(body.Facts, fact{Name: "Approved by", Text: personName(u.Approved)})
	}
	if reason := clean(u.Reason); reason != "" {
		body.Facts = append(body.Facts, fact{Name: "Reason", Text: reason})
	}
	if u.Attempt > 1 {
		body.Facts = append(body.Facts, fact{Name: "Attempt", Text: fmt.Sprint(u.Attempt)})
	}
	if readsLogs(i) {
		if body.Log, err = s.log(r, i.ID, u); err != nil {
			return nil, err
		}
	}
	if u.Plan != "" && i.Role != "reader" {
		if body.Plan, err = s.plan(r, i.ID, u.N); err != nil {
			return nil, err
		}
	}
	return &page{
		Template: "instance_run.html", Title: body.Text + " of " + body.Instance.Text, Body: body,
		Crumbs: []link{{"Instances", "instances"}, body.Instance}, Command: fmt.Sprintf("okara instance logs %s --run %d", i.ID, u.N),
		Refresh: body.Watch && !body.Still,
	}, nil
}
