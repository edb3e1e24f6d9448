// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// verb is an action on an instance: a button on its page, or a separate page that says
// what will happen.
type verb struct {
	button   string // text of the button
	kind     string // primary, danger or ""
	rare     bool   // its button is among More
	ask      bool   // it has a separate page; else the button acts at once
	typed    bool   // it cannot be undone: the user has to type the name
	title    string // of the page
	say      func(api.Instance) []string
	fields   func(*verbCall) ([]field, error)        // nil: none
	makeBody func(*verbCall, *site.Form) (any, bool) // of the request; nil: none. False: a field is wrong
	done     func(after api.Instance, now time.Time) string
}

// fixedLines makes a verb's text that does not depend on the instance.
func fixedLines(lines ...string) func(api.Instance) []string {
	return func(api.Instance) []string { return lines }
}

func fixedText(text string) func(api.Instance, time.Time) string {
	return func(api.Instance, time.Time) string { return text }
}

// allVerbs lists all verbs, by their name in the API and in the address of the form.
func allVerbs() map[string]verb {
	return map[string]verb{
		api.ActExtend: {
			button: "Extend", title: "Extend", say: describeExtend, fields: extendFields, makeBody: extendBody,
			done: func(i api.Instance, now time.Time) string {
				if p := i.Pending; p != nil && p.What == api.PendingExtend {
					return "Someone must approve the extension until " + hourOf(p.Until, now) + "."
				}
				return "Extended until " + hourOf(i.ExpiresAt, now) + "."
			},
		},
		api.ActRetry: {
			button: "Try again", kind: "primary", title: "Try again", say: describeRetry, done: fixedText("Retrying."),
		},
		api.ActCancel: {
			button: "Cancel", title: "Cancel the run", say: describeCancel, done: cancelDone,
		},
		api.ActStop: {
			button: "Stop", title: "Stop", say: fixedLines("Resources that its template switches off stay off until it is started, by the schedule or by you."), done: fixedText("The instance is being stopped."),
		},
		api.ActStart: {
			button: "Start", title: "Start", say: fixedLines("It is switched on again until it is stopped, by the schedule or by you."), done: fixedText("The instance is being started."),
		},
		api.ActProtect: {
			button: "Protect", rare: true, title: "Protect", say: fixedLines("It is not destroyed when it expires, and it cannot be destroyed until the protection is removed. It still counts against the quota."), done: fixedText("Protected."),
		},
		api.ActUnprotect: {
			button: "Remove protection", rare: true, title: "Remove protection", say: fixedLines("It expires again as before. If it has already expired, it is destroyed immediately."), done: fixedText("Protection removed."),
		},
		api.ActUpdate: {
			button: "Change", ask: true, title: "Change", say: describeUpdate, fields: updateFields, makeBody: updateBody, done: updateDone,
		},
		api.ActRename: {
			button: "Rename", rare: true, ask: true, title: "Rename", say: fixedLines("Only its name changes."), fields: renameFields, makeBody: renameBody, done: fixedText("Renamed."),
		},
		api.ActTransfer: {
			button: "Transfer", rare: true, ask: true, title: "Transfer it to another owner", say: describeTransfer, fields: transferFields, makeBody: transferBody, done: transferDone,
		},
		api.ActTake: {
			button: "Take it", kind: "primary", title: "Take it", say: fixedLines("It becomes yours, and counts against your quota."), done: fixedText("Taken: the instance has a new owner."),
		},
		api.ActDecline: {
			button: "Decline", title: "Decline", say: fixedLines("It keeps its owner."), done: fixedText("Offer declined."),
		},
		api.ActApprove: {
			button: "Review and approve", kind: "primary", ask: true, title: "Approve", say: describeApprove, fields: commentFields, makeBody: approveBody, done: fixedText("Approved."),
		},
		api.ActReject: {
			button: "Reject", ask: true, title: "Reject", say: fixedLines("The request is not carried out. The requester can read the reason."), fields: reasonFields, makeBody: reasonBody, done: fixedText("Rejected."),
		},
		api.ActDestroy: {
			button: "Destroy", kind: "danger", ask: true, typed: true, title: "Destroy", say: describeDestroy, done: fixedText("The instance is being destroyed."),
		},
		api.ActOrphan: {
			button: "Orphan", rare: true, kind: "danger", ask: true, typed: true, title: "Orphan this instance", fields: reasonFields, makeBody: reasonBody,
			say: fixedLines("The server stops managing it: it is not destroyed when it expires, and not checked for drift. Its resources keep running and incurring costs.", "Its state and source stay in the registry, so you can take over."), done: fixedText("Orphaned."),
		},
	}
}

