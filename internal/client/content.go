// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// Content opens a version for reading: it returns a client of the registry behind the front-end,
// whose requests go through the front-end. It reaches only the repository of the version, and
// cannot write. Digests are verified as for any registry. The layout comes from the server: signed
// content must itself say which version it is, see [depot.Options.LayoutFromServer].
func (c *Client) Content(ctx context.Context, it addr.Item, v addr.Version) (*oci.Client, addr.Layout, error) {
	path := versionsPath(it) + "/" + v.String() + "/content"
	var doc struct {
		Registry string
		Layout   struct{ Prefix, Modules, Providers, Mirror string }
	}
	if _, err := c.send(ctx, http.MethodGet, path, nil, nil, &doc); err != nil {
		return nil, addr.Layout{}, err
	}
	l := addr.Layout{Prefix: doc.Layout.Prefix, Modules: doc.Layout.Modules, Providers: doc.Layout.Providers, Mirror: doc.Layout.Mirror}
	through := &through{c: c, base: c.o.Transport, from: "/v2/" + it.Repository(l) + "/", path: path}
	if through.base == nil {
		through.base = http.DefaultTransport
	}
	// Plain http, so that no request finds out whether the registry uses TLS.
	r, err := oci.New(doc.Registry, oci.Options{Transport: through, Asked: through.frontEndURL, PlainHTTP: true, UserAgent: c.o.UserAgent, Logger: c.o.Logger})
	if err != nil {
		return nil, l, fmt.Errorf("%s: the registry behind it: %s: %w", c.o.Server.Host, text.Excerpt(err.Error()), oci.ErrCorrupt)
	}
	// The layout of other kinds of repositories does not matter here.
	if _, err := r.Repo(it.Repository(l)); err != nil {
		return nil, l, fmt.Errorf("%s: the layout of the registry behind it: %s: %w", c.o.Server.Host, text.Excerpt(err.Error()), oci.ErrCorrupt)
	}
	return r, l, nil
}

// versionsPath returns the path of an item's versions on a front-end, mirrored ones too.
func versionsPath(it addr.Item) string {
	switch {
	case it.Kind == addr.KindModule:
		return ModulePath(it.Module)
	case it.Provider.Hostname != "":
		return "origin/" + it.Provider.Hostname + "/v1/providers/" + it.Provider.Namespace + "/" + it.Provider.Type
	}
	return ProviderPath(it.Provider)
}

// through sends the requests for one repository to a front-end.
type through struct {
	c          *Client
	base       http.RoundTripper
	from, path string // prefix of a request's path, and its replacement at the front-end
}

// frontEndURL returns the URL at the front-end, u itself for one outside the repository.
func (t *through) frontEndURL(u *url.URL) *url.URL {
	if rest, ok := strings.CutPrefix(u.Path, t.from); ok {
		return t.c.o.Server.JoinPath(t.path, rest)
	}
	return u
}

// RoundTrip implements [http.RoundTripper].
func (t *through) RoundTrip(r *http.Request) (*http.Response, error) {
	at := t.frontEndURL(r.URL)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return nil, oci.Unsupported("%s through a server", r.Method)
	case at != r.URL:
	case r.Response == nil:
		return refusalResponse(r, http.StatusNotFound, "the server exposes the repository of one version only"), nil
	default:
		return t.fetchFromStorage(r)
	}
	to, err := http.NewRequestWithContext(r.Context(), r.Method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	to.Header = r.Header.Clone()
	if t.c.o.Checks {
		to.Header.Set(downloads.PurposeHeader, downloads.PurposeCheck)
	}
	if err := t.c.authorize(to); err != nil {
		return nil, err
	}
	resp, err := t.base.RoundTrip(to)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // as much of the refusal as was read is shown
	refused := refusalResponse(r, resp.StatusCode, t.c.parseRefusal(to, resp, b).Text)
	if after := resp.Header.Get("Retry-After"); after != "" {
		refused.Header.Set("Retry-After", after)
	}
	return refused, nil
}

// fetchFromStorage follows a redirect to the storage of the registry, which needs no token. The
// text of a refusal is not shown: a malicious front-end may have put the token there.
func (t *through) fetchFromStorage(r *http.Request) (*http.Response, error) {
	token, err := t.c.o.Token(r.Context())
	switch {
	case err != nil:
		return nil, err
	case r.URL.Scheme != "https" && t.c.o.Server.Scheme == "https":
		return nil, oci.Unsupported("the server redirects to an address without TLS")
	case token != "" && strings.Contains(r.URL.String(), token):
		return nil, oci.Unsupported("the server redirects to an address with the token in it")
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return resp, err
	}
	resp.Body.Close()
	return refusalResponse(r, resp.StatusCode, "the storage that the server redirects to returned "+resp.Status), nil
}

// refusalResponse returns a refusal in the form of registries.
func refusalResponse(r *http.Request, status int, message string) *http.Response {
	b, err := json.Marshal(map[string]any{"errors": []map[string]string{{"message": message}}})
	if err != nil {
		b = nil // text can always be encoded as JSON
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)), Request: r,
	}
}
