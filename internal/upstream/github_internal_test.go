// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// gitHub serves a part of GitHub's API; a counted request costs quota, 304 does not.
type gitHub struct {
	quota    atomic.Int64
	reset    atomic.Int64 // seconds from now until there is a new quota
	tokens   chan string
	requests atomic.Int64
}

func (g *gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	select {
	case g.tokens <- r.Header.Get("Authorization"):
	default:
	}
	page := r.URL.Query().Get("page")
	etag := `"tags` + page + `"`
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if g.quota.Add(-1) < 0 {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Limit", "60")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Unix()+g.reset.Load()))
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"message":"API rate limit exceeded"}`)
		return
	}
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch r.URL.Path {
	case "/repos/acme/vpc/tags":
		if page != "2" {
			w.Header().Set("Link", `<http://`+r.Host+`/repos/acme/vpc/tags?page=2>; rel="next"`)
			io.WriteString(w, `[{"name":"v1.1.0","commit":{"sha":"b"}}]`)
			return
		}
		io.WriteString(w, `[{"name":"v1.0.0","commit":{"sha":"a"}}]`)
	case "/repos/acme/vpc/releases":
		io.WriteString(w, `[{"tag_name":"v1.1.0"},{"tag_name":"v2","draft":true}]`)
	case "/repos/acme/vpc/commits/tags/modules/x/v1.0.0":
		io.WriteString(w, "0123456789012345678901234567890123456789")
	case "/repos/acme/vpc/commits/tags/odd":
		io.WriteString(w, "<html>")
	case "/repos/acme/vpc/tarball/b":
		http.Redirect(w, r, "http://"+r.Host+"/download/b", http.StatusFound)
	case "/download/b":
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "tree")
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message":"Not Found"}`)
	}
}

func newGitHub(t *testing.T, quota int64) (*gitHub, *GitHub) {
	t.Helper()
	srv := &gitHub{tokens: make(chan string, 100)}
	srv.quota.Store(quota)
	ts := httptest.NewServer(srv)
	t.Cleanup(ts.Close)
	u := must.Get(url.Parse(ts.URL))(t)
	return srv, NewGitHub(nil, u, func(key string) string { return key[len(u.Hostname())+1:] + "-token" })
}

// Shows: opendepot 4
// Shows: aws-registry 2 | private repositories | a token or GitHub App for each organisation
func TestGitHubListsCostNoQuotaTwice(t *testing.T) {
	srv, g := newGitHub(t, 2)
	want := []Tag{{"v1.1.0", "b"}, {"v1.0.0", "a"}}
	for range 3 {
		got := must.Get(g.Tags(t.Context(), "acme", "vpc"))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	if got := srv.quota.Load(); got != 0 {
		t.Errorf("quota left %d, want 0 of 2", got)
	}
	must.Equal(t, "requests", srv.requests.Load(), 6)
	if token := <-srv.tokens; token != "Bearer acme-token" {
		t.Errorf("token %q", token)
	}
}

func TestGitHubWaitsForTheRateLimit(t *testing.T) {
	srv, g := newGitHub(t, 0)
	waits := 0
	g.wait = func(context.Context, time.Duration) error {
		waits++
		srv.quota.Store(10)
		return nil
	}
	tags := must.Get(g.Releases(t.Context(), "acme", "vpc"))(t)
	if diff := cmp.Diff([]Tag{{Name: "v1.1.0"}}, tags); diff != "" || waits != 1 {
		t.Errorf("%d waits, %s", waits, diff)
	}
}

// TestGitHubDoesNotWaitInVain: the context ends before the limit does.
func TestGitHubDoesNotWaitInVain(t *testing.T) {
	srv, g := newGitHub(t, 0)
	srv.reset.Store(int64(24 * time.Hour / time.Second))
	g.wait = func(context.Context, time.Duration) error { return errors.New("it waits") }
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if _, err := g.TagCommit(ctx, "acme", "vpc", "v1.0.0"); !errors.Is(err, oci.ErrRateLimited) {
		t.Errorf("got %v, want %v", err, oci.ErrRateLimited)
	}
}

func TestGitHubTarballAndErrors(t *testing.T) {
	_, g := newGitHub(t, 10)
	body := must.Get(g.Tarball(t.Context(), "acme", "vpc", "b"))(t)
	defer body.Close()
	if b, err := io.ReadAll(body); err != nil || string(b) != "tree" {
		t.Errorf("got %q, %v", b, err)
	}
	commit, err := g.TagCommit(t.Context(), "acme", "vpc", "modules/x/v1.0.0")
	if err != nil || commit != "0123456789012345678901234567890123456789" {
		t.Errorf("commit %q, %v", commit, err)
	}
	for tag, want := range map[string]error{"v9.0.0": oci.ErrNotFound, "odd": oci.ErrCorrupt} {
		if _, err := g.TagCommit(t.Context(), "acme", "vpc", tag); !errors.Is(err, want) {
			t.Errorf("tag %s: %v, want %v", tag, err, want)
		}
	}
	if _, err := g.Tarball(t.Context(), "acme", "vpc", "none"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an unknown commit: %v", err)
	}
	if _, err := g.Tags(t.Context(), "acme", "none"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an unknown repository: %v", err)
	}
}

// TestGitHubSays: each way of answering that GitHub documents.
func TestGitHubSays(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   error
		pause  time.Duration // at least
	}{
		"secondary limit": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"message":"slow","documentation_url":"https://docs.github.com/x#about-secondary-rate-limits"}`)
		}, oci.ErrRateLimited, 50 * time.Second},
		"retry after": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
		}, oci.ErrRateLimited, 119 * time.Minute},
		"retry after a century": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3153600000")
			w.WriteHeader(http.StatusForbidden)
		}, oci.ErrRateLimited, 23 * time.Hour},
		"no right": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"message":"Resource not accessible"}`)
		}, oci.ErrDenied, 0},
		"no JSON": {func(w http.ResponseWriter) { io.WriteString(w, "<html>") }, oci.ErrCorrupt, 0},
		"JSON without an end": {func(w http.ResponseWriter) {
			io.WriteString(w, "[")
			for range maxGitHubPage>>13 + 1 {
				fmt.Fprintf(w, "%8192s", " ")
			}
		}, oci.ErrTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				test.answer(w)
			}))
			defer ts.Close()
			u := must.Get(url.Parse(ts.URL))(t)
			g := NewGitHub(nil, u, nil)
			g.wait = func(ctx context.Context, _ time.Duration) error { return context.Canceled }
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := g.Tags(ctx, "acme", "vpc")
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if pause, _ := RateLimitPause(err); pause < test.pause || pause > 24*time.Hour {
				t.Errorf("pause of %s, want at least %s", pause, test.pause)
			}
			before := requests
			if _, err = g.Tags(ctx, "acme", "vpc"); !errors.Is(err, test.want) {
				t.Errorf("again: %v", err)
			}
			if limited := test.want == oci.ErrRateLimited; limited != (requests == before) {
				t.Errorf("%d requests more, limited %v", requests-before, limited)
			}
		})
	}
}

