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
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	var names []string
	k := conn{c: c, s: c.session("")}
	err := k.readPages(ctx, request{method: http.MethodGet, path: "_catalog"}, maxTagPage, func(resp *http.Response, body []byte) error {
		var page struct {
			Repositories []string `json:"repositories"`
		}
		err := decodePage(resp, body, &page)
		names = append(names, page.Repositories...)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
