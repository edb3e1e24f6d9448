// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// templatesBody lists what may be launched.
type templatesBody struct {
	Words, Module string // filters of the query
	Use           bool   // only what the caller may launch
	Filtered      bool
	Groups        []templateGroup
	Total         int
	Next          string // link to the next page; "": there is none
}

// templateGroup has the templates of one category.
type templateGroup struct {
	Title string
	Cards []templateCard
}

// templateCard is a template in a list.
type templateCard struct {
	site.Link
	Name, Description string
	Icon              icon
	Marks             []site.Mark
	Facts             []string
	Launch            string // page of its form; "": it cannot be launched
	Closed            string // why it cannot be launched
	Mine              string // list of the caller's instances of it
}

// limited returns a query for one page of a list of the API.
func limited(r *site.Request) url.Values {
	q := url.Values{"limit": {strconv.Itoa(site.RowsPerPage)}}
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	return q
}

// templates serves the pages of templates.
type templates struct{ api *backend }

// list lists the templates that the caller may see.
func (s *templates) list(r *site.Request) (*site.Page, error) {
	q := limited(r)
	for _, name := range []string{"q", "module", "use"} {
		if value := r.URL.Query().Get(name); value != "" {
			q.Set(name, value)
		}
	}
	doc, err := get[api.Templates](s.api, r, "templates", q)
	if err != nil {
		return nil, err
	}
	body := templatesBody{Total: doc.Count + len(doc.Kinds), Words: text.Block(q.Get("q")), Module: text.Block(q.Get("module")), Use: q.Get("use") != ""}
	body.Filtered = body.Words+body.Module != "" || body.Use
	if doc.Next != "" {
		q.Del("limit")
		q.Set("after", doc.Next)
		body.Next = "?" + q.Encode()
	}
	by := map[string]*templateGroup{}
	add := func(category string, c templateCard) {
		title := cmp.Or(text.Block(category), "Other")
		if by[title] == nil {
			by[title] = &templateGroup{Title: title}
		}
		by[title].Cards = append(by[title].Cards, c)
	}
	for _, t := range doc.Templates {
		add(t.Category, cardOf(t))
	}
	for _, k := range doc.Kinds {
		add(k.Category, kindCard(k))
	}
	for _, title := range slices.Sorted(maps.Keys(by)) {
		if title != "Other" {
			body.Groups = append(body.Groups, *by[title])
		}
	}
	if rest := by["Other"]; rest != nil {
		if len(by) == 1 {
			rest.Title = "All templates"
		}
		body.Groups = append(body.Groups, *rest)
	}
	return &site.Page{Template: "templates.html", Title: "Launch", Command: "okara instance template list", Body: body}, nil
}

func cardOf(t api.Template) templateCard {
	c := templateCard{
		Link: site.Link{Text: titleOf(t), Href: "templates/" + site.EscapePath(t.Name)}, Name: t.Name, Description: text.Block(t.Description), Marks: templateMarks(t), Facts: terms(t),
		Icon: iconOf(t.Icon, titleOf(t)), Closed: site.Sentence(text.Block(t.Closed)), Mine: "instances?template=" + url.QueryEscape(t.Name),
	}
	if t.Closed == "" {
		c.Launch = runPath(t.Name)
	}
	return c
}

func titleOf(t api.Template) string { return cmp.Or(text.Block(t.Title), t.Name) }

func runPath(template string) string { return "run/" + site.EscapePath(template) }

// templateMarks shows what prevents the caller from launching a template, or is pending.
func templateMarks(t api.Template) []site.Mark {
	var all []site.Mark
	switch {
	case t.Invalid != "":
		all = append(all, site.Mark{Text: "cannot be launched", Kind: "bad"})
	case t.Paused != "":
		all = append(all, site.Mark{Text: "paused", Kind: "warn"})
	case !t.Enabled:
		all = append(all, site.Mark{Text: "switched off", Kind: "plain"})
	}
	switch t.Approval {
	case "request":
		all = append(all, site.Mark{Text: "needs approval", Kind: "plain"})
	case "plan":
		all = append(all, site.Mark{Text: "plan needs approval", Kind: "plain"})
	}
	if t.Pool != nil {
		if t.Pool.Available > 0 {
			all = append(all, site.Mark{Text: fmt.Sprintf("%d ready at once", t.Pool.Available), Kind: "good"})
		} else {
			all = append(all, site.Mark{Text: "pool is empty", Kind: "plain"})
		}
	}
	return all
}

// terms lists what a user should know before launching a template.
func terms(t api.Template) []string {
	var all []string
	if t.TTL != nil && t.TTL.Default > 0 {
		all = append(all, "lives "+site.Span(time.Duration(t.TTL.Default)))
	} else {
		all = append(all, "no end")
	}
	if t.Cost != nil {
		all = append(all, money(t.Cost.Hourly, t.Cost.Currency)+" an hour")
	}
	if t.Hours != "" {
		all = append(all, "can be stopped")
	}
	if t.Quota != nil && t.Quota.Limit > 0 {
		all = append(all, fmt.Sprintf("you have %d of %d", t.Quota.Used, t.Quota.Limit))
	}
	return all
}

// templateBody is the page of one template.
type templateBody struct {
	templateCard
	Lines      []site.Fact
	Parameters []parameterRow
	Outputs    []string
	Paused     string
	Invalid    string
	Behind     string
	Share      string // link that fills the form; "": no link can
	CLI        string
}

