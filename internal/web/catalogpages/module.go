// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"errors"
	"html/template"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// moduleBody is the page of a version of a module.
type moduleBody struct {
	versionBody
	dirBody
	Problems             []artifact.DescribedProblem
	Submodules, Examples []site.Link
	Described            bool // by okara, at publication
	Requirements         []requirement
	RequirementPages     site.Pages
	Callers              callers
	Graph                *graph // nil: it calls none and none calls it
	Related              site.Related
	Files                filesBody
}

// dirBody describes one directory with configuration.
type dirBody struct {
	Path      string
	Readme    template.HTML
	Contents  []markdown.Heading
	Cut       bool // the readme is truncated
	AsWritten bool // the readme is not rendered
	Inputs    inputs
	Outputs   []output
	Managed   []resources
	Data      []resources
	Tool      []string // required versions of the tool
	Calls     []call

	OutputPages, ResourcePages, CallPages site.Pages // of pages that cut these lists
}

// notice is the publisher's deprecation notice.
type notice struct {
	Message     string
	Replacement site.Link
}

type resources struct {
	Type  string
	Names []string // the first ones
	Count int
}

// Fold reports whether there are more names than a row should show.
func (r resources) Fold() bool { return r.Count > manyNames }

// More returns the number of names that are left out.
func (r resources) More() int { return r.Count - len(r.Names) }

// manyNames is the number of names that fit in a row of a table.
const manyNames = 12

// call is a module block.
type call struct {
	artifact.DescribedCall
	Href string // page of the module, if it is on this server and the caller may read it
}

// moduleIn parses the address of a module in a path.
func moduleIn(r *site.Request) (addr.Module, error) {
	m, err := addr.ParseModule(r.PathValue("namespace") + "/" + r.PathValue("name") + "/" + r.PathValue("system"))
	if err != nil {
		return m, site.NotFound("%v", err)
	}
	return m, nil
}

func moduleRead(r *site.Request) (rights.Right, error) {
	m, err := moduleIn(r)
	return rights.Right{Action: rights.Read, Kind: addr.KindModule, Address: m.String()}, err
}

type modules struct {
	catalog       *catalog.Catalog
	text          *markdown.Renderer
	files         *files
	versions      *versions
	evidences     *evidences
	usageExamples usageExamples
	requirements  requirements
	callers       callerSearch
	hosts         site.Hosts
}

func (s *modules) listedModule(r *site.Request) (addr.Module, *catalog.Versions, error) {
	m, err := moduleIn(r)
	if err != nil {
		return m, nil, err
	}
	l, err := s.catalog.Versions(r.Context(), m.Item())
	if err != nil {
		return m, nil, unavailableError(err, "module", m.String())
	}
	return m, l, nil
}

// found is the version of a module in a path, or the latest version.
type found struct {
	m       addr.Module
	v       addr.Version
	list    *catalog.Versions
	mv      *catalog.ModuleVersion
	d       artifact.ModuleDescription
	refused string // why the version is not served; then the caller may publish the module
}

// versionIn finds the version of a module for a path.
func (s *modules) versionIn(r *site.Request) (x found, err error) {
	if x.m, err = moduleIn(r); err != nil {
		return x, err
	}
	if text := r.PathValue("version"); text == "" {
		x.list, x.v, x.mv, err = s.catalog.LatestModule(r.Context(), x.m)
	} else if x.v, err = addr.ParseVersion(text); err != nil {
		return x, site.NotFound("%v", err)
	} else if x.list, err = s.catalog.Versions(r.Context(), x.m.Item()); err == nil {
		var no *catalog.RefusedError
		x.mv, no, err = s.catalog.HeldModule(r.Context(), x.m, x.v)
		if no != nil && (err != nil || !r.Publishes(x.m.Item())) {
			err = no
		} else if no != nil {
			x.refused = no.Error()
		}
	}
	if err != nil {
		return x, unavailableError(err, "module", x.m.String())
	}
	x.d, err = s.catalog.Description(r.Context(), x.mv)
	return x, err
}

// unavailableError returns the error for an item or a version that is not available.
func unavailableError(err error, kind, what string) error {
	if no, ok := errors.AsType[*catalog.RefusedError](err); ok {
		return site.NotFound("%s %s: %v", kind, what, no)
	}
	if errors.Is(err, oci.ErrNotFound) {
		return site.NotFound("%s %s, or this version of it, not found", kind, what)
	}
	return err
}

