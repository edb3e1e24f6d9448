// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ErrNotFound is a 404 response: the tools continue with their next source.
var ErrNotFound = errors.New("not found")

// Client sends requests to one server as one of the tools does.
type Client struct {
	Tool  Tool
	HTTP  *http.Client // nil: [http.DefaultClient]
	Token string       // for the server's host, sent with metadata requests, never for archives
}

// Services are the base URLs of the services of a host.
type Services struct{ Modules, Providers *url.URL }

// Discover reads the services of a host from its base URL. The tools require https for
// this, or take the services from a host block of their configuration.
func (c *Client) Discover(ctx context.Context, base string) (Services, error) {
	var doc map[string]json.RawMessage
	at, err := c.metadata(ctx, strings.TrimSuffix(base, "/")+"/.well-known/terraform.json", true, &doc)
	if err != nil {
		return Services{}, err
	}
	service := func(id string) (*url.URL, error) {
		var ref string
		if doc[id] == nil {
			return nil, nil
		}
		if err := json.Unmarshal(doc[id], &ref); err != nil {
			return nil, fmt.Errorf("service %s: %w", id, err)
		}
		u, err := at.Parse(ref)
		if err == nil && !strings.HasSuffix(u.Path, "/") {
			return nil, fmt.Errorf("service %s: %s does not end with a slash", id, u)
		}
		return u, err
	}
	var s Services
	if s.Modules, err = service("modules.v1"); err != nil {
		return s, err
	}
	s.Providers, err = service("providers.v1")
	return s, err
}

// metadata reads a JSON document and returns its final URL. With strict, the media type
// must be exactly that of JSON.
func (c *Client) metadata(ctx context.Context, u string, strict bool, v any) (*url.URL, error) {
	resp, err := c.send(ctx, http.MethodGet, u, c.Tool.UserAgent, c.Token)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := checkStatus(resp, http.StatusOK); err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); strict && (err != nil || kind != "application/json") {
		return nil, fmt.Errorf("%s: media type %q", u, resp.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	return resp.Request.URL, nil
}

// fetchArchive fetches a file as the tools do: without credentials, and for some kinds of
// archives after a HEAD whose length must match.
func (c *Client) fetchArchive(ctx context.Context, u *url.URL, agent string, head bool) ([]byte, error) {
	if strings.Contains(strings.TrimPrefix(u.Path, "/"), "//") {
		return nil, fmt.Errorf("%s: the module fetcher takes what follows // for a subdirectory", u)
	}
	length := int64(-1)
	if head {
		resp, err := c.send(ctx, http.MethodHead, u.String(), agent, "")
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close() // HEAD has no body
		if err := checkStatus(resp, http.StatusOK); err != nil {
			return nil, fmt.Errorf("HEAD: %w", err)
		}
		length = resp.ContentLength
	}
	resp, err := c.send(ctx, http.MethodGet, u.String(), agent, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := checkStatus(resp, http.StatusOK); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(resp.Body)
	if err == nil && length >= 0 && length != int64(len(b)) {
		return nil, fmt.Errorf("%s: HEAD says %d bytes, GET sends %d", u, length, len(b))
	}
	return b, err
}

func (c *Client) send(ctx context.Context, method, u, agent, token string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, u, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	return client.Do(r)
}

// StatusError is a response that stops the tools.
type StatusError struct {
	URL    string
	Status int
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d %s", e.URL, e.Status, e.Body) }

func checkStatus(resp *http.Response, want ...int) error {
	if slices.Contains(want, resp.StatusCode) {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // only for quoting it
	e := &StatusError{URL: resp.Request.URL.String(), Status: resp.StatusCode, Body: strings.TrimSpace(string(body))}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", ErrNotFound, e)
	}
	return e
}