// parameterRow is a parameter in a table.
type parameterRow struct {
	Name, Label, Type, Default string
	Help                       []string
	Marks                      []site.Mark
}

// in reads the template that a path names.
func (s *templates) in(r *site.Request) (api.Template, error) {
	name := r.PathValue("namespace") + "/" + r.PathValue("name")
	return get[api.Template](s.api, r, "templates/"+name, nil)
}

func (s *templates) show(r *site.Request) (*site.Page, error) {
	t, err := s.in(r)
	if err != nil {
		return nil, err
	}
	p, err := readParameters(t.Schema)
	if err != nil {
		return nil, err
	}
	body := templateBody{
		templateCard: cardOf(t), Lines: templateFacts(t), Outputs: t.Outputs, Paused: text.Block(t.Paused), Invalid: text.Block(t.Invalid), Behind: text.Block(t.Behind),
		CLI: "okara instance create " + t.Name,
	}
	fill := url.Values{}
	for _, name := range p.Order {
		property := p.Properties[name]
		body.Parameters = append(body.Parameters, rowFor(p, name))
		if value := property.shown(property.Default); property.Link && !property.Sensitive && property.kind() != kindJSON && len(fill) < 3 {
			fill.Set(prefix+name, value)
			if word := name + "=" + value; !strings.ContainsFunc(word, text.Hidden) {
				body.CLI += " -p " + text.ShellWord(word)
			}
		}
	}
	if body.Launch != "" && len(fill) > 0 {
		body.Share = body.Launch + "?" + fill.Encode()
	}
	return &site.Page{
		Template: "template.html", Title: titleOf(t), Crumbs: []site.Link{{Text: "Launch", Href: "templates"}}, Command: "okara instance template show " + t.Name, Body: body,
	}, nil
}

func rowFor(p parameters, name string) parameterRow {
	property := p.Properties[name]
	row := parameterRow{Name: name, Type: cmp.Or(text.Block(property.Written), "any"), Help: p.field(name, nil).Help}
	if label := property.label(name); label != name {
		row.Label = label
	}
	switch {
	case slices.Contains(p.Required, name):
		row.Marks = append(row.Marks, site.Mark{Text: "required", Kind: "plain"})
	case !property.Sensitive && len(property.Default) > 0:
		row.Default = text.Block(property.shown(property.Default))
	}
	if property.Sensitive {
		row.Marks = append(row.Marks, site.Mark{Text: "sensitive", Kind: "plain"})
	}
	if property.Update {
		row.Marks = append(row.Marks, site.Mark{Text: "may change later", Kind: "plain"})
	}
	return row
}

// templateFacts lists the terms of a template.
func templateFacts(t api.Template) []site.Fact {
	all := []site.Fact{{Name: "Template", Text: t.Name}, {Name: "Module", Text: strings.TrimSpace(t.Module + " " + t.Version)}}
	add := func(name, text string) {
		if text != "" {
			all = append(all, site.Fact{Name: name, Text: text})
		}
	}
	switch l := t.TTL; {
	case l == nil:
		add("Lifetime", "no end")
	default:
		add("Lifetime", site.Span(time.Duration(l.Default)))
		if l.Max > 0 {
			add("At most", site.Span(time.Duration(l.Max)))
		}
		if l.Extends > 0 {
			add("Extend", fmt.Sprintf("%d times by %s", l.Extends, site.Span(time.Duration(l.Extend))))
		}
		if l.OnExpire == "keep" {
			add("On expiry", "orphaned")
		} else {
			add("On expiry", "destroyed")
		}
	}
	if t.Cost != nil {
		add("Costs", money(t.Cost.Hourly, t.Cost.Currency)+" an hour")
	}
	add("Stopped and started", text.Block(t.Hours))
	if t.Quota != nil && t.Quota.Limit > 0 {
		add("Your quota", fmt.Sprintf("%d of %d used", t.Quota.Used, t.Quota.Limit))
	}
	if t.Pool != nil {
		add("Pool", fmt.Sprintf("%d ready, %d in use, %d in all", t.Pool.Available, t.Pool.Claimed, t.Pool.Total))
	}
	switch {
	case strings.HasPrefix(t.Owner, "claim:"):
		add("Belongs to", "all users with the same "+text.Block(strings.TrimPrefix(t.Owner, "claim:")))
	case t.Owner == "group":
		add("Belongs to", "one of your groups")
	default:
		add("Belongs to", "you")
	}
	if t.PerOwner == 1 {
		add("How many", "one for each owner")
	}
	return all
}

// mayPause is the check of both forms: the caller may see the template.
func (s *templates) mayPause(r *site.Request) error {
	_, err := s.in(r)
	return err
}

// pause stops new instances of a template.
func (s *templates) pause(r *site.Request, f *site.Form) (*site.Answer, error) {
	return s.setPaused(r, f, "pause", "It is paused: nothing new is launched from it.")
}

// resume allows new instances again.
func (s *templates) resume(r *site.Request, f *site.Form) (*site.Answer, error) {
	return s.setPaused(r, f, "resume", "It can be launched again.")
}

func (s *templates) setPaused(r *site.Request, f *site.Form, word, text string) (*site.Answer, error) {
	name := r.PathValue("namespace") + "/" + r.PathValue("name")
	_, err := ask[api.Template](s.api, r, asked{method: http.MethodPost, path: "templates/" + name + "/" + word, key: f.Key})
	if err != nil {
		return nil, err
	}
	return &site.Answer{To: "admin/templates", Text: name + ": " + text}, nil
}
