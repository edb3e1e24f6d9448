// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/instances/internal/timetable"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/service"
)

func showInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	doc := s.wholeInstance(r.caller, r.view, r.at)
	if p := doc.Pending; p != nil && p.Was != nil && p.Was.Digest != p.Source.Digest {
		if err := addComparison(r.request.Context(), s.o.Catalog, p); err != nil {
			s.kit.Log(r.request).Warn("versions of a module not compared", "module", p.Source.Module, "error", err)
		}
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

func destroyInstance(s *server, w http.ResponseWriter, r call[*lifecycle.Record]) error {
	return handleChange(s, w, r, "destroy", func(struct{}) (lifecycle.Event, error) { return lifecycle.DestroyNow{ID: r.at.ID}, nil })
}

// listDocument is an instance in a list: without parameters and events.
func listDocument(d *lifecycle.Document, r *lifecycle.Record, have role) api.Instance {
	t := d.Templates[r.Snapshot]
	if have&reads == 0 {
		return offeredInstance(t, r, have)
	}
	doc := api.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: sourceDoc(r.Source), Owner: ownerDoc(r.Owner), CreatedBy: personDoc(r.CreatedBy),
		Phase: string(r.Phase), Reason: r.Reason,
		CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt, TTL: span.Span(r.TTL), FinishedAt: r.FinishedAt, Next: r.Next,
		Extends: r.Extends, Protected: r.Protected, Pooled: r.Pooled, Forced: r.Forced, Offer: offerDoc(r.Offer),
	}
	if addTemplate(&doc, t); t != nil && t.TTL != nil {
		doc.ExtendsMax = t.TTL.Extends
	}
	if r.Switch != nil {
		addScheduleState(&doc, d, r)
	}
	for _, c := range r.Conditions {
		if have&readsLogs == 0 {
			c.Message = ""
		}
		doc.Conditions = append(doc.Conditions, c)
	}
	if r.Run != nil {
		doc.Run = runDoc(r.Run, have)
	}
	if have&(owns|approves|administers) != 0 {
		doc.Plan = lifecycle.Awaits(r)
		doc.Pending = pendingDoc(r)
	}
	if have&(owns|administers) != 0 {
		doc.Outputs = shownOutputs(d, r)
		doc.Connection = r.Connection
	}
	if have&readsLogs == 0 {
		doc.Reason = ""
	}
	return doc
}

// addTemplate adds what an instance has of its template, if that is known.
func addTemplate(doc *api.Instance, t *template.Template) {
	if t != nil {
		doc.Title = t.Title
		doc.Cost = t.Cost
	}
}

// maskParameters returns the parameters of an instance, with sensitive values masked.
func maskParameters(r *lifecycle.Record) map[string]json.RawMessage {
	wanted := r.WantedParameters()
	if len(wanted) == 0 {
		return nil
	}
	shown := make(map[string]json.RawMessage, len(wanted))
	for name, value := range wanted {
		if slices.Contains(r.Sensitive, name) {
			value = hiddenValue()
		}
		shown[name] = value
	}
	return shown
}

// hiddenValue is the text that stands for a sensitive value.
func hiddenValue() json.RawMessage { return json.RawMessage(`"` + api.Masked + `"`) }

func sourceDoc(s template.Source) api.Source {
	return api.Source{Module: cmp.Or(s.Module, s.Chart), Version: s.Version, Digest: s.Digest, Path: s.Path}
}

func ownerDoc(o template.Owner) *api.Owner {
	if o.Kind == "" {
		return nil
	}
	return &o
}

func personDoc(a lifecycle.Actor) *api.Person {
	if a.Issuer == "" && a.Subject == "" {
		return nil
	}
	return &a
}

// eventDoc leaves out the output of the tool for callers that may not read logs.
func eventDoc(e lifecycle.History, have role) api.Event {
	doc := api.Event{At: e.At, Actor: e.Actor, Action: e.Action}
	if have&readsLogs != 0 {
		doc.Detail = e.Detail
	}
	return doc
}

func addScheduleState(doc *api.Instance, d *lifecycle.Document, r *lifecycle.Record) {
	s := r.Switch
	doc.Stopped = s.Stopped
	doc.StopsAt = s.StopsAt
	doc.StartsAt = s.StartsAt
	t := d.Templates[r.Snapshot]
	if t == nil || t.Schedule == nil {
		return
	}
	table, err := t.Schedule.Read() // in the same way as in the machine
	if err != nil {
		return
	}
	doc.Hours = describeHours(table, s.StopsAt, s.StartsAt, d.Clock.At) + " (" + t.Schedule.Timezone + ")"
	if s.Stopped && !s.StartsAt.IsZero() {
		doc.StoppedUntil = table.Words(s.StartsAt, d.Clock.At)
	}
}

