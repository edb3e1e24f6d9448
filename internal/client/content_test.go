// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestContentRedirect redirects clients to the storage of the registry: they follow
// without the token, and verify the bytes.
//
// Shows: jobs 4a
func TestContentRedirect(t *testing.T) {
	const good, bad = "the bytes", "the lies!"
	storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the storage got %q", r.Header)
		}
		_, _ = io.WriteString(w, strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(storage.Close)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s is asked for without TLS", r.URL)
	}))
	t.Cleanup(plain.Close)
	to := map[string]string{digest.FromString("leak").String(): storage.URL + "/echo/" + secret, digest.FromString("no TLS").String(): plain.URL + "/x", digest.FromString(good).String(): storage.URL + "/" + url.PathEscape(good), digest.FromString("the truth").String(): storage.URL + "/" + url.PathEscape(bad)}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("%s: %q", r.URL, r.Header)
		}
		const base = "/okara/v1/modules/acme/vpc/aws/1.0.0/content"
		sum, blob := strings.CutPrefix(r.URL.Path, base+"/blobs/")
		if blob && r.Header.Get("Okara-Purpose") != "check" {
			t.Errorf("%s: %q does not say that it is only checked", r.URL, r.Header)
		}
		switch {
		case r.URL.Path == base:
			fmt.Fprint(w, `{"registry":"registry.example.com","layout":{"prefix":"platform"}}`)
		case blob && to[sum] != "":
			http.Redirect(w, r, to[sum], http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"errors":["not with %s"]}`, secret)
		}
	}))
	t.Cleanup(front.Close)
	c := client.New(client.Options{Server: must.Fixed(url.Parse(front.URL + "/okara")), Transport: front.Client().Transport, Token: token(secret), Checks: true})
	m := module("1.0.0")
	r, layout := must.GetBoth(c.Content(t.Context(), m.Module.Item(), m.Version))(t)
	repo := must.Fixed(r.Repo(layout.Module(m.Module)))
	if repo.String() != "registry.example.com/platform/modules/acme/vpc/aws" {
		t.Errorf("it is in %s", repo)
	}
	read := func(text string) (string, error) {
		b, err := repo.ReadBlob(t.Context(), oci.Descriptor{Digest: digest.FromString(text), Size: int64(len(text))}, 100)
		return string(b), err
	}
	if got, err := read(good); err != nil || got != good {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := read("the truth"); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("%q, %v of other bytes", got, err)
	}
	if _, err := read("elsewhere"); !errors.Is(err, oci.ErrDenied) || !strings.Contains(err.Error(), "GET "+front.URL+"/okara/v1/modules/acme/vpc/aws/1.0.0/content/blobs/"+digest.FromString("elsewhere").String()+": 403 Forbidden: \"not with [token]\"") || strings.Contains(err.Error(), secret) {
		t.Errorf("refused with %v", err)
	}
	for what, why := range map[string]string{"leak": "with the token in it", "no TLS": "without TLS"} {
		if _, err := read(what); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "echo") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := must.Fixed(r.Repo("platform/catalog")).Resolve(t.Context(), "r-1"); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("another repository: %v", err)
	}
	if err := repo.PushBlob(t.Context(), oci.BytesBlob("text/plain", []byte("x"))); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("a write: %v", err)
	}
}

// FuzzContent: of any answers a client accepts content of the right module only, and errors are
// safe and without token.
//
// Shows: jobs 4a
func FuzzContent(f *testing.F) {
	f.Add(200, `{"registry":"registry.example.com","layout":{"prefix":"a","modules":"{prefix}/{namespace}/{name}/{system}"}}`)
	f.Add(200, `{"registry":"a b","layout":{"modules":"x\u001b[31m"}}`)
	f.Add(307, "https://elsewhere.example.com/"+secret)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return // net/http never returns other statuses
		}
		answer := func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{"Location": {body}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		}
		c := client.New(client.Options{Server: must.Fixed(url.Parse("https://okara.example.com")), Token: token(secret), Transport: tripper(answer), Pause: 1})
		m := module("1.0.0")
		r, layout, err := c.Content(t.Context(), m.Module.Item(), m.Version)
		if err == nil {
			name := strings.FieldsFunc(layout.Below(must.Fixed(r.Repo(layout.Module(m.Module))).Name()), func(r rune) bool { return r == '/' || r == '.' })
			for _, part := range []string{m.Namespace, m.Name, m.System} {
				if !slices.Contains(name, part) {
					t.Errorf("%s is read from %q", m.Module, name)
				}
			}
			return
		}
		if strings.Contains(err.Error(), secret) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%q", err)
		}
	})
}
