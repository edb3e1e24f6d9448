// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

const maxContents = 1000

type contents struct {
	layout addr.Layout
	guard  *access.Guard
}

// everything is the object of a request that names none.
type everything struct{}

func everythingIn(*http.Request) (everything, rights.Right, error) {
	return everything{}, rights.Right{Kind: rights.AnyKind}, nil
}

func itemIn(r *http.Request) (addr.Item, rights.Right, error) {
	it, err := addr.ParseItem(r.PathValue("address"))
	if err != nil {
		return it, rights.Right{Kind: rights.AnyKind, Address: r.PathValue("address")}, err
	}
	return it, rights.Right{Kind: rights.Kind(it.Kind), Address: it.String()}, nil
}

type contentsDoc struct {
	Meta  listMeta  `json:"meta"`
	Items []itemDoc `json:"items"`
}

type itemDoc struct {
	Kind       string `json:"kind"`
	Address    string `json:"address"`
	Repository string `json:"repository"`
	Title      string `json:"title,omitempty"`
}

// list returns all items that the caller may read. Who may read nothing is told to send a token.
func (c *contents) list(w http.ResponseWriter, r call[everything]) error {
	if err := c.guard.AllowLogin(r.Request); err != nil {
		return err
	}
	index, err := r.catalog.Published(r.Context())
	if err != nil {
		return err
	}
	meta, page := cutPage(r.Request, r.links.base, readableItems(r.grant, index.Search(catalog.Filter{})), maxContents, maxContents)
	doc := contentsDoc{Meta: meta, Items: make([]itemDoc, 0, len(page))}
	for _, it := range page {
		doc.Items = append(doc.Items, itemDoc{it.Kind, it.String(), it.Repository(c.layout), index.Titles[it]})
	}
	return service.Send(w, r.Request, privateCache, doc)
}

type itemVersionsDoc struct {
	Versions []itemVersionDoc              `json:"versions"`
	Hidden   map[addr.Version]addr.Version `json:"hidden,omitempty"` // see [depot.Listing]
	Cached   bool                          `json:"cached,omitempty"`
}

type itemVersionDoc struct {
	Version     addr.Version `json:"version"`
	PublishedAt time.Time    `json:"published_at,omitzero"`
	Deprecated  *eventDoc    `json:"deprecated,omitempty"`
	Yanked      *eventDoc    `json:"yanked,omitempty"`
}

type eventDoc struct {
	Message     string `json:"message,omitempty"`
	Replacement string `json:"replacement,omitempty"`
}

func newEventDoc(e *evidence.StatusEvent) *eventDoc {
	if e == nil {
		return nil
	}
	return &eventDoc{e.Message, e.Replacement}
}

// listItemVersions returns the versions of one item, including withdrawn ones, which are marked.
func (c *contents) listItemVersions(w http.ResponseWriter, r call[addr.Item]) error {
	l, err := r.catalog.Versions(r.Context(), r.at)
	if err != nil {
		return orNotFound(err, "%s %s", r.at.Kind, r.at)
	}
	all := l.All()
	doc := itemVersionsDoc{Versions: make([]itemVersionDoc, 0, len(all)), Hidden: l.Listing.Hidden, Cached: l.Listing.Cached}
	for _, v := range all {
		s := l.Listing.Status(v)
		doc.Versions = append(doc.Versions, itemVersionDoc{v, l.Listing.Published(v, nil), newEventDoc(s.Deprecated), newEventDoc(s.Yanked)})
	}
	return service.Send(w, r.Request, privateCache, doc)
}