// words returns the text and kind of the button: what a verb means depends on the state of
// the instance.
func (v verb) words(name string, i api.Instance) (text, kind string) {
	between := i.Run != nil // a run is pending, so it is not over
	switch {
	case name == api.ActRetry && between:
		return "Try now", "primary"
	case name == api.ActCancel && i.Phase == string(lifecycle.Destroying):
		return "Stop trying", ""
	case name == api.ActRetry && wasNeverReady(i):
		return "Retry as it is", ""
	case name == api.ActUpdate && wasNeverReady(i):
		return "Fix and retry", "primary"
	}
	return v.button, v.kind
}

func describeRetry(i api.Instance) []string {
	if i.Run != nil {
		return []string{"The next attempt begins now instead of later."}
	}
	return []string{"The last action is tried once more."}
}

func describeCancel(i api.Instance) []string {
	if i.Phase == string(lifecycle.Destroying) {
		return []string{"The server stops trying to destroy it for now. What is left stays and may incur costs. It is retried once a day, or on request."}
	}
	return []string{"The run is asked to stop early. What it has created stays, and an instance that was never ready becomes failed."}
}

func describeUpdate(i api.Instance) []string {
	if wasNeverReady(i) {
		lines := []string{"These are the values you launched it with. Change what made it fail. Secrets are kept; enter only new ones."}
		if why := reasonOf(i); why != "" {
			lines = append([]string{"It failed: " + why}, lines...)
		}
		return lines
	}
	return []string{"It runs once more, with what you change here."}
}

func updateDone(i api.Instance, _ time.Time) string {
	switch {
	case i.Pending != nil:
		return "Someone must approve the change. Until then it stays as it is."
	case i.ReadyAt.IsZero():
		return "Launch submitted again. The log below shows its progress."
	}
	return "The instance is being changed."
}

func cancelDone(i api.Instance, _ time.Time) string {
	if i.Phase == string(lifecycle.DestroyFailed) {
		return "No more attempts to destroy it for now."
	}
	return "The run is being cancelled."
}

func describeDestroy(i api.Instance) []string {
	lines := []string{"Everything that it created is destroyed. This cannot be undone."}
	if i.Connection != nil && i.Connection.URL != "" {
		lines = append(lines, "These become unreachable: "+text.Block(i.Connection.URL)+".")
	}
	if o := i.Owner; o != nil && o.Kind != "user" {
		lines = append(lines, "It belongs to "+ownerName(o)+": others may use it.")
	}
	return lines
}

type verbBody struct {
	formBody
	Instance   site.Link
	Title      string
	ID         string
	Marks      []site.Mark
	Say        []string
	Fields     []field
	Button     string
	Kind       string
	Typed      string // the word to type; "": none
	TypedBad   string // why the typed word does not match
	Seen       string // the plan that was shown, which is what gets approved
	Reject     string // page that rejects instead; "": not possible
	Plan       *planBody
	Changes    string
	Pending    *pendingBody // what an approval covers
	Compares   bool         // it shows before it is sent what would change
	Changed    []string     // what would change by the form as it is filled in
	Impossible bool         // it cannot be done now
	Closed     bool         // what waits cannot be shown completely
}

// verbCall is a request for the page of a verb, or of its form.
type verbCall struct {
	s *instances
	r *site.Request
	i api.Instance
	verb
	name string
	body verbBody

	parameters parameters                 // of a change
	chosen     map[string]json.RawMessage // values that a change shows at first
}

// verbCallOf reads the instance and the verb that a path names.
func (s *instances) verbCallOf(r *site.Request) (*verbCall, error) {
	i, err := s.instanceOf(r)
	if err != nil {
		return nil, err
	}
	c := &verbCall{s: s, r: r, i: i, name: r.PathValue("verb")}
	var ok bool
	if c.verb, ok = allVerbs()[c.name]; !ok {
		return nil, site.NotFound("page not found")
	}
	return c, nil
}

// verbForm returns the initial state of the page.
func (s *instances) verbForm(r *site.Request) (*verbCall, error) {
	c, err := s.verbCallOf(r)
	if err != nil {
		return nil, err
	}
	i := c.i
	c.body = verbBody{
		Instance: site.Link{Text: nameOfInstance(i), Href: instancePath(i.ID)}, Title: c.title, ID: i.ID, Marks: []site.Mark{stateMark(i)}, Say: c.say(i),
		Impossible: !slices.Contains(i.Actions, c.name),
	}
	if c.body.Button, c.body.Kind = c.words(c.name, i); c.body.Button != c.button {
		c.title = c.body.Button
		c.body.Title = c.body.Button
	}
	if c.typed {
		c.body.Typed = cmp.Or(strings.TrimSpace(text.Block(i.Name)), i.ID)
	}
	if p := i.Pending; c.name == api.ActApprove && i.Plan != "" && p != nil {
		if err := c.addPending(p); err != nil {
			return nil, err
		}
	}
	if c.fields != nil && !c.body.Impossible {
		c.body.Fields, err = c.fields(c)
	}
	return c, err
}

