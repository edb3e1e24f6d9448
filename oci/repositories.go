// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Repositories lists all repositories of the host that the client can see,
// sorted. Most hosted registries do not support this list and answer with
// ErrNotFound, ErrUnsupported or ErrDenied.
func (c *Client) Repositories(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	s := c.session("")
	u := &url.URL{Scheme: c.scheme.get(ctx), Host: apiHost(c.host), Path: "/v2/_catalog"}
	var names []string
	seen := map[string]bool{}
	for u != nil && !seen[u.String()] {
		seen[u.String()] = true
		if len(seen) > maxTagPages {
			return nil, fmt.Errorf("list repositories of %s: %w: more than %d pages", c.host, ErrTooLarge, maxTagPages)
		}
		some, next, err := c.repositoryPage(ctx, s, u)
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
		u = next
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (c *Client) repositoryPage(ctx context.Context, s *session, u *url.URL) (names []string, next *url.URL, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("GET %s: %w", safeURL(u), err)
	}
	resp, err := s.follow.Do(req)
	if err != nil {
		return nil, nil, s.requestError(http.MethodGet, u, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, s.responseError(resp)
	}
	defer resp.Body.Close()
	if isHTML(resp.Header) {
		return nil, nil, notRegistry(resp)
	}
	var doc struct {
		Repositories []string `json:"repositories"`
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTagPage+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("list repositories of %s: %w: %w", c.host, ErrUnavailable, err)
	case len(body) > maxTagPage:
		return nil, nil, fmt.Errorf("list repositories of %s: %w: more than %d bytes", c.host, ErrTooLarge, maxTagPage)
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, nil, fmt.Errorf("list repositories of %s: %w: %w", c.host, ErrCorrupt, err)
	}
	if next, err = nextPage(resp.Request.URL, strings.Join(resp.Header.Values("Link"), ", ")); err != nil {
		return nil, nil, fmt.Errorf("list repositories of %s: %w: %w", c.host, ErrCorrupt, err)
	}
	return doc.Repositories, next, nil
}
