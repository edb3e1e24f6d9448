// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// pendingBody shows what waits for approval, with everything that an approval covers.
type pendingBody struct {
	Doc     *api.Pending
	What    string
	Facts   facts
	Values  []site.ValueChange
	First   bool       // nothing ran before, so that all values are new
	Compare *site.Link // the two versions of the module side by side; nil: same version

	Modules  bool // there are two versions of the module
	Breaking int  // of the changes between them
}

func wantedWords(what string) string {
	words := map[string]string{api.PendingPlan: "the plan of a run", api.PendingUpdate: "an update", api.PendingExtend: "an extension"}
	return cmp.Or(words[what], "a launch")
}

func pendingOf(i api.Instance, now site.Clock) *pendingBody {
	p := i.Pending
	b := &pendingBody{Doc: p, What: wantedWords(p.What), First: p.Was == nil}
	add := func(name, words string) { b.Facts.addText(name, text.Block(words)) }
	add("Requested", b.What)
	add("By", askedBy(p))
	if p.First != nil {
		add("First requested by", personName(p.First))
	}
	b.Facts.addTime("When", now.When(p.At))
	add("Reason", p.Reason)
	if u := i.Run; u != nil && u.N == p.Run {
		b.Facts.addNotes(u.Notes)
		add("Costs", u.Cost.String())
	}
	add("Owner", ownerName(i.Owner))
	add("Template", i.Template)
	if p.TemplateWas != "" && p.TemplateWas != p.Template {
		add("Template changes", p.TemplateWas+" → "+p.Template)
	}
	if p.TTL > 0 {
		add("Lifetime", site.Span(time.Duration(p.TTL)))
	} else if p.What == api.PendingLaunch {
		add("Lifetime", "no end")
	}
	if !p.Until.IsZero() {
		at := now()
		add("Ends", hourOf(p.Ends, at)+" → "+hourOf(p.Until, at))
	}
	b.addSources(p)
	for _, v := range p.Values {
		b.Values = append(b.Values, valueChangeOf(v))
	}
	return b
}

// addSources adds version and digest of the module before and after the change.
func (b *pendingBody) addSources(p *api.Pending) {
	is := p.Source
	b.Facts = append(b.Facts, site.Fact{Name: "Module", Text: text.Block(strings.TrimSpace(is.Module + " " + is.Version))}, site.Fact{Name: "Digest", Digest: is.Digest})
	was := p.Was
	if was == nil || was.Digest == is.Digest {
		return
	}
	b.Modules = true
	for _, c := range p.Changes {
		if c.Breaking {
			b.Breaking++
		}
	}
	b.Facts = append(b.Facts, site.Fact{Name: "Current module", Text: text.Block(strings.TrimSpace(was.Module + " " + was.Version))}, site.Fact{Name: "Current digest", Digest: was.Digest})
	if was.Module == is.Module && is.Module != "" {
		q := url.Values{"from": {was.Version}, "to": {is.Version}}
		b.Compare = &site.Link{Text: "Compare version " + text.Block(was.Version) + " with " + text.Block(is.Version), Href: "modules/" + site.EscapePath(is.Module) + "/compare?" + q.Encode()}
	}
}

func askedBy(p *api.Pending) string {
	if p.By == nil {
		return "the server, automatically"
	}
	return personName(p.By)
}

func valueChangeOf(v api.ValueChange) site.ValueChange {
	row := site.ValueChange{Name: text.Block(v.Name), None: [2]bool{v.Old == nil, v.New == nil}, Changed: v.Changed}
	show := func(raw json.RawMessage) string {
		var words string
		if json.Unmarshal(raw, &words) != nil {
			return text.Block(site.Indented(raw))
		}
		row.Masked = row.Masked || words == api.Masked
		return text.Block(words)
	}
	if v.Old != nil {
		row.Old = show(v.Old)
	}
	if v.New != nil {
		row.New = show(v.New)
	}
	return row
}

