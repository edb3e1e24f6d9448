// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	readerToken    = "oks_reader_0123456789abcdefghij"
	publisherToken = "oks_publisher_0123456789abcdefghij"
	adminToken     = "oks_admin_0123456789abcdefghij"
	narrowToken    = "oks_narrow_0123456789abcdefghij"
	statesToken    = "oks_states_0123456789abcdefghij"
)

func newToken(t testing.TB, token string, scopes ...string) statictoken.Token {
	t.Helper()
	id, hash, err := statictoken.Hash(token)
	if err != nil {
		t.Fatal(err)
	}
	out := statictoken.Token{ID: id, Hash: hash}
	for _, s := range scopes {
		out.Scopes = append(out.Scopes, must.Fixed(rights.ParseScope(s)))
	}
	return out
}

// private configures a front-end that requires a token for everything.
func private(t testing.TB) func(*server.Options) {
	return func(o *server.Options) {
		o.Access = access.Policy{Tokens: []statictoken.Token{
			newToken(t, readerToken, "read:*:**"),
			newToken(t, publisherToken, "publish:module:net/**", "write:state:shop"),
		}}
	}
}

// TestPrivate: without a token for metadata nothing answers; no archive link has a part of it.
//
// Shows: registries 4 | archives that require credentials | boring-registry#406,
// hashicorp/terraform#36519, opentofu/opentofu#4314
// Shows: registries 6 | the caller's token in URLs of archives | boring-registry
// Shows: registries 27 | a mirror left open because tools would send no credentials |
// sethbacon/terraform-registry-backend
func TestPrivate(t *testing.T) {
	f := newFront(t, private(t))
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: "1.0.0"})
	for _, tool := range tofutest.Tools() {
		c := &tofutest.Client{Tool: tool, Token: readerToken}
		s := f.services(t, c)
		if _, err := c.Module(t.Context(), s.Modules, "net/vpc/aws", "1.0.0"); err != nil {
			t.Error(err)
		}
		in, err := c.Provider(t.Context(), s.Providers, "example.com", "acme/dns", "1.0.0", "linux", "amd64")
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(in.DownloadURL+in.ShasumsURL+in.ShasumsSignatureURL, readerToken[4:]) {
			t.Errorf("the token is in a link: %s", in.DownloadURL)
		}
		if _, err := c.Mirror(t.Context(), f.url(t, "/mirror/"), "registry.opentofu.org/hashicorp/time", "1.0.0", "linux_amd64"); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{
		"/v1/modules/net/vpc/aws/versions", "/v1/modules/none/none/none/versions", "/v1/providers/acme/dns/versions",
		"/v1/providers/acme/dns/1.0.0/download/linux/amd64", "/mirror/registry.opentofu.org/hashicorp/time/index.json",
		"/mirror/registry.opentofu.org/hashicorp/time/1.0.0.json", "/origin/registry.opentofu.org/v1/providers/hashicorp/time/versions",
	} {
		for token, want := range map[string]int{
			"": 401, "nonsense": 401, readerToken + "x": 401, "oks_reader_": 401, "oks_other_0123456789abcdefghij": 401, readerToken: 200,
		} {
			if strings.Contains(path, "none") && want == 200 {
				want = 404 // and 401 without a token: a refusal does not reveal what exists
			}
			header := []string{}
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			resp, _ := ask(t, http.MethodGet, f.url(t, path), header...)
			if resp.StatusCode != want {
				t.Errorf("%s with %q: %d, want %d", path, token, resp.StatusCode, want)
			}
			if want == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: no challenge", path)
			}
			if cc := resp.Header.Get("Cache-Control"); want == 200 && !strings.HasPrefix(cc, "private") {
				t.Errorf("%s: Cache-Control %q for a private answer", path, cc)
			}
		}
	}
	resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/providers/acme/dns/versions"), "Authorization", "Bearer "+publisherToken)
	must.Equal(t, "a token without the right", resp.StatusCode, http.StatusForbidden)
}

