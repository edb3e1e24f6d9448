// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

const secret = "oks_ci_0123456789abcdefghij"

// target is a front-end with its own registry.
type target struct {
	url   *url.URL
	depot *depot.Depot // writes directly into another registry
}

// newServer starts a front-end for the token secret. around may inspect or answer requests.
func newServer(t *testing.T, around func(http.Handler) http.Handler) target {
	t.Helper()
	connect := func(host string) *oci.Client {
		return must.Fixed(oci.New(host, oci.Options{PlainHTTP: true}))
	}
	id, hash := must.GetBoth(statictoken.Hash(secret))(t)
	var h http.Handler = must.Fixed(server.New(server.Options{
		Options: registry.Options{Client: connect(ocitest.New(t, ocitest.Quirks{}))}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
		Access: access.Policy{Tokens: []statictoken.Token{{ID: id, Hash: hash, Scopes: []rights.Scope{must.Fixed(rights.ParseScope("publish:*:acme/**"))}}}},
	}))
	if around != nil {
		h = around(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return target{must.Fixed(url.Parse(s.URL)), depot.New(depot.Options{Client: connect(ocitest.New(t, ocitest.Quirks{}))})}
}

func (s target) client(change func(*client.Options)) *client.Client {
	o := client.Options{Server: s.url, Token: token(secret), Pause: time.Millisecond}
	if change != nil {
		change(&o)
	}
	return client.New(o)
}

func token(s string) client.TokenFunc {
	return func(context.Context) (string, error) { return s, nil }
}

func module(version string) addr.ModuleVersion {
	return addr.ModuleVersion{Module: must.Fixed(addr.ParseModule("acme/vpc/aws")), Version: must.Fixed(addr.ParseVersion(version))}
}

// TestModuleIsTheSame: a tree published directly and by a front-end has the same digests.
func TestModuleIsTheSame(t *testing.T) {
	tree := fstest.MapFS{
		".terraformignore":           {Data: []byte("*.bak\n!fixture.tfstate\n")},
		"modules/vpc/main.tf":        {Data: []byte("module \"x\" {\n  source = \"../x\"\n}\n")},
		"modules/x/main.tofu":        {Data: []byte("# x\n")},
		"modules/x/run.sh":           {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"modules/x/fixture.tfstate":  {Data: []byte("{}")},
		"modules/x/other.tfstate":    {Data: []byte("{}")},
		"modules/x/notes.bak":        {Data: []byte("x")},
		"modules/x/.terraform/state": {Data: []byte("x")},
	}
	o := depot.ModuleOptions{Dir: "modules/vpc", Annotations: map[string]string{
		artifact.AnnSource: "https://example.com/acme/vpc", artifact.AnnRevision: "abc", artifact.AnnSourceRef: "v1.0.0", artifact.AnnCreated: "2026-01-02T03:04:05Z",
	}}
	s := newServer(t, nil)
	straight := must.Fixed(s.depot.PublishModule(t.Context(), tree, module("1.0.0"), o))
	var sent atomic.Int64
	c := s.client(func(o *client.Options) { o.Progress = func(e depot.Event) { sent.Add(e.Bytes) } })
	out := must.Get(c.PublishModule(t.Context(), tree, module("1.0.0"), o))(t)
	if out.Digest != straight.Digest || out.ContentDigest != straight.ContentDigest || out.Existing {
		t.Errorf("through the front-end %+v, straight %+v", out, straight)
	}
	if sent.Load() == 0 {
		t.Error("no progress was reported")
	}
	if again, err := c.PublishModule(t.Context(), tree, module("1.0.0"), o); err != nil || !again.Existing || again.Digest != out.Digest {
		t.Errorf("again: %+v, %v", again, err)
	}
	tree["modules/x/main.tofu"] = &fstest.MapFile{Data: []byte("# y\n")}
	_, err := c.PublishModule(t.Context(), tree, module("1.0.0"), o)
	if !errors.Is(err, oci.ErrExists) || !strings.Contains(err.Error(), "1.0.1") {
		t.Errorf("other content: %v, want a conflict that names the next version", err)
	}
	o.Policy = depot.PolicyEditions
	if out, err := c.PublishModule(t.Context(), tree, module("1.0.0"), o); err != nil || out.Existing {
		t.Errorf("as an edition: %+v, %v", out, err)
	}
	if _, err := c.PublishModule(t.Context(), fstest.MapFS{"README.md": {}}, module("2.0.0"), o); !errors.Is(err, depot.ErrNoModule) {
		t.Errorf("no module: %v", err)
	}
}

// TestRepeats answers each request of a publication once with a temporary error.
func TestRepeats(t *testing.T) {
	for _, status := range []int{0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var requests atomic.Int64
			s := newServer(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1)%2 == 0 {
						next.ServeHTTP(w, r)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(status)
				})
			})
			tree := fstest.MapFS{"main.tf": {Data: []byte("# x\n")}}
			if _, err := s.client(nil).PublishModule(t.Context(), tree, module("1.0.0"), depot.ModuleOptions{}); err != nil {
				t.Error(err)
			}
			must.Equal(t, "requests", requests.Load(), 2)
		})
	}
}