// ownBody is the part of the first page that is about instances.
type ownBody struct {
	Awaiting   []approvalRow // the newest
	Approvals  int
	Launchable []templateCard // the first that the caller may launch
	Templates  int
	Rows       []instanceRow // the newest live ones of the caller and the caller's groups
	Total      int
	Offered    []offeredRow // the first
}

// ownShown is the maximum length of each list on the first page.
const ownShown = 6

// firstPage renders the part of the first page that is about instances. It uses only what
// this replica knows, so that the first page does not wait for a leader. Refused parts are
// left out; their own pages give the reason.
func (s *instances) firstPage(r *site.Request) (template.HTML, error) {
	if s.api.mine == nil || !hasInstanceRights(r) {
		return "", nil
	}
	var b ownBody
	if mayInstances(r, rights.Approve) {
		doc, _ := readKnown[api.Instances](s.api, r, "instances", url.Values{"phase": {"approvable"}})
		b.Approvals = doc.Count
		for _, i := range doc.Instances {
			b.Awaiting = append(b.Awaiting, approvalRowOf(i, s.clock))
		}
	}
	if mayInstances(r, rights.Use) {
		doc, _ := readKnown[api.Templates](s.api, r, "templates", url.Values{"use": {"yes"}})
		b.Templates = doc.Count
		for _, t := range doc.Templates {
			b.Launchable = append(b.Launchable, cardOf(t))
		}
	}
	offers, _ := readKnown[api.Instances](s.api, r, "instances", url.Values{"owner": {"offered"}})
	b.Offered = offeredRows(offers, s.clock())
	doc, _ := readKnown[api.Instances](s.api, r, "instances", url.Values{"owner": {"mine"}, "phase": {"live"}})
	b.Total = doc.Count
	for _, i := range doc.Instances {
		b.Rows = append(b.Rows, instanceRowOf(i, s.clock()))
	}
	return r.Part("instances.html", "own", site.Under{Up: site.Up(r.URL.Path), Of: b})
}

// readKnown reads the beginning of a list, as this replica knows it.
func readKnown[T any](s *backend, r *site.Request, path string, q url.Values) (T, error) {
	q.Set("limit", strconv.Itoa(ownShown))
	return callAPI[T](s, r, asked{method: http.MethodGet, path: path, query: q, mine: true})
}

// findTemplates returns the templates that the caller may see, as this replica knows them,
// which have all words of a text.
func (s *templates) findTemplates(r *site.Request, words string) (all []site.Found) {
	if s.api.mine == nil || !hasInstanceRights(r) {
		return nil
	}
	doc, err := callAPI[api.Templates](s.api, r, asked{method: http.MethodGet, path: "templates", query: url.Values{"limit": {"500"}}, mine: true})
	if err != nil {
		return nil // their own page gives the reason
	}
	for _, t := range doc.Templates {
		has := strings.ToLower(strings.Join([]string{t.Name, t.Title, t.Description, t.Module}, " "))
		lacks := func(word string) bool { return !strings.Contains(has, strings.TrimSuffix(word, "s")) }
		if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), lacks) {
			all = append(all, site.Found{Link: cardOf(t).Link, Name: t.Name, Description: text.Block(t.Description)})
		}
	}
	return all
}

// relatedTemplates returns the templates of a module that the caller may see, as this replica knows
// them, and the page that launches one.
func (s *templates) relatedTemplates(r *site.Request, m addr.Module) site.Related {
	var all site.Related
	if s.api.mine == nil || !hasInstanceRights(r) {
		return all
	}
	q := url.Values{"module": {m.String()}, "limit": {strconv.Itoa(site.RowsPerPage)}}
	doc, err := callAPI[api.Templates](s.api, r, asked{method: http.MethodGet, path: "templates", query: q, mine: true})
	if err != nil {
		return all // their own page gives the reason
	}
	for _, t := range doc.Templates {
		card := cardOf(t)
		all.Templates = append(all.Templates, card.Link)
		switch {
		case card.Launch == "":
		case all.Launch == "":
			all.Launch = card.Launch
		default:
			all.Launch = "templates?use=yes&module=" + url.QueryEscape(m.String())
		}
	}
	return all
}