// TestArchiveWords checks the words that replace a signature.
//
// Shows: pages 9
// Shows: mistakes 16
func TestArchiveWords(t *testing.T) {
	for _, tt := range []struct {
		name   string
		access func(testing.TB) func(*server.Options)
		word   string
		token  string
		want   int
	}{
		{"public where all may read", open, "public", "", 200},
		{"public where a token is needed", private, "public", "", 401},
		{"public with a token", private, "public", readerToken, 403},
		{"auth with a token", private, "auth", readerToken, 200},
		{"auth without", private, "auth", "", 401},
		{"no such word", open, "any", "", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFront(t, tt.access(t))
			archive := f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
			u := f.url(t, "/archives/"+tt.word+"/acme/modules/net/vpc/aws/"+hexSum(archive)+"/net-vpc-aws-1.0.0.zip")
			var header []string
			if tt.token != "" {
				header = []string{"Authorization", "Bearer " + tt.token}
			}
			if resp, body := ask(t, http.MethodGet, u, header...); resp.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", resp.StatusCode, body, tt.want)
			}
		})
	}
}

func open(testing.TB) func(*server.Options) { return nil }

// TestEmbedded checks the rights for the registry itself, as used by docker
// clients, and that the front-end sees what was pushed there.
//
// Shows: mistakes 10 | `read:*:**` gave access to states below a state's path | everything below
// the path of states is treated as state
// Shows: mistakes 11 | every reader could read the catalog and the queue through `/v2/`, and every
// publisher could delete them | both require `admin:*:**`; the server itself adds pushed versions
// to the lists
func TestEmbedded(t *testing.T) {
	h := ocitest.Handler(t, ocitest.Quirks{})
	inner := httptest.NewServer(h)
	t.Cleanup(inner.Close)
	f := newFrontAt(t, strings.TrimPrefix(inner.URL, "http://"), nil, func(o *server.Options) {
		private(t)(o)
		o.Access.Tokens = append(o.Access.Tokens, newToken(t, adminToken, "admin:*:**"),
			newToken(t, narrowToken, "admin:*:else/**", "admin:*:*"), newToken(t, statesToken, "write:state:**"))
		o.Embedded = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Forwarded")+r.Header.Get("X-Forwarded-Host") != "" {
				t.Errorf("%s %s: the word of no proxy arrived: %v", r.Method, r.URL, r.Header)
			}
			h.ServeHTTP(w, r)
		})
	})
	host := strings.TrimPrefix(f.URL, "http://")
	as := func(token string) *oci.Client {
		return newClient(t, host, oci.Options{PlainHTTP: true, Credential: func(context.Context, string, string) (oci.Credential, error) {
			if token == "" {
				return oci.Credential{}, nil
			}
			return oci.Credential{Username: "okara", Password: token}, nil
		}})
	}
	tests := []struct {
		name, token, repository string
		push, pull              error
	}{
		{"publisher", publisherToken, "acme/modules/net/vpc/aws", nil, nil},
		{"publisher elsewhere", publisherToken, "acme/modules/other/vpc/aws", oci.ErrDenied, oci.ErrDenied},
		{"publisher, provider", publisherToken, "acme/providers/acme/dns", oci.ErrDenied, oci.ErrDenied},
		{"state writer", publisherToken, "acme/state/shop", nil, nil},
		{"state of another", publisherToken, "acme/state/bank", oci.ErrDenied, oci.ErrDenied},
		{"catalog", publisherToken, "acme/catalog", oci.ErrDenied, oci.ErrDenied},
		{"queue", publisherToken, "acme/queue", oci.ErrDenied, oci.ErrDenied},
		{"outside of the layout", publisherToken, "else/where", oci.ErrDenied, oci.ErrDenied},
		{"state below a state", publisherToken, "acme/state/shop/prod", oci.ErrDenied, oci.ErrDenied},
		{"reader", readerToken, "acme/modules/net/vpc/aws", oci.ErrDenied, nil},
		{"reader, state", readerToken, "acme/state/shop", oci.ErrDenied, oci.ErrDenied},
		{"reader, state below a state", readerToken, "acme/state/team/shop", oci.ErrDenied, oci.ErrDenied},
		{"reader, state far below", readerToken, "acme/state/a/b/c/d", oci.ErrDenied, oci.ErrDenied},
		{"reader, catalog", readerToken, "acme/catalog", oci.ErrDenied, oci.ErrDenied},
		{"reader, queue", readerToken, "acme/queue", oci.ErrDenied, oci.ErrDenied},
		{"reader, outside of the layout", readerToken, "else/where", oci.ErrDenied, oci.ErrDenied},
		{"reader, states' own path", readerToken, "acme/state", oci.ErrDenied, oci.ErrDenied},
		{"admin, catalog", adminToken, "acme/catalog", nil, nil},
		{"admin, queue", adminToken, "acme/queue", nil, nil},
		{"admin, outside of the layout", adminToken, "else/where", nil, nil},
		{"admin, state below a state", adminToken, "acme/state/team/shop", oci.ErrDenied, oci.ErrDenied},
		{"admin of one namespace", narrowToken, "else/where", oci.ErrDenied, oci.ErrDenied},
		{"admin of one segment", narrowToken, "acme/catalog", oci.ErrDenied, oci.ErrDenied},
		{"writer of all states", statesToken, "acme/state/team/shop", nil, nil},
		{"writer of all states, outside", statesToken, "else/where", oci.ErrDenied, oci.ErrDenied},
		{"nobody", "", "acme/modules/net/vpc/aws", oci.ErrUnauthenticated, oci.ErrUnauthenticated},
		{"wrong token", readerToken + "x", "acme/modules/net/vpc/aws", oci.ErrUnauthenticated, oci.ErrUnauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := must.Fixed(as(tt.token).Repo(tt.repository))
			blob := oci.BytesBlob("text/plain", []byte("x"))
			if err := r.PushBlob(t.Context(), blob); !errors.Is(err, tt.push) {
				t.Errorf("push: %v, want %v", err, tt.push)
			}
			_, err := r.ReadBlob(t.Context(), blob.Descriptor, 10)
			if errors.Is(err, oci.ErrNotFound) {
				err = nil
			}
			if !errors.Is(err, tt.pull) {
				t.Errorf("pull: %v, want %v", err, tt.pull)
			}
		})
	}
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	// A mount gives nobody a blob of a state that they may not read.
	secret := oci.BytesBlob("text/plain", []byte("secret"))
	bank, m := f.repo(t, "acme/state/bank"), must.Fixed(artifact.NewBare("application/x.state", nil))
	must.Fixed(bank.Push(t.Context(), oci.Artifact{Blobs: []oci.Blob{secret, oci.EmptyBlob()}, Root: m}))
	if err := bank.PutTag(t.Context(), "1", m); err != nil { // or it is in no list
		t.Fatal(err)
	}
	mount := "mount=" + secret.Descriptor.Digest.String() + "&from=acme/state/bank"
	const uploads, form = "/v2/acme/modules/net/vpc/aws/blobs/uploads/", "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		query, body string
		want        int
	}{
		{"?" + mount, "", 403}, {"", mount, 415}, {"?from=acme/modules/net/vpc/aws", mount, 415}, {"?from=acme/modules/net/vpc/aws&" + mount, mount, 403},
	} {
		status, body := f.send(t, http.MethodPost, uploads+tt.query, publisherToken, []byte(tt.body), "Content-Type", form)
		if status != tt.want {
			t.Errorf("mount by %q and %q: %d %s", tt.query, tt.body, status, body)
		}
	}
	if status, _ := f.send(t, http.MethodPost, uploads, publisherToken, nil, "Forwarded", "host=evil.example", "X-Forwarded-Host", "evil.example"); status != http.StatusAccepted {
		t.Errorf("an upload that names another host: %d", status)
	}
	for token, want := range map[string]error{adminToken: nil, readerToken: nil, publisherToken: nil, "": oci.ErrUnauthenticated} {
		names, partial, err := as(token).ListRepositories(t.Context()) // those that the token may read: no state
		module, state := slices.Contains(names, "acme/modules/net/vpc/aws"), slices.Contains(names, "acme/state/bank")
		if !errors.Is(err, want) || module != (want == nil) || state || partial != (want == nil) {
			t.Errorf("repositories for %q: %v, partial: %v, %v, want %v", token, names, partial, err, want)
		}
	}
	c := &tofutest.Client{Tool: tofutest.OpenTofu(), Token: readerToken}
	if _, err := c.Module(t.Context(), f.services(t, c).Modules, "net/vpc/aws", "1.0.0"); err != nil {
		t.Error(err)
	}
	// The server lists a push of one who may not write the catalog.
	publisher := *f
	publisher.client = as(publisherToken)
	publisher.module(t, "net/dns/aws", "1.0.0", map[string]string{"main.tf": ""})
	if _, body := ask(t, http.MethodGet, f.url(t, "/v1/modules"), "Authorization", "Bearer "+readerToken); !strings.Contains(string(body), "net/dns/aws/1.0.0") {
		t.Errorf("a version that was pushed is not listed: %s", body)
	}
	// Publishing protects a version, the registry routes do not.
	publisher.module(t, "net/dns/aws", "1.0.0", map[string]string{"main.tf": "# other"})
}
