// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/instance"
	"github.com/seed-141914ff/okara/internal/portaldoc"
	"github.com/seed-141914ff/okara/internal/service"
)

// create launches a template that the body names.
func (s *server) create(w http.ResponseWriter, r call[struct{}]) error {
	var body portaldoc.Create
	a, err := readBody(r.Request, r.caller, &body)
	if err != nil {
		return err
	}
	c, err := s.launch(r.Request, r.caller, body.Template)
	if err != nil {
		return err
	}
	return s.launchOne(w, r.Request, c, r.view, a, body, false)
}

// run makes, claims or returns the caller's one instance of a template.
func (s *server) run(w http.ResponseWriter, r call[string]) error {
	var body portaldoc.Create
	a, err := readBody(r.Request, r.caller, &body)
	if err != nil {
		return err
	}
	if body.Template != "" && body.Template != r.at {
		return field("/template", "the path says %s", r.at)
	}
	body.Template = r.at
	return s.launchOne(w, r.Request, r.caller, r.view, a, body, true)
}

// launchOne is create, once it is known what of.
func (s *server) launchOne(w http.ResponseWriter, r *http.Request, c caller, v instance.View, a ask, body portaldoc.Create, one bool) error {
	had, ok, err := repeated(c, v, a)
	if err == nil && !ok {
		var event instance.Create
		if event, err = s.creation(r.Context(), c, body); err == nil {
			event.One = one
			had, err = s.do(r, c, "create", body.Template, a, event)
		}
	}
	if err != nil {
		return err
	}
	return s.answer(w, r, c, had)
}

// creation makes the event of a request to launch a template.
func (s *server) creation(ctx context.Context, c caller, body portaldoc.Create) (instance.Create, error) {
	e, err := s.o.Catalog.Pin(ctx, body.Template, body.Version)
	switch {
	case errors.Is(err, instance.ErrNotFound):
		return instance.Create{}, noTemplate()
	case err != nil:
		return instance.Create{}, err
	case !e.Template.Enabled:
		return instance.Create{}, fmt.Errorf("template %s is switched off: %w", body.Template, instance.ErrPaused)
	case e.Problem != "":
		return instance.Create{}, &apiError{Status: http.StatusConflict, Reason: portaldoc.ReasonPaused, Text: "template " + body.Template + ": " + e.Problem}
	}
	parameters, err := e.Schema.CheckParameters(body.Parameters)
	if err != nil {
		return instance.Create{}, below("/parameters", err)
	}
	owner, err := c.ownerFor(e.Template, body.Owner)
	if err != nil {
		return instance.Create{}, err
	}
	claims, err := c.claimsFor(e.Template)
	return instance.Create{
		Template: e.Template, Digest: e.Digest, Source: e.Source, Owner: owner, Name: body.Name,
		Parameters: parameters, Sensitive: sensitive(e, parameters), Claims: claims, TTL: time.Duration(body.TTL), Forced: body.Force,
	}, err
}

// below puts the paths of field errors under a member of the body.
func below(path string, err error) error {
	fields := fieldErrors(err)
	if len(fields) == 0 {
		return err
	}
	moved := make([]error, len(fields))
	for i, f := range fields {
		moved[i] = &instance.FieldError{Path: path + f.Path, Text: f.Text}
	}
	return joined(moved)
}

type joined []error

func (j joined) Error() string   { return fmt.Sprint([]error(j)) }
func (j joined) Unwrap() []error { return j }

// claimsFor are the claims of the caller that a template names.
func (c caller) claimsFor(t *instance.Template) (map[string]string, error) {
	var claims map[string]string
	for _, name := range t.Claims() {
		value, ok := c.Claims[name]
		if !ok {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("template %s needs the claim %q, which your token does not have", t.Name, name)}
		}
		if claims == nil {
			claims = map[string]string{}
		}
		claims[name] = value
	}
	return claims, nil
}

// ownerFor is whose instance it will be: what the caller names, or the only one
// that fits.
func (c caller) ownerFor(t *instance.Template, named string) (instance.Owner, error) {
	own, err := c.owners(t)
	if err != nil {
		return instance.Owner{}, err
	}
	if named == "" && len(own) == 1 {
		return own[0], nil
	}
	var texts []string
	for _, o := range own {
		if text := ownerText(o); text == named {
			return o, nil
		} else {
			texts = append(texts, text)
		}
	}
	if named == "" {
		return instance.Owner{}, field("/owner", "say which of these it is for: %s", strings.Join(texts, ", "))
	}
	return instance.Owner{}, field("/owner", "want one of %s", strings.Join(texts, ", "))
}

// owners are those for whom the caller may launch a template.
func (c caller) owners(t *instance.Template) ([]instance.Owner, error) {
	claim, ok := strings.CutPrefix(t.Owner, "claim:")
	switch {
	case ok:
		value := c.Claims[claim]
		if value == "" {
			return nil, &service.Error{Status: http.StatusForbidden, Text: fmt.Sprintf("instances of %s belong to the claim %q, which your token does not have", t.Name, claim)}
		}
		return []instance.Owner{{Kind: instance.OwnerClaim, Issuer: c.actor.Issuer, ID: value, Label: value}}, nil
	case t.Owner != instance.OwnerGroup:
		return []instance.Owner{c.owner()}, nil
	case c.stale != nil:
		return nil, c.stale
	}
	own := c.groups(t)
	if len(own) == 0 {
		return nil, &service.Error{Status: http.StatusForbidden, Text: "instances of " + t.Name + " belong to groups, and you are in none that it admits"}
	}
	return own, nil
}

