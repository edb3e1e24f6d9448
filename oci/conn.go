// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/seed-141914ff/okara/internal/text"
)

// conn sends the requests of one repository, or without name those about the registry itself.
type conn struct {
	c    *Client
	name string
	s    *session
}

// request is one call of the distribution API.
type request struct {
	method string
	path   string // below /v2/<name>/, or below /v2/ without a name
	query  url.Values
	url    *url.URL // replaces path and query: a URL that the registry returned
	header http.Header
	body   func() (io.ReadCloser, error)
	size   int64  // of the body
	stay   bool   // hand a redirect back instead of following it
	reads  string // name of another repository that the request reads; "": none
}

// quickTimeout bounds one request that moves no blob, with its repetitions and their pauses.
const quickTimeout = 2 * time.Minute

// sendQuick sends a request that moves no blob. cancel must be called after the body has been read.
func (k *conn) sendQuick(ctx context.Context, q request) (*http.Response, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	resp, err := k.send(ctx, q)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return resp, cancel, nil
}

func (k *conn) sendAndDiscard(ctx context.Context, q request) (*http.Response, error) {
	resp, cancel, err := k.sendQuick(ctx, q)
	if err != nil {
		return nil, err
	}
	defer cancel()
	discardBody(resp)
	return resp, nil
}

// errCut marks a small body that was cut off, which is read again.
var errCut = errors.New("response ended early")

// readAnswer returns a quick answer with at most limit bytes, requested again if it breaks off.
func (k *conn) readAnswer(ctx context.Context, q request, limit int64) (*http.Response, []byte, error) {
	for attempt := 1; ; attempt++ {
		resp, body, err := k.readOnce(ctx, q, limit)
		if !errors.Is(err, errCut) || attempt >= k.c.o.Retry.MaxAttempts || ctx.Err() != nil {
			return resp, body, err
		}
		if ended := text.Wait(ctx, backoff(k.c.o.Retry.InitialBackoff, k.c.o.Retry.MaxBackoff, attempt)); ended != nil {
			return nil, nil, fmt.Errorf("%w: %w", ended, err)
		}
	}
}

func (k *conn) readOnce(ctx context.Context, q request, limit int64) (*http.Response, []byte, error) {
	resp, cancel, err := k.sendQuick(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	defer cancel()
	defer resp.Body.Close()
	var body []byte
	if resp.ContentLength <= limit {
		body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	}
	switch {
	case resp.ContentLength > limit || int64(len(body)) > limit:
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	case err != nil:
		err = fmt.Errorf("%w: %w: %w", ErrUnavailable, errCut, err)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", q.method, safeURL(resp.Request.URL), err)
	}
	return resp, body, err
}

const maxPages = 100_000

// readPages reads a list page by page and follows the Link headers. A repeated link ends the list:
// some registries repeat their last one for ever.
func (k *conn) readPages(ctx context.Context, q request, limit int64, use func(*http.Response, []byte) error) error {
	seen := map[string]bool{}
	for range maxPages {
		resp, body, err := k.readAnswer(ctx, q, limit)
		if err == nil {
			err = use(resp, body)
		}
		if err != nil {
			return err
		}
		next, err := nextPage(resp.Request.URL, strings.Join(resp.Header.Values("Link"), ", "))
		if err != nil {
			return fmt.Errorf("GET %s: %w: %w", safeURL(resp.Request.URL), ErrCorrupt, err)
		}
		if next == nil || seen[next.String()] {
			return nil
		}
		seen[next.String()] = true
		q.url = next
	}
	return fmt.Errorf("GET %s: %w: more than %d pages", safeURL(q.url), ErrTooLarge, maxPages)
}

func decodePage(resp *http.Response, body []byte, list any) error {
	if isHTML(resp.Header) {
		return notRegistry(resp)
	}
	if err := json.Unmarshal(body, list); err != nil {
		return fmt.Errorf("GET %s: %w: returned something other than a list: %w", safeURL(resp.Request.URL), ErrCorrupt, err)
	}
	return nil
}

// nextPage returns the URL of rel="next" in a Link header (RFC 8288), nil if there is none.
func nextPage(base *url.URL, link string) (*url.URL, error) {
	match := nextLink().FindStringSubmatch(link)
	if match == nil {
		return nil, nil
	}
	u, err := resolveLink(base, match[1])
	if err != nil {
		return nil, fmt.Errorf("link %q: %w", match[1], err)
	}
	if u.Host != base.Host {
		return nil, fmt.Errorf("link to another host %q", u.Host)
	}
	return u, nil
}

var nextLink = text.Pattern(`(?i)<([^<>]+)>[^<]*;\s*rel\s*=\s*(?:next\s*(?:[;,]|$)|"(?:[^"<]*\s)?next[\s"])`)

// discardBody reads a short rest of the body, so that the connection can be reused, and closes it.
func discardBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	resp.Body.Close()
}

