// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const (
	// maxWait is the longest wait of a call for GitHub's rate limit, which is counted per hour.
	maxWait = time.Hour
	// maxPauseSeconds is the longest pause that is accepted from GitHub.
	maxPauseSeconds = 24 * 60 * 60

	// maxGitHubPage bounds an answer, in bytes. A release has its notes and about two kilobytes for
	// each file, so a hundred releases of a provider have several megabytes.
	maxGitHubPage = 32 << 20

	jsonOfGitHub    = "application/vnd.github+json"
	versionOfGitHub = "2022-11-28" // of the API, https://docs.github.com/en/rest/about-the-rest-api/api-versions
)

// GitHub reads tags, releases and trees with GitHub's REST API. Repeated lists are conditional
// requests: an unchanged list costs no quota. A call that reaches the rate limit waits until
// GitHub's reset time, or fails at once if its context ends before that.
type GitHub struct {
	http  *http.Client
	api   *url.URL // its path ends with a slash
	token TokenFunc
	wait  func(context.Context, time.Duration) error

	mu     sync.Mutex // guards pauses
	pauses map[string]pause
}

// pause is the period in which GitHub refuses requests with a token. According
// to GitHub, a client that continues to send requests may be banned.
type pause struct {
	token string
	until time.Time
}

// NewGitHub returns a reader of the API at api, nil for github.com's. token is
// called with "HOST/OWNER", so that each organisation can have its own token.
// Requests are sent with h, nil for the default client. Its transport may be
// one of [Lists], which keeps lists from one reader to the next.
func NewGitHub(h *http.Client, api *url.URL, token TokenFunc) *GitHub {
	conditional := carefulClient(h)
	if _, ok := conditional.Transport.(conditionalTransport); !ok {
		conditional.Transport = NewLists().Transport(conditional.Transport)
	}
	base := url.URL{Scheme: "https", Host: "api.github.com"}
	if api != nil {
		base = *api
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	return &GitHub{http: conditional, api: &base, token: token, wait: text.Wait, pauses: map[string]pause{}}
}

// Tags lists the tags of a repository with their commits, all pages.
func (g *GitHub) Tags(ctx context.Context, owner, name string) ([]Tag, error) {
	var tags []Tag
	err := eachOf(ctx, g, owner, name, "tags", func(t githubTag) {
		tags = append(tags, Tag{Name: t.Name, Commit: t.Commit.SHA})
	})
	if err != nil {
		return nil, fmt.Errorf("listing the tags of %s/%s: %w", owner, name, err)
	}
	return tags, nil
}

// githubTag is defined in https://docs.github.com/en/rest/repos/repos#list-repository-tags.
type githubTag struct {
	Name   string `json:"name"`
	Commit struct {
		SHA string `json:"sha"`
	} `json:"commit"`
}

// Releases lists the tags of the published releases, without drafts. The API
// does not return their commits.
func (g *GitHub) Releases(ctx context.Context, owner, name string) ([]Tag, error) {
	var tags []Tag
	err := eachOf(ctx, g, owner, name, "releases", func(r githubRelease) {
		if !r.Draft {
			tags = append(tags, Tag{Name: r.Tag})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the releases of %s/%s: %w", owner, name, err)
	}
	return tags, nil
}

// githubRelease is defined in https://docs.github.com/en/rest/releases/releases#list-releases.
type githubRelease struct {
	Tag   string `json:"tag_name"`
	Draft bool   `json:"draft"`
}

// eachOf reads all pages of a list and calls f for each of its entries.
func eachOf[T any](ctx context.Context, g *GitHub, owner, name, list string, f func(T)) error {
	u := g.repository(owner, name, list)
	for page := 1; page != 0; {
		if page > maxPages {
			return fmt.Errorf("more than %d pages: %w", maxPages, oci.ErrTooLarge)
		}
		u.RawQuery = url.Values{"per_page": {"100"}, "page": {strconv.Itoa(page)}}.Encode()
		body, header, err := g.readAnswer(ctx, question{owner: owner, url: u, accept: jsonOfGitHub})
		if err != nil {
			return err
		}
		var entries []T
		if err := json.Unmarshal(body, &entries); err != nil {
			return fmt.Errorf("reading %s: %w: %w", formatURL(u), err, oci.ErrCorrupt)
		}
		for _, e := range entries {
			f(e)
		}
		page = followingPage(header, page)
	}
	return nil
}

// followingPage returns the number of the next page in a Link header (RFC 8288), and 0 after the
// last. Nothing else of the URL is used, because it is untrusted.
func followingPage(h http.Header, page int) int {
	for link := range strings.SplitSeq(h.Get("Link"), ",") {
		target, parameters, _ := strings.Cut(link, ">")
		if !strings.Contains(parameters, `rel="next"`) {
			continue
		}
		u, err := url.Parse(strings.TrimPrefix(strings.TrimSpace(target), "<"))
		if err != nil {
			return 0
		}
		if next, err := strconv.Atoi(u.Query().Get("page")); err == nil && next > page {
			return next
		}
	}
	return 0
}

// TagCommit returns the commit that a tag names, also for an annotated tag.
func (g *GitHub) TagCommit(ctx context.Context, owner, name, tag string) (string, error) {
	u := g.repository(owner, name, "commits/tags/"+tag)
	body, _, err := g.readAnswer(ctx, question{owner: owner, url: u, accept: "application/vnd.github.sha"})
	if err == nil && !plumbing.IsHash(string(body)) {
		err = fmt.Errorf("the response is not a commit: %w", oci.ErrCorrupt)
	}
	if err != nil {
		return "", fmt.Errorf("resolving tag %s of %s/%s: %w", tag, owner, name, err)
	}
	return string(body), nil
}

// Tarball opens the tar.gz of a tree; ref is a commit, tag or branch. All files
// are below one top directory. The caller must close it.
func (g *GitHub) Tarball(ctx context.Context, owner, name, ref string) (io.ReadCloser, error) {
	var link *url.URL
	q := question{owner: owner, url: g.repository(owner, name, "tarball/"+ref), accept: jsonOfGitHub, link: true}
	err := g.askGitHub(ctx, q, func(resp *http.Response) (err error) {
		link, err = resp.Location()
		if err != nil {
			return fmt.Errorf("the response is not a link to an archive: %w", oci.ErrCorrupt)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("fetching %s of %s/%s: %w", ref, owner, name, err)
	}
	plain := &Client{HTTP: g.http} // the link carries its own signature, so the token is not sent
	return plain.openDownload(ctx, link)
}

// repository returns the URL of a resource of a repository in the API.
func (g *GitHub) repository(owner, name, below string) *url.URL {
	u := *g.api
	u.Path += "repos/" + owner + "/" + name + "/" + below
	return &u
}

type question struct {
	owner  string
	url    *url.URL
	accept string // media type
	link   bool   // the answer is a redirect (302), whose target must not get the token
}

// readAnswer returns an answer of at most [maxGitHubPage] bytes and its header.
func (g *GitHub) readAnswer(ctx context.Context, q question) (body []byte, h http.Header, err error) {
	err = g.askGitHub(ctx, q, func(resp *http.Response) (err error) {
		body, err = readAll(resp.Body, maxGitHubPage)
		h = resp.Header
		return err
	})
	return body, h, err
}

// askGitHub calls answered with the answer to q and closes its body. If GitHub
// requires a pause first, ask waits and tries once more.
func (g *GitHub) askGitHub(ctx context.Context, q question, answered func(*http.Response) error) error {
	token := ""
	if g.token != nil {
		token = g.token(strings.TrimPrefix(g.api.Hostname(), "api.") + "/" + q.owner)
	}
	err := g.requiredPause(q.owner, token)
	if err == nil {
		err = g.askOnce(ctx, q, token, answered)
	}
	pause, limited := RateLimitPause(err)
	if !limited || pause > maxWait || !endsBefore(ctx, pause) {
		return err
	}
	if err := g.wait(ctx, pause); err != nil {
		return err
	}
	return g.askOnce(ctx, q, token, answered)
}

// askOnce sends one request.
func (g *GitHub) askOnce(ctx context.Context, q question, token string, answered func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", q.accept)
	req.Header.Set("X-GitHub-Api-Version", versionOfGitHub)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	h := *g.http
	h.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if q.link && r.Response.StatusCode == http.StatusFound {
			return http.ErrUseLastResponse
		}
		return checkRedirect(r, via)
	}
	resp, err := h.Do(req)
	if err != nil {
		if uerr, ok := errors.AsType[*url.Error](err); ok {
			err = uerr.Err // its text repeats the URL
		}
		return fmt.Errorf("requesting %s: %w: %w", formatURL(q.url), err, oci.ErrUnavailable)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusFound {
		return answered(resp)
	}
	err = refusalError(resp)
	if limit, ok := errors.AsType[*rateLimitError](err); ok {
		g.mu.Lock()
		g.pauses[q.owner] = pause{token, limit.until}
		g.mu.Unlock()
	}
	return err
}

// requiredPause returns the pause that GitHub required when it last refused an owner's requests.
func (g *GitHub) requiredPause(owner, token string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p, ok := g.pauses[owner]; ok && p.token == token && time.Now().Before(p.until) {
		return &rateLimitError{until: p.until, reason: "the rate limit has not been reset yet"}
	}
	delete(g.pauses, owner)
	return nil
}

func endsBefore(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > pause
}

// rateLimitError is a temporary refusal.
type rateLimitError struct {
	until  time.Time
	reason string
}

func (e *rateLimitError) Error() string {
	return fmt.Sprintf("GitHub says %q until %s", e.reason, e.until.UTC().Format(time.RFC3339))
}

func (e *rateLimitError) Unwrap() error { return oci.ErrRateLimited }

// RateLimitPause returns how long GitHub refuses requests, if err is such a refusal.
func RateLimitPause(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*rateLimitError](err)
	if !ok {
		return 0, false
	}
	return max(time.Until(e.until), 0), true
}

// refusalError returns the error for a refusal, with GitHub's message and a sentinel.
func refusalError(resp *http.Response) error {
	answer := struct {
		Message       string `json:"message"`
		Documentation string `json:"documentation_url"`
	}{Message: resp.Status}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxSums))
	_ = json.Unmarshal(b, &answer) // the body may not be JSON, and the status is sufficient
	message := text.Excerpt(answer.Message)
	if until, ok := limitedUntil(resp, answer.Documentation); ok {
		return &rateLimitError{until, message}
	}
	return fmt.Errorf("GitHub says %q (%s): %w", message, resp.Status, statusError(resp.StatusCode))
}

// limitedUntil returns the time from which requests are allowed again, according to
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit.
func limitedUntil(resp *http.Response, documentation string) (time.Time, bool) {
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests {
		return time.Time{}, false
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		return time.Now().Add(time.Duration(min(seconds, maxPauseSeconds)) * time.Second), true
	}
	if reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil && resp.Header.Get("X-RateLimit-Remaining") == "0" {
		return time.Unix(reset, 0).Add(time.Second), true
	}
	secondary := strings.HasSuffix(documentation, "secondary-rate-limits")
	return time.Now().Add(time.Minute), secondary || resp.StatusCode == http.StatusTooManyRequests
}
