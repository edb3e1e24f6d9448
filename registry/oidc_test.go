// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
)

// issuer is an OpenID Connect issuer in this process.
type issuer struct {
	*httptest.Server
	key     *ecdsa.PrivateKey
	kid     string
	others  []jose.JSONWebKey // in addition to its own
	fetches atomic.Int64      // of the keys
	down    atomic.Bool

	logins []begun                     // codes are issuer-code- followed by the index
	deny   bool                        // the user refuses
	tamper func(claims map[string]any) // changes the next ID token
	signer func(claims map[string]any) string
	public bool   // its client is the tool itself, which gets an access token for okara
	moved  string // new address of the token endpoint, if it has moved
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{kid: "k1", key: must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: append([]jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid, Algorithm: "ES256", Use: "sig"}}, i.others...)})
	})
	mux.HandleFunc("/authorize", i.authorize)
	mux.HandleFunc("/token", i.token)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// claims returns the valid claims of a CI job.
func (i *issuer) claims(now time.Time) map[string]any {
	return map[string]any{
		"iss": i.URL, "aud": []string{"okara"}, "sub": "repo:acme/terraform-vpc", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"nbf": now.Unix(), "repository": "acme/terraform-vpc", "ref_type": "tag", "groups": []string{"platform", "dev"},
	}
}

func (i *issuer) sign(claims map[string]any) string { return sign(jose.ES256, i.key, i.kid, claims) }

func sign(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	signer := must.Fixed(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil))
	return must.Fixed(must.Fixed(signer.Sign(must.Fixed(json.Marshal(claims)))).CompactSerialize())
}

func (i *issuer) access(allow string, rule access.Rule) access.Policy {
	rule.Allow = []rights.Scope{must.Fixed(rights.ParseScope(allow))}
	return access.Policy{Issuers: []access.Issuer{{URL: i.URL, Audiences: []string{"okara"}}}, Rules: []access.Rule{rule}}
}

// TestOIDC sends tokens that are wrong in one way each to a server that accepts
// the correct one. None of them falls through to another check.
//
// Shows: opendepot-defects 9 | a token that fails one check is tried in another; the audience is
// not checked
func TestOIDC(t *testing.T) {
	i := newIssuer(t)
	other := must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	f := newFront(t, func(o *server.Options) { o.Access = i.access("read:module:**", access.Rule{}) })
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	with := func(change map[string]any) string {
		c := i.claims(now)
		maps.Copy(c, change)
		return i.sign(c)
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(with(nil), ".")[1] + "."
	tests := []struct {
		name, token string
		want        int
	}{
		{"good", with(nil), 200},
		{"audience as text", with(map[string]any{"aud": "okara"}), 200},
		{"expired within the skew", with(map[string]any{"exp": now.Add(-30 * time.Second).Unix()}), 200},
		{"expired", with(map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}), 401},
		{"no expiry", with(map[string]any{"exp": nil}), 401},
		{"not yet", with(map[string]any{"nbf": now.Add(time.Hour).Unix()}), 401},
		{"other audience", with(map[string]any{"aud": "another"}), 401},
		{"no audience", with(map[string]any{"aud": []string{}}), 401},
		{"other issuer", with(map[string]any{"iss": "https://evil.example.com"}), 401},
		{"issuer with a slash", with(map[string]any{"iss": i.URL + "/"}), 401},
		{"no issuer", with(map[string]any{"iss": nil}), 401},
		{"other key", sign(jose.ES256, other, i.kid, i.claims(now)), 401},
		{"other key, unknown id", sign(jose.ES256, other, "k9", i.claims(now)), 401},
		{"public key as a secret", sign(jose.HS256, must.Fixed(i.key.PublicKey.Bytes()), i.kid, i.claims(now)), 401},
		{"no algorithm", none, 401},
		{"no signature", strings.Join(strings.Split(with(nil), ".")[:2], ".") + ".", 401},
		{"garbage", "a.b.c", 401},
		{"huge", with(map[string]any{"x": strings.Repeat("x", 20_000)}), 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, body := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Authorization", "Bearer "+tt.token)
			if resp.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", resp.StatusCode, body, tt.want)
			}
			if strings.Contains(string(body), tt.token) {
				t.Error("the answer repeats the token")
			}
		})
	}
	must.Equal(t, "fetches of the keys", i.fetches.Load(), 1)
}

