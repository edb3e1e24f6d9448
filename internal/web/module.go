// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"errors"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// moduleBody is a version of a module.
type moduleBody struct {
	Address    string
	Version    string
	Base       string // the page of this version, below Up
	Item       string // the page of the module, below Up
	Tab        string
	Tabs       []tab
	Marks      []mark
	Deprecated *notice
	Facts      []fact
	Choices    []link // other versions, releases first
	Problems   []artifact.DescribedProblem
	dirBody
	Submodules, Examples []link
	Snippets             []snippet
	Described            bool // by okara, when it was published
}

// dirBody is one directory with configuration.
type dirBody struct {
	Path         string
	Readme       template.HTML
	Contents     []heading
	Cut          bool // the readme goes on
	Inputs       inputs
	Outputs      []artifact.DescribedOutput
	Managed      []resources
	Data         []resources
	Requirements []artifact.DescribedProvider
	Tool         []string // versions of the tool that it works with
	Calls        []call
}

// tab is a part of a page with an address of its own.
type tab struct {
	link
	Count int // -1: nothing to count
	Here  bool
}

// mark is a word about a thing, and how good that is.
type mark struct{ Text, Kind string } // good, bad, plain

// notice is what whoever published wants to be known.
type notice struct {
	Message     string
	Replacement link
}

// fact is one line about a thing.
type fact struct {
	Name, Text, Href string
	Time             time.Time
	Digest           string
}

// resources are those of one type.
type resources struct {
	Type  string
	Names []string
}

// call is a module block.
type call struct {
	artifact.DescribedCall
	Href string // of the module, if it is here and the caller may read it
}

// moduleIn reads the address of a module, and asks for the right to it.
func (s *server) moduleIn(r *request) (addr.Module, error) {
	m, err := addr.ParseModule(r.PathValue("namespace") + "/" + r.PathValue("name") + "/" + r.PathValue("system"))
	if refused := s.may(r, access.Right{Action: access.Read, Kind: addr.KindModule, Address: m.String()}); refused != nil {
		return m, refused
	}
	if err != nil {
		return m, notFound("%v", err)
	}
	return m, nil
}

// versionIn finds the version that a path names, or the latest.
func (s *server) versionIn(r *request, m addr.Module) (l *catalog.Versions, v addr.Version, mv *catalog.ModuleVersion, err error) {
	if text := r.PathValue("version"); text != "" {
		if v, err = addr.ParseVersion(text); err != nil {
			return nil, v, nil, notFound("%v", err)
		}
		if l, err = s.o.Catalog.Module(r.Context(), m); err == nil {
			mv, err = s.o.Catalog.ModuleVersion(r.Context(), m, v)
		}
	} else {
		l, v, mv, err = s.o.Catalog.LatestModule(r.Context(), m)
	}
	return l, v, mv, gone(err, "module", m.String())
}

// gone is the answer to what is not to be had.
func gone(err error, kind, what string) error {
	if no, ok := errors.AsType[*catalog.RefusedError](err); ok {
		return notFound("%s %s: %v", kind, what, no)
	}
	if errors.Is(err, oci.ErrNotFound) {
		return notFound("there is no %s %s, or not this version of it", kind, what)
	}
	return err
}

func (s *server) module(r *request) (*page, error) {
	m, err := s.moduleIn(r)
	if err != nil {
		return nil, err
	}
	l, v, mv, err := s.versionIn(r, m)
	if err != nil {
		return nil, err
	}
	d, err := s.o.Catalog.Description(r.Context(), mv)
	if err != nil {
		return nil, err
	}
	body := s.newModule(r, m, v, l, mv, d)
	body.Tab = cmp.Or(r.PathValue("tab"), "readme")
	if !slices.ContainsFunc(body.Tabs, func(t tab) bool { return strings.HasSuffix("/"+t.Href, "/"+body.Tab) || body.Tab == "readme" }) {
		return nil, notFound("a module has no page %q", body.Tab)
	}
	for i := range body.Tabs {
		body.Tabs[i].Here = body.Tabs[i].Text == tabText(body.Tab)
	}
	if body.Tab == "readme" {
		s.read(&body.dirBody, d.Root)
	}
	return &page{
		Template: "module.html", Title: m.String(), Body: body,
		Crumbs:  []link{{"Catalog", ""}, {m.Namespace, "modules/" + m.Namespace}},
		Command: "okara show " + m.String() + "@" + v.String(),
	}, nil
}

