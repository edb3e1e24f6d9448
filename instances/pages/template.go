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
	"unicode"

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

type templateGroup struct {
	Title string
	Cards []templateCard
}

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

func pageQuery(r *site.Request) url.Values {
	q := url.Values{"limit": {strconv.Itoa(site.RowsPerPage)}}
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	return q
}

// templates serves the pages of templates.
type templates struct {
	api   *backend
	clock site.Clock
}

// list lists the templates that the caller may see.
func (s *templates) list(r *site.Request) (*site.Page, error) {
	q := pageQuery(r)
	for _, name := range []string{"q", "module", "use"} {
		if value := r.URL.Query().Get(name); value != "" {
			q.Set(name, value)
		}
	}
	doc, err := getFromAPI[api.Templates](s.api, r, "templates", q)
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
		Link: site.Link{Text: titleOf(t), Href: "templates/" + site.EscapePath(t.Name)}, Name: t.Name, Description: text.Block(t.Description), Marks: templateMarks(t), Facts: listTerms(t),
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
		all = append(all, site.Mark{Text: "disabled", Kind: "plain"})
	}
	switch t.Approval {
	case "request":
		all = append(all, site.Mark{Text: "needs approval", Kind: "plain"})
	case "plan":
		all = append(all, site.Mark{Text: "plan needs approval", Kind: "plain"})
	}
	if t.Pool != nil {
		if t.Pool.Available > 0 {
			all = append(all, site.Mark{Text: fmt.Sprintf("%d ready", t.Pool.Available), Kind: "good"})
		} else {
			all = append(all, site.Mark{Text: "pool is empty", Kind: "plain"})
		}
	}
	return all
}

// listTerms lists what a user should know before launching a template.
func listTerms(t api.Template) []string {
	var all []string
	if t.TTL != nil && t.TTL.Default > 0 {
		all = append(all, "lives "+site.Span(time.Duration(t.TTL.Default)))
	} else {
		all = append(all, "no expiry")
	}
	if t.Cost != nil {
		all = append(all, formatMoney(t.Cost.Hourly, t.Cost.Currency)+" an hour")
	}
	if t.Hours != "" {
		all = append(all, "can be stopped")
	}
	if t.Quota != nil && t.Quota.Limit > 0 {
		all = append(all, fmt.Sprintf("you have %d of %d", t.Quota.Used, t.Quota.Limit))
	}
	return all
}

type templateBody struct {
	templateCard
	Doc        api.Template
	Lines      []site.Fact
	Parameters []parameterRow
	Share      string // link that fills the form; "": no link can
	CLI        string
}

type parameterRow struct {
	Name, Label, Type, Default string
	Help                       []string
	Marks                      []site.Mark
}

func (s *templates) templateOf(r *site.Request) (api.Template, error) {
	name := r.PathValue("namespace") + "/" + r.PathValue("name")
	return getFromAPI[api.Template](s.api, r, "templates/"+name, nil)
}