// Shows: opendepot 14 | anonymous access, OIDC and group rules | anonymous rules, tokens with
// scopes, OIDC rules, `tofu login`
func TestOIDCRules(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	tests := []struct {
		name string
		rule access.Rule
		want int
	}{
		{"no condition", access.Rule{}, 201},
		{"issuer", access.Rule{Issuer: i.URL}, 201},
		{"another issuer", access.Rule{Issuer: "https://other.example.com"}, 403},
		{"claims", access.Rule{Claims: map[string]string{"repository": "acme/terraform-*", "ref_type": "tag"}}, 201},
		{"one claim differs", access.Rule{Claims: map[string]string{"repository": "acme/terraform-*", "ref_type": "branch"}}, 403},
		{"glob stops at a slash", access.Rule{Claims: map[string]string{"repository": "*"}}, 403},
		{"claim is missing", access.Rule{Claims: map[string]string{"nothing": "**"}}, 403},
		{"one of the groups", access.Rule{Groups: []string{"ops", "platform"}}, 201},
		{"none of the groups", access.Rule{Groups: []string{"ops"}}, 403},
		{"groups in another claim", access.Rule{Groups: []string{"platform"}}, 403},
		{"one group as text", access.Rule{Groups: []string{"platform"}}, 201},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFront(t, func(o *server.Options) {
				o.Access = i.access("publish:module:acme/**", tt.rule)
				if tt.name == "groups in another claim" {
					o.Access.Issuers[0].GroupsClaim = "roles"
				}
			})
			body := depottest.ZipOf(t, map[string]string{"main.tf": ""})
			claims := i.claims(now)
			if tt.name == "one group as text" {
				claims["groups"] = "platform"
			}
			status, answer := f.send(t, http.MethodPut, "/v1/modules/acme/vpc/aws/1.0.0", i.sign(claims), body)
			if status != tt.want {
				t.Errorf("%d %s, want %d", status, answer, tt.want)
			}
			if status, _ := f.send(t, http.MethodPut, "/v1/modules/other/vpc/aws/1.0.0", i.sign(i.claims(now)), body); status != 403 {
				t.Errorf("another namespace: %d, want 403", status)
			}
		})
	}
}

// TestOIDCKeys checks a rotation of the issuer's key and an outage.
func TestOIDCKeys(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	f := newFront(t, func(o *server.Options) {
		o.Access = i.access("read:module:**", access.Rule{})
		o.Now = func() time.Time { return now }
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	status := func() int {
		resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Authorization", "Bearer "+i.sign(i.claims(now)))
		return resp.StatusCode
	}
	i.down.Store(true)
	must.Equal(t, "issuer down at the start", status(), 503)
	i.down.Store(false)
	now = now.Add(10 * time.Second)
	must.Equal(t, "issuer up", status(), 200)
	i.key, i.kid = must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "k2"
	for range 5 {
		must.Equal(t, "a new key within a minute", status(), 401)
	}
	must.Equal(t, "fetches of the keys", i.fetches.Load(), 1)
	now = now.Add(2 * time.Minute)
	must.Equal(t, "a new key after a minute", status(), 200)
	i.down.Store(true)
	now = now.Add(2 * time.Hour)
	must.Equal(t, "known key, issuer down", status(), 200)
}

// at makes the issuer known by a public URL.
func (i *issuer) at(url string) http.RoundTripper {
	inside := i.Listener.Addr().String()
	i.URL = url
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme, r.URL.Host = "http", inside
		return http.DefaultTransport.RoundTrip(r)
	})
}

