// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// guards runs f with each way in which distribution itself authenticates.
func guards(t *testing.T, f func(t *testing.T, g *ocitest.Guard)) {
	users := map[string]string{"octocat": "s3cr3t"}
	t.Run("Basic", func(t *testing.T) { f(t, ocitest.NewHTPasswd(t, users)) })
	t.Run("Bearer", func(t *testing.T) { f(t, ocitest.NewTokens(t, users)) })
}

func mustRepo(t *testing.T, m *machine, reference string) *oci.Repo {
	t.Helper()
	r := credentials.New(m.options())
	return must.Get(oci.OpenRepo(reference, oci.Options{Credential: r.Credential, Rejected: r.Rejected}))(t)
}

func artifact(t *testing.T, text string) oci.Artifact {
	t.Helper()
	b := oci.BytesBlob("text/plain", []byte(text))
	m := oci.EmptyBlob()
	root := must.Get(oci.NewManifest(imageOf(m.Descriptor, b.Descriptor)))(t)
	return oci.Artifact{Blobs: []oci.Blob{m, b}, Root: root}
}

func TestRealRegistries(t *testing.T) {
	guards(t, func(t *testing.T, g *ocitest.Guard) {
		m := newMachine(t, "linux")
		m.helper("keys", helperScript{Answers: map[string][2]string{g.Host: {"octocat", "s3cr3t"}}})
		m.file("home/.docker/config.json", `{"credsStore": "keys"}`)
		repo := mustRepo(t, m, g.Host+"/acme/net")
		a := artifact(t, "hello")
		must.Get(repo.Push(t.Context(), a))(t)
		must.Succeed(t, repo.PutTag(t.Context(), "1.0.0", a.Root))
		g.Expire() // the credential stays valid, its tokens do not
		if _, err := repo.Fetch(t.Context(), "1.0.0"); err != nil {
			t.Errorf("read after the token expired: %v", err)
		}
		g.Expire()
		if err := repo.PutTag(t.Context(), "1.0.1", a.Root); err != nil {
			t.Errorf("write of a tag after the token expired: %v", err)
		}
		g.Expire()
		if _, err := repo.Push(t.Context(), artifact(t, "more")); err != nil {
			t.Errorf("push after the token expired: %v", err)
		}
		if calls := m.calls("keys"); len(calls) != 1 {
			t.Errorf("the helper was asked %d times in one run: %q", len(calls), calls)
		}
		for _, s := range g.Scopes() {
			if strings.Contains(s, " ") || !strings.HasPrefix(s, "repository:acme/net:pull") || strings.Contains(s, "delete") {
				t.Errorf("token asked for %q, want one repository and pull or pull,push", s)
			}
		}
	})
}

// TestRotatedPassword: the helper is asked once more, not twice.
func TestRotatedPassword(t *testing.T) {
	guards(t, func(t *testing.T, g *ocitest.Guard) {
		m := newMachine(t, "linux")
		m.helper("keys", helperScript{Answers: map[string][2]string{g.Host: {"octocat", "s3cr3t"}}})
		m.file("home/.docker/config.json", `{"credsStore": "keys"}`)
		var passed atomic.Int64
		o := m.options()
		o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
		r := credentials.New(o)
		repo := must.Get(oci.OpenRepo(g.Host+"/acme/net", oci.Options{Credential: r.Credential, Rejected: r.Rejected}))(t)
		a := artifact(t, "hello")
		must.Get(repo.Push(t.Context(), a))(t)
		g.SetUsers(map[string]string{"octocat": "n3w"})
		g.Expire()
		m.file("bin/keys.json", `{"Answers": {"`+g.Host+`": ["octocat", "n3w"]}}`)
		passed.Store(int64(time.Hour))
		if err := repo.PutTag(t.Context(), "1.0.0", a.Root); err != nil {
			t.Errorf("after the password was rotated: %v", err)
		}
		if calls := m.calls("keys"); len(calls) != 2 {
			t.Errorf("%d calls of the helper, want 2: %q", len(calls), calls)
		}
		g.SetUsers(nil)
		g.Expire()
		for range 3 {
			if _, err := repo.Fetch(t.Context(), "1.0.0"); !errors.Is(err, oci.ErrUnauthenticated) {
				t.Errorf("with a password that no longer counts: got %v", err)
			}
		}
		if calls := m.calls("keys"); len(calls) > 3 {
			t.Errorf("the helper was asked again and again: %q", calls)
		}
	})
}

// TestNextSource: an unknown credential lets the next source be used, unless it was given to okara.
func TestNextSource(t *testing.T) {
	guards(t, func(t *testing.T, g *ocitest.Guard) {
		m := newMachine(t, "linux")
		m.file("home/.tofurc", `credentials "`+g.Host+`" {
  token = "revoked"
}
`)
		m.file("home/.docker/config.json", auths(g.Host, "octocat:s3cr3t"))
		var output strings.Builder
		options := m.options()
		options.Logger = slog.New(slog.NewTextHandler(&output, nil))
		r := credentials.New(options)
		repo := must.Get(oci.OpenRepo(g.Host+"/acme/net", oci.Options{Credential: r.Credential, Rejected: r.Rejected}))(t)
		a := artifact(t, "hello")
		if _, err := repo.Push(t.Context(), a); err != nil {
			t.Errorf("with a good credential in the second source: %v", err)
		}
		list, err := r.Explain(t.Context(), g.Host, "acme/net")
		if err != nil || len(list) < 2 || list[0].Reason != "skipped: the registry refused it" || list[0].Chosen || !list[1].Chosen {
			t.Errorf("explained as %+v, %v", list, err)
		}
		if n := strings.Count(output.String(), g.Host+" rejected it; using the credentials from "); n != 1 || strings.Contains(output.String(), "s3cr3t") {
			t.Errorf("said %d times: %s", n, &output)
		}
		g.SetUsers(nil)
		g.Expire()
		if _, err := repo.Push(t.Context(), artifact(t, "more")); !errors.Is(err, oci.ErrUnauthenticated) {
			t.Errorf("with none that counts: %v", err)
		}
		if list, err = r.Explain(t.Context(), g.Host, "acme/net"); err != nil || list[0].Reason != "the registry refused it, and there is no other credential" || list[1].Reason != "skipped: the registry refused it" {
			t.Errorf("explained as %+v, %v", list, err)
		}
		g.SetUsers(map[string]string{"octocat": "s3cr3t"})
		o := m.options()
		o.Explicit = []credentials.Setting{{Origin: "--username", Prefix: g.Host, Credential: basic("octocat", "wrong")}}
		r = credentials.New(o)
		if repo, err = oci.OpenRepo(g.Host+"/acme/net", oci.Options{Credential: r.Credential, Rejected: r.Rejected}); err != nil {
			t.Fatal(err)
		}
		if _, err := repo.Push(t.Context(), a); !errors.Is(err, oci.ErrUnauthenticated) {
			t.Errorf("with a wrong password that was given: %v", err)
		}
	})
}
