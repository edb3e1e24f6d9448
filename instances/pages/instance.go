// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
)

type instancesBody struct {
	api.Instances
	Rows               []instanceRow
	Owners, Phases     []site.Choice
	Template           string
	Next               string // link to the next page; "": there is none
	Filtered           bool
	Admin              bool
	Counts             []phaseCount // of all instances, for administrators
	ClockHeld, NoneYet string
	Several            bool // more than one instance can be destroyed
	Offered            []offeredRow
}

type phaseCount struct {
	site.Mark
	Count int
}

type instanceRow struct {
	site.Link
	ID, Template, Owner string
	Marks               []site.Mark
	Left                *remaining
	Open                string // URL of what the instance made; "": none
	Extend, Destroy     string // addresses of forms; "": not possible now
}

// offeredRow is an instance that is offered to the caller.
type offeredRow struct {
	site.Link
	Template, By, Until string
	Left                *remaining
}

func offeredRows(doc api.Instances, now time.Time) (rows []offeredRow) {
	for _, i := range doc.Instances {
		if o := i.Offer; o != nil { // else it was just taken
			rows = append(rows, offeredRow{site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}, i.Template, personName(o.By), hourOf(o.Until, now), timeLeft(i, now)})
		}
	}
	return rows
}

func instancePath(id string) string { return "instances/" + url.PathEscape(id) }

// ownerChoices returns the owner filters of the list, with their texts.
func ownerChoices() []site.Choice {
	return []site.Choice{{Value: "mine", Text: "mine and my groups'"}, {Value: "me", Text: "only mine"}, {Text: "all that I can see"}}
}

func phaseChoices() []site.Choice {
	return []site.Choice{
		{Value: "live", Text: "live"}, {Value: "ready", Text: "ready"}, {Value: "provisioning,updating,destroying", Text: "running"},
		{Value: "approval", Text: "waiting for approval"}, {Value: "failed,destroy_failed", Text: "failed"}, {Text: "everything"},
	}
}

// listQuery returns the API's query of a list, by the page's filters.
func (b *instancesBody) listQuery(r *site.Request) url.Values {
	q := r.URL.Query()
	out := pageQuery(r)
	pick := func(name string, all []site.Choice) []site.Choice {
		value := all[0].Value
		if q.Has(name) {
			value = q.Get(name)
			b.Filtered = true
		}
		for i := range all {
			all[i].Chosen = all[i].Value == value
		}
		if value != "" {
			out.Set(name, value)
		}
		return all
	}
	b.Phases = pick("phase", phaseChoices())
	if !b.Admin {
		b.Owners = pick("owner", ownerChoices())
	}
	if b.Template = q.Get("template"); b.Template != "" {
		out.Set("template", b.Template)
		b.Filtered = true
	}
	return out
}

// addInstances puts an answer of the API into the rows.
func (b *instancesBody) addInstances(r *site.Request, doc api.Instances, now time.Time) {
	b.Instances = doc
	for _, i := range doc.Instances {
		b.Rows = append(b.Rows, instanceRowOf(i, now))
	}
	ends := slices.DeleteFunc(slices.Clone(b.Rows), func(row instanceRow) bool { return row.Destroy == "" })
	b.Several = len(ends) > 1
	if doc.Next != "" {
		q := r.URL.Query()
		q.Set("after", doc.Next)
		b.Next = "?" + q.Encode()
	}
}

func instanceRowOf(i api.Instance, now time.Time) instanceRow {
	row := instanceRow{
		Link: site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}, ID: i.ID, Template: i.Template, Owner: ownerName(i.Owner),
		Marks: append([]site.Mark{stateMark(i)}, conditionMarks(i)...), Left: timeLeft(i, now),
	}
	if i.Connection != nil && i.Phase == string(lifecycle.Ready) && !i.Stopped {
		row.Open = i.Connection.URL
	}
	if i.Role != "owner" && i.Role != "admin" {
		return row
	}
	switch phase := lifecycle.Phase(i.Phase); {
	case !phase.Live() || phase == lifecycle.Destroying:
		return row
	case !slices.Contains([]lifecycle.Phase{lifecycle.DestroyFailed, lifecycle.Requested, lifecycle.Available}, phase) && !i.ExpiresAt.IsZero() && i.Extends < i.ExtendsMax:
		row.Extend = instancePath(i.ID) + "/extend"
	}
	if i.Protected == "" {
		row.Destroy = instancePath(i.ID) + "/destroy"
	}
	return row
}