// TestCITokens publishes with tokens in the form of GitHub Actions and GitLab
// CI jobs, and checks which jobs the rules in the documentation permit.
//
// Shows: opendepot 14
func TestCITokens(t *testing.T) {
	const sha = "9d2b0a3c4e5f60718293a4b5c6d7e8f901234567"
	github := func(change map[string]any) map[string]any {
		c := map[string]any{
			"iss": "https://token.actions.githubusercontent.com", "aud": "okara", "sub": "repo:acme/terraform-aws-vpc:ref:refs/tags/v1.0.0",
			"repository": "acme/terraform-aws-vpc", "repository_owner": "acme", "repository_id": "74", "repository_owner_id": "65", "repository_visibility": "private",
			"ref": "refs/tags/v1.0.0", "ref_type": "tag", "ref_protected": "false", "sha": sha, "head_ref": "", "base_ref": "", "event_name": "push",
			"workflow": "release", "workflow_ref": "acme/terraform-aws-vpc/.github/workflows/release.yml@refs/tags/v1.0.0",
			"job_workflow_ref": "acme/terraform-aws-vpc/.github/workflows/release.yml@refs/tags/v1.0.0",
			"run_id":           "30433642", "run_number": "2", "run_attempt": "1", "runner_environment": "github-hosted", "actor": "octocat", "actor_id": "12",
		}
		maps.Copy(c, change)
		return c
	}
	gitlab := func(change map[string]any) map[string]any {
		c := map[string]any{
			"iss": "https://gitlab.example.com", "aud": "okara", "sub": "project_path:acme/terraform-aws-vpc:ref_type:tag:ref:v1.0.0",
			"namespace_id": "72", "namespace_path": "acme", "project_id": "20", "project_path": "acme/terraform-aws-vpc", "user_id": "1", "user_login": "octocat",
			"user_email": "octocat@example.com", "pipeline_id": "574", "pipeline_source": "push", "job_id": "302", "ref": "v1.0.0", "ref_type": "tag",
			"ref_path": "refs/tags/v1.0.0", "ref_protected": "true", "runner_id": 1, "runner_environment": "self-hosted", "sha": sha, "project_visibility": "private",
		}
		maps.Copy(c, change)
		return c
	}
	rules := []access.Rule{
		{Issuer: "https://token.actions.githubusercontent.com", Claims: map[string]string{"repository": "acme/terraform-*", "ref_type": "tag"}, Allow: []rights.Scope{must.Fixed(rights.ParseScope("publish:*:acme/**"))}},
		{Issuer: "https://gitlab.example.com", Claims: map[string]string{"project_path": "acme/terraform-*", "ref_type": "tag", "ref_protected": "true"}, Allow: []rights.Scope{must.Fixed(rights.ParseScope("publish:*:acme/**"))}},
	}
	tests := []struct {
		name   string
		claims map[string]any
		want   int
	}{
		{"tag on GitHub", github(nil), 201},
		{"branch on GitHub", github(map[string]any{"ref": "refs/heads/main", "ref_type": "branch"}), 403},
		{"pull request on GitHub", github(map[string]any{"ref": "refs/pull/7/merge", "ref_type": "branch", "event_name": "pull_request"}), 403},
		{"repository of another", github(map[string]any{"repository": "evil/terraform-aws-vpc"}), 403},
		{"other audience on GitHub", github(map[string]any{"aud": "https://github.com/acme"}), 401},
		{"protected tag on GitLab", gitlab(nil), 201},
		{"tag that anybody may make on GitLab", gitlab(map[string]any{"ref_protected": "false"}), 403},
		{"project of another", gitlab(map[string]any{"project_path": "evil/terraform-aws-vpc"}), 403},
		{"GitHub's claims from GitLab", gitlab(map[string]any{"project_path": "evil/x", "repository": "acme/terraform-aws-vpc"}), 403},
		{"an issuer that is not configured", gitlab(map[string]any{"iss": "https://gitlab.com"}), 401},
	}
	binary := depottest.ZipOf(t, map[string]string{"terraform-provider-dns_v1.0.0": "binary"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := newIssuer(t)
			to := i.at(tt.claims["iss"].(string))
			f := newFront(t, func(o *server.Options) {
				o.Access = access.Policy{Anonymous: rights.AnonymousRead(), Rules: rules}
				for _, r := range rules {
					o.Access.Issuers = append(o.Access.Issuers, access.Issuer{URL: r.Issuer, Audiences: []string{"okara"}})
				}
				o.Transport = to
			})
			tt.claims["iat"], tt.claims["nbf"], tt.claims["exp"] = time.Now().Unix(), time.Now().Unix(), time.Now().Add(5*time.Minute).Unix()
			token := i.sign(tt.claims)
			body := depottest.ZipOf(t, map[string]string{"main.tf": ""})
			status, answer := f.send(t, http.MethodPut, "/v1/modules/acme/vpc/aws/1.0.0", token, body)
			if status != tt.want {
				t.Fatalf("module: %d %s, want %d", status, answer, tt.want)
			}
			if status, answer := f.send(t, http.MethodPut, "/v1/providers/acme/dns/1.0.0/files/terraform-provider-dns_1.0.0_linux_amd64.zip", token, binary); status != tt.want {
				t.Errorf("file of a provider: %d %s, want %d", status, answer, tt.want)
			}
		})
	}
}