// nextHours describes the next times of a schedule, in its own time zone; "": there are none.
func nextHours(s *timetable.Schedule, now time.Time) string {
	if s == nil {
		return ""
	}
	table, err := s.Read()
	if err != nil {
		return ""
	}
	stop, start := table.Next(now)
	return describeHours(table, stop, start, now) + " (" + s.Timezone + ")"
}

func describeHours(table *timetable.Table, stop, start, now time.Time) string {
	var words []string
	if !stop.IsZero() {
		words = append(words, "stops "+table.Words(stop, now))
	}
	if !start.IsZero() {
		words = append(words, "starts "+table.Words(start, now))
	}
	switch {
	case len(words) == 0:
		return "stopped and started by hand"
	case len(words) == 2 && start.Before(stop):
		words[0], words[1] = words[1], words[0]
	}
	return strings.Join(words, ", ")
}

// action is a verb of an instance.
type action struct {
	name  string
	needs role // one of these
	event func(r *lifecycle.Record) lifecycle.Event
	plain bool // its request says no more than the word, and is this event
}

// listActions lists all verbs, in the order in which they are shown.
func listActions() []action {
	return []action{
		{api.ActTake, receives, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Take{ID: r.ID} }, true},
		{api.ActDecline, receives, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Take{ID: r.ID, No: true} }, true},
		{api.ActApprove, approves, func(r *lifecycle.Record) lifecycle.Event {
			return lifecycle.Approve{ID: r.ID, Plan: lifecycle.Awaits(r)}
		}, false},
		{api.ActReject, approves, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Reject{ID: r.ID, Reason: "-"} }, false},
		{api.ActExtend, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Extend{ID: r.ID} }, false},
		{api.ActRetry, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Retry{ID: r.ID} }, true},
		{api.ActCancel, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Cancel{ID: r.ID} }, true},
		{api.ActUpdate, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Update{ID: r.ID} }, false},
		{api.ActStop, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Switch{ID: r.ID, Stop: true} }, true},
		{api.ActStart, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Switch{ID: r.ID} }, true},
		{api.ActRename, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Rename{ID: r.ID, Name: r.Name} }, false},
		{api.ActProtect, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Protect{ID: r.ID, On: true} }, true},
		{api.ActUnprotect, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Protect{ID: r.ID} }, true},
		{api.ActTransfer, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Transfer{ID: r.ID, To: r.Owner} }, false},
		{api.ActDestroy, owns | administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.DestroyNow{ID: r.ID} }, false},
		{api.ActOrphan, administers, func(r *lifecycle.Record) lifecycle.Event { return lifecycle.Orphan{ID: r.ID, Reason: "-"} }, false},
	}
}

// possibleActions names what the caller may do now, tried in the machine on a copy.
func (s *server) possibleActions(c caller, v lifecycle.View, r *lifecycle.Record, have role) []string {
	var names []string
	for _, a := range listActions() {
		done := a.name == api.ActProtect && r.Protected != "" || a.name == api.ActUnprotect && r.Protected == ""
		if have&a.needs == 0 || done {
			continue
		}
		changes, err := s.tryEvent(c, v, have, a.event(r))
		if err == nil && (changes || a.name != api.ActStop && a.name != api.ActStart) { // a stopped instance is not stopped again
			names = append(names, a.name)
		}
	}
	return names
}

// tryEvent returns why the machine would refuse an event, and whether it would change anything.
func (s *server) tryEvent(c caller, v lifecycle.View, have role, e lifecycle.Event) (changes bool, err error) {
	actor := c.actor
	actor.Admin = have&administers != 0
	after, _, _, err := s.o.Machine.Step(v.Document, lifecycle.Command{Event: e, Actor: actor}, v.AsOf)
	return after != v.Document, err
}

// wholeInstance is an instance with parameters, events, actions, queue position and cost.
func (s *server) wholeInstance(c caller, v lifecycle.View, r *lifecycle.Record) api.Instance {
	have := c.role(v.Document, r)
	doc := listDocument(v.Document, r, have)
	for _, e := range r.Events {
		if maySeeEvent(r, e, have) {
			doc.Events = append(doc.Events, eventDoc(e, have))
		}
	}
	if have&receives != 0 {
		if _, err := s.tryEvent(c, v, have, lifecycle.Take{ID: r.ID}); err != nil {
			doc.Offer.Refused = err.Error()
		}
	}
	if have&(owns|approves|administers) != 0 {
		doc.Parameters = maskParameters(r)
		if doc.Pending != nil {
			fillPending(doc.Pending, r)
		}
	}
	doc.Actions = s.possibleActions(c, v, r, have)
	if doc.Run != nil {
		doc.Run.Position = v.Document.QueuePosition(r.ID)
	}
	if t := v.Document.Templates[r.Snapshot]; t != nil && t.TTL != nil {
		doc.ExtendBy = span.Span(t.TTL.Extend)
	}
	return doc
}