// show shows a version of a module, by tab.
func (s *modules) show(r *site.Request) (*site.Page, error) {
	x, err := s.versionIn(r)
	if err != nil {
		return nil, err
	}
	body := s.body(r, x)
	body.Related = s.callers.relatedLinks(r, x.m)
	body.Tab = cmp.Or(r.PathValue("tab"), "readme")
	if r.PathValue("path") != "" {
		body.Tab = "files"
	}
	if !openTab(body.Tabs, body.Tab) {
		return nil, site.NotFound("a module has no page %q", body.Tab)
	}
	switch body.Tab {
	case "readme":
		s.renderReadme(r, &body, x.d.Root)
	case "inputs":
		body.Inputs.cutInputs(r)
		body.Outputs = nil
		s.renderDescriptions(&body.dirBody)
	case "outputs":
		body.Inputs = inputs{}
		body.cutPages(r)
		s.renderDescriptions(&body.dirBody)
	case "resources":
		body.cutPages(r)
	case "dependencies":
		body.cutPages(r)
		var required []artifact.DescribedProvider
		required, body.RequirementPages = site.OnePage(r, "providers", x.d.Root.RequiredProviders)
		body.Requirements = s.requirements.satisfiedBy(r, required)
		body.Callers = s.callers.callersOf(r, x.m)
		body.drawGraph()
	case "security":
		body.Security, err = s.evidences.securityPage(r, x.mv.Repository, body.vouched, body.Base+"/security", s.files.links(x.mv, body.Base))
	case "files":
		body.Files, err = s.files.filesPage(r, x.mv, body.Base, strings.TrimSuffix(r.PathValue("path"), "/"))
	}
	if err != nil {
		return nil, err
	}
	var summary string
	if x.d.Root.Readme != nil {
		summary = catalog.FirstWords(x.d.Root.Readme.Text)
	}
	return &site.Page{
		Template: "module.html", Star: "modules/" + body.Address, Summary: summary, Title: titleOfTab(body.versionBody, "readme", strings.TrimSuffix(r.PathValue("path"), "/")), Body: body,
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: x.m.Namespace, Href: "modules/" + x.m.Namespace}},
		Also:    append([]site.Link{{Text: "All versions", Href: body.Item + "/versions"}, {Text: "Compare versions", Href: body.Item + "/compare"}, {Text: "Downloads", Href: body.Item + "/downloads"}}, s.versions.usersLinks(x.m.Item(), x.v)...),
		Command: commandFor(body.Tab, x.m.String()+"@"+x.v.String()),
	}, nil
}

// titleOfTab returns the title of a tab: of the first one, only the address.
func titleOfTab(b versionBody, first, path string) string {
	switch {
	case path != "":
		return path + " · " + b.Address + " " + b.Version
	case b.Tab == first:
		return b.Address
	}
	return tabText(b.Tab) + " of " + b.Address + " " + b.Version
}

// commandFor returns the command with the same output as a tab.
func commandFor(tab, version string) string {
	switch tab {
	case "security":
		return "okara verify " + version
	case "files":
		return "okara pull " + version + " DIR"
	}
	return "okara show " + version
}

// openTab marks the tab with a name as the current one; false: it does not exist.
func openTab(tabs []site.Tab, name string) bool {
	i := slices.IndexFunc(tabs, func(t site.Tab) bool { return t.Text == tabText(name) })
	if i >= 0 {
		tabs[i].Here = true
	}
	return i >= 0
}

