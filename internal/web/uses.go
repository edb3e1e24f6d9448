// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/internal/web/site"
)

// Uses knows what states use. Its answers name only states that the caller may read.
type Uses interface {
	Users(ctx context.Context, g access.Grant, q usage.Query) usage.Answer
	Behind(ctx context.Context, g access.Grant) (all []usage.Outdated, complete bool)
	// MadeOf returns what the newest version of a state is made of; false: it is not recorded, or not read.
	MadeOf(ctx context.Context, g access.Grant, state, workspace string) (usage.Answer, bool)
}

// usesPages show who uses what.
type usesPages struct {
	uses   Uses
	layout addr.Layout
	hosts  site.Hosts
	clock  site.Clock
}

// usesBody is the page of the states that use something, or of what a state is made of.
type usesBody struct {
	Made, Unrecorded bool // what a state is made of, and that it has no record
	Rows             []useRow
	site.Pages
	Versions    []useCount
	First, Last site.Timestamp // oldest and newest use
	Bare, Loose int            // readable states without a record, and without a version
	Others      int            // further states, which the caller may not read
	Some        bool           // there are a few
	Partial     bool           // not all states were read
	Users       string         // how many states and instances
}

type useRow struct {
	site.Link // the state
	Uses      string
	Version   string
	Since     site.Timestamp
	By        string
	Marks     []site.Mark
}

// useCount is the number of states that use a version.
type useCount struct {
	Version string
	N, Of   int
}

func (p *usesPages) addUsesRoutes(r *site.Routes) {
	r.Show("GET /ui/used-by", site.List, p.showUsers) // each caller sees only readable states
	r.Show("GET /ui/states/{name}/{workspace}/made-of", func(r *site.Request) (rights.Right, error) {
		return rights.StateRight(p.layout, rights.Read, r.PathValue("name"), r.PathValue("workspace")), nil
	}, p.showMade)
}

func (p *usesPages) showUsers(r *site.Request) (*site.Page, error) {
	v := r.URL.Query()
	q, err := usage.ParseQuery(v.Get("address"), v.Get("kind") == addr.KindProvider)
	if err != nil {
		return nil, &service.Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	if err := r.AllowLogin(); err != nil {
		return nil, err
	}
	a := p.uses.Users(r.Context(), r.Grant, q)
	body := usesBody{Bare: a.Bare, Loose: a.Loose, Others: a.Others, Some: a.Some, Partial: !a.Complete, Users: a.CountUsers()}
	counts := map[string]int{}
	for i, u := range a.States {
		counts[u.Version]++
		if since := p.clock.When(u.Since); i == 0 || u.Since.Before(body.First.Time) {
			body.First = since
		}
		if since := p.clock.When(u.Since); u.Since.After(body.Last.Time) {
			body.Last = since
		}
	}
	for version, n := range counts {
		body.Versions = append(body.Versions, useCount{cmp.Or(version, "unknown"), n, len(a.States)})
	}
	slices.SortFunc(body.Versions, func(a, b useCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(b.Version, a.Version)) })
	p.fillUses(r, &body, a)
	at := text.Block(v.Get("address"))
	return &site.Page{Template: "uses.html", Title: "Used by", Query: q.Address(), Command: "okara used-by " + text.ShellWord(at), Crumbs: []site.Link{{Text: "Catalog"}, {Text: at}}, Body: body}, nil
}

func (p *usesPages) fillUses(r *site.Request, body *usesBody, a usage.Answer) {
	var shown []usage.UsedBy
	shown, body.Pages = site.OnePage(r, "page", a.States)
	for _, u := range shown {
		row := useRow{Link: site.Link{Text: u.State + ", " + u.Workspace, Href: "states/" + site.EscapePath(u.State+"/"+u.Workspace)}, Uses: u.Source, Version: u.Version, Since: p.clock.When(u.Since), By: u.By}
		if u.Instance != "" {
			row.Link = site.Link{Text: u.UserName(), Href: "instances/" + site.EscapePath(u.Instance)}
		}
		if u.Status != "" {
			row.Marks = append(row.Marks, site.Mark{Text: u.Status, Kind: "bad"})
		}
		if u.Newest != "" && u.Newest != u.Version {
			row.Marks = append(row.Marks, site.Mark{Text: "newer: " + u.Newest, Kind: "plain"})
		}
		body.Rows = append(body.Rows, row)
	}
}

func (p *usesPages) showMade(r *site.Request) (*site.Page, error) {
	name, workspace := r.PathValue("name"), r.PathValue("workspace")
	a, known := p.uses.MadeOf(r.Context(), r.Grant, name, workspace)
	body := usesBody{Made: true, Unrecorded: !known}
	p.fillUses(r, &body, a)
	repository, err := p.layout.StateRepo(name)
	if err != nil {
		return nil, site.NotFound("state not found")
	}
	return &site.Page{
		Template: "uses.html", Title: "Modules and providers", Command: "okara state uses " + text.ShellWord(p.hosts.RegistryOf(r)+"/"+repository) + " -w " + text.ShellWord(workspace), Body: body,
		Crumbs: []site.Link{{Text: "States", Href: "states"}, {Text: name, Href: "states/" + site.EscapePath(name)}, {Text: text.Block(workspace), Href: "states/" + site.EscapePath(name+"/"+workspace)}},
	}, nil
}

// stateLinks adds what a workspace is made of to its links.
func (p *usesPages) stateLinks(before func(*site.Request, string, string) []site.Link) func(*site.Request, string, string) []site.Link {
	return func(r *site.Request, name, workspace string) (links []site.Link) {
		if before != nil {
			links = before(r, name, workspace)
		}
		if name != "" {
			links = append(links, site.Link{Text: "Modules and providers", Href: "states/" + site.EscapePath(name+"/"+workspace) + "/made-of"})
		}
		return links
	}
}

// homeSection adds what is used although it is withdrawn to the first page of administrators.
func (p *usesPages) homeSection(before func(*site.Request) (template.HTML, error)) func(*site.Request) (template.HTML, error) {
	return func(r *site.Request) (own template.HTML, err error) {
		if before != nil {
			if own, err = before(r); err != nil {
				return own, err
			}
		}
		if !r.Grant.May(rights.Server()) {
			return own, nil
		}
		ctx, stop := context.WithTimeout(r.Context(), cache.Patience)
		defer stop()
		all, _ := p.uses.Behind(ctx, r.Grant)
		links := map[site.Link]int{}
		for _, o := range all {
			if o.Status == catalog.StatusWithdrawn {
				at := url.Values{"address": {o.Source + "@" + o.Version}, "kind": {o.Kind}}
				links[site.Link{Text: o.Source + " " + o.Version, Href: "used-by?" + at.Encode()}]++
			}
		}
		if len(links) == 0 {
			return own, nil
		}
		part, err := r.Part("uses.html", "withdrawn", site.Under{Up: site.Up(r.URL.Path), Of: links})
		return own + part, err
	}
}
