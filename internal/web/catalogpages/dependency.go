// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxLooked bounds the providers that one page looks up.
const maxLooked = 20

// requirement is a provider that a module requires, with its providers on this server.
type requirement struct {
	artifact.DescribedProvider
	BuiltIn bool // part of the tool, and not installed
	Here    []here
}

// here is a provider on this server that a requirement may mean.
type here struct {
	site.Link        // to the provider, or to the version
	Version   string // highest that satisfies the requirement, else the latest
	Satisfied bool
}

// requirements looks up the providers that modules require.
type requirements struct {
	catalog *catalog.Catalog
	hosts   site.Hosts
}

// satisfiedBy returns which requirements this server can fulfil, as far as the caller may
// know. It leaves out lists of versions that are not read in time.
func (s requirements) satisfiedBy(r *site.Request, all []artifact.DescribedProvider) []requirement {
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	index, err := s.catalog.Published(ctx)
	published := map[string]bool{}
	if err == nil {
		for _, kind := range []string{addr.KindProvider, addr.KindMirror} {
			for _, it := range index.Search(catalog.Filter{Kind: kind}) {
				published[kind+" "+it.String()] = r.Readable(it)
			}
		}
	}
	out := make([]requirement, len(all))
	looked := 0
	for i, d := range all {
		out[i].DescribedProvider = d
		if out[i].BuiltIn = d.BuiltIn(); out[i].BuiltIn {
			continue // such as the provider of terraform_data
		}
		for _, p := range s.meantProviders(r, d) {
			it := p.Item()
			if !published[it.Kind+" "+it.String()] || looked == maxLooked {
				continue
			}
			looked++
			if h, ok := s.hereOf(ctx, p, d.Versions); ok {
				out[i].Here = append(out[i].Here, h)
			}
		}
	}
	return out
}

// meantProviders returns the providers of this server that a source may mean.
func (s requirements) meantProviders(r *site.Request, d artifact.DescribedProvider) []addr.Provider {
	source := d.Source
	source = cmp.Or(source, "hashicorp/"+d.Name)
	if own, ok := strings.CutPrefix(source, s.hosts.Of(r)+"/"); ok {
		source = own
	} else if strings.Count(source, "/") == 1 {
		var out []addr.Provider
		for _, host := range []string{"registry.opentofu.org", "registry.terraform.io"} {
			if p, err := addr.ParseProvider(host + "/" + source); err == nil {
				out = append(out, p)
			}
		}
		return out
	}
	p, err := addr.ParseProvider(source)
	if err != nil {
		return nil
	}
	return []addr.Provider{p}
}

func (s requirements) hereOf(ctx context.Context, p addr.Provider, constraints []string) (here, bool) {
	l, err := s.catalog.Versions(ctx, p.Item())
	if err != nil {
		return here{}, false
	}
	c, err := addr.ParseConstraint(strings.Join(constraints, ", "))
	if err != nil {
		return here{}, false
	}
	h := here{Link: site.Link{Text: p.String(), Href: itemPath(p.Item())}}
	if i := slices.IndexFunc(l.Listed, c.Allows); i >= 0 {
		h.Version = l.Listed[i].String()
		h.Satisfied = true
		h.Href += "/" + site.EscapePath(h.Version)
	} else if v, ok := l.Latest(); ok {
		h.Version = v.String()
	}
	return h, true
}