func tabText(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// body returns the part that all pages of a version share.
func (s *modules) body(r *site.Request, x found) moduleBody {
	m := x.m
	v := x.v
	l := x.list
	mv := x.mv
	d := x.d
	b := moduleBody{
		versionBody: newVersionBody(m.Item(), v, l, s.evidences.readEvidence(r, m.Item(), v, mv.Manifest, l)),
		dirBody:     s.dir(r, d.Root), Problems: d.Diagnostics, Described: mv.Description != nil,
	}
	b.Address = m.Title(mv.Annotations[artifact.AnnTitle])
	if b.Refused = x.refused; b.Refused != "" || !b.Described {
		b.Changes = "" // there is nothing to compare
	}
	b.UsageExamples = s.usageExamples.moduleExamples(r, m, v, mv, d.Below(), b.vouched)
	b.Inputs.Block = description.ModuleBlock(m.Name, s.hosts.Of(r)+"/"+m.String(), description.ConstraintFor(v), d.Root.Variables())
	b.Facts = s.versions.versionFacts(l.Listing.Published(v, mv.Annotations), mv.Annotations, mv.Manifest.Digest.String(), mv.Zip.Size)
	if d.License != nil {
		licence := site.Fact{Name: "Licence", Text: cmp.Or(d.License.SPDX, d.License.Path)}
		if s.files.archives != nil {
			licence.Here = b.Base + "/files/" + site.EscapePath(d.License.Path)
		}
		b.Facts = append(b.Facts, licence)
	}
	b.addMarks(v)
	for _, sub := range d.Submodules {
		b.Submodules = append(b.Submodules, site.Link{Text: sub.Path, Href: b.Base + "/submodules/" + site.EscapePath(sub.Path)})
	}
	for _, e := range d.Examples {
		b.Examples = append(b.Examples, site.Link{Text: e.Path, Href: b.Base + "/examples/" + site.EscapePath(e.Path)})
	}
	b.linkCalls()
	n := d.Root
	b.addTab("readme", b.Base, -1)
	b.addTab("inputs", b.Base+"/inputs", len(n.InputOrder))
	b.addTab("outputs", b.Base+"/outputs", len(n.Outputs))
	b.addTab("resources", b.Base+"/resources", len(n.Resources))
	b.addTab("dependencies", b.Base+"/dependencies", len(n.RequiredProviders)+len(n.ModuleCalls))
	b.addTab("usage", b.Base+"/usage", -1)
	b.addTab("security", b.Base+"/security", -1)
	if s.files.archives != nil {
		b.addTab("files", b.Base+"/files", -1)
	}
	return b
}

func versionMarks(v addr.Version) []site.Mark {
	switch {
	case v.Edition():
		return []site.Mark{{Text: "edition", Kind: "plain"}}
	case v.Prerelease():
		return []site.Mark{{Text: "pre-release", Kind: "plain"}}
	}
	return nil
}

// versionFacts returns facts in the manifest of a version, and the time of publication.
func (s *versions) versionFacts(at time.Time, annotations map[string]string, digest string, size int64) []site.Fact {
	published := site.Fact{Name: "Published", Text: "time not recorded"}
	if !at.IsZero() {
		published.When = s.clock.When(at)
	}
	all := []site.Fact{published}
	if src := annotations[artifact.AnnSource]; src != "" {
		f := site.Fact{Name: "Source", Text: strings.TrimPrefix(strings.TrimPrefix(src, "https://"), "http://")}
		if strings.HasPrefix(src, "https://") || strings.HasPrefix(src, "http://") {
			f.Href = src
		}
		all = append(all, f)
	}
	if rev := annotations[artifact.AnnRevision]; rev != "" {
		all = append(all, site.Fact{Name: "Revision", Digest: rev})
	}
	all = append(all, site.Fact{Name: "Digest", Digest: digest})
	if size > 0 {
		all = append(all, site.Fact{Name: "Archive", Text: text.Size(size)})
	}
	return all
}

// deprecationNotice returns the deprecation notice of a version, nil if it has none.
func deprecationNotice(l *catalog.Versions, v addr.Version) *notice {
	e := l.Listing.Status(v).Deprecated
	if e == nil {
		return nil
	}
	n := &notice{Message: e.Message}
	if it, err := addr.ParseItem(e.Replacement); err == nil {
		n.Replacement = site.Link{Text: e.Replacement, Href: itemPath(it)}
	} else {
		n.Replacement.Text = e.Replacement
	}
	return n
}

// choices are versions of one kind to choose from, highest first.
type choices struct {
	Title string
	Rows  []site.Tab
	More  int
}

// newChoices returns releases, then pre-releases, then editions.
func newChoices(l *catalog.Versions, item, at string) []choices {
	by := []choices{{Title: "Releases"}, {Title: "Pre-releases"}, {Title: "Editions"}}
	for _, v := range l.Listed {
		c := &by[0]
		switch {
		case v.Edition():
			c = &by[2]
		case v.Prerelease():
			c = &by[1]
		}
		if len(c.Rows) == site.RowsPerPage {
			c.More++
			continue
		}
		c.Rows = append(c.Rows, site.Tab{Link: site.Link{Text: v.String(), Href: item + "/" + site.EscapePath(v.String())}, Here: v.String() == at})
	}
	return slices.DeleteFunc(by, func(c choices) bool { return len(c.Rows) == 0 })
}

// dir returns the page content for a directory in a description.
func (s *modules) dir(r *site.Request, d artifact.DescribedModule) dirBody {
	b := dirBody{Path: d.Path, Inputs: newInputs(d), Tool: d.RequiredVersion}
	for _, o := range d.Outputs {
		b.Outputs = append(b.Outputs, output{DescribedOutput: o})
	}
	types := map[[2]string]*resources{}
	var order [][2]string
	for _, res := range d.Resources {
		key := [2]string{res.Mode, res.Type}
		if types[key] == nil {
			types[key] = &resources{Type: res.Type}
			if res.Mode == "ephemeral" || res.Mode == "action" {
				types[key].Type = res.Mode + " " + res.Type
			}
			order = append(order, key)
		}
		of := types[key]
		if of.Count++; of.Count <= site.RowsPerPage {
			of.Names = append(of.Names, res.Name)
		}
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

func (b *moduleBody) linkCalls() {
	for n, c := range b.Calls {
		for _, sub := range b.Submodules {
			if strings.HasPrefix(c.Source, "./") && path.Clean(c.Source) == sub.Text {
				b.Calls[n].Href = sub.Href
			}
		}
	}
}

// cutPages keeps one page each of the outputs, resources and module blocks.
func (b *dirBody) cutPages(r *site.Request) {
	b.Outputs, b.OutputPages = site.OnePage(r, "outputs", b.Outputs)
	b.ResourcePages = site.PagesOf(r, "resources", len(b.Managed)+len(b.Data))
	b.Managed, b.Data = site.Between(b.Managed, b.Data, b.ResourcePages.First, b.ResourcePages.Last)
	b.Calls, b.CallPages = site.OnePage(r, "calls", b.Calls)
}

// callPath returns the page of a called module: "" if it is not on this server, or the
// caller may not read it.
func (s *modules) callPath(r *site.Request, source string) string {
	address, ok := strings.CutPrefix(source, s.hosts.Of(r)+"/")
	if !ok {
		return ""
	}
	address, _, _ = strings.Cut(address, "//")
	m, err := addr.ParseModule(address)
	if err != nil || !r.Readable(m.Item()) {
		return ""
	}
	return itemPath(m.Item())
}

func (s *modules) renderReadme(r *site.Request, b *moduleBody, d artifact.DescribedModule) {
	if d.Readme == nil || d.Readme.Text == "" {
		return
	}
	doc := s.text.Render(sourceHere(d.Readme.Text, s.hosts.Of(r), b.Address), s.inArchive(r, b, path.Dir(d.Readme.Path)))
	b.Readme = doc.HTML
	b.Contents = doc.Headings
	b.Cut = d.Readme.Truncated || doc.Cut
	b.AsWritten = doc.AsWritten
}

// namedSource matches the source of a module or provider in code: its host, its address,
// and the directory in it.
var namedSource = text.Pattern(`(source[ \t]*=[ \t]*)"(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+/)?([\w-]+/[\w-]+(?:/[\w-]+)?)(//[^"\s]*)?"`)

// sourceHere replaces the source of an item in the examples of a text by that on this
// server, with a comment that says so.
func sourceHere(readme, host, address string) string {
	return namedSource().ReplaceAllStringFunc(readme, func(found string) string {
		m := namedSource().FindStringSubmatch(found)
		if m[2] != address {
			return found
		}
		return m[1] + text.HCL(host+"/"+address+m[3]) + " /* on this server */"
	})
}

// inArchive returns the location of a text in a directory of a module. Links to a
// submodule or an example lead to its page.
func (s *modules) inArchive(r *site.Request, b *moduleBody, dir string) markdown.Location {
	if s.files.archives == nil {
		return markdown.Location{}
	}
	up := site.Up(r.URL.Path)
	root := up + b.Base + "/files/"
	return markdown.Location{Key: root + dir, Dir: dir, File: func(name string, image bool) string {
		if image {
			return root + site.EscapePath(name) + "?raw=1"
		}
		for _, d := range slices.Concat(b.Submodules, b.Examples) {
			if name == d.Text || name == d.Text+"/README.md" {
				return up + d.Href
			}
		}
		return root + site.EscapePath(name)
	}}
}
