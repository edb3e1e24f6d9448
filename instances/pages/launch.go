// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/internal/span"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// launchBody is the form that launches a template.
type launchBody struct {
	templateCard
	formBody
	Asks   []field  // parameters
	Extra  []field  // name, owner, lifetime, version, and whether limits count
	Linked []string // labels of what a link filled in
	Left   []string // labels of what the link may not fill in
	Quota  *api.Quota
	Asked  bool // it has to be approved
}

// formBody is common to all forms whose values the API checks.
type formBody struct {
	Errors []problem // for the summary
	Again  bool      // no answer came: the same form may be sent again
}

// problem is a line of the summary, with the id of the field that it is about; "": none.
type problem struct{ ID, Text string }

// hidden reports whether the caller may only learn that the page does not exist, or that
// a login is needed.
func (e *refusedError) hidden() bool {
	return e.status == http.StatusNotFound || e.status == http.StatusUnauthorized
}

// wrong fills the summary from a refusal by the API and the fields that it names; false:
// a form cannot show the error.
func (b *formBody) wrong(fields []field, err error) (status int, ok bool) {
	no, ok := errors.AsType[*refusedError](err)
	if !ok || no.hidden() || no.status >= 500 && !no.again() {
		return 0, false
	}
	b.Again = no.again()
	if len(no.doc.Fields) == 0 {
		text := no.Error()
		if no.again() && no.doc.Reason == api.ReasonNoLeader {
			text = "No leader answers now. Send this again in a moment: it is done only once."
		}
		if no.doc.Reason == api.ReasonKeyReused {
			text = "This form was already sent with other values. Look at your instances; send it again to create another one."
		}
		b.Errors = append(b.Errors, problem{Text: text})
		return no.status, true
	}
	rest := blame(fields, no.doc.Fields)
	b.summary(fields)
	for _, text := range rest {
		b.Errors = append(b.Errors, problem{Text: text})
	}
	return no.status, true
}

// summary lists the errors of fields.
func (b *formBody) summary(fields []field) {
	for _, f := range fields {
		if f.Error != "" {
			b.Errors = append(b.Errors, problem{f.ID, strings.TrimSpace(f.Of+" "+f.Label) + " " + f.Error})
		}
		b.summary(f.Fields)
		for _, row := range f.Rows {
			b.summary(row.Fields)
		}
	}
}

// launches serves the forms that launch templates.
type launches struct {
	templates *templates
	clock     site.Clock
}

// form returns the initial body of a page of the form.
func (s *launches) form(r *site.Request) (launchBody, parameters, error) {
	t, err := s.templates.in(r)
	if err != nil {
		return launchBody{}, parameters{}, err
	}
	p, err := readParameters(t.Schema)
	if err != nil {
		return launchBody{}, p, err
	}
	body := launchBody{templateCard: cardOf(t), Asks: p.fields(), Quota: t.Quota, Asked: t.Approval != "none"}
	if !p.names() {
		body.Extra = append(body.Extra, field{Name: "name", ID: "name", Label: "Name", Kind: kindText, Help: []string{"A name of your choice, up to 64 characters."}})
	}
	if len(t.Owners) > 1 {
		owner := field{Name: "owner", ID: "owner", Label: "Owner", Kind: kindChoose, Required: true, Help: []string{"Who may use, change and end it."}, Options: []site.Choice{{Text: "Choose", Chosen: true}}}
		for _, o := range t.Owners {
			owner.Options = append(owner.Options, site.Choice{Value: o.Kind + ":" + o.ID, Text: ownerName(&o)})
		}
		body.Extra = append(body.Extra, owner)
	}
	if t.TTL != nil && t.TTL.Default > 0 {
		help := "Such as 30m, 8h or 1h30m; empty means " + t.TTL.Default.String() + "."
		if t.TTL.Max > 0 {
			help += " At most " + t.TTL.Max.String() + "."
		}
		body.Extra = append(body.Extra, field{Name: "ttl", ID: "ttl", Label: "Lifetime", Kind: kindText, Help: []string{help}})
	}
	if len(t.Versions) > 1 {
		version := field{
			Name: "version", ID: "version", Label: "Version of the module", Kind: kindChoose,
			Help: []string{"The fields of this form are those of the newest version."}, Options: []site.Choice{{Text: "the newest that the template takes", Chosen: true}},
		}
		for _, v := range t.Versions {
			version.Options = append(version.Options, site.Choice{Value: text.Block(v), Text: text.Block(v)})
		}
		body.Extra = append(body.Extra, version)
	}
	body.Extra = append(body.Extra, reasonField(t.Approval)...)
	if t.Force {
		body.Extra = append(body.Extra, field{Name: "force", ID: "force", Label: "Ignore quotas", Kind: kindCheck, Help: []string{"Launch it although a quota is used up. You may, as an admin."}})
	}
	return body, p, nil
}

func (s *launches) show(r *site.Request) (*site.Page, error) {
	body, p, err := s.form(r)
	if err != nil {
		return nil, err
	}
	if id := r.URL.Query().Get(likeField); id != "" {
		s.like(r, id, p, &body)
	}
	body.Linked, body.Left = p.linked(body.Asks, r.URL.Query())
	return launchPage(body, s.clock.NewKey()), nil
}

// likeField names the instance whose values the form starts with.
const likeField = "like"

