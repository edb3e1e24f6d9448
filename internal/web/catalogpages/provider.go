// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// providerBody is the page of a version of a provider.
type providerBody struct {
	versionBody
	Platforms []platformRow
	Keys      []keyRow
	Files     []site.Link // SHA256SUMS and its signature, below the root of the server
	Docs      docsBody
	Mirrored  string   // host of the origin; "": published on this server
	LeftOut   []string // packages of the origin that are not on this server
	Warnings  []string
	Protocols []string
	Versions  versionsBody // only for the tab versions
	Lead      string       // what requires it, where the page begins with that
	Problem   string       // why the tools cannot install it through the registry protocol
}

func providerRead(r *site.Request) (rights.Right, error) {
	kind := rights.Kind(addr.KindProvider)
	if r.PathValue("hostname") != "" {
		kind = addr.KindMirror
	}
	p, address, err := providerIn(r)
	if err == nil {
		address = p.String()
	}
	return rights.Right{Action: rights.Read, Kind: kind, Address: address}, err
}

// providerIn parses the address of a provider in a path, and also returns it unparsed.
func providerIn(r *site.Request) (p addr.Provider, address string, err error) {
	address = r.PathValue("namespace") + "/" + r.PathValue("type")
	if host := r.PathValue("hostname"); host != "" {
		address = host + "/" + address
	}
	if p, err = addr.ParseProvider(address); err != nil {
		return p, address, site.NotFound("%v", err)
	}
	return p, address, nil
}

// providers has the pages of providers, mirrored ones included.
type providers struct {
	catalog       *catalog.Catalog
	archives      Archives // nil: archives cannot be opened
	text          *markdown.Renderer
	versions      *versions
	evidences     *evidences
	usageExamples usageExamples
	now           func() time.Time
}

func (s *providers) listedProvider(r *site.Request) (addr.Provider, *catalog.Versions, error) {
	p, _, err := providerIn(r)
	if err != nil {
		return p, nil, err
	}
	l, err := s.catalog.Versions(r.Context(), p.Item())
	if err != nil {
		return p, nil, unavailableError(err, "provider", p.String())
	}
	return p, l, nil
}

// show shows a version of a provider, by tab.
func (s *providers) show(r *site.Request) (*site.Page, error) {
	p, l, err := s.listedProvider(r)
	if err != nil {
		return nil, err
	}
	it := p.Item()
	v, ok := l.Latest()
	if text := r.PathValue("version"); text != "" && text != "versions" {
		if v, err = addr.ParseVersion(text); err != nil {
			return nil, site.NotFound("%v", err)
		}
	} else if !ok {
		return nil, site.NotFound("provider %s has no available version", p)
	}
	pv, no, err := s.catalog.HeldProvider(r.Context(), p, v)
	if no != nil && (err != nil || !r.Publishes(it)) {
		err = no
	}
	if err != nil {
		return nil, unavailableError(err, "provider", p.String())
	}
	body := s.body(r, p, v, l, pv)
	if no != nil {
		body.Refused = no.Error()
		body.Marks = append(body.Marks, site.Mark{Text: "not served", Kind: "bad"})
	}
	first := body.Tabs[0].Text
	body.Tab = cmp.Or(r.PathValue("tab"), strings.ToLower(first))
	if r.PathValue("version") == "versions" {
		body.Tab = "versions"
	}
	if strings.Contains(r.Pattern, "/docs/") {
		body.Tab = "docs"
	}
	at := strings.TrimSuffix(r.PathValue("path"), "/")
	if body.Tab == "docs" && pv.Meta.Docs != nil {
		body.Docs, err = s.renderDocs(r, pv, p, body.Base, at)
		if err != nil && r.PathValue("tab")+at == "" { // the page is about more
			body.Tab = "platforms"
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	if !openTab(body.Tabs, body.Tab) {
		return nil, site.NotFound("this version of the provider has no page %q", body.Tab)
	}
	if body.Tab == "platforms" || body.Tab == "docs" && at == "" {
		body.Lead = body.UsageExamples[0].Text
	}
	title := titleOfTab(body.versionBody, strings.ToLower(first), "")
	if at != "" {
		title = titleOfTab(body.versionBody, "", body.Docs.Title)
	}
	switch body.Tab {
	case "versions":
		body.Versions = s.versions.versionsPage(r, l, it)
	case "security":
		body.Security, err = s.evidences.securityPage(r, pv.Repository, body.vouched, body.Base+"/security", nil)
	}
	if err != nil {
		return nil, err
	}
	return &site.Page{
		Template: "provider.html", Title: title, Body: body, Also: s.versions.usersLinks(it, v),
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: namespaceOf(it), Href: namespacePath(it)}},
		Command: commandFor(body.Tab, p.String()+"@"+v.String()),
	}, nil
}

// body returns the part that all pages of a version share.
func (s *providers) body(r *site.Request, p addr.Provider, v addr.Version, l *catalog.Versions, pv *catalog.ProviderVersion) providerBody {
	e := s.evidences.readEvidence(r, p.Item(), v, pv.Index, l)
	b := providerBody{versionBody: newVersionBody(p.Item(), v, l, e), Protocols: pv.Protocols, Mirrored: p.Hostname}
	b.UsageExamples = s.usageExamples.providerExamples(r, p, v, b.vouched)
	s.packages(&b, pv)
	b.Keys, b.Warnings = s.keyRows(pv)
	var size int64
	for _, t := range pv.Platforms {
		size += t.Size
	}
	b.Facts = s.versions.versionFacts(l.Listing.Published(v, pv.Annotations), pv.Annotations, pv.Index.Digest.String(), size)
	if len(pv.Protocols) > 0 {
		b.Facts = append(b.Facts, site.Fact{Name: "Protocols", Text: strings.Join(pv.Protocols, ", ")})
	}
	switch pv.Signature {
	case artifact.SignatureVerified:
		b.Marks = append(b.Marks, site.Mark{Text: "checksums signed", Kind: "good"})
	case artifact.SignatureNone:
		b.Marks = append(b.Marks, site.Mark{Text: "not signed by origin", Kind: "plain"})
	}
	if err := pv.Installable(p); err != nil {
		b.Problem = err.Error()
	}
	b.addMarks(v)
	if p.Hostname != "" {
		b.Marks = append(b.Marks, site.Mark{Text: "mirrored", Kind: "plain"})
	}
	platforms := b.Base
	if pv.Meta.Docs != nil {
		b.addTab("docs", b.Base, -1)
		platforms += "/platforms"
	}
	b.addTab("platforms", platforms, len(b.Platforms))
	b.addTab("usage", b.Base+"/usage", -1)
	b.addTab("keys", b.Base+"/keys", len(b.Keys))
	b.addTab("security", b.Base+"/security", -1)
	b.addTab("versions", b.Item+"/versions", len(l.Listed))
	b.addTab("downloads", b.Item+"/downloads", -1)
	return b
}
