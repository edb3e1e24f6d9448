// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of lists of modules.
const (
	defaultLimit   = 15
	maxLimit       = 100
	browseParallel = 8
)

type moduleListDoc struct {
	Meta    listMeta     `json:"meta"`
	Modules []*moduleDoc `json:"modules"`
}

type listMeta struct {
	Limit      int    `json:"limit"`
	Offset     int    `json:"current_offset"`
	NextOffset *int   `json:"next_offset,omitempty"`
	NextURL    string `json:"next_url,omitempty"`
	PrevOffset *int   `json:"prev_offset,omitempty"`
	PrevURL    string `json:"prev_url,omitempty"`
}

// versionDoc describes one version of a module or provider. Downloads counts all versions together.
type versionDoc struct {
	ID          string `json:"id"`
	Owner       string `json:"owner"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Source      string `json:"source"`
	PublishedAt string `json:"published_at"`
	Downloads   int64  `json:"downloads"`
}

// newVersionDoc takes the texts from the annotations of the version.
func newVersionDoc(l *catalog.Versions, v addr.Version, annotations map[string]string) versionDoc {
	return versionDoc{
		Version: v.String(), Description: annotations["org.opencontainers.image.description"], Source: annotations[artifact.AnnSource],
		PublishedAt: publishedAt(l.Listing.Published(v, annotations)),
	}
}

type moduleDoc struct {
	versionDoc
	Provider string `json:"provider"`
	Verified bool   `json:"verified"`
}

func (m *modules) newDoc(at addr.ModuleVersion, l *catalog.Versions, mv *catalog.ModuleVersion) *moduleDoc {
	d := &moduleDoc{versionDoc: newVersionDoc(l, at.Version, mv.Annotations), Provider: at.System, Verified: m.verified}
	d.ID, d.Namespace, d.Name = at.Module.String()+"/"+d.Version, at.Namespace, at.Name
	d.Downloads = m.counts.Total(addr.KindModule, at.Module.String())
	return d
}

// publishedAt formats a time for clients; "" if none is recorded.
func publishedAt(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.RFC3339)
}

// list lists the latest version of each module: all, those of a namespace or name, or the results
// of a search. Modules that the caller may not read are neither listed nor counted.
func (m *modules) list(w http.ResponseWriter, r call[group]) error {
	index, err := r.catalog.Published(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	found := readableItems(r.grant, index.Search(catalog.Filter{
		Kind: addr.KindModule, Namespace: cmp.Or(r.at.namespace, q.Get("namespace")), Name: r.at.name, System: q.Get("provider"),
		Terms: strings.Fields(strings.ToLower(q.Get("q"))),
	}))
	if r.at.namespace != "" && len(found) == 0 {
		return notFound("no module in %s", r.at)
	}
	meta, page := cutPage(r.Request, r.links.base, found, defaultLimit, maxLimit)
	docs, err := m.latestDocs(r.Context(), r.catalog, page)
	if err != nil {
		return err
	}
	return service.Send(w, r.Request, privateCache, moduleListDoc{Meta: meta, Modules: docs})
}

func readableItems(g access.Grant, items []addr.Item) []addr.Item {
	return slices.DeleteFunc(items, func(it addr.Item) bool {
		return !g.May(rights.Right{Action: rights.Read, Kind: rights.Kind(it.Kind), Address: it.String()})
	})
}

// cutPage cuts a page out of the list and links to its neighbours, by paths from the root of the
// host, like the public registry. The request may set another number than limit, up to maxLimit.
func cutPage(r *http.Request, base string, all []addr.Item, limit, maxLimit int) (listMeta, []addr.Item) {
	q := r.URL.Query()
	number := func(name string, def, highest int) int {
		n, err := strconv.Atoi(q.Get(name))
		if err != nil || n < 0 {
			return def
		}
		return min(n, highest)
	}
	meta := listMeta{Limit: max(1, number("limit", limit, maxLimit)), Offset: number("offset", 0, len(all))}
	end := min(meta.Offset+meta.Limit, len(all))
	link := func(offset int) string {
		q.Set("offset", strconv.Itoa(offset))
		q.Set("limit", strconv.Itoa(meta.Limit))
		return base + r.URL.Path + "?" + q.Encode()
	}
	if end < len(all) {
		meta.NextOffset = &end
		meta.NextURL = link(end)
	}
	if meta.Offset > 0 {
		prev := max(0, meta.Offset-meta.Limit)
		meta.PrevOffset = &prev
		meta.PrevURL = link(prev)
	}
	return meta, all[meta.Offset:end]
}

// latestDocs describes the latest version of each module, if it has one that is not withdrawn.
func (m *modules) latestDocs(ctx context.Context, c *catalog.Catalog, page []addr.Item) ([]*moduleDoc, error) {
	docs := make([]*moduleDoc, len(page))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(browseParallel)
	for i, it := range page {
		g.Go(func() error {
			l, v, mv, err := c.LatestModule(ctx, it.Module)
			if err == nil {
				docs[i] = m.newDoc(addr.ModuleVersion{Module: it.Module, Version: v}, l, mv)
			}
			return oci.IgnoreNotFound(err)
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(docs, func(d *moduleDoc) bool { return d == nil }), err
}
