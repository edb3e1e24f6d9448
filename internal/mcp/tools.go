// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// allTools returns the tools, as they are listed.
func allTools() []tool {
	return []tool{
		newTool("search", "Search", "Find modules, providers, templates and pages of provider documentation by name, description, input or resource type. Start here.", searchItems),
		newTool("module", "Module", "How to call a module: source line and block, inputs with types and defaults, outputs, submodules, sections of its README. With filter also descriptions and validation of inputs; with section the text of the README.", showModule),
		newTool("versions", "Versions", "Versions of a module or provider: the newest, the one that a constraint selects, which are deprecated or withdrawn, why, and what to use instead.", showVersions),
		newTool("provider_docs", "Provider documentation", "One page of the documentation of a provider, by name as aws_vpc or data.aws_vpc, or the list of its pages.", showDocs),
		newTool("compare", "Compare versions", "What changed between two versions of a module: what breaks callers, what may break them, what is new.", compareVersions),
		newTool("used_by", "Used by", "Which states use a module or provider, in which version, since when: who is affected by a change or a vulnerability.", showUsers),
		newTool("outdated", "Outdated", "States that use a version that is behind the newest, deprecated, withdrawn or flagged by a scan, with the first version that is not.", showOutdated),
	}
}

type searchIn struct {
	Query string `json:"query" desc:"words; all must match"`
	Kind  string `json:"kind,omitempty" desc:"module, provider, mirror or template"`
	Page  int    `json:"page,omitempty"`
}

type searchOut struct {
	Total   int              `json:"total"`
	Results []searchResult   `json:"results"`
	Docs    []search.DocPage `json:"docs,omitempty" desc:"pages for provider_docs"`
	Near    []string         `json:"near,omitempty" desc:"similar addresses, if nothing was found"`
	Partial bool             `json:"partial,omitempty" desc:"the catalog is still being read"`
	paged
}