// send returns any answer of the 200 range, and redirects if q.stay is set; everything else is an
// error. The caller must close the body.
func (k *conn) send(ctx context.Context, q request) (*http.Response, error) {
	_, generation := k.s.inUse()
	resp, err := k.sendOnce(ctx, q)
	if k.name == "" { // many registries refuse these requests to everybody
		return resp, err
	}
	// A refusal is definite: nothing happened, so even a tag may be sent again.
	if errors.Is(err, ErrDenied) && isRefusal(ctx, err) && k.s.narrowActions() {
		resp, err = k.sendOnce(ctx, q)
	}
	if err = deniedAfterAll(ctx, err); !isRefusal(ctx, err) {
		return resp, err
	}
	tried := map[Credential]bool{}
	for len(tried) < maxCredentials && isRefusal(ctx, err) && k.s.renewCredential(ctx, generation, tried, err) {
		_, generation = k.s.inUse()
		resp, err = k.sendOnce(ctx, q)
		err = deniedAfterAll(ctx, err)
	}
	return resp, err
}

const maxCredentials = 4

// deniedAfterAll turns a 401 for a known credential into ErrDenied, because a right is missing.
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

func isRefusal(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrDenied)) && ctx.Err() == nil
}

func (k *conn) sendOnce(ctx context.Context, q request) (*http.Response, error) {
	x := &exchange{blocked: slices.Clone(blockedRealms())}
	req, err := k.newRequest(context.WithValue(ctx, exchangeKey{}, x), q)
	if err != nil {
		return nil, err
	}
	client := *k.s.follow
	if q.stay {
		client = *k.s.stay
	}
	client.BlockedRealmPrefixes = x.blocked
	resp, err := client.Do(req)
	if err != nil {
		return nil, k.s.requestError(q.method, k.c.o.Asked(req.URL), err)
	}
	asked := *resp.Request
	asked.URL = k.c.o.Asked(asked.URL)
	resp.Request = &asked
	if name, err := url.QueryUnescape(resp.Header.Get(CallerHeader)); err == nil && name != "" && q.method == http.MethodPut {
		k.c.caller.Store(&name)
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
		u = &url.URL{Scheme: k.c.scheme.probeScheme(ctx), Host: host, Path: path.Join("/v2", k.name) + "/" + q.path, RawQuery: q.query.Encode()}
	}
	req, err := http.NewRequestWithContext(auth.WithScopesForHost(ctx, host, k.scopes(q)...), q.method, u.String(), nil)
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

// contentError is a failure to read the content to send, not an error of the registry.
type contentError struct{ error }

func (e *contentError) Error() string { return "open content: " + e.error.Error() }
func (e *contentError) Unwrap() error { return e.error }

// scopes returns what a token must allow: what the request needs, plus Options.Actions. For a
// request about the registry itself, the challenge says it.
func (k *conn) scopes(q request) []string {
	if k.name == "" {
		return nil
	}
	actions := k.s.extraActions()
	switch q.method {
	case http.MethodGet, http.MethodHead:
		actions = append(actions, auth.ActionPull)
	case http.MethodDelete:
		actions = append(actions, auth.ActionDelete)
	default:
		actions = append(actions, auth.ActionPull, auth.ActionPush)
	}
	scopes := []string{auth.ScopeRepository(k.name, actions...)}
	if q.reads != "" {
		scopes = append(scopes, auth.ScopeRepository(q.reads, auth.ActionPull))
	}
	return scopes
}

// resolveLink resolves a Location or Link of an answer. On the registry's host it keeps scheme and
// port: behind a proxy, registries often do not know their public ones.
func resolveLink(base *url.URL, location string) (*url.URL, error) {
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