func (s *templates) show(r *site.Request) (*site.Page, error) {
	t, err := s.templateOf(r)
	if err != nil {
		return nil, err
	}
	p, err := readParameters(t.Schema)
	if err != nil {
		return nil, err
	}
	body := templateBody{
		templateCard: cardOf(t), Doc: t, Lines: templateFacts(t), CLI: "okara instance create " + t.Name,
	}
	fill := url.Values{}
	for _, name := range p.Order {
		property := p.Properties[name]
		body.Parameters = append(body.Parameters, rowFor(p, name))
		if value := property.formText(property.Default); property.Link && !property.Sensitive && property.fieldKind() != kindJSON && len(fill) < 3 {
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
		Template: "template.html", Star: "templates/" + t.Name, Title: titleOf(t), Crumbs: []site.Link{{Text: "Launch", Href: "templates"}}, Command: "okara instance template show " + t.Name, Body: body,
	}, nil
}

func rowFor(p parameters, name string) parameterRow {
	property := p.Properties[name]
	row := parameterRow{Name: name, Type: cmp.Or(text.Block(property.Written), "any"), Help: p.emptyField(name, nil).Help}
	if label := property.label(name); label != name {
		row.Label = label
	}
	switch {
	case slices.Contains(p.Required, name):
		row.Marks = append(row.Marks, site.Mark{Text: "required", Kind: "plain"})
	case !property.Sensitive && len(property.Default) > 0:
		row.Default = text.Block(property.formText(property.Default))
	}
	if len(property.Enum) > 0 {
		var allowed []string
		for _, o := range property.choiceOptions(false) {
			allowed = append(allowed, o.Text)
		}
		row.Help = append(row.Help, "One of "+strings.Join(allowed, ", ")+".")
	}
	if property.Sensitive {
		row.Marks = append(row.Marks, site.Mark{Text: "sensitive", Kind: "plain"})
	}
	if property.Update {
		row.Marks = append(row.Marks, site.Mark{Text: "may change later", Kind: "plain"})
	}
	return row
}

func templateFacts(t api.Template) (all facts) {
	all.addText("Template", t.Name)
	all.addText("Module", strings.TrimSpace(t.Module+" "+t.Version))
	switch l := t.TTL; {
	case l == nil:
		all.addText("Lifetime", "no expiry")
	default:
		all.addText("Lifetime", site.Span(time.Duration(l.Default)))
		if l.Max > 0 {
			all.addText("At most", site.Span(time.Duration(l.Max)))
		}
		if l.Extends > 0 {
			all.addText("Extend", fmt.Sprintf("%d times by %s", l.Extends, site.Span(time.Duration(l.Extend))))
		}
		if l.OnExpire == "keep" {
			all.addText("On expiry", "orphaned")
		} else {
			all.addText("On expiry", "destroyed")
		}
	}
	if t.Cost != nil {
		all.addText("Costs", formatMoney(t.Cost.Hourly, t.Cost.Currency)+" an hour")
	}
	all.addText("Stopped and started", text.Block(t.Hours))
	if t.Quota != nil && t.Quota.Limit > 0 {
		all.addText("Your quota", fmt.Sprintf("%d of %d used", t.Quota.Used, t.Quota.Limit))
	}
	if t.Pool != nil {
		all.addText("Pool", fmt.Sprintf("%d ready, %d in use, %d in all", t.Pool.Available, t.Pool.Claimed, t.Pool.Total))
	}
	switch {
	case strings.HasPrefix(t.Owner, "claim:"):
		all.addText("Belongs to", "all users with the same "+text.Block(strings.TrimPrefix(t.Owner, "claim:")))
	case t.Owner == "group":
		all.addText("Belongs to", "one of your groups")
	default:
		all.addText("Belongs to", "you")
	}
	if t.PerOwner == 1 {
		all.addText("How many", "one for each owner")
	}
	return all
}

// setPaused stops new instances of a template, or allows them again.
func (s *templates) setPaused(word, text string) func(*site.Request, *site.Form) (*site.Answer, error) {
	return func(r *site.Request, f *site.Form) (*site.Answer, error) {
		name := r.PathValue("namespace") + "/" + r.PathValue("name")
		if _, err := callAPI[api.Template](s.api, r, asked{method: http.MethodPost, path: "templates/" + name + "/" + word, key: f.Key}); err != nil {
			return nil, err
		}
		return &site.Answer{To: "admin/templates", Text: name + ": " + text}, nil
	}
}

// icon is the picture of a template: lines in a square of 24 by 24, or the first letter of
// its title if it names no known picture.
type icon struct{ Lines, Letter string }

func iconOf(name, title string) icon {
	if lines := iconLines[name]; lines != "" {
		return icon{Lines: lines}
	}
	i := strings.IndexFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	for _, first := range title[max(0, i):] {
		return icon{Letter: strings.ToUpper(string(first))}
	}
	return icon{}
}

// iconLines are the pictures by their names, as paths of an SVG. docs/publish/templates.md
// lists the names.
var iconLines = map[string]string{
	"bucket":     "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0 2.5 13c.3 1.1 2.6 2 5.5 2s5.2-.9 5.5-2L20 6",
	"storage":    "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0 2.5 13c.3 1.1 2.6 2 5.5 2s5.2-.9 5.5-2L20 6",
	"cloud":      "M7 19a5 5 0 0 1-.6-9.96A6.5 6.5 0 0 1 19 10.5 4.3 4.3 0 0 1 18 19z",
	"cluster":    "M12 2.5 20.5 7v10L12 21.5 3.5 17V7zM12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5V8M12 16v5.5M3.5 7l5 3M15.5 14l5 3M20.5 7l-5 3M8.5 14l-5 3",
	"kubernetes": "M12 2.5 20.5 7v10L12 21.5 3.5 17V7zM12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5V8M12 16v5.5M3.5 7l5 3M15.5 14l5 3M20.5 7l-5 3M8.5 14l-5 3",
	"code":       "M3 5h18v14H3zM7 9.5l3 2.5-3 2.5M12.5 15H17",
	"terminal":   "M3 5h18v14H3zM7 9.5l3 2.5-3 2.5M12.5 15H17",
	"database":   "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3",
	"globe":      "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c5 5 5 13 0 18M12 3c-5 5-5 13 0 18",
	"web":        "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c5 5 5 13 0 18M12 3c-5 5-5 13 0 18",
	"key":        "M5 11h14v10H5zM8 11V7.5a4 4 0 0 1 8 0V11M12 15v2.5",
	"lock":       "M5 11h14v10H5zM8 11V7.5a4 4 0 0 1 8 0V11M12 15v2.5",
	"network":    "M9 3h6v5H9zM3 16h6v5H3zM15 16h6v5h-6zM12 8v4M6 16v-4h12v4",
	"notebook":   "M6 3h13v18H6zM10 3v18M3.5 7H8M3.5 12H8M3.5 17H8",
	"queue":      "M4 4h16v4H4zM4 10h16v4H4zM4 16h16v4H4z",
	"server":     "M4 4h16v7H4zM4 13h16v7H4zM7.5 7.5h2M7.5 16.5h2M13 7.5h4M13 16.5h4",
	"user":       "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c0-4.5 3.5-7 8-7s8 2.5 8 7",
}

// kindBody is the page of a kind of the cluster, whose objects users write themselves.
type kindBody struct {
	templateCard
	Doc     api.Kind
	Lines   []site.Fact
	Explain string // command
}

// kindCard shows a kind among the templates. It cannot be launched here.
func kindCard(k api.Kind) templateCard {
	c := templateCard{
		Link: site.Link{Text: cmp.Or(text.Block(k.Title), text.Block(k.Kind)), Href: "kinds/" + site.EscapePath(k.Name)}, Name: text.Block(k.Kind), Description: text.Block(k.Description),
		Marks: []site.Mark{{Text: "kind of the cluster", Kind: "plain"}}, Facts: []string{strings.TrimSpace(text.Block(k.Module + " " + k.Version))},
	}
	if k.Invalid != "" {
		c.Marks = append(c.Marks, site.Mark{Text: "cannot be created", Kind: "bad"})
	}
	return c
}

func (s *templates) kindPage(r *site.Request) (*site.Page, error) {
	k, err := getFromAPI[api.Kind](s.api, r, "kinds/"+site.EscapePath(r.PathValue("name")), nil)
	if err != nil {
		return nil, err
	}
	body := kindBody{
		templateCard: kindCard(k), Doc: k, Explain: "kubectl explain " + k.Name + ".spec",
		Lines: []site.Fact{{Name: "Kind", Text: text.Block(k.Kind)}, {Name: "API version", Text: text.Block(k.APIVersion)}, {Name: "Module", Text: strings.TrimSpace(text.Block(k.Module + " " + k.Version))}},
	}
	if len(k.Tags) > 0 {
		body.Lines = append(body.Lines, site.Fact{Name: "Tags", Text: text.Block(strings.Join(k.Tags, ", "))})
	}
	return &site.Page{
		Template: "kind.html", Title: body.Text, Crumbs: []site.Link{{Text: "Launch", Href: "templates"}}, Command: "kubectl get " + k.Name, Body: body,
	}, nil
}
