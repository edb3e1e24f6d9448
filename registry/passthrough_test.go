// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

// passToken returns the token that encodes a user name and a password.
func passToken(user, password string) string {
	return "basic." + base64.RawURLEncoding.EncodeToString([]byte(user+":"+password))
}

// passFront is a front-end in pass-through mode without credentials of its own.
func passFront(t *testing.T, host string, change func(*server.Options)) *front {
	t.Helper()
	return newFrontAt(t, host, nil, func(o *server.Options) {
		o.Access = access.Policy{}
		o.PassThrough = func(c oci.Credential) (*oci.Client, error) {
			return oci.New(host, oci.Options{PlainHTTP: true, Credential: func(context.Context, string, string) (oci.Credential, error) { return c, nil }})
		}
		if change != nil {
			change(o)
		}
	})
}

func loginAs(t *testing.T, f *front, host, user, password string) {
	t.Helper()
	f.client = newClient(t, host, oci.Options{PlainHTTP: true, Credential: func(context.Context, string, string) (oci.Credential, error) {
		return oci.Credential{Username: user, Password: password}, nil
	}})
}

// TestPassesThrough: an unknown token has no right where only okara decides.
func TestPassesThrough(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/modules/a/b/c/versions": true, "/v1/providers/a/b/versions": true, "/v1/catalog": true, "/origin/registry.opentofu.org/v1/providers/a/b/versions": true, "/mirror/x": true, "/archives/x": true,
		"/v1/used-by": false, "/v1/outdated": false, "/v1": false, "/state/a/b": false, "/api/v1/search": false, "/mcp": false,
	} {
		must.Equal(t, path, registry.PassesThrough(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)), want)
	}
}

// TestPassThrough: callers use their own rights.
func TestPassThrough(t *testing.T) {
	users := map[string]string{"alice": "al1ce-pass"}
	for name, g := range map[string]*ocitest.Guard{"htpasswd": ocitest.NewHTPasswd(t, users), "tokens": ocitest.NewTokens(t, users)} {
		t.Run(name, func(t *testing.T) {
			var passed atomic.Int64
			f := passFront(t, g.Host, func(o *server.Options) {
				o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			})
			loginAs(t, f, g.Host, "alice", "al1ce-pass")
			archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
			const versions, download = "/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download"
			alice := passToken("alice", "al1ce-pass")

			for token, want := range map[string]int{
				"": 401, alice: 200, passToken("alice", "wr0ng-pass"): 401, passToken("bob", "al1ce-pass"): 401,
				"basic.!!": 401, "identity.": 401, "oks_ci_aaaaaaaaaaaaaaaaaaaaaaaa": 401, "raw-registry-token": 401, alice + "A": 401,
			} {
				status, body := f.send(t, "GET", versions, token, nil)
				if status != want {
					t.Errorf("token %q: %d %s, want %d", token, status, body, want)
				}
				if bytes.Contains(body, []byte("-pass")) {
					t.Errorf("token %q: the answer shows the password: %s", token, body)
				}
			}

			if status, body := f.send(t, "GET", "/readyz", "", nil); status != 200 {
				t.Errorf("readyz without credentials of its own: %d %s", status, body)
			}

			r := must.Fixed(http.NewRequestWithContext(t.Context(), "GET", f.URL+download, nil))
			r.Header.Set("Authorization", "Bearer "+alice)
			resp := must.Fixed(http.DefaultClient.Do(r))
			resp.Body.Close()
			link, _, _ := strings.Cut(resp.Header.Get("X-Terraform-Get"), "?")
			if resp.StatusCode/100 != 2 || link == "" || !strings.HasPrefix(resp.Header.Get("Cache-Control"), "private") && resp.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("download: %s, %v", resp.Status, resp.Header)
			}
			if strings.Contains(link, alice) || strings.Contains(link, "al1ce") {
				t.Errorf("the link shows the credential: %s", link)
			}
			path := "/" + link[strings.Index(link, "archives/"):]
			if status, body := f.send(t, "GET", path, "", nil); status != 200 || !bytes.Equal(body, archive) {
				t.Errorf("archive without a token: %d, %d bytes", status, len(body))
			}

			// A link is invalid changed, without its credential, or elsewhere.
			token, _, _ := strings.Cut(strings.TrimPrefix(path, "/archives/"), "/")
			part := strings.Split(token, ".")
			for what, changed := range map[string]string{
				"without the credential": strings.Join(part[:3], "."),
				"with a changed one":     strings.Join(part[:4], ".") + "." + strings.ToUpper(part[4]),
				"with an empty one":      strings.Join(part[:4], ".") + ".",
			} {
				if status, _ := f.send(t, "GET", strings.Replace(path, token, changed, 1), "", nil); status != 403 {
					t.Errorf("a link %s: %d, want 403", what, status)
				}
			}
			other := newFrontAt(t, g.Host, nil, func(o *server.Options) { o.Access = access.Policy{} })
			if status, _ := other.send(t, "GET", path, "", nil); status != 403 {
				t.Errorf("a link on a server without pass-through: %d, want 403", status)
			}

			// A right that the registry withdraws ends within a minute.
			g.SetUsers(map[string]string{"alice": "n3w"})
			g.Expire()
			passed.Store(int64(2 * time.Minute))
			if status, body := f.send(t, "GET", versions, alice, nil); status != 401 {
				t.Errorf("after the password was changed: %d %s, want 401", status, body)
			}
			if status, _ := f.send(t, "GET", path, "", nil); status != 401 {
				t.Errorf("the archive after the password was changed: %d, want 401", status)
			}
		})
	}
}

