// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"encoding/json"
	"errors"
	"maps"
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

// isHidden reports whether the caller learns only "not found" or "log in".
func (e *refusedError) isHidden() bool {
	return e.status == http.StatusNotFound || e.status == http.StatusUnauthorized
}

// fillErrors fills the summary from a refusal; false: no form can show it.
func (b *formBody) fillErrors(fields []field, err error) (status int, ok bool) {
	no, ok := errors.AsType[*refusedError](err)
	if !ok || no.isHidden() || no.status >= 500 && !no.isRetryable() {
		return 0, false
	}
	b.Again = no.isRetryable()
	if len(no.doc.Fields) == 0 {
		text := no.Error()
		if no.isRetryable() && no.doc.Reason == api.ReasonNoLeader {
			text = "No leader is available. Send this again in a moment: it is applied only once."
		}
		if no.doc.Reason == api.ReasonKeyReused {
			text = "This form was already sent with other values. Look at your instances; send it again to create another one."
		}
		b.Errors = append(b.Errors, problem{Text: text})
		return no.status, true
	}
	rest := placeErrors(fields, no.doc.Fields)
	b.summary(fields)
	for _, text := range rest {
		b.Errors = append(b.Errors, problem{Text: text})
	}
	return no.status, true
}

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

type launchForm struct {
	parameters
	body   launchBody
	chosen map[string]json.RawMessage // values that it shows at first
	given  map[string]json.RawMessage // of them, those that the link gives
}

func (s *templates) formFor(r *site.Request) (*launchForm, error) {
	t, err := s.templateOf(r)
	if err != nil {
		return nil, err
	}
	p, err := readParameters(t.Schema)
	if err != nil {
		return nil, err
	}
	body := launchBody{templateCard: cardOf(t), Quota: t.Quota, Asked: t.Approval != "none"}
	if !p.hasNameParameter() {
		body.Extra = append(body.Extra, field{Name: "name", ID: "name", Label: "Name", Kind: kindText, Help: []string{"A name of your choice, up to 64 characters."}})
	}
	if len(t.Owners) > 1 {
		owner := field{Name: "owner", ID: "owner", Label: "Owner", Kind: kindChoose, Required: true, Help: []string{"Who may use, change and destroy it."}, Options: []site.Choice{{Text: "Choose", Chosen: true}}}
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
			Help: []string{"The fields of this form are from the newest version."}, Options: []site.Choice{{Text: "the newest that the template allows", Chosen: true}},
		}
		for _, v := range t.Versions {
			version.Options = append(version.Options, site.Choice{Value: text.Block(v), Text: text.Block(v)})
		}
		body.Extra = append(body.Extra, version)
	}
	body.Extra = append(body.Extra, reasonField(t.Approval)...)
	if t.Force {
		body.Extra = append(body.Extra, field{Name: "force", ID: "force", Label: "Ignore quotas", Kind: kindCheck, Help: []string{"Launch it even if a quota is used up, as an admin."}})
	}
	l := &launchForm{parameters: p}
	l.given, body.Left = p.linkedValues(r.URL.Query())
	l.chosen = p.chooseValues(l.given, s.valuesLike(r, t.Name))
	l.body = body
	return l, nil
}

// addFields puts the fields of the parameters into the form, and marks those that still have the
// values of the link.
func (l *launchForm) addFields(fields []field, values map[string]json.RawMessage) {
	for i := range fields {
		f := &fields[i]
		name := strings.TrimPrefix(f.Name, prefix)
		if value, ok := l.given[name]; ok && isSame(value, values[name]) {
			f.Linked = true
			l.body.Linked = append(l.body.Linked, f.Label)
		}
	}
	l.body.Asks = fields
}

func (s *templates) showLaunch(r *site.Request) (*site.Page, error) {
	l, err := s.formFor(r)
	if err != nil {
		return nil, err
	}
	l.addFields(l.shownFields(l.chosen), l.chosen)
	return launchPage(l.body, s.clock.NewKey()), nil
}

// likeField names the instance whose values the form starts with.
const likeField = "like"