// TestGitHubLongReleases reads a hundred releases with notes and files.
func TestGitHubLongReleases(t *testing.T) {
	const releases = 100
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range releases {
			fmt.Fprintf(w, `%c{"tag_name":"v1.0.%d","body":"%60000s"}`, "[,"[min(i, 1)], i, "notes")
		}
		io.WriteString(w, "]")
	}))
	defer ts.Close()
	u := must.Get(url.Parse(ts.URL))(t)
	tags, err := NewGitHub(nil, u, nil).Releases(t.Context(), "acme", "dns")
	if err != nil || len(tags) != releases {
		t.Errorf("%d releases, %v", len(tags), err)
	}
}

// TestGitHubFollows a renamed repository, not endless pages.
func TestGitHubFollows(t *testing.T) {
	pages := 0
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		switch {
		case r.URL.Path == "/repos/acme/old/tags":
			http.Redirect(w, r, "/repositories/1/tags?"+r.URL.RawQuery, http.StatusMovedPermanently)
		case r.URL.Path == "/repositories/1/tags" && r.Header.Get("Authorization") == "Bearer secret":
			io.WriteString(w, `[{"name":"v1.0.0","commit":{"sha":"a"}}]`)
		case r.URL.Path == "/repos/acme/endless/tags":
			pages++
			n := 0
			fmt.Sscan(page, &n)
			w.Header().Set("Link", fmt.Sprintf(`<https://x.test/?page=%d>; rel="next", <https://x.test/?page=9>; rel="last"`, n+1))
			io.WriteString(w, "[]")
		case r.URL.Path == "/repos/acme/circle/tags":
			w.Header().Set("Link", `<https://x.test/?page=1>; rel="next"`)
			io.WriteString(w, `[{"name":"v1.0.0"}]`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer ts.Close()
	u := must.Get(url.Parse(ts.URL))(t)
	g := NewGitHub(nil, u, func(string) string { return "secret" })
	for name, want := range map[string]error{"old": nil, "circle": nil, "endless": oci.ErrTooLarge} {
		tags, err := g.Tags(t.Context(), "acme", name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if want == nil && (len(tags) != 1 || tags[0].Name != "v1.0.0") {
			t.Errorf("%s: %v", name, tags)
		}
	}
	must.Equal(t, "pages read", pages, maxPages)
}

func FuzzFollowingPage(f *testing.F) {
	f.Add(`<https://api.github.com/repositories/1/tags?per_page=100&page=2>; rel="next", <https://x/?page=9>; rel="last"`, 1)
	f.Add(`<?page=2>;rel="next`, 1)
	f.Fuzz(func(t *testing.T, link string, page int) {
		if next := followingPage(http.Header{"Link": {link}}, page); next != 0 && next <= page {
			t.Errorf("after page %d comes %d", page, next)
		}
	})
}
