// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Maximum sizes of an origin's answers, in bytes. They are far above the answers of the public
// registries: their longest version list has 400 KiB, a SHA256SUMS of 20 platforms 3 KiB.
const (
	maxJSON    = 2 << 20
	maxSums    = 1 << 20
	maxPackage = 4 << 30
	maxReason  = 512 // of the message in an error response
)

// TokenFunc returns the API token for the services of one host, as in a
// `credentials` block or TF_TOKEN_…; empty means none.
type TokenFunc func(host string) string

// Client sends the requests of all sources of this package.
type Client struct {
	HTTP      *http.Client // nil: http.DefaultClient
	Token     TokenFunc    // nil: anonymous
	UserAgent string
}

// leftOut is the key of the function of [ReportLeftOut] in a context.
type leftOut struct{}

// ReportLeftOut returns a context in which report is called for each version
// that an origin lists and okara cannot store.
func ReportLeftOut(ctx context.Context, report func(listed string, why error)) context.Context {
	return context.WithValue(ctx, leftOut{}, report)
}

// LeaveOut calls the function of [ReportLeftOut], if there is one.
func LeaveOut(ctx context.Context, listed string, why error) {
	if report, ok := ctx.Value(leftOut{}).(func(string, error)); ok {
		report(listed, why)
	}
}

// takeVersion parses a version that an origin lists, or leaves it out.
func takeVersion(ctx context.Context, listed string, parse func(string) (addr.Version, error)) (addr.Version, bool) {
	v, err := parse(listed)
	if err != nil {
		LeaveOut(ctx, listed, err)
	}
	return v, err == nil
}

// carefulClient returns a client that follows redirects according to checkRedirect.
func carefulClient(h *http.Client) *http.Client {
	if h == nil {
		h = http.DefaultClient
	}
	out := *h
	out.CheckRedirect = checkRedirect
	return &out
}

// sendGet sends one GET. The host's token is sent only if auth is set: no client of
// these protocols sends it to archive and checksum URLs. If the error is nil,
// the status is 200 or 204 and the caller must close the body.
func (c *Client) sendGet(ctx context.Context, u *url.URL, auth bool) (*http.Response, error) {
	if u.Scheme != "https" && !netaddr.IsLoopback(u.Hostname()) {
		return nil, oci.Unsupported("%s: origins must use https", u.Redacted())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("requesting %s: %w", u.Redacted(), err)
	}
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	if auth && c.Token != nil {
		if t := c.Token(u.Host); t != "" {
			req.Header.Set("Authorization", "Bearer "+t)
		}
	}
	resp, err := carefulClient(c.HTTP).Do(req)
	if err != nil {
		if uerr, ok := errors.AsType[*url.Error](err); ok {
			err = uerr.Err // its text repeats the URL including the query
		}
		return nil, fmt.Errorf("requesting %s: %w: %w", formatURL(u), err, oci.ErrUnavailable)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason)) // optional, so an error is ignored
		if bytes.Contains(answer, []byte("HTTPS")) {                  // the server expects HTTPS
			return nil, fmt.Errorf("requesting %s: %s: %w", formatURL(u), text.Excerpt(string(bytes.TrimSpace(answer))), oci.ErrUnavailable)
		}
	}
	return nil, fmt.Errorf("requesting %s: %s: %w", formatURL(u), resp.Status, statusError(resp.StatusCode))
}

// formatURL formats a URL without user, password and query: a signed URL is a secret.
func formatURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func statusError(code int) error {
	switch {
	case code == http.StatusNotFound, code == http.StatusGone:
		return oci.ErrNotFound
	case code == http.StatusUnauthorized:
		return oci.ErrUnauthenticated
	case code == http.StatusForbidden:
		return oci.ErrDenied
	case code == http.StatusTooManyRequests:
		return oci.ErrRateLimited
	case code >= http.StatusInternalServerError:
		return oci.ErrUnavailable
	}
	return oci.ErrCorrupt
}

// getJSON decodes one JSON document into v and returns its final URL, against
// which relative references in it are resolved.
func (c *Client) getJSON(ctx context.Context, u *url.URL, v any) (*url.URL, error) {
	resp, err := c.sendGet(ctx, u, true)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, fmt.Errorf("%s returned %q instead of application/json: %w",
			formatURL(u), resp.Header.Get("Content-Type"), oci.ErrCorrupt)
	}
	b, err := readAll(resp.Body, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", formatURL(u), err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("reading %s: %w: %w", formatURL(u), err, oci.ErrCorrupt)
	}
	return resp.Request.URL, nil
}

// bytes reads a small file without credentials.
func (c *Client) bytes(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	resp, err := c.sendGet(ctx, u, false)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := readAll(resp.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", formatURL(u), err)
	}
	return b, nil
}

// openDownload starts a download without credentials. The caller must close the body.
func (c *Client) openDownload(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	resp, err := c.sendGet(ctx, u, false)
	if err != nil {
		return nil, err
	}
	return limitBody(resp)
}

// limitBody bounds the body of a download.
func limitBody(resp *http.Response) (io.ReadCloser, error) {
	if resp.ContentLength > maxPackage {
		resp.Body.Close()
		return nil, fmt.Errorf("%s has %d bytes: %w", formatURL(resp.Request.URL), resp.ContentLength, oci.ErrTooLarge)
	}
	return limitedBody{io.LimitReader(resp.Body, maxPackage), resp.Body, resp.ContentLength}, nil
}

type limitedBody struct {
	io.Reader
	io.Closer
	length int64
}

// Length returns the size that the origin announced.
func (b limitedBody) Length() int64 { return b.length }

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, oci.ErrUnavailable)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("more than %d bytes: %w", limit, oci.ErrTooLarge)
	}
	return b, nil
}

// discoverService reads the discovery document of a host and returns the base URL of
// one service, with a trailing slash.
func (c *Client) discoverService(ctx context.Context, host, id string) (*url.URL, error) {
	scheme := "https"
	doc := map[string]json.RawMessage{}
	base, err := c.getJSON(ctx, &url.URL{Scheme: scheme, Host: host, Path: "/.well-known/terraform.json"}, &doc)
	if err != nil && netaddr.IsLoopback(host) && errors.Is(err, oci.ErrUnavailable) {
		base, err = c.getJSON(ctx, &url.URL{Scheme: "http", Host: host, Path: "/.well-known/terraform.json"}, &doc)
	}
	if err != nil {
		return nil, fmt.Errorf("discovering the services of %s: %w", host, err)
	}
	var ref string
	if raw, ok := doc[id]; !ok || json.Unmarshal(raw, &ref) != nil || ref == "" {
		return nil, fmt.Errorf("%s offers no %s: %w", host, id, oci.ErrNotFound)
	}
	u, err := base.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("%s has an invalid address for %s: %w", host, id, oci.ErrCorrupt)
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	return u, nil
}