// valuesLike returns the values of the instance that a link names, as far as the caller may see
// them, so without secrets. An instance of another template, or a hidden one, gives none.
func (s *templates) valuesLike(r *site.Request, template string) map[string]json.RawMessage {
	id := r.URL.Query().Get(likeField)
	if id == "" {
		return nil
	}
	i, err := getFromAPI[api.Instance](s.api, r, "instances/"+url.PathEscape(id), nil)
	if err != nil || i.Template != template {
		return nil
	}
	maps.DeleteFunc(i.Parameters, func(_ string, value json.RawMessage) bool { return isMasked(value) })
	return i.Parameters
}

func isMasked(value json.RawMessage) bool { return string(value) == `"`+api.Masked+`"` }

func launchPage(body launchBody, key string) *site.Page {
	return &site.Page{
		Template: "run.html", Title: "Launch " + body.Text, Key: key, Body: body, NoStore: true,
		Crumbs: []site.Link{{Text: "Launch", Href: "templates"}, {Text: body.Text, Href: body.Href}}, Command: "okara instance create " + body.Name,
	}
}

func (s *templates) launch(r *site.Request, f *site.Form) (*site.Answer, error) {
	l, err := s.formFor(r)
	if err != nil {
		return nil, err
	}
	body := &l.body
	body.Closed = "" // the API reports it again, and what was typed stays
	reshaped := reshapeForm(f.Values)
	asks, values, ok := l.readForm(f.Values, l.chosen)
	l.addFields(asks, values)
	create := api.Create{Template: body.Name, Parameters: values, Name: strings.TrimSpace(f.Get("name")), Owner: f.Get("owner"), Version: f.Get("version"), Reason: reasonIn(f), Force: f.Get("force") == "true"}
	if l.hasNameParameter() {
		create.Name = l.nameIn(f.Values)
	}
	for i := range body.Extra {
		extra := &body.Extra[i]
		extra.setText(f.Get(extra.Name))
		if extra.Name == "ttl" && extra.Value != "" {
			if create.TTL, err = span.Parse(strings.TrimSpace(extra.Value)); err != nil {
				extra.Error = "must be a duration such as 8h or 30m"
				ok = false
			}
		}
	}
	all := slices.Concat(body.Extra, body.Asks)
	if reshaped {
		return &site.Answer{Page: launchPage(*body, s.clock.NewKey())}, nil
	}
	if !ok {
		l.judgeValues(all, values)
		copy(body.Extra, all)
		copy(body.Asks, all[len(body.Extra):])
		body.summary(all)
		return &site.Answer{Page: notDonePage(launchPage(*body, s.clock.NewKey()), http.StatusUnprocessableEntity)}, nil
	}
	made, err := callAPI[api.Instance](s.api, r, asked{method: http.MethodPost, path: "instances", body: create, key: f.Key})
	if err != nil {
		status, ok := body.fillErrors(all, err)
		if !ok {
			return nil, err
		}
		copy(body.Extra, all)
		copy(body.Asks, all[len(body.Extra):])
		key := f.Key // it is unknown whether it was done: the same key tells
		if !body.Again {
			key = s.clock.NewKey()
		}
		return &site.Answer{Page: notDonePage(launchPage(*body, key), status)}, nil
	}
	return &site.Answer{To: instancePath(made.ID), Text: describeLaunch(made, s.clock())}, nil
}

// notDonePage returns the page of a form whose request failed.
func notDonePage(p *site.Page, status int) *site.Page {
	p.Status = status
	p.Title = "Failed: " + p.Title
	return p
}

// hasNameParameter reports whether a parameter is the name of what is launched: then the form has no
// other name field.
func (p parameters) hasNameParameter() bool {
	property, ok := p.Properties["name"]
	return ok && property.acceptsType("string") && !property.Sensitive && len(property.Enum) == 0
}

// nameIn returns the instance name taken from that parameter; "": the parameter has its
// default, which others may have as well, or is too long.
func (p parameters) nameIn(form url.Values) string {
	name := strings.TrimSpace(form.Get(prefix + "name"))
	if name == p.Properties["name"].formText(p.Properties["name"].Default) || utf8.RuneCountInString(name) > 64 {
		return ""
	}
	return name
}

func describeLaunch(made api.Instance, now time.Time) string {
	switch made.Phase {
	case "requested":
		return "Requested. It must be approved before anything is created."
	case "ready":
		if !made.ClaimedAt.IsZero() && now.Sub(made.ClaimedAt) < time.Minute {
			return "The instance is ready, and yours."
		}
		return "You already have this instance."
	}
	return "Launch submitted. The log below shows its progress."
}