// addPending shows what waits for approval. A plan that cannot be shown whole cannot be approved.
func (c *verbCall) addPending(p *api.Pending) (err error) {
	c.body.Button = "Approve"
	c.body.Seen = c.i.Plan
	c.body.Pending = pendingOf(c.i, c.s.clock)
	if slices.Contains(c.i.Actions, api.ActReject) {
		c.body.Reject = c.body.Instance.Href + "/reject"
	}
	if p.Run == 0 {
		return nil
	}
	c.body.Changes = changesOf(c.i.Run)
	if c.body.Plan, err = c.s.api.readRunPlan(c.r, c.i.ID, p.Run); err != nil {
		return err
	}
	if c.body.Plan == nil {
		c.body.Plan = &planBody{Missing: "No plan to review, so it cannot be approved.", Closed: true}
	}
	c.body.Closed = c.body.Plan.Closed
	return nil
}

func (s *instances) showVerb(r *site.Request) (*site.Page, error) {
	c, err := s.verbForm(r)
	if err != nil {
		return nil, err
	}
	return c.verbPage(s.clock.NewKey()), nil
}

func (c *verbCall) verbPage(key string) *site.Page {
	command := "okara instance " + c.name + " " + c.i.ID
	if c.name == api.ActRename {
		command = "okara instance update " + c.i.ID + " --name NAME"
	}
	return &site.Page{
		Template: "instance_verb.html", Title: c.title, Key: key, NoStore: true, Body: c.body, Command: command,
		Crumbs: []site.Link{{Text: "Instances", Href: "instances"}, c.body.Instance},
	}
}

// apiRequest returns the form's request to the API; false: a field is wrong.
func (c *verbCall) apiRequest(f *site.Form) (asked, bool) {
	at := "instances/" + c.i.ID
	q := asked{method: http.MethodPost, path: at + "/" + c.name, key: f.Key}
	ok := true
	switch c.name {
	case api.ActDestroy:
		q.method = http.MethodDelete
		q.path = at
	case api.ActRename:
		q.path = at + "/update"
	}
	if c.makeBody != nil {
		for i := range c.body.Fields {
			c.body.Fields[i].setText(strings.TrimSpace(plainLines(f.Get(c.body.Fields[i].Name))))
		}
		q.body, ok = c.makeBody(c, f)
	}
	c.body.summary(c.body.Fields)
	if c.typed && strings.TrimSpace(f.Get("typed")) != c.body.Typed {
		c.body.TypedBad = "does not match: type it exactly as shown"
		ok = false
		c.body.Errors = append(c.body.Errors, problem{"typed", "The name " + c.body.TypedBad})
	}
	return q, ok
}

func (s *instances) doVerb(r *site.Request, f *site.Form) (*site.Answer, error) {
	c, err := s.verbForm(r)
	if err != nil {
		return nil, err
	}
	reshaped := reshapeForm(f.Values)
	q, ok := c.apiRequest(f)
	if reshaped {
		c.body.Errors = nil
		return &site.Answer{Page: c.verbPage(s.clock.NewKey())}, nil
	}
	if !ok || c.body.Closed {
		return &site.Answer{Page: notDonePage(c.verbPage(s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	after, err := callAPI[api.Instance](s.api, r, q)
	if err == nil {
		to := instancePath(c.i.ID)
		if after.Role == "" { // the caller may no longer see it
			to = "instances"
		}
		return &site.Answer{To: to, Text: c.done(after, s.clock())}, nil
	}
	return c.showRefusal(f, err)
}

// showRefusal shows what the API refused: beside the fields that it names, or on the page of
// the instance.
func (c *verbCall) showRefusal(f *site.Form, err error) (*site.Answer, error) {
	no, ok := errors.AsType[*refusedError](err)
	if ok && no.status < 500 && len(no.doc.Fields) == 0 && !no.isHidden() {
		return &site.Answer{To: instancePath(c.i.ID), Text: site.Sentence(no.Error()), Bad: true}, nil
	}
	status, shown := c.body.fillErrors(c.body.Fields, err)
	if !shown {
		return nil, err
	}
	key := c.s.clock.NewKey()
	if c.body.Again {
		key = f.Key // it is unknown whether it was done: the same key tells
	}
	return &site.Answer{Page: notDonePage(c.verbPage(key), status)}, nil
}