func tabText(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// newModule is what all pages of a version show.
func (s *server) newModule(r *request, m addr.Module, v addr.Version, l *catalog.Versions, mv *catalog.ModuleVersion, d artifact.ModuleDescription) moduleBody {
	item := itemPath(m.Item())
	b := moduleBody{
		Address: m.String(), Version: v.String(), Item: item, Base: item + "/" + escapePath(v.String()), Problems: d.Diagnostics,
		dirBody: s.newDir(r, d.Root), Described: mv.Description != nil, Snippets: s.moduleSnippets(r, m, v, mv),
	}
	b.Inputs.Block = block(m.Name, s.host(r)+"/"+m.String(), constraint(v), b.Inputs.Required)
	b.Facts = facts(mv.Annotations, mv.Manifest.Digest.String(), mv.Zip.Size)
	if d.License != nil {
		b.Facts = append(b.Facts, fact{Name: "Licence", Text: cmp.Or(d.License.SPDX, d.License.Path)})
	}
	b.Deprecated = s.deprecation(l, v)
	if b.Deprecated != nil {
		b.Marks = append(b.Marks, mark{"deprecated", "bad"})
	}
	if v.Prerelease() {
		b.Marks = append(b.Marks, mark{"pre-release", "plain"})
	}
	b.Choices = choices(l, item)
	for _, sub := range d.Submodules {
		b.Submodules = append(b.Submodules, link{sub.Path, b.Base + "/submodules/" + escapePath(sub.Path)})
	}
	for _, e := range d.Examples {
		b.Examples = append(b.Examples, link{e.Path, b.Base + "/examples/" + escapePath(e.Path)})
	}
	n := d.Root
	add := func(name string, count int) {
		href := b.Base + "/" + name
		if name == "readme" {
			href = b.Base
		}
		b.Tabs = append(b.Tabs, tab{link: link{tabText(name), href}, Count: count})
	}
	add("readme", -1)
	add("inputs", len(n.InputOrder))
	add("outputs", len(n.Outputs))
	add("resources", len(n.Resources))
	add("dependencies", len(n.RequiredProviders)+len(n.ModuleCalls))
	add("usage", -1)
	return b
}

// facts are what the manifest of a version says.
func facts(annotations map[string]string, digest string, size int64) []fact {
	var all []fact
	if at, err := time.Parse(time.RFC3339, annotations[artifact.AnnCreated]); err == nil {
		all = append(all, fact{Name: "Published", Time: at})
	}
	if src := annotations[artifact.AnnSource]; src != "" {
		f := fact{Name: "Source", Text: strings.TrimPrefix(strings.TrimPrefix(src, "https://"), "http://")}
		if strings.HasPrefix(src, "https://") || strings.HasPrefix(src, "http://") {
			f.Href = src
		}
		all = append(all, f)
	}
	if rev := annotations[artifact.AnnRevision]; rev != "" {
		all = append(all, fact{Name: "Revision", Digest: rev})
	}
	all = append(all, fact{Name: "Digest", Digest: digest})
	if size > 0 {
		all = append(all, fact{Name: "Archive", Text: sizeText(size)})
	}
	return all
}

// deprecation is what the status of a version says, nil if nothing.
func (s *server) deprecation(l *catalog.Versions, v addr.Version) *notice {
	e := l.Status(v).Deprecated
	if e == nil {
		return nil
	}
	n := &notice{Message: e.Message}
	if it, err := addr.ParseItem(e.Replacement); err == nil {
		n.Replacement = link{e.Replacement, itemPath(it)}
	} else {
		n.Replacement.Text = e.Replacement
	}
	return n
}

// choices are the versions to choose from: releases, then pre-releases, then
// editions, each highest first.
func choices(l *catalog.Versions, item string) []link {
	var by [3][]link
	for _, v := range l.Listed {
		kind := 0
		switch {
		case v.Edition():
			kind = 2
		case v.Prerelease():
			kind = 1
		}
		if len(by[kind]) < rowsPerPage {
			by[kind] = append(by[kind], link{v.String(), item + "/" + escapePath(v.String())})
		}
	}
	return slices.Concat(by[0], by[1], by[2])
}

// newDir is what a description says of a directory.
func (s *server) newDir(r *request, d artifact.DescribedModule) dirBody {
	b := dirBody{Path: d.Path, Inputs: newInputs(d), Outputs: d.Outputs, Requirements: d.RequiredProviders, Tool: d.RequiredVersion}
	types := map[[2]string]*resources{}
	var order [][2]string
	for _, res := range d.Resources {
		key := [2]string{res.Mode, res.Type}
		if types[key] == nil {
			types[key] = &resources{Type: res.Type}
			order = append(order, key)
		}
		types[key].Names = append(types[key].Names, res.Name)
	}
	for _, key := range order {
		if key[0] == "data" {
			b.Data = append(b.Data, *types[key])
		} else {
			b.Managed = append(b.Managed, *types[key])
		}
	}
	for _, c := range d.ModuleCalls {
		b.Calls = append(b.Calls, call{c, s.callPath(r, c.Source)})
	}
	return b
}

// callPath is the page of a module that another one calls: "" if it is not of
// this server, or not the caller's to read.
func (s *server) callPath(r *request, source string) string {
	address, ok := strings.CutPrefix(source, s.host(r)+"/")
	if !ok {
		return ""
	}
	address, _, _ = strings.Cut(address, "//")
	m, err := addr.ParseModule(address)
	if err != nil || !r.readable(m.Item()) {
		return ""
	}
	return itemPath(m.Item())
}

// read renders the readme of a directory.
func (s *server) read(b *dirBody, d artifact.DescribedModule) {
	if d.Readme == nil || d.Readme.Text == "" {
		return
	}
	doc := s.markdown.render(d.Readme.Text)
	b.Readme, b.Contents, b.Cut = doc.html, doc.headings, d.Readme.Truncated || doc.cut
}

func (s *server) submodule(r *request) (*page, error) {
	m, err := s.moduleIn(r)
	if err != nil {
		return nil, err
	}
	l, v, mv, err := s.versionIn(r, m)
	if err != nil {
		return nil, err
	}
	d, err := s.o.Catalog.Description(r.Context(), mv)
	if err != nil {
		return nil, err
	}
	path := r.PathValue("path")
	all := slices.Concat(d.Submodules, d.Examples)
	i := slices.IndexFunc(all, func(d artifact.DescribedModule) bool { return d.Path == path })
	if i < 0 {
		return nil, notFound("module %s %s has no directory %q with configuration", m, v, path)
	}
	body := s.newModule(r, m, v, l, mv, d)
	body.dirBody = s.newDir(r, all[i])
	s.read(&body.dirBody, all[i])
	return &page{
		Template: "submodule.html", Title: path, Body: body,
		Crumbs:  []link{{"Catalog", ""}, {m.Namespace, "modules/" + m.Namespace}, {m.String() + " " + v.String(), body.Base}},
		Command: "okara show " + m.String() + "@" + v.String(),
	}, nil
}

// versionsBody are the versions of a module or provider.
type versionsBody struct {
	Address string
	Rows    []versionRow
	More    int
	Compare string // page that compares two, "" for none
	Listed  []string
}

type versionRow struct {
	link
	Marks      []mark
	Deprecated *notice
}

// newVersions lists what is to be had, highest first.
func (s *server) newVersions(l *catalog.Versions, it addr.Item) versionsBody {
	body := versionsBody{Address: it.String()}
	latest, _ := l.Latest()
	for _, v := range l.Listed {
		if len(body.Rows) == rowsPerPage {
			body.More = len(l.Listed) - rowsPerPage
			break
		}
		row := versionRow{link: link{v.String(), itemPath(it) + "/" + escapePath(v.String())}, Deprecated: s.deprecation(l, v)}
		if v == latest {
			row.Marks = append(row.Marks, mark{"latest", "good"})
		}
		if v.Prerelease() {
			row.Marks = append(row.Marks, mark{"pre-release", "plain"})
		}
		if v.Edition() {
			row.Marks = append(row.Marks, mark{"edition", "plain"})
		}
		if row.Deprecated != nil {
			row.Marks = append(row.Marks, mark{"deprecated", "bad"})
		}
		body.Rows, body.Listed = append(body.Rows, row), append(body.Listed, v.String())
	}
	return body
}

func (s *server) moduleVersions(r *request) (*page, error) {
	m, err := s.moduleIn(r)
	if err != nil {
		return nil, err
	}
	l, err := s.o.Catalog.Module(r.Context(), m)
	if err != nil {
		return nil, gone(err, "module", m.String())
	}
	body := s.newVersions(l, m.Item())
	body.Compare = itemPath(m.Item()) + "/compare"
	return &page{
		Template: "versions.html", Title: "Versions of " + m.String(), Body: body,
		Crumbs:  []link{{"Catalog", ""}, {m.Namespace, "modules/" + m.Namespace}, {m.String(), itemPath(m.Item())}},
		Command: "okara list " + m.String(),
	}, nil
}
