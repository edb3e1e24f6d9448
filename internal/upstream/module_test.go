// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

func TestParseLocation(t *testing.T) {
	for in, want := range map[string][4]string{
		"https://x.com/a.zip?archive=zip":                {"archive", "https://x.com/a.zip", "", ""},
		"https://x.com/a.tar.gz//mod/sub?sig=1":          {"archive", "https://x.com/a.tar.gz?sig=1", "", "mod/sub"},
		"git::https://x.com/r.git//sub?ref=v1.0&depth=1": {"git", "https://x.com/r.git", "v1.0", "sub"},
		"git::ssh://git@x.com/r.git":                     {"git", "ssh://git@x.com/r.git", "", ""},
		"github.com/org/repo//modules/a?ref=v2":          {"git", "https://github.com/org/repo.git", "v2", "modules/a"},
		"git@github.com:org/repo.git?ref=main":           {"git", "ssh://git@github.com/org/repo.git", "main", ""},
		"oci://x.com/a/b//sub?tag=1.0.0":                 {"oci", "oci://x.com/a/b", "1.0.0", "sub"},
		"oci://x.com/a/b?digest=sha256:ab":               {"oci", "oci://x.com/a/b", "sha256:ab", ""},
	} {
		t.Run(in, func(t *testing.T) {
			l := must.Get(upstream.ParseLocation(in))(t)
			must.Match(t, "value", [4]string{string(l.Kind), l.URL.String(), l.Ref, l.Subdir}, want)
		})
	}
	for _, in := range []string{"", "https://x.com/a.zip?checksum=md5:7d793037a0760186574b0282f2f435e7", "https://x.com/a.zip?checksum=file:https://x.com/sums", "https://x.com/a.zip?checksum=sha256:ab", "./x", "hg::https://x.com/r", "s3::https://x.com/b", "net/vpc/aws", "ftp://x.com/a.zip"} {
		if l, err := upstream.ParseLocation(in); !errors.Is(err, oci.ErrUnsupported) {
			t.Errorf("%q: got %+v, %v", in, l, err)
		}
	}
}

// TestArchiveChecksum: an archive must match the address's checksum.
func TestArchiveChecksum(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "archive") }))
	t.Cleanup(srv.Close)
	for sum, good := range map[string]bool{
		"":                                     true,
		digest.FromString("archive").String():  true,
		digest.FromString("archive").Encoded(): true,
		digest.SHA512.FromString("archive").String(): true,
		digest.FromString("other").String():          false,
		digest.FromString("other").Encoded():         false,
	} {
		l := must.Get(upstream.ParseLocation(srv.URL + "/a.zip?checksum=" + sum))(t)
		body, _ := must.GetBoth(client().Archive(t.Context(), l))(t)
		_, err := io.ReadAll(body)
		if good && err != nil || !good && !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("%q: %v", sum, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestArchiveAsked follows answers as go-getter 1.8 does, but not an archive's own.
func TestArchiveAsked(t *testing.T) {
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		switch r.URL.Path {
		case "/header":
			w.Header().Set("X-Terraform-Get", "./a.zip?sig=x%2By")
		case "/meta":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, `<html><head><meta name="terraform-get" content="/a.zip//sub?sig=1"></head></html>`)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
		case "/git":
			w.Header().Set("X-Terraform-Get", "git::https://example.com/r.git?ref=v1")
		case "/local":
			w.Header().Set("X-Terraform-Get", "file:///etc")
		default:
			io.WriteString(w, "archive")
		}
	}))
	t.Cleanup(srv.Close)
	for _, tt := range []struct{ address, request, next, fails string }{
		{"/header?b=2&a=1", "/header?a=1&b=2&terraform-get=1", srv.URL + "/a.zip?sig=x%2By", ""},
		{"/meta//mod", "/meta?terraform-get=1", srv.URL + "/a.zip?sig=1//sub/mod", ""},
		{"/git", "/git?terraform-get=1", "https://example.com/r.git", ""},
		{"/page", "/page?terraform-get=1", "", "a page without a module"},
		{"/local", "/local?terraform-get=1", "", "okara fetches git, oci and https archives only"},
		{"/other", "/other?terraform-get=1", "", ""},
		{"/other?archive=zip&sig=x%2By", "/other?sig=x%2By", "", ""},
		{"/a.tar.xz?sig=x%2By", "/a.tar.xz?sig=x%2By", "", ""},
	} {
		l := must.Get(upstream.ParseLocation(srv.URL + tt.address))(t)
		asked = nil
		body, next, err := client().Archive(t.Context(), l)
		if len(asked) != 1 || asked[0] != tt.request {
			t.Errorf("%s: requested %q", tt.address, asked)
		}
		got := ""
		if next != nil {
			got = next.URL.String()
			if next.Subdir != "" {
				got += "//" + next.Subdir
			}
		}
		if failed := err != nil; got != tt.next || failed != (tt.fails != "") || failed && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: next %q, %v", tt.address, got, err)
		}
		if body != nil {
			body.Close()
		}
	}
}