// TestRefusals: the errors of answers, without the token, which no other server gets.
func TestRefusals(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, tt := range []struct {
		name     string
		status   int
		body     string
		want     error
		text     string
		requests int64
	}{
		{"no token", 401, `{"errors":["token required"]}`, oci.ErrUnauthenticated, "token required", 1},
		{"no right", 403, `{"errors":["this token may not"]}`, oci.ErrDenied, "the server says: this token may not", 1},
		{"wrong address", 404, `<html>`, oci.ErrNotFound, "404 Not Found", 1},
		{"conflict", 409, `{"errors":["exists"]}`, oci.ErrExists, "exists", 1},
		{"large", 413, `{"errors":["more than 1 bytes"]}`, oci.ErrTooLarge, "more than 1 bytes", 1},
		{"file and line", 422, `{"errors":["main.tf:3: module \"x\""]}`, nil, `main.tf:3: module "x"`, 1},
		{"echo", 422, `{"errors":["Bearer ` + secret + ` is bad"]}`, nil, "Bearer [token] is bad", 1},
		{"escape codes", 422, `{"errors":["\u001b[31mred"]}`, nil, "says: \ufffd[31mred", 1},
		{"redirect", 307, ``, nil, "moved to http://", 1},
		{"error", 500, `{"errors":["internal error"]}`, oci.ErrUnavailable, "internal error", 1},
		{"down for long", 503, `{"errors":["busy"]}`, oci.ErrUnavailable, "busy", 7},
		{"no JSON", 201, `hello`, oci.ErrCorrupt, "not a response of an okara server", 1},
		{"echo in an answer", 201, `{"content_digest":"` + secret + `"}`, oci.ErrCorrupt, `stored "[token]"`, 1},
		{"other content", 201, `{"content_digest":"sha256:x"}`, oci.ErrCorrupt, "sha256:x", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			s := newServer(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					w.Header().Set("Location", other.URL)
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(tt.status)
					_, _ = io.WriteString(w, tt.body) // a cut answer fails the test
				})
			})
			var log bytes.Buffer
			c := s.client(func(o *client.Options) {
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			_, err := c.PublishModule(t.Context(), fstest.MapFS{"main.tf": {}}, module("1.0.0"), depot.ModuleOptions{})
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.text)
			}
			must.Equal(t, "requests", requests.Load(), tt.requests)
			if strings.Contains(err.Error()+log.String(), secret) || !strings.Contains(log.String(), fmt.Sprint(tt.status)) {
				t.Errorf("error %v, log %s", err, &log)
			}
		})
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// TestNobodyThere has an address without a listener: only one request is made.
func TestNobodyThere(t *testing.T) {
	s := newServer(t, nil)
	s.url.Host = "127.0.0.1:1"
	var asked atomic.Int64
	c := s.client(func(o *client.Options) {
		o.Token = func(context.Context) (string, error) { asked.Add(1); return secret, nil }
	})
	_, err := c.PublishModule(t.Context(), fstest.MapFS{"main.tf": {}}, module("1.0.0"), depot.ModuleOptions{})
	if !errors.Is(err, oci.ErrUnavailable) || asked.Load() != 1 {
		t.Errorf("%v after %d attempts", err, asked.Load())
	}
}

// tripper answers without a network.
type tripper func(*http.Request) *http.Response

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestGitHubToken requests a token when the last one is no longer fresh.
func TestGitHubToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		answer := func(r *http.Request) *http.Response {
			asked++
			if got := r.URL.Query(); got.Get("audience") != "https://okara.example.com" || got.Get("api-version") != "2.0" {
				t.Errorf("query %v", got)
			}
			must.Equal(t, "Authorization", r.Header.Get("Authorization"), "Bearer runner-secret")
			status, body := http.StatusOK, fmt.Sprintf(`{"value":"token-%d"}`, asked)
			if asked == 3 {
				status, body = http.StatusForbidden, `{"message":"no"}`
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		}
		endpoint := must.Fixed(url.Parse("https://runner.example.com/idtoken?api-version=2.0"))
		get := client.GitHubToken(client.Options{Transport: tripper(answer)}, endpoint, "runner-secret", "https://okara.example.com")
		for _, want := range []string{"token-1", "token-1", "token-2"} {
			if got, err := get(t.Context()); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			time.Sleep(90 * time.Second)
		}
		time.Sleep(time.Hour)
		_, err := get(t.Context())
		if !errors.Is(err, oci.ErrDenied) || strings.Contains(err.Error(), "runner-secret") {
			t.Errorf("%v", err)
		}
	})
}
