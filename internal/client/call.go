// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// Call makes a request to the front-end, repeats it if necessary, and decodes the answer
// into v. It is for services other than publishing. The body is sent as JSON; nil: none.
// If a repeated request must take effect only once, the caller's headers ensure that.
func (c *Client) Call(ctx context.Context, method, path string, q url.Values, header http.Header, body, v any) (status int, err error) {
	var raw *content
	if body != nil {
		doc, err := jsonContent(body)
		if err != nil {
			return 0, err
		}
		raw = &doc
	}
	r, err := c.newRequest(ctx, method, path, q, raw)
	if err != nil {
		return 0, err
	}
	maps.Copy(r.Header, header)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.do(r, v)
}

// Open begins to read an answer that is large or takes long. The caller closes it.
func (c *Client) Open(ctx context.Context, path string, q url.Values, header http.Header) (io.ReadCloser, error) {
	r, err := c.newRequest(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	resp, err := c.http.Do(r)
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close() // the error says everything
		}
		return nil, noAnswerError(r.Request, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // as much of the refusal as was read is shown
	return nil, c.parseRefusal(r.Request, resp, b)
}