// TestPassThroughPublish publishes with the rights of the caller.
func TestPassThroughPublish(t *testing.T) {
	issuer := &ocitest.Issuer{
		Users: map[string]string{"alice": "al1ce-pass", "bob": "b0b-pass"},
		Allow: func(user, _, action string) bool { return user == "alice" || user == "bob" && action == "pull" },
	}
	host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
	f := passFront(t, host, nil)
	const path = "/v1/modules/net/vpc/aws/1.0.0"
	archive := depottest.ZipOf(t, map[string]string{"main.tf": "output \"x\" { value = 1 }\n"})
	tests := []struct {
		token string
		want  int
	}{
		{"", 401}, {passToken("bob", "wr0ng"), 401}, {passToken("bob", "b0b-pass"), 403}, {passToken("alice", "al1ce-pass"), 201},
	}
	for _, tt := range tests {
		if status, body := f.send(t, "PUT", path, tt.token, archive); status != tt.want {
			t.Errorf("publish with %q: %d %s, want %d", tt.token, status, body, tt.want)
		}
	}
	if status, body := f.send(t, "GET", "/v1/modules/net/vpc/aws/versions", passToken("bob", "b0b-pass"), nil); status != 200 {
		t.Errorf("the reader: %d %s", status, body)
	}
}

// TestPassThroughForms checks each kind of credential.
func TestPassThroughForms(t *testing.T) {
	issuer := &ocitest.Issuer{Users: map[string]string{"alice": "al1ce-pass", "refresh-7": "refresh-7"}}
	host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
	f := passFront(t, host, nil)
	loginAs(t, f, host, "alice", "al1ce-pass")
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	u := must.Fixed(url.Parse("http://" + host + "/token?service=test&scope=repository:acme/modules/net/vpc/aws:pull"))
	u.User = url.UserPassword("alice", "al1ce-pass")
	resp := must.Fixed(http.Get(u.String()))
	defer resp.Body.Close()
	raw := decode[struct{ Token string }](t, must.Fixed(io.ReadAll(resp.Body))).Token
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"user and password":        {passToken("alice", "al1ce-pass"), 200},
		"padded":                   {"basic." + base64.URLEncoding.EncodeToString([]byte("alice:al1ce-pass")), 200},
		"identity token":           {"identity." + base64.RawURLEncoding.EncodeToString([]byte("refresh-7")), 200},
		"another identity token":   {"identity." + base64.RawURLEncoding.EncodeToString([]byte("refresh-8")), 401},
		"token of the registry":    {raw, 200},
		"one that it did not make": {raw[:len(raw)-4] + "AAAA", 401},
	} {
		if status, body := f.send(t, "GET", "/v1/modules/net/vpc/aws/versions", tt.token, nil); status != tt.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, tt.want)
		}
	}
}

// TestPassThroughApart: no caller gets another's content.
func TestPassThroughApart(t *testing.T) {
	issuer := &ocitest.Issuer{
		Users: map[string]string{"alice": "al1ce-pass", "bob": "b0b-pass"},
		Allow: func(user, repository, _ string) bool {
			return user == "alice" && strings.HasSuffix(repository, "/a/vpc/aws") || user == "bob" && strings.HasSuffix(repository, "/b/vpc/aws")
		},
	}
	host := ocitest.New(t, ocitest.Quirks{Auth: issuer})
	f := passFront(t, host, nil)
	loginAs(t, f, host, "alice", "al1ce-pass")
	f.module(t, "a/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	loginAs(t, f, host, "bob", "b0b-pass")
	f.module(t, "b/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	want := func(token, namespace string, good bool) {
		r := httptest.NewRequest(http.MethodGet, "/v1/modules/"+namespace+"/vpc/aws/versions", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		if (w.Code == 200) != good || !good && w.Code != 401 && w.Code != 403 {
			t.Errorf("%s for %.12s…: %d %s", namespace, token, w.Code, w.Body)
		}
	}
	var wg sync.WaitGroup
	for i := range 300 { // more than are cached
		wg.Go(func() {
			want(passToken("alice", "al1ce-pass"), "a", true)
			want(passToken("bob", "b0b-pass"), "a", false)
			want(passToken(fmt.Sprint("nobody", i), "x"), "a", false)
			want(passToken("bob", "b0b-pass"), "b", true)
			want(passToken("alice", "al1ce-pass"), "b", false)
		})
	}
	wg.Wait()
}