// groups are the caller's that a template admits.
func (c caller) groups(t *instance.Template) []instance.Owner {
	var own []instance.Owner
	for _, g := range c.actor.Groups {
		if t.AdmitsGroup(g) {
			own = append(own, instance.Owner{Kind: instance.OwnerGroup, Issuer: c.actor.Issuer, ID: g, Label: g})
		}
	}
	return own
}

// ownerText is how bodies and queries name an owner.
func ownerText(o instance.Owner) string { return o.Kind + ":" + o.ID }

// showInstance answers one instance.
func (s *server) showInstance(w http.ResponseWriter, r call[*instance.Record]) error {
	return service.WriteJSON(w, http.StatusOK, s.whole(r.caller, r.view, r.at))
}

// destroy ends an instance.
func (s *server) destroy(w http.ResponseWriter, r call[*instance.Record]) error {
	return change(s, w, r, "destroy", func(struct{}) (instance.Event, error) { return instance.DestroyNow{ID: r.at.ID}, nil })
}

// Bounds of lists.
const (
	defaultPage = 50
	maxPage     = 500
)

// page is which part of a list is asked for.
type page struct {
	limit int
	after string
}

func pageOf(r *http.Request) (page, error) {
	q := r.URL.Query()
	p := page{defaultPage, q.Get("after")}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return p, field("/limit", "want a number up to %d", maxPage)
		}
		p.limit = n
	}
	return p, nil
}

// cursor is where a list goes on after an instance, which may be gone by then.
func cursor(r *instance.Record) string {
	return strconv.FormatInt(started(r).UnixNano(), 10) + "-" + r.ID
}

// parseCursor returns a record that is listed where the one of the cursor was.
func parseCursor(s string) (*instance.Record, error) {
	at, id, ok := strings.Cut(s, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return nil, field("/after", "want what next said")
	}
	return &instance.Record{ID: id, CreatedAt: time.Unix(0, n)}, nil
}

// listInstances answers those that the caller may see.
func (s *server) listInstances(w http.ResponseWriter, r call[struct{}]) error {
	doc, err := s.list(r, reads)
	if err != nil {
		return err
	}
	return service.WriteJSON(w, http.StatusOK, doc)
}

// list is the page that the query asks for, of the instances to which the caller
// is one of what is needed.
func (s *server) list(r call[struct{}], needed role) (portaldoc.Instances, error) {
	p, err := pageOf(r.Request)
	if err != nil {
		return portaldoc.Instances{}, err
	}
	match, err := r.filter()
	if err != nil {
		return portaldoc.Instances{}, err
	}
	d := r.view.Document
	var found []*instance.Record
	for _, record := range d.Records {
		switch {
		case !match(record):
		case r.role(d, record)&needed != 0:
			found = append(found, record)
		case r.unsure(record):
			return portaldoc.Instances{}, r.stale
		}
	}
	slices.SortFunc(found, func(a, b *instance.Record) int {
		return cmp.Or(started(b).Compare(started(a)), strings.Compare(a.ID, b.ID))
	})
	doc := portaldoc.Instances{Instances: []portaldoc.Instance{}, Count: len(found)}
	doc.Used, doc.Shared = r.counts(d)
	doc.Limit = s.userLimit(r.caller, d)
	if p.after != "" {
		last, err := parseCursor(p.after)
		if err != nil {
			return doc, err
		}
		found = slices.DeleteFunc(found, func(record *instance.Record) bool { return !newer(last, record) })
	}
	for i, record := range found {
		if i == p.limit {
			doc.Next = cursor(found[i-1])
			break
		}
		one := document(d, record, r.role(d, record))
		one.Events, one.Parameters = nil, nil // a list is for choosing
		doc.Instances = append(doc.Instances, one)
	}
	return doc, nil
}

// filter is what the query asks for.
func (r call[A]) filter() (func(*instance.Record) bool, error) {
	q := r.URL.Query()
	owner, template, phase := q.Get("owner"), q.Get("template"), q.Get("phase")
	wanted := strings.Split(phase, ",")
	for _, p := range wanted {
		if phase != "" && p != "live" && !known(p) {
			return nil, field("/phase", "there is no phase %.40q", p)
		}
	}
	d := r.view.Document
	return func(record *instance.Record) bool {
		switch {
		case template != "" && !addr.Match(template, record.Template):
			return false
		case phase != "" && !slices.ContainsFunc(wanted, func(p string) bool { return string(record.Phase) == p || p == "live" && record.Phase.Live() }):
			return false
		case owner == "":
			return true
		case owner == "me":
			return record.Owner.Same(r.owner())
		case owner == "mine":
			return r.is(d, record) || r.unsure(record)
		}
		return record.Owner.Kind != "" && ownerText(record.Owner) == owner
	}, nil
}