// Shows: opendepot 5
func TestModuleRegistry(t *testing.T) {
	u := origin(t)
	r := &upstream.ModuleRegistry{Client: client(), Host: u.Host}
	m := must.Get(addr.ParseModule("net/vpc/aws"))(t)
	versions, err := r.Versions(t.Context(), m)
	if err != nil || len(versions) != 2 {
		t.Fatalf("versions %v, %v", versions, err)
	}
	for i, want := range []string{"https://example.com/vpc.git", u.String() + "/files/vpc.zip"} {
		l := must.Get(r.Location(t.Context(), m, versions[i]))(t)
		if got := l.URL.String(); got != want {
			t.Errorf("%s: got %s, want %s", versions[i], got, want)
		}
	}
}

// newGitRepo makes a commit a tag, and returns location and commits.
func newGitRepo(t *testing.T, tags ...string) (upstream.Location, []string) {
	t.Helper()
	dir := t.TempDir()
	repo := must.Get(git.PlainInit(dir, false))(t)
	tree := must.Get(repo.Worktree())(t)
	who := &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(1, 0)}
	var commits []string
	for _, tag := range tags {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte("# "+tag), 0o600))
		must.Get(tree.Add("main.tf"))(t)
		h := must.Get(tree.Commit(tag, &git.CommitOptions{Author: who}))(t)
		must.Get(repo.CreateTag(tag, h, &git.CreateTagOptions{Tagger: who, Message: tag}))(t)
		commits = append(commits, h.String())
	}
	return upstream.Location{Kind: upstream.KindGit, URL: &url.URL{Scheme: "file", Path: dir}, Local: true}, commits
}

// Shows: opendepot 5
func TestGit(t *testing.T) {
	l, commits := newGitRepo(t, "v1.0.0", "v1.1.0")
	var g upstream.Git
	tags := must.Get(g.Tags(t.Context(), l))(t)
	want := []upstream.Tag{{Name: "v1.0.0", Commit: commits[0]}, {Name: "v1.1.0", Commit: commits[1]}}
	must.Match(t, "value", tags, want)
	for ref, want := range map[string]int{"v1.0.0": 0, "v1.1.0": 1, commits[0]: 0, "": 1, string(plumbing.Master): 1} {
		l.Ref = ref
		dir := t.TempDir()
		commit, err := g.Checkout(t.Context(), l, dir)
		if err != nil {
			t.Errorf("%q: %v", ref, err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "main.tf"))
		if err != nil || commit != commits[want] || string(b) != "# "+tags[want].Name {
			t.Errorf("%q: commit %s, tree %q, %v", ref, commit, b, err)
		}
	}
	l.Ref = "v9"
	if _, err := g.Checkout(t.Context(), l, t.TempDir()); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("an unknown tag: %v", err)
	}
}