type searchResult struct {
	Kind        string `json:"kind"`
	Address     string `json:"address"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	Why         string `json:"why,omitempty" desc:"where it matches, if not there"`
	Scan        string `json:"scan,omitempty" desc:"worst finding of the newest scan, or clean"`
	Signed      bool   `json:"signed,omitempty"`
	Deprecated  bool   `json:"deprecated,omitempty"`
}

// leastOfPage is how many results always fit into a page.
const leastOfPage = 5

func searchItems(ctx context.Context, s Source, in searchIn) (out searchOut, err error) {
	q := url.Values{"q": {in.Query}, "kind": {in.Kind}}
	if _, err := search.ParseQuery(q); err != nil {
		return out, &wrongError{err.Error()}
	}
	all := []searchResult{}
	for n := 1; ; n++ { // until there is one page more than is asked for
		q.Set("page", strconv.Itoa(n))
		found, err := s.Find(ctx, q)
		if err != nil {
			return out, err
		}
		if n == 1 {
			out = searchOut{Total: found.Total, Docs: found.Docs, Near: addressesOf(found.Near), Partial: !found.Complete}
		}
		for _, e := range found.Results {
			all = append(all, searchResult{e.Kind, e.Address, e.Version, cleanLine(e.Description, 200), cleanLine(e.Why, 100), e.Scan, e.Signed, e.Deprecated})
		}
		last := len(found.Results) == 0 || len(all) >= found.Total || n == search.MaxPage
		if !last && len(all) < leastOfPage*in.Page {
			continue
		}
		part, at, err := fitPage(out, all, in.Page)
		if last || at.Pages > at.Page {
			out.Results, out.paged = part, at
			return out, err
		}
	}
}

type versionsIn struct {
	Address string `json:"address" desc:"of a module or provider, with @VERSION or @CONSTRAINT: acme/eks/aws@~> 20.0"`
	Page    int    `json:"page,omitempty"`
}

type versionsOut struct {
	Address  string          `json:"address"`
	Kind     string          `json:"kind"`
	Newest   string          `json:"newest,omitempty" desc:"the release to use; none if all are withdrawn"`
	Selected string          `json:"selected,omitempty" desc:"the highest served version that the constraint allows, or the exact one"`
	Status   string          `json:"status,omitempty" desc:"of the selected version, or why none is selected"`
	Versions []listedVersion `json:"versions" desc:"those that the constraint allows, highest first"`
	paged
}

type listedVersion struct {
	Version   string `json:"version"`
	Published string `json:"published,omitempty"`
	Status    string `json:"status,omitempty" desc:"deprecated or withdrawn, why, what to use instead"`
}

func showVersions(ctx context.Context, s Source, in versionsIn) (out versionsOut, err error) {
	c, err := findItem(ctx, s, in.Address, "")
	if err != nil {
		return out, err
	}
	out = versionsOut{Address: c.Item.String(), Kind: c.Kind, Newest: c.newest}
	if c.Versions != "" {
		if v, err := c.chooseVersion(c.Versions); err == nil {
			out.Selected = v.String()
			out.Status = cmp.Or(cleanLine(c.list.Status(v).Text(), 600), "neither deprecated nor withdrawn")
		} else {
			out.Status = text.Excerpt(err.Error())
		}
	}
	all := []listedVersion{}
	for _, v := range c.list.Versions {
		if c.Selects(v) {
			one := listedVersion{Version: v.String(), Status: cleanLine(c.list.Status(v).Text(), 600)}
			if at := c.list.Published(v, nil); !at.IsZero() {
				one.Published = at.UTC().Format("2006-01-02")
			}
			all = append(all, one)
		}
	}
	out.Versions, out.paged, err = fitPage(out, all, in.Page)
	return out, err
}

type compareIn struct {
	Address string `json:"address" desc:"NAMESPACE/NAME/SYSTEM"`
	From    string `json:"from,omitempty" desc:"version or constraint; without it the release before to"`
	To      string `json:"to,omitempty" desc:"the same; without it the newest release"`
	Page    int    `json:"page,omitempty"`
}

type compareOut struct {
	Address     string                   `json:"address"`
	From        string                   `json:"from"`
	To          string                   `json:"to"`
	Breaks      int                      `json:"breaks" desc:"differences that break callers"`
	MayBreak    int                      `json:"may_break"`
	Differences []description.Difference `json:"differences" desc:"worst first"`
	paged
}

func compareVersions(ctx context.Context, s Source, in compareIn) (out compareOut, err error) {
	c, err := findItem(ctx, s, in.Address, addr.KindModule)
	if err != nil {
		return out, err
	}
	out.Address = c.Item.String()
	to, err := c.chooseVersion(in.To)
	if err != nil {
		return out, err
	}
	from, ok := c.served.Highest(func(v addr.Version) bool { return v.Compare(to) < 0 && !v.Prerelease() })
	if in.From != "" {
		from, err = c.chooseVersion(in.From)
	} else if !ok {
		err = &wrongError{"no release before " + to.String()}
	}
	if err != nil {
		return out, err
	}
	var sides [2]artifact.ModuleDescription
	for i, v := range []addr.Version{from, to} {
		if sides[i], _, _, err = describeModule(ctx, s, c.Module, v); err != nil {
			return out, err
		}
	}
	out.From = from.String()
	out.To = to.String()
	all := []description.Difference{}
	for _, d := range description.Compare(sides[0], sides[1]) {
		switch d.Effect {
		case description.Breaks:
			out.Breaks++
		case description.MayBreak:
			out.MayBreak++
		}
		d.Name = cleanLine(d.Name, 150)
		d.Detail = cleanLine(d.Detail, 300)
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b description.Difference) int {
		return slices.Index(description.Effects(), a.Effect) - slices.Index(description.Effects(), b.Effect)
	})
	out.Differences, out.paged, err = fitPage(out, all, in.Page)
	return out, err
}

type docsIn struct {
	Name    string `json:"name,omitempty" desc:"of a resource, data.NAME of a data source, or the path of a page as guides/upgrade; without it pages are listed"`
	Address string `json:"address,omitempty" desc:"NAMESPACE/TYPE or HOST/NAMESPACE/TYPE of the provider, with @VERSION or @CONSTRAINT; without it the one that has the page"`
	Filter  string `json:"filter,omitempty" desc:"words in the names of listed pages"`
	Section string `json:"section,omitempty" desc:"words of a heading, such as Argument Reference"`
	Page    int    `json:"page,omitempty"`
}

type docsOut struct {
	Address    string   `json:"address"`
	Version    string   `json:"version"`
	Status     string   `json:"status,omitempty" desc:"deprecated or withdrawn, why, what to use instead"`
	Source     string   `json:"source" desc:"for required_providers"`
	Constraint string   `json:"constraint,omitempty" desc:"the same, for version"`
	Name       string   `json:"name,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Sections   []string `json:"sections,omitempty"`
	Text       string   `json:"text,omitempty"`
	List       []string `json:"list,omitempty" desc:"names of pages"`
	paged
}

