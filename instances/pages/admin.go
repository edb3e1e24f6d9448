// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// approvalsBody lists what waits for the approval of an approver.
type approvalsBody struct {
	Rows []approvalRow
	Next string
}

// approvalRow is one entry that waits.
type approvalRow struct {
	instanceRow
	By      string
	Title   string // of the template
	Wants   string // what is requested; the name of the instance goes before or after it
	Terms   []string
	Since   site.Timestamp
	Reason  string
	Values  []site.ValueChange // that differ from those before, or from the defaults
	Changes string
	Counts  []site.Mark // the same, short
	Notes   facts       // on its plan
	Approve string      // page on which it is approved; "": not by the caller
	Reject  string
}

func (s *instances) approvalsPage(r *site.Request) (*site.Page, error) {
	q := pageQuery(r)
	q.Set("phase", "approval")
	doc, err := getFromAPI[api.Instances](s.api, r, "instances", q)
	if err != nil {
		return nil, err
	}
	var body approvalsBody
	for _, i := range doc.Instances {
		body.Rows = append(body.Rows, approvalRowOf(i, s.clock))
	}
	if doc.Next != "" {
		body.Next = "?after=" + url.QueryEscape(doc.Next)
	}
	return &site.Page{Template: "approvals.html", Title: "Approvals", Command: "okara instance list --phase approval", Body: body}, nil
}

func approvalRowOf(i api.Instance, clock site.Clock) approvalRow {
	row := approvalRow{instanceRow: instanceRowOf(i, clock()), Title: text.Block(cmp.Or(i.Title, i.Template)), By: personName(i.CreatedBy), Since: clock.When(i.CreatedAt)}
	costs := ""
	if i.Cost != nil {
		costs = formatMoney(i.Cost.Hourly, i.Cost.Currency) + " an hour"
	}
	if p := i.Pending; p != nil {
		row.By = personName(p.By)
		row.Since = clock.When(p.At)
		row.Wants = map[string]string{api.PendingPlan: "wants to run a plan of", api.PendingUpdate: "wants to change", api.PendingExtend: "wants to extend"}[p.What]
		row.Reason = text.Block(p.Reason)
		switch {
		case !p.Until.IsZero():
			row.Terms = append(row.Terms, "until "+hourOf(p.Until, clock()))
		case p.TTL > 0:
			row.Terms = append(row.Terms, "for "+site.Span(time.Duration(p.TTL)))
		case p.What == api.PendingLaunch:
			row.Terms = append(row.Terms, "no end")
		}
		for _, v := range p.Values {
			row.Values = append(row.Values, valueChangeOf(v))
		}
	}
	row.Wants = cmp.Or(row.Wants, "wants to launch")
	if u := i.Run; u != nil && i.Phase == string(lifecycle.Planned) {
		if row.Changes = changesOf(u); u.Counts != nil {
			row.Counts = countMarks(*u.Counts)
		}
		if row.Notes.addNotes(u.Notes); slices.ContainsFunc(u.Notes, func(n api.Note) bool { return n.Kind == lifecycle.NoteCheck }) {
			row.Marks = append(row.Marks, site.Mark{Text: "check failed", Kind: "bad"})
		}
		costs = cmp.Or(u.Cost.String(), costs)
	}
	if costs != "" {
		row.Terms = append(row.Terms, text.Block(costs))
	}
	if slices.Contains(i.Actions, api.ActApprove) {
		row.Approve = row.Href + "/approve"
		row.Reject = row.Href + "/reject"
	}
	return row
}

func (s *instances) listAll(r *site.Request) (*site.Page, error) {
	body := instancesBody{Admin: true}
	doc, err := getFromAPI[api.AdminInstances](s.api, r, "admin/instances", body.listQuery(r))
	if err != nil {
		return nil, err
	}
	body.addInstances(r, doc.Instances, s.clock())
	body.ClockHeld = text.Block(doc.ClockHeld)
	for _, phase := range slices.Sorted(maps.Keys(doc.Phases)) {
		body.Counts = append(body.Counts, phaseCount{phaseMark(phase), doc.Phases[phase]})
	}
	return &site.Page{Template: "instances.html", Title: "All instances", Key: s.clock.NewKey(), Command: "okara instance list", Also: adminPages(r), Body: body}, nil
}

// adminPages returns links to the pages for administrators; nil: the caller is not one.
func adminPages(r *site.Request) []site.Link {
	if !r.Grant.May(rights.Right{Action: rights.Admin, Kind: addr.KindInstance, Address: rights.Everything}) {
		return nil
	}
	return []site.Link{{Text: "All instances", Href: "admin/instances"}, {Text: "All templates", Href: "admin/templates"}}
}

// adminTemplatesBody lists every template as an administrator sees it.
type adminTemplatesBody struct{ Rows []adminTemplateRow }

type adminTemplateRow struct {
	site.Link
	api.AdminTemplate
	Marks      []site.Mark
	Pool       string
	Problem    string
	Pause      string // address of the form; "": there is none
	BackoffEnd time.Time
	Counts     []phaseCount
}

// templates lists all templates, with what is wrong with them.
func (s *instances) listAllTemplates(r *site.Request) (*site.Page, error) {
	doc, err := getFromAPI[api.AdminTemplates](s.api, r, "admin/templates", nil)
	if err != nil {
		return nil, err
	}
	var body adminTemplatesBody
	for _, t := range doc.Templates {
		body.Rows = append(body.Rows, s.templateRow(r, t))
	}
	return &site.Page{Template: "admin_templates.html", Title: "All templates", Key: s.clock.NewKey(), Command: "okara instance template list", Body: body}, nil
}

func (s *instances) templateRow(r *site.Request, t api.AdminTemplate) adminTemplateRow {
	row := adminTemplateRow{
		Link: site.Link{Text: titleOf(t.Template), Href: "templates/" + site.EscapePath(t.Name)}, AdminTemplate: t, Problem: text.Block(t.Invalid),
	}
	for _, f := range templateFacts(t.Template) {
		if f.Name == "Pool" {
			row.Pool = f.Text
		}
	}
	if t.Gone {
		row.Marks = []site.Mark{{Text: "gone", Kind: "bad"}}
	} else {
		row.Marks = templateMarks(t.Template)
	}
	if t.Paused != "" {
		row.Problem = text.Block(t.Paused)
	}
	if t.Backoff.After(s.clock()) {
		row.BackoffEnd = t.Backoff
	}
	if !t.Gone && r.Grant.May(rights.Right{Action: rights.Admin, Kind: addr.KindTemplate, Address: t.Name}) {
		row.Pause = "templates/" + site.EscapePath(t.Name) + "/pause"
		if t.Paused != "" {
			row.Pause = "templates/" + site.EscapePath(t.Name) + "/resume"
		}
	}
	for _, phase := range slices.Sorted(maps.Keys(t.Phases)) {
		row.Counts = append(row.Counts, phaseCount{phaseMark(phase), t.Phases[phase]})
	}
	return row
}