func nameOfInstance(i api.Instance) string {
	if name := strings.TrimSpace(text.Block(i.Name)); name != "" {
		return name
	}
	if title := text.Block(cmp.Or(i.Title, i.Template)); title != "" {
		return title + " · " + i.ID[:min(4, len(i.ID))]
	}
	return i.ID
}

// instances serves the pages of instances.
type instances struct {
	api   *backend
	text  *markdown.Renderer
	clock site.Clock
}

// list lists the instances that the caller may see.
func (s *instances) list(r *site.Request) (*site.Page, error) {
	var body instancesBody
	doc, err := getFromAPI[api.Instances](s.api, r, "instances", body.listQuery(r))
	if err != nil {
		return nil, err
	}
	body.addInstances(r, doc, s.clock())
	offers, err := getFromAPI[api.Instances](s.api, r, "instances", url.Values{"owner": {"offered"}})
	if err != nil {
		return nil, err
	}
	body.Offered = offeredRows(offers, s.clock())
	if !body.Filtered && body.Count == 0 {
		body.NoneYet = "You have none."
	}
	return &site.Page{Template: "instances.html", Title: "Instances", Key: s.clock.NewKey(), Command: "okara instance list --owner mine", Also: adminPages(r), Body: body}, nil
}

type instanceBody struct {
	Doc        api.Instance
	Name       string
	Base       string // page of the instance, below Up
	Template   site.Link
	Marks      []site.Mark
	Next       []string
	Left       *remaining
	Cost       string
	Open       string
	Message    htmltemplate.HTML // how to reach what the instance made
	Usable     bool              // it is ready
	Failed     bool
	Reason     string
	Buttons    []button
	More       []button // rare ones
	Facts      facts
	Outputs    []value
	Parameters []value
	Runs       []runRow
	Log        *logBody
	Rest       *restBody // what exists after a failed run; nil: not known
	Plan       string    // page of the plan that waits for approval
	Again      string    // form that launches another instance with the same values; "": there is none
	Asked      bool      // another user has to act
	Watch      bool      // something is in progress: without script the page reloads
	Still      bool      // the reader turned reloading off
}

// facts are lines of a page about one thing.
type facts []site.Fact

// add adds a line; none without a text.
func (f *facts) addText(name, text string) {
	if text != "" {
		*f = append(*f, site.Fact{Name: name, Text: text})
	}
}

// addTime adds a line with a time; none without a time.
func (f *facts) addTime(name string, when site.Timestamp) {
	if !when.IsZero() {
		*f = append(*f, site.Fact{Name: name, When: when})
	}
}

// value is an output or a parameter.
type value struct {
	Name, Text string
	Href       string // the text, if it is a URL
	Masked     bool
	ShowHref   string // page that asks whether to show it; "": the caller may not
}

// button is an action: a form on the page, or a link to the page of a form.
type button struct {
	Text, Href string
	Key        string // of the form
	Form, Rare bool
	Kind       string // primary, danger or ""
}

func (s *instances) instanceOf(r *site.Request) (api.Instance, error) {
	return getFromAPI[api.Instance](s.api, r, "instances/"+url.PathEscape(r.PathValue("id")), nil)
}