// known reports whether a phase is one.
func known(phase string) bool {
	switch instance.Phase(phase) {
	case instance.Requested, instance.Planned, instance.Provisioning, instance.Updating, instance.Available, instance.Ready, instance.Failed,
		instance.Destroying, instance.DestroyFailed, instance.Destroyed, instance.Orphaned, instance.Rejected:
		return true
	}
	return false
}

// anyTemplate asks for the limits that the server sets beside those of templates.
func anyTemplate() *instance.Template { return &instance.Template{Name: "-/-"} }

// userLimit is the limit of the caller's own live instances of all templates; 0:
// there is none.
func (s *server) userLimit(c caller, d *instance.Document) int {
	for _, q := range s.o.Machine.Quotas(d, anyTemplate(), c.owner(), c.actor) {
		return q.Limit
	}
	return 0
}

// awaits is what an approval has to name.
func awaits(r *instance.Record) string {
	switch {
	case r.Phase == instance.Requested:
		return instance.RequestPlan(r)
	case r.Phase == instance.Planned && r.Run != nil:
		return r.Run.Plan
	}
	return ""
}

// counts are the live instances of the caller and of the caller's groups.
func (c caller) counts(d *instance.Document) (used, shared int) {
	for _, record := range d.Records {
		switch {
		case !record.Phase.Live() || reserved(record.Template):
		case record.Owner.Same(c.owner()):
			used++
		case c.is(d, record):
			shared++
		}
	}
	return used, shared
}

// document is an instance as somebody sees it who has a role to it.
func document(d *instance.Document, r *instance.Record, have role) portaldoc.Instance {
	doc := portaldoc.Instance{
		ID: r.ID, Name: r.Name, Template: r.Template, Role: have.name(), Source: sourceDoc(r.Source), Owner: ownerDoc(r.Owner), CreatedBy: personDoc(r.CreatedBy),
		Phase: string(r.Phase), Reason: r.Reason,
		CreatedAt: r.CreatedAt, ReadyAt: r.ReadyAt, ClaimedAt: r.ClaimedAt, ExpiresAt: r.ExpiresAt, FinishedAt: r.FinishedAt, Next: r.Next,
		Extends: r.Extends, Protected: r.Protected, Pooled: r.Pooled, Forced: r.Forced,
	}
	if t := d.Templates[r.Snapshot]; t != nil && t.TTL != nil {
		doc.ExtendsMax = t.TTL.Extends
	}
	detailed := have&(owns|administers) != 0
	for _, c := range r.Conditions {
		shown := portaldoc.Condition{Type: c.Type, Reason: c.Reason}
		if detailed {
			shown.Message = c.Message
		}
		doc.Conditions = append(doc.Conditions, shown)
	}
	if r.Run != nil {
		doc.Run = runDoc(r, r.Run, have)
	}
	for _, e := range r.Events {
		doc.Events = append(doc.Events, eventDoc(e, have))
	}
	if have&(owns|approves|administers) != 0 {
		doc.Plan = awaits(r)
		doc.Parameters = masked(r)
	}
	if detailed {
		doc.Outputs, doc.Connection = shownOutputs(d, r), connectionDoc(r.Connection)
	} else {
		doc.Reason = ""
	}
	return doc
}

// masked are the parameters of an instance, without those that nobody is shown.
func masked(r *instance.Record) map[string]json.RawMessage {
	if len(r.Parameters) == 0 {
		return nil
	}
	shown := make(map[string]json.RawMessage, len(r.Parameters))
	for name, value := range r.Parameters {
		if slices.Contains(r.Sensitive, name) {
			value = hidden()
		}
		shown[name] = value
	}
	return shown
}

// hidden is a value that nobody is shown.
func hidden() json.RawMessage { return json.RawMessage(strconv.Quote(portaldoc.Masked)) }

func sourceDoc(s instance.Source) portaldoc.Source {
	return portaldoc.Source{Module: s.Module, Version: s.Version, Digest: s.Digest, Path: s.Path}
}

func ownerDoc(o instance.Owner) *portaldoc.Owner {
	if o.Kind == "" {
		return nil
	}
	return &portaldoc.Owner{Kind: o.Kind, Issuer: o.Issuer, ID: o.ID, Label: o.Label}
}

func personDoc(a instance.Actor) *portaldoc.Person {
	if a.Issuer == "" && a.Subject == "" {
		return nil
	}
	return &portaldoc.Person{Issuer: a.Issuer, Subject: a.Subject, Label: a.Label}
}

func connectionDoc(c *instance.Connection) *portaldoc.Connection {
	if c == nil {
		return nil
	}
	return &portaldoc.Connection{Type: c.Type, URL: c.URL, Message: c.Message}
}

// eventDoc leaves out the words of the tool for those who may not read logs.
func eventDoc(e instance.History, have role) portaldoc.Event {
	doc := portaldoc.Event{At: e.At, Actor: e.Actor, Action: e.Action}
	if have&(owns|administers) != 0 {
		doc.Detail = e.Detail
	}
	return doc
}
