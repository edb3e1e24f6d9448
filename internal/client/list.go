// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// maxListed bounds the memory that an answer can take.
const maxListed = 100_000

// List returns the modules and providers that the token may read, by kind and address.
func (c *Client) List(ctx context.Context) ([]artifact.CatalogEntry, error) {
	var all []artifact.CatalogEntry
	for len(all) < maxListed {
		var page struct {
			Meta struct {
				Next int `json:"next_offset"`
			} `json:"meta"`
			Items []artifact.CatalogEntry `json:"items"`
		}
		q := url.Values{"offset": {strconv.Itoa(len(all))}}
		if _, err := c.send(ctx, http.MethodGet, "v1/catalog", q, nil, &page); err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			all = append(all, artifact.CatalogEntry{Kind: text.Excerpt(it.Kind), Address: text.Excerpt(it.Address), Repository: text.Excerpt(it.Repository), Title: text.Excerpt(it.Title)})
		}
		if page.Meta.Next != len(all) || len(page.Items) == 0 {
			break
		}
	}
	return all, nil
}

// Versions returns the versions of a module or provider, withdrawn ones included, with
// their status events.
func (c *Client) Versions(ctx context.Context, it addr.Item) (*depot.Listing, error) {
	type event struct{ Message, Replacement string }
	var doc struct {
		Versions []struct {
			Version            addr.Version
			PublishedAt        time.Time `json:"published_at"`
			Deprecated, Yanked *event
		}
		Hidden map[addr.Version]addr.Version
		Cached bool
	}
	if _, err := c.send(ctx, http.MethodGet, "v1/catalog/"+it.String(), nil, nil, &doc); err != nil {
		return nil, err
	}
	l := &depot.Listing{Times: map[string]time.Time{}, Hidden: doc.Hidden, Cached: doc.Cached}
	for _, v := range doc.Versions {
		l.Versions = append(l.Versions, v.Version)
		l.Times[v.Version.Tag()] = v.PublishedAt
		for action, e := range map[string]*event{evidence.ActionDeprecate: v.Deprecated, evidence.ActionYank: v.Yanked} {
			if e != nil {
				l.Events = append(l.Events, evidence.StatusEvent{
					Action: action, Version: v.Version.String(), Message: safeText(e.Message), Replacement: text.Excerpt(e.Replacement),
				})
			}
		}
	}
	slices.SortFunc(l.Versions, func(a, b addr.Version) int { return b.Compare(a) })
	return l, nil
}