func (s *instances) show(r *site.Request) (*site.Page, error) {
	i, err := s.instanceOf(r)
	if err != nil {
		return nil, err
	}
	var runs api.Runs
	if i.Role != "receiver" {
		runs, err = getFromAPI[api.Runs](s.api, r, "instances/"+i.ID+"/runs", nil)
	}
	if err != nil {
		return nil, err
	}
	now := s.clock()
	key := s.clock.NewKey()
	body := s.commonBody(i, key, now)
	body.Template = s.templateLink(r, i.Template)
	if body.Template.Href != "" && i.Role == "owner" {
		body.Again = runPath(i.Template) + "?" + likeField + "=" + url.QueryEscape(i.ID)
	}
	body.Runs = runRows(i, runs.Runs, now)
	if u := shownRun(i, runs.Runs); u != nil {
		if body.Log, err = s.api.readRunLog(r, i.ID, *u); err != nil {
			return nil, err
		}
		if body.Log != nil {
			body.Log.Seen = "?" + encodeSeen(i).Encode()
		}
	}
	if isStuck(i) {
		if body.Rest, err = s.readResources(r, i); err != nil {
			return nil, err
		}
	}
	body.Asked = i.Pending != nil || i.Phase == string(lifecycle.Requested) || i.Phase == string(lifecycle.Planned)
	body.Watch = body.Asked || i.Run != nil
	body.Still = r.URL.Query().Has("still")
	return &site.Page{
		Template: "instance.html", Title: body.Name, Key: key, Crumbs: []site.Link{{Text: "Instances", Href: "instances"}}, Command: "okara instance show " + i.ID,
		Refresh: body.Watch && !body.Still, Body: body,
	}, nil
}

// encodeSeen encodes what a page shows: the log's stream reports changes since.
func encodeSeen(i api.Instance) url.Values {
	q := url.Values{"phase": {i.Phase}}
	for _, c := range i.Conditions {
		if c.Type == lifecycle.Waiting {
			q.Set("waits", c.Reason)
		}
	}
	return q
}

// shownRun returns the run whose log is shown: the pending or failed one, or nil.
func shownRun(i api.Instance, runs []api.Run) *api.Run {
	failed := i.Phase == string(lifecycle.Failed) || i.Phase == string(lifecycle.DestroyFailed)
	switch {
	case !readsLogs(i), i.Phase == string(lifecycle.Planned):
		return nil
	case i.Run == nil && failed && len(runs) > 0 && runs[0].Attempt > 0:
		return &runs[0]
	}
	return i.Run
}

// isStuck reports whether a run failed, so that the page shows what exists.
func isStuck(i api.Instance) bool {
	between := slices.ContainsFunc(i.Conditions, func(c api.Condition) bool { return c.Type == lifecycle.Waiting && c.Reason == lifecycle.WaitRetry })
	return i.Phase == string(lifecycle.Failed) || i.Phase == string(lifecycle.DestroyFailed) || i.Phase == string(lifecycle.Destroying) && between
}

// wasNeverReady reports whether an instance failed before its first ready: all values can change.
func wasNeverReady(i api.Instance) bool {
	return i.Phase == string(lifecycle.Failed) && i.ReadyAt.IsZero()
}

// restBody lists the resources of an instance whose run failed.
type restBody struct {
	Resources []string
	More      int // that are not listed
}

// readResources reads the last state's resources; nil without states or the right.
func (s *instances) readResources(r *site.Request, i api.Instance) (*restBody, error) {
	doc, err := getFromAPI[api.Resources](s.api, r, "instances/"+i.ID+"/resources", nil)
	if _, ok := errors.AsType[*refusedError](err); ok {
		return nil, nil //nolint:nilnil // the page does without
	}
	b := &restBody{More: max(0, len(doc.Resources)-site.RowsPerPage)}
	for _, address := range doc.Resources[:len(doc.Resources)-b.More] {
		b.Resources = append(b.Resources, text.Block(address))
	}
	return b, err
}

// readsLogs reports whether the caller may read the output of the tool.
func readsLogs(i api.Instance) bool {
	return i.Role == "owner" || i.Role == "admin" || i.Role == "approver"
}

