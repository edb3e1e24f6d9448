// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// conn sends the requests of one repository, with the credential of its
// session.
type conn struct {
	c    *Client
	name string
	s    *session
}

// request is one call of the distribution API on this repository.
type request struct {
	method string
	path   string // below /v2/<name>/
	query  url.Values
	url    *url.URL // replaces path and query: a URL that the registry returned
	header http.Header
	body   func() (io.ReadCloser, error)
	size   int64  // of the body
	stay   bool   // hand a redirect back instead of following it
	reads  string // name of another repository that the request reads; "": none
}

// quickTimeout bounds one request that moves no blob, with all its repetitions
// and the pauses between them.
const quickTimeout = 2 * time.Minute

// quick sends a request that moves no blob and is answered quickly. The
// returned cancel must be called after the body has been read.
func (k *conn) quick(ctx context.Context, q request) (*http.Response, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	resp, err := k.send(ctx, q)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return resp, cancel, nil
}

// done sends a quick request whose response body is not needed.
func (k *conn) done(ctx context.Context, q request) (*http.Response, error) {
	resp, cancel, err := k.quick(ctx, q)
	if err != nil {
		return nil, err
	}
	defer cancel()
	discard(resp)
	return resp, nil
}

// discard reads a short rest of the body, so that the connection can be reused,
// and closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	resp.Body.Close()
}

// send returns any answer of the 200 range, and redirects if q.stay is set;
// everything else is an error. The caller must close the body.
func (k *conn) send(ctx context.Context, q request) (*http.Response, error) {
	_, generation := k.s.inUse()
	resp, err := k.sendOnce(ctx, q)
	// A refusal is definite: nothing happened, so even a tag may be sent again.
	if errors.Is(err, ErrDenied) && refused(ctx, err) && k.s.narrowed() {
		resp, err = k.sendOnce(ctx, q)
	}
	if err = deniedAfterAll(ctx, err); !refused(ctx, err) {
		return resp, err
	}
	tried := map[Credential]bool{}
	for len(tried) < maxCredentials && refused(ctx, err) && k.s.renewed(ctx, generation, tried, err) {
		_, generation = k.s.inUse()
		resp, err = k.sendOnce(ctx, q)
		err = deniedAfterAll(ctx, err)
	}
	return resp, err
}

// maxCredentials is how many credentials are tried for one request.
const maxCredentials = 4

// deniedAfterAll changes err to ErrDenied if the registry answered 401 to a
// credential that it knows, because a right is missing. Otherwise it returns
// err unchanged.
func deniedAfterAll(ctx context.Context, err error) error {
	e, ok := errors.AsType[*ResponseError](err)
	if !ok || e.accepted == nil || e.sentinel != ErrUnauthenticated || ctx.Err() != nil {
		return err
	}
	if e.accepted() {
		e.sentinel = ErrDenied
	}
	e.accepted = nil // the registry has been asked
	return err
}

func refused(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrDenied)) && ctx.Err() == nil
}

func (k *conn) sendOnce(ctx context.Context, q request) (*http.Response, error) {
	req, err := k.newRequest(ctx, q)
	if err != nil {
		return nil, err
	}
	client := k.s.follow
	if q.stay {
		client = k.s.stay
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, k.s.requestError(q.method, req.URL, err)
	}
	switch {
	case resp.StatusCode/100 == 2:
		return resp, nil
	case resp.StatusCode/100 == 3 && q.stay:
		return resp, nil
	case resp.StatusCode/100 == 3:
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %w: redirected to %q, which is not followed for writes; is this the registry's address?",
			q.method, safeURL(req.URL), ErrUnavailable, redirectHost(resp))
	}
	return nil, k.s.responseError(resp)
}

func redirectHost(resp *http.Response) string {
	if u, err := resp.Location(); err == nil {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

func (k *conn) newRequest(ctx context.Context, q request) (*http.Request, error) {
	host := apiHost(k.c.host)
	u := q.url
	if u == nil {
		u = &url.URL{Scheme: k.c.scheme.get(ctx), Host: host, Path: "/v2/" + k.name + "/" + q.path, RawQuery: q.query.Encode()}
	}
	scopes := []string{k.scope(q)}
	if q.reads != "" {
		scopes = append(scopes, "repository:"+q.reads+":pull")
	}
	ctx = context.WithValue(auth.WithScopesForHost(ctx, host, scopes...), triedToken{}, new(string))
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", q.method, safeURL(u), err)
	}
	for k, v := range q.header {
		req.Header[k] = slices.Clone(v)
	}
	if q.body == nil {
		return req, nil
	}
	if q.size == 0 {
		req.Body = http.NoBody
		return req, nil
	}
	req.ContentLength = q.size
	req.GetBody = q.body
	if req.Body, err = q.body(); err != nil {
		return nil, &contentError{err}
	}
	return req, nil
}

// contentError is a failure to read the content to send, not an error of the
// registry.
type contentError struct{ error }

func (e *contentError) Error() string { return "open content: " + e.error.Error() }
func (e *contentError) Unwrap() error { return e.error }

// scope returns the scope that a token for the request must have for this
// repository: no more than the request needs, plus Options.Actions.
func (k *conn) scope(q request) string {
	var actions []string
	switch q.method {
	case http.MethodGet, http.MethodHead:
		actions = []string{"pull"}
	case http.MethodDelete:
		actions = []string{"delete"}
	default:
		actions = []string{"pull", "push"}
	}
	actions = append(actions, k.s.actions()...)
	slices.Sort(actions)
	return "repository:" + k.name + ":" + strings.Join(slices.Compact(actions), ",")
}

// follow resolves a Location or Link of an answer. On the registry's own host
// the scheme and port in use are kept: registries behind a proxy often do not
// know their public ones.
func follow(base *url.URL, location string) (*url.URL, error) {
	ref, err := url.Parse(location)
	if err != nil {
		return nil, err
	}
	u := base.ResolveReference(ref)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("scheme %q", u.Scheme)
	}
	if strings.EqualFold(u.Hostname(), base.Hostname()) {
		u.Scheme = base.Scheme
		u.Host = base.Host
	}
	if base.Scheme == "https" && u.Scheme != "https" {
		return nil, fmt.Errorf("leads from https to %s://%s", u.Scheme, u.Host)
	}
	u.User = nil
	return u, nil
}