func showDocs(ctx context.Context, s Source, in docsIn) (out docsOut, err error) {
	plain := strings.TrimPrefix(in.Name, "data.")
	if in.Address == "" {
		q := url.Values{"q": {plain}}
		if _, err := search.ParseQuery(q); err != nil || plain == "" {
			return out, &wrongError{"name a page, such as aws_vpc, or the address of a provider"}
		}
		found, err := s.Find(ctx, q)
		if err != nil {
			return out, err
		}
		if len(found.Docs) == 0 {
			return out, &wrongError{"no provider has a page " + text.Excerpt(plain) + "; set address to list the pages of a provider"}
		}
		in.Address = found.Docs[0].Provider
		in.Name = strings.TrimSuffix(in.Name, plain) + found.Docs[0].Name
	}
	c, err := findItem(ctx, s, in.Address, addr.KindProvider)
	if err != nil {
		return out, err
	}
	v, err := c.chooseVersion(c.Versions)
	if err != nil {
		return out, err
	}
	from, err := s.Open(ctx, c.Item, v)
	if err != nil {
		return out, err
	}
	docs, err := catalog.ReadDocs(ctx, from, c.Provider, v)
	if err != nil {
		return out, err
	}
	if docs == nil || len(docs.Pages) == 0 {
		return out, &wrongError{c.Item.String() + " " + v.String() + " was published without documentation"}
	}
	out = docsOut{Address: c.Item.String(), Version: v.String(), Status: cleanLine(c.list.Status(v).Text(), 600)}
	out.Source, out.Constraint = s.sourceOf(from.Layout(), c.Item, v, "")
	names, p := findPage(docs, c.Provider.Type, in.Name, in.Filter)
	switch {
	case in.Name == "":
		out.List, out.paged, err = fitPage(out, names, in.Page)
		return out, err
	case p == nil:
		return out, &wrongError{"the documentation has no page " + text.Excerpt(in.Name) + "; similar names: " + strings.Join(boundNames(names, maxLine), ", ")}
	}
	out.Name = cleanLine(p.Name(c.Provider.Type), 150)
	out.Kind = string(p.Kind)
	titles, lines, err := chooseSection(p.Text, in.Section)
	if err != nil {
		return out, err
	}
	out.Sections = titles
	lines, out.paged, err = fitPage(out, lines, in.Page)
	out.Text = strings.Join(lines, "\n")
	return out, err
}

// findPage returns the page of a path or name, nil if there is none, and the names of pages that
// have the filter, or share the beginning of a word with the name.
func findPage(docs *description.Docs, typ, name, filter string) (names []string, found *description.Page) {
	plain, isData := strings.CutPrefix(name, "data.")
	words := strings.FieldsFunc(strings.TrimPrefix(plain, typ+"_"), search.IsBreak)
	for i, p := range docs.Pages {
		as := p.Name(typ)
		isNamed := (as == plain || as == typ+"_"+plain) && (p.Kind == description.Data || !isData)
		if found == nil && (isNamed || p.Path == name) {
			found = &docs.Pages[i]
		}
		shares := func(w string) bool { return strings.Contains(as, w[:min(3, len(w))]) }
		if strings.Contains(as, filter) && (name == "" || slices.ContainsFunc(words, shares)) {
			if p.Kind == description.Data {
				as = "data." + as
			}
			names = append(names, cleanLine(as, 150))
		}
	}
	return names, found
}
