// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// providerBody is a version of a provider.
type providerBody struct {
	Address, Version string
	Base, Item       string
	Tab              string
	Tabs             []tab
	Marks            []mark
	Deprecated       *notice
	Facts            []fact
	Choices          []choices
	Platforms        []artifact.ProviderPlatform
	Keys             []artifact.SigningKey
	Protocols        []string
	Snippets         []snippet
	Versions         versionsBody
	Problem          string // why the tools cannot install it through the registry protocol
}

// providerIn reads the address of a provider, and asks for the right to it.
func (s *server) providerIn(r *request) (addr.Provider, error) {
	address := r.PathValue("namespace") + "/" + r.PathValue("type")
	if host := r.PathValue("hostname"); host != "" {
		address = host + "/" + address
	}
	p, bad := addr.ParseProvider(address)
	if bad == nil {
		address = p.String()
	}
	kind := access.Kind(addr.KindProvider)
	if r.PathValue("hostname") != "" {
		kind = addr.KindMirror
	}
	if err := s.may(r, access.Right{Action: access.Read, Kind: kind, Address: address}); err != nil {
		return p, err
	}
	if bad != nil {
		return p, notFound("%v", bad)
	}
	return p, nil
}

func (s *server) provider(r *request) (*page, error) {
	p, err := s.providerIn(r)
	if err != nil {
		return nil, err
	}
	it := p.Item()
	l, err := s.o.Catalog.Provider(r.Context(), p)
	if err != nil {
		return nil, gone(err, "provider", p.String())
	}
	v, ok := l.Latest()
	if text := r.PathValue("version"); text != "" && text != "versions" {
		if v, err = addr.ParseVersion(text); err != nil {
			return nil, notFound("%v", err)
		}
	} else if !ok {
		return nil, notFound("provider %s has no version that is to be had", p)
	}
	pv, err := s.o.Catalog.ProviderVersion(r.Context(), p, v)
	if err != nil {
		return nil, gone(err, "provider", p.String())
	}
	body := s.newProvider(r, p, v, l, pv)
	body.Tab = cmp.Or(r.PathValue("tab"), "platforms")
	if r.PathValue("version") == "versions" {
		body.Tab = "versions"
	}
	if !slices.Contains([]string{"platforms", "keys", "usage", "versions"}, body.Tab) {
		return nil, notFound("a provider has no page %q", body.Tab)
	}
	for i := range body.Tabs {
		body.Tabs[i].Here = body.Tabs[i].Text == tabText(body.Tab)
	}
	return &page{
		Template: "provider.html", Title: p.String(), Body: body,
		Crumbs:  []link{{"Catalog", ""}, {namespaceOf(it), namespacePath(it)}},
		Command: "okara show " + p.String() + "@" + v.String(),
	}, nil
}

func (s *server) newProvider(r *request, p addr.Provider, v addr.Version, l *catalog.Versions, pv *catalog.ProviderVersion) providerBody {
	item := itemPath(p.Item())
	b := providerBody{
		Address: p.String(), Version: v.String(), Item: item, Base: item + "/" + escapePath(v.String()), Platforms: pv.Platforms, Keys: pv.Meta.Keys,
		Protocols: pv.Protocols, Choices: newChoices(l, item, v.String()), Snippets: s.providerSnippets(r, p, v), Deprecated: s.deprecation(l, v), Versions: s.newVersions(r, l, p.Item()),
	}
	var size int64
	for _, t := range pv.Platforms {
		size += t.Size
	}
	b.Facts = facts(pv.Annotations, pv.Index.Digest.String(), size)
	if len(pv.Protocols) > 0 {
		b.Facts = append(b.Facts, fact{Name: "Protocols", Text: strings.Join(pv.Protocols, ", ")})
	}
	switch pv.Signature {
	case artifact.SignatureVerified:
		b.Marks = append(b.Marks, mark{"signature verified", "good"})
	case artifact.SignatureNone:
		b.Marks = append(b.Marks, mark{"origin signs nothing", "plain"})
	}
	if err := pv.Installable(p); err != nil {
		b.Problem = err.Error()
	}
	if b.Deprecated != nil {
		b.Marks = append(b.Marks, mark{"deprecated", "bad"})
	}
	add := func(name, href string, count int) {
		b.Tabs = append(b.Tabs, tab{link: link{tabText(name), href}, Count: count})
	}
	add("platforms", b.Base, len(b.Platforms))
	add("keys", b.Base+"/keys", len(b.Keys))
	add("usage", b.Base+"/usage", -1)
	add("versions", item+"/versions", len(l.Listed))
	add("downloads", item+"/downloads", -1)
	return b
}
