// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// eavesdropper is the server to which an origin redirects its clients.
type eavesdropper struct {
	mu    sync.Mutex // guards the fields below
	asked int
	heard []string
}

func (e *eavesdropper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if h := r.Header.Get("Authorization"); h != "" {
		e.heard = append(e.heard, h)
	}
	w.WriteHeader(http.StatusTeapot)
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	return must.Get(url.Parse(s))(t)
}

// TestTokenStaysWithItsOrigin redirects each client of this package from its
// origin to another port, another scheme and back.
//
// Shows: mistakes 9 | tokens for origins followed redirects to other hosts, other ports and plain
// HTTP | a token is sent only to its scheme, host and port, and not again after a redirect
// elsewhere
func TestTokenStaysWithItsOrigin(t *testing.T) {
	token := func(string) string { return "secret" }
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	clients := map[string]func(h *http.Client, u *url.URL) error{
		"registry": func(h *http.Client, u *url.URL) error {
			r := &upstream.Registry{Client: &upstream.Client{HTTP: h, Token: token}, Base: u.JoinPath("/p/")}
			_, err := r.Versions(t.Context(), addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"})
			return err
		},
		"module": func(h *http.Client, u *url.URL) error {
			r := &upstream.ModuleRegistry{Client: &upstream.Client{HTTP: h, Token: token}, Base: u.JoinPath("/m/")}
			_, err := r.Location(t.Context(), addr.Module{Namespace: "net", Name: "vpc", System: "aws"}, addr.Version{})
			return err
		},
		"GitHub": func(h *http.Client, u *url.URL) error {
			_, err := upstream.NewGitHub(h, u, token).Tags(t.Context(), "acme", "vpc")
			return err
		},
		"GitHub tarball": func(h *http.Client, u *url.URL) error {
			_, err := upstream.NewGitHub(h, u, token).Tarball(t.Context(), "acme", "vpc", "v1")
			return err
		},
		"GitHub App": func(h *http.Client, u *url.URL) error {
			_, err := (&upstream.App{HTTP: h, API: u, ID: 1, Installation: 2, Key: key}).Token(t.Context())
			return err
		},
		"git": func(_ *http.Client, u *url.URL) error {
			g := upstream.Git{Token: token}
			_, err := g.Tags(t.Context(), upstream.Location{Kind: upstream.KindGit, URL: u.JoinPath("/vpc.git")})
			return err
		},
	}
	for name, ask := range clients {
		for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			ear := &eavesdropper{}
			other := httptest.NewServer(ear)
			t.Cleanup(other.Close)
			onward := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+r.URL.RequestURI(), code)
			})
			for scheme, origin := range map[string]*httptest.Server{"http": httptest.NewServer(onward), "https": httptest.NewTLSServer(onward)} {
				t.Cleanup(origin.Close)
				if err := ask(origin.Client(), mustURL(t, origin.URL+"/")); err == nil {
					t.Errorf("%s: no error", name)
				}
				if len(ear.heard) > 0 {
					t.Errorf("%s, %s, %d: another origin got %q", name, scheme, code, ear.heard)
				}
				if scheme == "https" && ear.asked > 0 && name != "GitHub tarball" { // its answer is a link, which is requested without a token
					t.Errorf("%s: followed from https to http", name)
				}
				ear.asked, ear.heard = 0, nil
			}
		}
	}
}

// TestTokenIsGoneAfterADetour redirects back to the origin by way of another
// host: that host must not choose what is requested with the token.
//
// Shows: mistakes 9
func TestTokenIsGoneAfterADetour(t *testing.T) {
	ear := &eavesdropper{}
	var origin *httptest.Server
	detour := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, origin.URL+"/private", http.StatusFound)
	}))
	t.Cleanup(detour.Close)
	mux := http.NewServeMux()
	mux.Handle("/private", ear)
	mux.Handle("/", http.RedirectHandler(detour.URL, http.StatusFound))
	origin = httptest.NewServer(mux)
	t.Cleanup(origin.Close)
	c := &upstream.Client{Token: func(string) string { return "secret" }}
	r := &upstream.Registry{Client: c, Base: mustURL(t, origin.URL+"/p/")}
	if _, err := r.Versions(t.Context(), addr.Provider{Hostname: "example.com", Namespace: "acme", Type: "dns"}); err == nil {
		t.Error("no error")
	}
	if ear.asked != 1 || len(ear.heard) > 0 {
		t.Errorf("asked %d times, with %q", ear.asked, ear.heard)
	}
}

// TestGitSchemes compares possible answers of a module registry with the
// abilities of git.
//
// Shows: mistakes 15
func TestGitSchemes(t *testing.T) {
	l, _ := newGitRepo(t, "v1.0.0")
	dir := l.URL.Path
	for _, s := range []string{
		"git::file://" + dir, "git::" + dir, "git::file://localhost" + dir, "file://" + dir + "/.git", dir + "/x.git", "./x.git",
		"git::ext::sh -c touch% /tmp/owned", "git::ext::sh", "git::http://example.com/vpc.git", "git::git://example.com/vpc.git",
		"git::ftp://example.com/vpc.git", "git::ssh://-oProxyCommand=touch/x", "git::ssh://-oProxyCommand=touch@example.com/x",
		"git::--upload-pack=touch", "git::https:///vpc.git", "git::fd::17/foo", "git::FILE://" + dir,
	} {
		if l, err := upstream.ParseLocation(s); !errors.Is(err, oci.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", s, l, err)
		}
	}
	l.Local = false
	var g upstream.Git
	if tags, err := g.Tags(t.Context(), l); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("tags %v, %v", tags, err)
	}
	if _, err := g.Checkout(t.Context(), l, t.TempDir()); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("checkout: %v", err)
	}
	if l, ok := upstream.LocalGit("git::file://" + dir + "//sub"); !ok || l.URL.Path != dir || l.Subdir != "sub" {
		t.Errorf("a repository that the user names: %+v, %v", l, ok)
	}
}

// TestGuardGit requests repositories at internal addresses, over http and ssh.
//
// Shows: mistakes 15
func TestGuardGit(t *testing.T) {
	ear := &eavesdropper{}
	inside := httptest.NewServer(ear)
	t.Cleanup(inside.Close)
	guard := upstream.NewGuard(nil)
	g := upstream.Git{Guard: guard}
	for _, s := range []string{"git::" + inside.URL + "/vpc.git", "git::ssh://git@127.0.0.1:1/vpc.git", "git::ssh://localhost/vpc.git", "git::https://169.254.169.254/vpc.git"} {
		l := must.Get(upstream.ParseLocation(s))(t)
		if _, err := g.Tags(t.Context(), l); !errors.Is(err, oci.ErrDenied) {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := g.Checkout(t.Context(), l, t.TempDir()); !errors.Is(err, oci.ErrDenied) {
			t.Errorf("%s: %v", s, err)
		}
	}
	if ear.asked > 0 {
		t.Errorf("asked %d times", ear.asked)
	}
	guard.Named(mustURL(t, inside.URL).Host)
	l := must.Get(upstream.ParseLocation("git::" + inside.URL + "/vpc.git"))(t)
	if _, err := g.Tags(t.Context(), l); errors.Is(err, oci.ErrDenied) || ear.asked == 0 {
		t.Errorf("a host that the user named: %v, asked %d times", err, ear.asked)
	}
}
