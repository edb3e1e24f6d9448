// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// Call makes a request to the front-end, again if need be, and reads the answer
// into v: for the services beside those that publish. The body is sent as JSON;
// nil: none. Where repeating has to have the effect of once, the headers say how.
func (c *Client) Call(ctx context.Context, method, path string, q url.Values, header http.Header, body, v any) (status int, err error) {
	var raw *content
	if body != nil {
		doc, err := document(body)
		if err != nil {
			return 0, err
		}
		raw = &doc
	}
	r, err := c.request(ctx, method, path, q, raw)
	if err != nil {
		return 0, err
	}
	maps.Copy(r.Header, header)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.do(r, v)
}

// Open begins to read an answer that may be long, or go on for long. The caller
// closes it.
func (c *Client) Open(ctx context.Context, path string, q url.Values, header http.Header) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	resp, err := c.http.Do(r)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close() // it says nothing that the error does not
		}
		return nil, broken(r.Request, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what there is of a refusal is shown
	return nil, c.refusal(r.Request, resp, b)
}
