// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-github/v84/github"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// maxWait is the longest that a call waits for GitHub's rate limit; the limit
// is counted per hour.
const maxWait = time.Hour

// GitHub reads tags, releases and trees over GitHub's REST API. Repeated lists
// are conditional requests: an unchanged one costs no quota. A call that meets
// the rate limit waits until GitHub's own reset time, or fails at once if its
// context ends before that.
type GitHub struct {
	http  *http.Client
	api   *url.URL
	token TokenFunc
	wait  func(context.Context, time.Duration) error

	mu      sync.Mutex // guards clients
	clients map[string]ownerClient
}

// ownerClient is the client of one owner and the token that it sends.
type ownerClient struct {
	*github.Client
	token string
}

// NewGitHub returns a reader of the API at api, nil for github.com's. token is
// asked with "HOST/OWNER", so that each organisation can have its own. h is
// where requests go; nil is the default client. Its transport may be one of [Lists], which
// remember from one reader to the next.
func NewGitHub(h *http.Client, api *url.URL, token TokenFunc) *GitHub {
	conditional := careful(h)
	if _, ok := conditional.Transport.(conditionalTransport); !ok {
		conditional.Transport = NewLists().Transport(conditional.Transport)
	}
	if api == nil {
		api = &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	}
	return &GitHub{http: conditional, api: api, token: token, wait: text.Wait, clients: map[string]ownerClient{}}
}

func (g *GitHub) client(owner string) *github.Client {
	token := ""
	if g.token != nil {
		token = g.token(strings.TrimPrefix(g.api.Hostname(), "api.") + "/" + owner)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.clients[owner]; ok && c.token == token {
		return c.Client
	}
	h := *g.http
	if token != "" {
		h.Transport = bearer{token, g.api, g.http.Transport}
	}
	c := github.NewClient(&h)
	c.RateLimitRedirectionalEndpoints = true // for trees: tells one refusal from another
	base := *g.api
	if !strings.HasSuffix(base.Path, "/") {
		base.Path += "/"
	}
	c.BaseURL = &base
	g.clients[owner] = ownerClient{c, token}
	return c
}

// bearer adds a token to the requests for one origin. The library's own adds it to
// those that follow a redirect, too, wherever that leads.
type bearer struct {
	token  string
	origin *url.URL
	next   http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if sameOrigin(r.URL, b.origin) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// Tags lists the tags of a repository with their commits, all pages.
func (g *GitHub) Tags(ctx context.Context, owner, name string) ([]Tag, error) {
	o := &github.ListOptions{PerPage: 100}
	var tags []Tag
	for {
		var page []*github.RepositoryTag
		next, err := g.call(ctx, owner, func(c *github.Client) (r *github.Response, err error) {
			page, r, err = c.Repositories.ListTags(ctx, owner, name, o)
			return r, err
		})
		if err != nil {
			return nil, fmt.Errorf("listing the tags of %s/%s: %w", owner, name, err)
		}
		for _, t := range page {
			tags = append(tags, Tag{Name: t.GetName(), Commit: t.GetCommit().GetSHA()})
		}
		if next == 0 {
			return tags, nil
		}
		o.Page = next
	}
}

// Releases lists the tags of the published releases; drafts are left out. The
// API does not tell their commits.
func (g *GitHub) Releases(ctx context.Context, owner, name string) ([]Tag, error) {
	o := &github.ListOptions{PerPage: 100}
	var tags []Tag
	for {
		var page []*github.RepositoryRelease
		next, err := g.call(ctx, owner, func(c *github.Client) (r *github.Response, err error) {
			page, r, err = c.Repositories.ListReleases(ctx, owner, name, o)
			return r, err
		})
		if err != nil {
			return nil, fmt.Errorf("listing the releases of %s/%s: %w", owner, name, err)
		}
		for _, r := range page {
			if !r.GetDraft() {
				tags = append(tags, Tag{Name: r.GetTagName()})
			}
		}
		if next == 0 {
			return tags, nil
		}
		o.Page = next
	}
}

// TagCommit returns the commit that a tag names, also for an annotated tag.
func (g *GitHub) TagCommit(ctx context.Context, owner, name, tag string) (string, error) {
	var commit string
	_, err := g.call(ctx, owner, func(c *github.Client) (r *github.Response, err error) {
		commit, r, err = c.Repositories.GetCommitSHA1(ctx, owner, name, "tags/"+tag, "")
		return r, err
	})
	if err == nil && !plumbing.IsHash(commit) {
		err = fmt.Errorf("the answer is no commit: %w", oci.ErrCorrupt)
	}
	if err != nil {
		return "", fmt.Errorf("resolving tag %s of %s/%s: %w", tag, owner, name, err)
	}
	return commit, nil
}

// Tarball opens the tar.gz of a tree; ref is a commit, tag or branch. All its
// files are below one top directory. The caller closes it.
func (g *GitHub) Tarball(ctx context.Context, owner, name, ref string) (io.ReadCloser, error) {
	var link *url.URL
	_, err := g.call(ctx, owner, func(c *github.Client) (r *github.Response, err error) {
		link, r, err = c.Repositories.GetArchiveLink(ctx, owner, name, github.Tarball, &github.RepositoryContentGetOptions{Ref: ref}, 2)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("fetching %s of %s/%s: %w", ref, owner, name, err)
	}
	plain := &Client{HTTP: g.http} // the link carries its own signature; the token stays here
	return plain.open(ctx, link)
}

// call repeats f once after waiting for the rate limit, and maps its error.
func (g *GitHub) call(ctx context.Context, owner string, f func(*github.Client) (*github.Response, error)) (nextPage int, err error) {
	c := g.client(owner)
	resp, err := f(c)
	if pause, limited := RateLimitPause(err); limited && pause <= maxWait && ends(ctx, pause) {
		if err := g.wait(ctx, pause); err != nil {
			return 0, err
		}
		resp, err = f(c)
	}
	if err != nil {
		return 0, githubError(err)
	}
	return resp.NextPage, nil
}

// ends reports whether a pause is over before ctx is.
func ends(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > pause
}

// RateLimitPause returns how long GitHub wants nobody to ask, if err is about that.
func RateLimitPause(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*github.RateLimitError](err); ok {
		return max(time.Until(e.Rate.Reset.Time), 0) + time.Second, true
	}
	if e, ok := errors.AsType[*github.AbuseRateLimitError](err); ok {
		if e.RetryAfter != nil {
			return *e.RetryAfter, true
		}
		return time.Minute, true // GitHub's documented pause for secondary limits
	}
	return 0, false
}

// githubError keeps GitHub's words and adds the sentinel.
func githubError(err error) error {
	if _, limited := RateLimitPause(err); limited {
		return fmt.Errorf("%w: %w", err, oci.ErrRateLimited)
	}
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok && e.Response != nil {
		return fmt.Errorf("GitHub says %q (%s): %w", e.Message, e.Response.Status, statusError(e.Response.StatusCode))
	}
	return fmt.Errorf("%w: %w", err, oci.ErrUnavailable)
}
