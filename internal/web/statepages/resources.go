// SPDX-License-Identifier: Apache-2.0

package statepages

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// maxAttributes bounds the values of one resource on a page.
const maxAttributes = 500

// resourcesBody is the page of the resources of a version, or of the values of one.
type resourcesBody struct {
	site.Pages
	Name, Workspace string
	N               int64
	Tabs            []site.Tab
	Why             string
	Query           string // part of the address
	Rows            []resourceRow
	One             *resourceBody
	All             string // page of all resources, below Up
}

type resourceRow struct {
	site.Link
	Provider string
	Values   int
}

type resourceBody struct {
	Address string
	Facts   []site.Fact
	Values  []valueRow
	More    int // values that are not shown
}

// valueRow is one value. A masked one has no text.
type valueRow struct {
	Path, Text string
	Cut        bool   // the text is cut
	ShowURL    string // page that shows a masked value, below Up; "": not masked
}

// resources lists the resources of a version, or shows the values of one.
func (s *versions) resources(r *site.Request) (*site.Page, error) {
	p, err := s.versionAt(r)
	if err != nil {
		return nil, err
	}
	d, err := s.readStateView(r, p, p.n)
	if err != nil {
		return nil, noState(err, p.name)
	}
	body := resourcesBody{
		Name: p.name, Workspace: text.Block(p.workspace), N: p.n, Tabs: versionTabs(p, d, "resources"), Why: d.Why,
		Query: site.Clip(r.URL.Query().Get("q")), All: p.versionPath("resources"),
	}
	pg := &site.Page{
		Template: "state_resources.html", Title: "Resources", Command: p.stateCommand("pull", fmt.Sprint(p.n)),
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: p.name, Href: statePath(p.name)}, {Text: body.Workspace, Href: p.workspacePath()}, {Text: fmt.Sprintf("Version %d", p.n), Href: p.versionPath()}},
	}
	switch address := r.URL.Query().Get("address"); {
	case d.Document == nil:
	case address != "":
		if body.One = oneResource(p, d, address); body.One == nil {
			return nil, site.NotFound("version %d has no resource %s", p.n, site.Clip(text.Block(address)))
		}
		pg.Title = body.One.Address
		pg.Crumbs = append(pg.Crumbs, site.Link{Text: "Resources", Href: body.All})
	default:
		body.fillResources(r, p, d)
	}
	pg.Body = body
	return pg, nil
}

// fillResources adds the rows of this page, of the resources whose address contains the query.
func (b *resourcesBody) fillResources(r *site.Request, p versionRef, d *states.VersionView) {
	var found []states.Resource
	for _, res := range d.Resources() {
		if res.Mode != states.ModeOutput && strings.Contains(res.Address, b.Query) {
			found = append(found, res)
		}
	}
	found, b.Pages = site.OnePage(r, "page", found)
	for _, res := range found {
		values, _ := d.Values(res.Address)
		b.Rows = append(b.Rows, resourceRow{site.Link{Text: site.Clip(text.Block(res.Address)), Href: b.All + "?address=" + url.QueryEscape(res.Address)}, providerName(res.Provider), len(values)})
	}
}

// providerName returns the provider's address from the notation of the tools.
func providerName(written string) string {
	if _, rest, ok := strings.Cut(written, `provider["`); ok {
		written, _, _ = strings.Cut(rest, `"]`)
	}
	return site.Clip(text.Block(written))
}

// oneResource returns the values of a resource or an output; nil if it does not exist.
func oneResource(p versionRef, d *states.VersionView, address string) *resourceBody {
	values, ok := d.Values(address)
	if !ok {
		return nil
	}
	b := &resourceBody{Address: site.Clip(text.Block(address))}
	for _, res := range d.Resources() {
		if res.Address == address && res.Mode != states.ModeOutput {
			b.Facts = []site.Fact{{Name: "Type", Text: site.Clip(text.Block(res.Type))}, {Name: "Provider", Text: providerName(res.Provider)}}
			if res.Module != "" {
				b.Facts = append(b.Facts, site.Fact{Name: "Module", Text: site.Clip(text.Block(res.Module))})
			}
		}
	}
	b.More = max(0, len(values)-maxAttributes)
	for _, v := range values[:len(values)-b.More] {
		b.Values = append(b.Values, newValue(p, address, v))
	}
	return b
}

// outputRow returns the row of an output: its value, or all its values on lines.
func outputRow(p versionRef, d *states.VersionView, res states.Resource) valueRow {
	values, _ := d.Values(res.Address)
	if len(values) == 1 && values[0].Path == "value" {
		row := newValue(p, res.Address, values[0])
		row.Path = site.Clip(text.Block(res.Name))
		return row
	}
	lines := make([]string, 0, len(values))
	row := valueRow{Path: site.Clip(text.Block(res.Name))}
	for _, v := range values {
		one := newValue(p, res.Address, v)
		if one.ShowURL != "" { // an output that is partly masked links to the page of all its values
			row.ShowURL = p.versionPath("resources") + "?address=" + url.QueryEscape(res.Address)
			one.Text = "(sensitive)"
		}
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(one.Path, "value"), ".")+" = "+one.Text)
	}
	row.Text, row.Cut = cutValue(strings.Join(lines, "\n"))
	if row.ShowURL != "" {
		row.Text = ""
	}
	return row
}

func newValue(p versionRef, address string, v states.Value) valueRow {
	row := valueRow{Path: site.Clip(text.Block(v.Path))}
	if v.Sensitive {
		q := url.Values{"address": {address}, "path": {v.Path}}
		row.ShowURL = p.versionPath("reveal") + "?" + q.Encode()
		return row
	}
	row.Text, row.Cut = cutValue(valueText(v.JSON))
	return row
}

// valueText returns a value in readable form: a text of several lines as such, all other
// values as JSON.
func valueText(raw json.RawMessage) string {
	var words string
	if json.Unmarshal(raw, &words) != nil {
		return text.Block(string(raw))
	}
	if words = text.Block(words); strings.Contains(words, "\n") {
		return words
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the template escapes
	if enc.Encode(words) != nil {
		return words
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cutValue cuts a value that is too long for a page.
func cutValue(words string) (string, bool) {
	return text.Clip(words, states.MaxValue), len(words) > states.MaxValue
}