// TestOIDCTogether: many tokens, one request for keys.
func TestOIDCTogether(t *testing.T) {
	i := newIssuer(t)
	clock := newClock()
	f := newFront(t, func(o *server.Options) {
		o.Access = i.access("read:module:**", access.Rule{})
		o.Now = clock.now
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	all := func(token string, want, fetches int) {
		t.Helper()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				r := httptest.NewRequest(http.MethodGet, "/v1/modules/net/vpc/aws/versions", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				f.handler.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("%d %s, want %d", w.Code, w.Body, want)
				}
			})
		}
		wg.Wait()
		if n := i.fetches.Load(); n != int64(fetches) {
			t.Errorf("%d fetches of the keys, want %d", n, fetches)
		}
	}
	old := i.sign(i.claims(clock.start))
	all(old, 200, 1)
	i.key, i.kid = must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "k2"
	clock.add(2 * time.Minute)
	all(i.sign(i.claims(clock.start)), 200, 2)
	all(old, 401, 2)
}

// TestOIDCAlgorithms: those with public keys, none symmetric, whatever is published.
func TestOIDCAlgorithms(t *testing.T) {
	i := newIssuer(t)
	rsaKey := must.Fixed(rsa.GenerateKey(rand.Reader, 2048))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte(strings.Repeat("secret", 8))
	tests := []struct {
		alg  jose.SignatureAlgorithm
		key  any
		use  string
		want int
	}{
		{jose.RS256, rsaKey, "sig", 200}, {jose.RS512, rsaKey, "", 200}, {jose.PS256, rsaKey, "sig", 200},
		{jose.ES384, must.Fixed(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), "sig", 200}, {jose.EdDSA, edKey, "sig", 200},
		{jose.HS256, secret, "sig", 401}, {jose.RS384, must.Fixed(rsa.GenerateKey(rand.Reader, 2048)), "enc", 401},
	}
	for n, tt := range tests {
		k := jose.JSONWebKey{Key: tt.key, KeyID: fmt.Sprint(n), Use: tt.use}
		if public := k.Public(); public.Valid() {
			k = public
		}
		i.others = append(i.others, k)
	}
	f := newFront(t, func(o *server.Options) { o.Access = i.access("read:module:**", access.Rule{}) })
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for n, tt := range tests {
		token := sign(tt.alg, tt.key, fmt.Sprint(n), i.claims(time.Now()))
		if status, body := f.send(t, http.MethodGet, "/v1/modules/net/vpc/aws/versions", token, nil); status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.alg, status, body, tt.want)
		}
	}
}