// templateLink links a template if the caller may see it: an instance outlives it.
func (s *instances) templateLink(r *site.Request, name string) site.Link {
	l := site.Link{Text: name}
	if _, err := getFromAPI[api.Template](s.api, r, "templates/"+site.EscapePath(name), nil); err == nil {
		l.Href = "templates/" + site.EscapePath(name)
	}
	return l
}

func (s *instances) commonBody(i api.Instance, key string, now time.Time) instanceBody {
	b := instanceBody{
		Doc: i, Name: nameOfInstance(i), Base: instancePath(i.ID),
		Marks: append([]site.Mark{stateMark(i)}, conditionMarks(i)...), Next: nextSteps(i, now), Left: timeLeft(i, now), Cost: describeCosts(i, now), Reason: reasonOf(i),
	}
	b.Usable = i.Phase == string(lifecycle.Ready) && !i.Stopped
	if c := i.Connection; c != nil && b.Usable {
		b.Open = c.URL
		if c.Message != "" {
			b.Message = s.text.Render(c.Message, markdown.Location{}).HTML
		}
	}
	b.Failed = i.Phase == string(lifecycle.Failed) || i.Phase == string(lifecycle.DestroyFailed)
	b.Facts.addText("Instance", i.ID)
	b.Facts.addText("Owner", ownerName(i.Owner))
	if i.Role != "receiver" { // a receiver does not see who made it
		b.Facts.addText("Created by", personName(i.CreatedBy))
	}
	b.Facts.addTime("Created", s.clock.When(i.CreatedAt))
	b.Facts.addText("Module", strings.TrimSpace(i.Source.Module+" "+i.Source.Version))
	if i.Source.Digest != "" {
		b.Facts = append(b.Facts, site.Fact{Name: "Digest", Digest: i.Source.Digest})
	}
	b.Facts.addText("Schedule", text.Block(i.Hours))
	b.Outputs = valuesOf(i.Outputs)
	b.Parameters = valuesOf(i.Parameters)
	for n := range b.Outputs {
		if b.Outputs[n].Masked && i.Role == "owner" {
			b.Outputs[n].ShowHref = b.Base + "/reveal?name=" + url.QueryEscape(b.Outputs[n].Name)
		}
	}
	for _, one := range actionButtons(i, key) {
		if one.Rare {
			b.More = append(b.More, one)
		} else {
			b.Buttons = append(b.Buttons, one)
		}
	}
	if len(b.Buttons) == 0 {
		b.Buttons, b.More = b.More, nil
	}
	if i.Plan != "" && slices.Contains(i.Actions, api.ActApprove) {
		b.Plan = b.Base + "/approve"
	}
	return b
}

func valuesOf(all map[string]json.RawMessage) []value {
	var rows []value
	for _, name := range slices.Sorted(maps.Keys(all)) {
		row := value{Name: name, Text: site.Indented(all[name])}
		if isNull(all[name]) {
			row.Text = "no value"
		}
		var words string
		if json.Unmarshal(all[name], &words) == nil && !isNull(all[name]) {
			row.Text = words
			row.Masked = words == api.Masked
			if u, err := url.Parse(words); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil {
				row.Href = words
			}
		}
		row.Text = text.Block(row.Text)
		rows = append(rows, row)
	}
	return rows
}

// actionButtons returns the caller's possible actions on an instance, as reported by the API.
func actionButtons(i api.Instance, key string) []button {
	var all []button
	for _, name := range i.Actions {
		v, ok := allVerbs()[name]
		if !ok {
			continue
		}
		text, kind := v.words(name, i)
		if name == api.ActExtend && i.ExtendBy > 0 {
			text += " by " + site.Span(time.Duration(i.ExtendBy))
			if i.ExtendsMax > 0 {
				text += fmt.Sprintf(" (%d of %d left)", max(0, i.ExtendsMax-i.Extends), i.ExtendsMax)
			}
		}
		if v.ask {
			text += " …"
		}
		all = append(all, button{Text: text, Href: instancePath(i.ID) + "/" + name, Key: key, Form: !v.ask, Rare: v.rare || name == api.ActRetry && wasNeverReady(i), Kind: kind})
	}
	return all
}
