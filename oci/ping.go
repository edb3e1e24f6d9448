// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"net/http"
	"slices"
)

// Ping requests the root of the API with the client's credentials, as a login does. It does not
// test access: some registries refuse the root to all, others accept any credential.
func (c *Client) Ping(ctx context.Context) error {
	k := conn{c: c, s: c.session("")}
	resp, err := k.sendAndDiscard(ctx, request{method: http.MethodGet})
	if err == nil && isHTML(resp.Header) {
		err = notRegistry(resp)
	}
	return err
}

// Repositories lists all repositories of the host that the client can see, sorted. Most hosted
// registries answer with ErrNotFound, ErrUnsupported or ErrDenied.
func (c *Client) Repositories(ctx context.Context) ([]string, error) {
	names, _, err := c.ListRepositories(ctx)
	return names, err
}

// PartialHeader is set in a list of repositories of okara's registry for a caller that may not read all states: the list leaves out the others.
const PartialHeader = "Okara-Partial"

// ListRepositories is Repositories, and whether the registry says that it may have left out some.
func (c *Client) ListRepositories(ctx context.Context) (names []string, partial bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	k := conn{c: c, s: c.session("")}
	err = k.readPages(ctx, request{method: http.MethodGet, path: "_catalog"}, maxTagPage, func(resp *http.Response, body []byte) error {
		var page struct {
			Repositories []string `json:"repositories"`
		}
		err := decodePage(resp, body, &page)
		partial = partial || resp.Header.Get(PartialHeader) != ""
		names = append(names, page.Repositories...)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	slices.Sort(names)
	return slices.Compact(names), partial, nil
}
