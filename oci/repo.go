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

	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Repo is one repository of a registry. It is safe for concurrent use.
type Repo struct {
	c    *Client
	name string
	s    *session
}

// Host returns the registry, "host[:port]".
func (r *Repo) Host() string { return r.c.host }

// Name returns the repository's path without the host.
func (r *Repo) Name() string { return r.name }

// String returns "host[:port]/path".
func (r *Repo) String() string { return r.c.host + "/" + r.name }

// Artifact is a manifest with everything it points to.
type Artifact struct {
	Blobs    []Blob
	Children []Manifest // of an index
	Root     Manifest   // zero: only blobs are pushed
	New      bool       // the registry has hardly any of the blobs: small ones are sent without asking
}

const (
	// pushParallel is how many blobs of one artifact move at a time.
	pushParallel = 4
	// maxUnasked is the size up to which sending a blob costs no more than to ask for it.
	maxUnasked = 64 << 10
)

// Push stores the artifact by digest and returns its root, which no tag names
// yet. Blobs the registry has are not sent again. A cut Push may be repeated.
func (r *Repo) Push(ctx context.Context, a Artifact) (Descriptor, error) {
	if err := pushBlobs(ctx, r, a); err != nil || a.Root.Bytes == nil {
		return Descriptor{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pushParallel)
	for _, m := range a.Children {
		g.Go(func() error { return r.PutManifest(gctx, m) })
	}
	if err := g.Wait(); err != nil {
		return Descriptor{}, err
	}
	if err := r.PutManifest(ctx, a.Root); err != nil {
		return Descriptor{}, err
	}
	return a.Root.Descriptor, nil
}

func pushBlobs(ctx context.Context, r *Repo, a Artifact) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pushParallel)
	seen := map[string]bool{}
	empty := EmptyBlob().Digest // most repositories have it
	for _, b := range a.Blobs {
		if d := b.Digest.String(); !seen[d] {
			seen[d] = true
			g.Go(func() error {
				if a.New && b.Size <= maxUnasked && b.Digest != empty {
					return r.PushBlob(gctx, b)
				}
				_, err := r.EnsureBlob(gctx, b)
				return err
			})
		}
	}
	return g.Wait()
}

// request is one call of the distribution API on this repository.
type request struct {
	method string
	path   string // below /v2/<name>/
	query  url.Values
	url    *url.URL // instead of path and query: where the registry sent us
	header http.Header
	body   func() (io.ReadCloser, error)
	size   int64  // of the body
	stay   bool   // hand a redirect back instead of following it
	reads  string // name of another repository that is read by it; "": none
}

// quickTimeout bounds one request that moves no blob, with all its repetitions
// and the pauses between them.
const quickTimeout = 2 * time.Minute

// quick sends a request that moves no blob and is answered shortly. The
// returned cancel must be called when the body has been read.
func (r *Repo) quick(ctx context.Context, q request) (*http.Response, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	resp, err := r.send(ctx, q)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return resp, cancel, nil
}

// done sends a quick request whose answer has no body of interest.
func (r *Repo) done(ctx context.Context, q request) (*http.Response, error) {
	resp, cancel, err := r.quick(ctx, q)
	if err != nil {
		return nil, err
	}
	defer cancel()
	discard(resp)
	return resp, nil
}

// discard reads what little may be left, so that the connection can be used
// again, and closes.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	resp.Body.Close()
}

// send returns any answer of the 200 range, and redirects if q.stay is set;
// everything else is an error. The caller closes the body.
func (r *Repo) send(ctx context.Context, q request) (*http.Response, error) {
	_, generation := r.s.inUse()
	resp, err := r.sendOnce(ctx, q)
	// A refusal is definite: nothing happened, so even a tag may be sent again.
	if errors.Is(err, ErrDenied) && refused(ctx, err) && r.s.narrowed() {
		resp, err = r.sendOnce(ctx, q)
	}
	if err = deniedAfterAll(ctx, err); !refused(ctx, err) {
		return resp, err
	}
	tried := map[Credential]bool{}
	for len(tried) < maxCredentials && refused(ctx, err) && r.s.renewed(ctx, generation, tried, err) {
		_, generation = r.s.inUse()
		resp, err = r.sendOnce(ctx, q)
		err = deniedAfterAll(ctx, err)
	}
	return resp, err
}

// maxCredentials is how many are tried for one request.
const maxCredentials = 4

// deniedAfterAll is err, or the refusal of a right where the registry says 401 to a
// credential that it knows.
func deniedAfterAll(ctx context.Context, err error) error {
	e, ok := errors.AsType[*ResponseError](err)
	if !ok || e.accepted == nil || e.sentinel != ErrUnauthenticated || ctx.Err() != nil {
		return err
	}
	if e.accepted() {
		e.sentinel = ErrDenied
	}
	e.accepted = nil // it was asked
	return err
}

func refused(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrDenied)) && ctx.Err() == nil
}

func (r *Repo) sendOnce(ctx context.Context, q request) (*http.Response, error) {
	req, err := r.newRequest(ctx, q)
	if err != nil {
		return nil, err
	}
	client := r.s.follow
	if q.stay {
		client = r.s.stay
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, r.s.requestError(q.method, req.URL, err)
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
	return nil, r.s.responseError(resp)
}

func redirectHost(resp *http.Response) string {
	if u, err := resp.Location(); err == nil {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

func (r *Repo) newRequest(ctx context.Context, q request) (*http.Request, error) {
	host := apiHost(r.c.host)
	u := q.url
	if u == nil {
		u = &url.URL{Scheme: r.c.scheme.get(ctx), Host: host, Path: "/v2/" + r.name + "/" + q.path, RawQuery: q.query.Encode()}
	}
	scopes := []string{r.scope(q)}
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
	req.ContentLength, req.GetBody = q.size, q.body
	if req.Body, err = q.body(); err != nil {
		return nil, &contentError{err}
	}
	return req, nil
}

// contentError is of what is to be sent, not of the registry that it is sent to.
type contentError struct{ error }

func (e *contentError) Error() string { return "open content: " + e.error.Error() }
func (e *contentError) Unwrap() error { return e.error }

// scope returns what a token for the request must allow in this repository: no
// more than needed unless Options.Actions asks for it.
func (r *Repo) scope(q request) string {
	var actions []string
	switch q.method {
	case http.MethodGet, http.MethodHead:
		actions = []string{"pull"}
	case http.MethodDelete:
		actions = []string{"delete"}
	default:
		actions = []string{"pull", "push"}
	}
	actions = append(actions, r.s.actions()...)
	slices.Sort(actions)
	return "repository:" + r.name + ":" + strings.Join(slices.Compact(actions), ",")
}

// follow resolves a Location or Link of an answer. On the registry's own host
// the scheme and port in use are kept: registries behind a proxy often know
// neither.
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
		u.Scheme, u.Host = base.Scheme, base.Host
	}
	if base.Scheme == "https" && u.Scheme != "https" {
		return nil, fmt.Errorf("leads from https to %s://%s", u.Scheme, u.Host)
	}
	u.User = nil
	return u, nil
}