// like fills a form with the values of an instance, as far as the caller may see them, so
// without secrets. An instance of another template, or a hidden one, fills nothing.
func (s *launches) like(r *site.Request, id string, p parameters, body *launchBody) {
	i, err := get[api.Instance](s.templates.api, r, "instances/"+url.PathEscape(id), nil)
	if err != nil || i.Template != body.Name {
		return
	}
	for n := range body.Asks {
		f := &body.Asks[n]
		name := strings.TrimPrefix(f.Name, prefix)
		value, ok := i.Parameters[name]
		if ok && !p.Properties[name].Sensitive && string(value) != `"`+api.Masked+`"` {
			p.give(f, value)
		}
	}
}

func launchPage(body launchBody, key string) *site.Page {
	return &site.Page{
		Template: "run.html", Title: "Launch " + body.Text, Key: key, Body: body, NoStore: true,
		Crumbs: []site.Link{{Text: "Launch", Href: "templates"}, {Text: body.Text, Href: body.Href}}, Command: "okara instance create " + body.Name,
	}
}

// may is the check of the form: the caller may see the template. The API decides whether
// the caller may launch it.
func (s *launches) may(r *site.Request) error {
	_, err := s.templates.in(r)
	return err
}

// launch sends the form to the API.
func (s *launches) launch(r *site.Request, f *site.Form) (*site.Answer, error) {
	body, p, err := s.form(r)
	if err != nil {
		return nil, err
	}
	body.Closed = "" // the API reports it again, and what was typed stays
	reshaped := reshape(f.Values)
	body.Linked = stillLinked(p, body.Asks, r.URL.Query(), f.Values)
	values, ok := p.read(body.Asks, f.Values)
	create := api.Create{Template: body.Name, Parameters: values, Name: strings.TrimSpace(f.Get("name")), Owner: f.Get("owner"), Version: f.Get("version"), Reason: strings.TrimSpace(f.Get("reason")), Force: f.Get("force") == "true"}
	if p.names() {
		create.Name = p.nameIn(f.Values)
	}
	for i := range body.Extra {
		extra := &body.Extra[i]
		extra.set(f.Get(extra.Name))
		if extra.Name == "ttl" && extra.Value != "" {
			if create.TTL, err = span.Parse(strings.TrimSpace(extra.Value)); err != nil {
				extra.Error = "must be a duration such as 8h or 30m"
				ok = false
			}
		}
	}
	all := slices.Concat(body.Extra, body.Asks)
	if reshaped {
		return &site.Answer{Page: launchPage(body, s.clock.NewKey())}, nil
	}
	if !ok {
		p.judge(all, values)
		copy(body.Extra, all)
		copy(body.Asks, all[len(body.Extra):])
		body.summary(all)
		return &site.Answer{Page: again(launchPage(body, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	made, err := ask[api.Instance](s.templates.api, r, asked{method: http.MethodPost, path: "instances", body: create, key: f.Key})
	if err != nil {
		status, ok := body.wrong(all, err)
		if !ok {
			return nil, err
		}
		copy(body.Extra, all)
		copy(body.Asks, all[len(body.Extra):])
		key := f.Key // it is unknown whether it was done: the same key tells
		if !body.Again {
			key = s.clock.NewKey()
		}
		return &site.Answer{Page: again(launchPage(body, key), status)}, nil
	}
	return &site.Answer{To: instancePath(made.ID), Text: launched(made, s.clock())}, nil
}

// again returns the page of a form whose request was not done.
func again(p *site.Page, status int) *site.Page {
	p.Status = status
	p.Title = "Not done: " + p.Title
	return p
}

// stillLinked returns the labels of fields that a link filled in and the user did not change.
func stillLinked(p parameters, fields []field, query, form url.Values) []string {
	probe := slices.Clone(fields)
	p.linked(probe, query)
	var labels []string
	for i := range probe {
		if probe[i].Linked && p.same(probe[i], query, form) {
			fields[i].Linked = true
			labels = append(labels, fields[i].Label)
		}
	}
	return labels
}

// names reports whether a parameter is the name of what is launched: then the form has no
// other name field.
func (p parameters) names() bool {
	property, ok := p.Properties["name"]
	return ok && property.is("string") && !property.Sensitive && len(property.Enum) == 0
}

// nameIn returns the instance name taken from that parameter; "": the parameter has its
// default, which others may have as well, or is too long.
func (p parameters) nameIn(form url.Values) string {
	name := strings.TrimSpace(form.Get(prefix + "name"))
	if name == p.field("name").Value || utf8.RuneCountInString(name) > 64 {
		return ""
	}
	return name
}

// same reports whether a form still has the value that a link filled in.
func (p parameters) same(f field, query, form url.Values) bool {
	property := p.Properties[strings.TrimPrefix(f.Name, prefix)]
	if property.partKind() == "" {
		return form.Get(f.Name) == query.Get(f.Name)
	}
	f.Rows = nil
	f.Fields = nil
	_, value := (&collector{form: form}).field(property, f, "", 0)
	return compact(value) == compact(json.RawMessage(query.Get(f.Name)))
}

// launched describes the outcome of a launch.
func launched(made api.Instance, now time.Time) string {
	switch made.Phase {
	case "requested":
		return "It is requested. It must be approved before anything is created."
	case "ready":
		if !made.ClaimedAt.IsZero() && now.Sub(made.ClaimedAt) < time.Minute {
			return "It is ready, and yours."
		}
		return "You already have this instance."
	}
	return "It is being created. The log below shows how."
}