// target is an instance as it would be after the pending request is approved.
type target struct {
	source     template.Source
	snapshot   string
	parameters map[string]json.RawMessage
}

// pendingDoc is what waits for approval, without values; nil: nothing waits.
func pendingDoc(r *lifecycle.Record) *api.Pending {
	if lifecycle.Awaits(r) == "" {
		return nil
	}
	doc := &api.Pending{What: api.PendingLaunch, By: personDoc(r.CreatedBy), At: r.CreatedAt}
	if p := r.Pending; p != nil {
		doc.By = personDoc(p.By)
		doc.At = p.At
		doc.Reason = p.Why
	}
	switch {
	case r.Phase == lifecycle.Planned:
		doc.What = api.PendingPlan
		doc.By = personDoc(r.Run.By)
		doc.At = r.Run.EndedAt
		doc.Reason = r.Run.Why
		doc.Run = r.Run.N
		if r.Run.First != nil {
			doc.First = personDoc(*r.Run.First)
		}
	case r.Pending == nil || r.Phase == lifecycle.Requested:
		doc.TTL = span.Span(r.TTL)
	case r.Pending.Update != nil:
		doc.What = api.PendingUpdate
	default:
		doc.What = api.PendingExtend
		doc.Ends = r.ExpiresAt
		doc.Until = r.Pending.Until
	}
	return doc
}

// fillPending adds what the approver is shown: everything that the approval covers.
func fillPending(doc *api.Pending, r *lifecycle.Record) {
	to := target{r.Source, r.Snapshot, r.Parameters}
	switch {
	case r.Phase == lifecycle.Planned:
		to.setTarget(r.Run.Source, r.Run.Snapshot, r.Run.Parameters)
	case r.Pending != nil && r.Pending.Update != nil:
		u := r.Pending.Update
		to.setTarget(u.Source, u.Snapshot, u.Parameters)
	}
	doc.Source = sourceDoc(to.source)
	doc.Template = to.snapshot
	var before map[string]json.RawMessage
	if !r.ReadyAt.IsZero() {
		was := sourceDoc(r.Source)
		doc.Was = &was
		doc.TemplateWas = r.Snapshot
		before = r.Parameters
	}
	doc.Values = valueChanges(before, to.parameters, r.Sensitive)
}

func (t *target) setTarget(s template.Source, snapshot string, parameters map[string]json.RawMessage) {
	t.source = s
	t.snapshot = cmp.Or(snapshot, t.snapshot)
	if parameters != nil {
		t.parameters = parameters
	}
}

func valueChanges(before, after map[string]json.RawMessage, sensitive []string) []api.ValueChange {
	all := map[string]json.RawMessage{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	var rows []api.ValueChange
	for _, name := range slices.Sorted(maps.Keys(all)) {
		row := api.ValueChange{Name: name, Old: before[name], New: after[name]}
		row.Changed = string(row.Old) != string(row.New)
		if slices.Contains(sensitive, name) {
			row.Old = maskValue(row.Old)
			row.New = maskValue(row.New)
		}
		rows = append(rows, row)
	}
	return rows
}

func maskValue(value json.RawMessage) json.RawMessage {
	if value == nil {
		return nil
	}
	return hiddenValue()
}

// optionalReason refuses a reason that is not readable text.
func optionalReason(reason string) error {
	if reason == "" {
		return nil
	}
	return checkReason(reason)
}

const (
	maxChanges = 200             // of a module that are shown
	compareFor = 2 * time.Second // the longest that an answer waits
)

// addComparison adds the differences between the module's two versions: who sees them may read plan
// and log, too.
func addComparison(ctx context.Context, c Catalog, p *api.Pending) error {
	by, ok := c.(Comparer)
	if !ok {
		p.Uncompared = "modules cannot be read here"
		return nil
	}
	ctx, done := context.WithTimeout(ctx, compareFor)
	defer done()
	all, err := by.Compare(ctx, *p.Was, p.Source)
	if err != nil {
		p.Uncompared = "one of them cannot be read now"
		return err
	}
	p.Left = max(0, len(all)-maxChanges)
	for _, d := range all[:len(all)-p.Left] {
		p.Changes = append(p.Changes, api.ModuleChange(d))
	}
	return nil
}
