// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Ping requests the root of the API with the client's credentials for no
// repository in particular, as a login does. It does not test access: some
// registries refuse the root to everyone although a repository is public,
// others accept any credential.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	s := c.session("")
	u := &url.URL{Scheme: c.scheme.get(ctx), Host: apiHost(c.host), Path: "/v2/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", safeURL(u), err)
	}
	resp, err := s.follow.Do(req)
	if err != nil {
		return s.requestError(http.MethodGet, u, err)
	}
	if resp.StatusCode/100 != 2 {
		return s.responseError(resp)
	}
	discard(resp)
	if isHTML(resp.Header) {
		return notRegistry(resp)
	}
	return nil
}
