// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-141914ff/okara/registry"
)

// issuer is an OpenID Connect issuer in process.
type issuer struct {
	*httptest.Server
	key     *ecdsa.PrivateKey
	kid     string
	fetches atomic.Int64 // of the keys
	down    atomic.Bool

	nonce, challenge string                      // of the login that runs
	deny             bool                        // the user says no
	tamper           func(claims map[string]any) // of the next ID token
	signer           func(claims map[string]any) string
	public           bool // its client is the tool itself, which gets an access token for okara
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{kid: "k1", key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid, Algorithm: "ES256", Use: "sig"}}})
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

// claims of a CI job, as good as they get.
func (i *issuer) claims(now time.Time) map[string]any {
	return map[string]any{
		"iss": i.URL, "aud": []string{"okara"}, "sub": "repo:acme/terraform-vpc", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"nbf": now.Unix(), "repository": "acme/terraform-vpc", "ref_type": "tag", "groups": []string{"platform", "dev"},
	}
}

func (i *issuer) sign(claims map[string]any) string { return sign(jose.ES256, i.key, i.kid, claims) }

func sign(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil))
	return must(must(signer.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

func (i *issuer) access(allow string, rule registry.Rule) registry.Access {
	rule.Allow = []registry.Scope{must(registry.ParseScope(allow))}
	return registry.Access{Issuers: []registry.Issuer{{URL: i.URL, Audiences: []string{"okara"}}}, Rules: []registry.Rule{rule}}
}

// TestOIDC holds tokens that are wrong in one way each against a server that
// accepts the right one. None of them falls through to another check.
func TestOIDC(t *testing.T) {
	i := newIssuer(t)
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	f := newFront(t, func(o *registry.Options) { o.Access = i.access("read:module:**", registry.Rule{}) })
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
		{"public key as a secret", sign(jose.HS256, must(i.key.PublicKey.Bytes()), i.kid, i.claims(now)), 401},
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
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of the keys, want 1", n)
	}
}

func TestOIDCRules(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	tests := []struct {
		name string
		rule registry.Rule
		want int
	}{
		{"no condition", registry.Rule{}, 201},
		{"issuer", registry.Rule{Issuer: i.URL}, 201},
		{"another issuer", registry.Rule{Issuer: "https://other.example.com"}, 403},
		{"claims", registry.Rule{Claims: map[string]string{"repository": "acme/terraform-*", "ref_type": "tag"}}, 201},
		{"one claim differs", registry.Rule{Claims: map[string]string{"repository": "acme/terraform-*", "ref_type": "branch"}}, 403},
		{"glob stops at a slash", registry.Rule{Claims: map[string]string{"repository": "*"}}, 403},
		{"claim is missing", registry.Rule{Claims: map[string]string{"nothing": "**"}}, 403},
		{"one of the groups", registry.Rule{Groups: []string{"ops", "platform"}}, 201},
		{"none of the groups", registry.Rule{Groups: []string{"ops"}}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFront(t, func(o *registry.Options) { o.Access = i.access("publish:module:acme/**", tt.rule) })
			body := newZip(t, map[string]string{"main.tf": ""})
			status, answer := f.send(t, http.MethodPut, "/v1/modules/acme/vpc/aws/1.0.0", i.sign(i.claims(now)), body)
			if status != tt.want {
				t.Errorf("%d %s, want %d", status, answer, tt.want)
			}
			if status, _ := f.send(t, http.MethodPut, "/v1/modules/other/vpc/aws/1.0.0", i.sign(i.claims(now)), body); status != 403 {
				t.Errorf("another namespace: %d, want 403", status)
			}
		})
	}
}

// TestOIDCKeys walks through a rotation of the issuer's key and an outage.
func TestOIDCKeys(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	f := newFront(t, func(o *registry.Options) {
		o.Access = i.access("read:module:**", registry.Rule{})
		o.Now = func() time.Time { return now }
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	status := func() int {
		resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Authorization", "Bearer "+i.sign(i.claims(now)))
		return resp.StatusCode
	}
	i.down.Store(true)
	if got := status(); got != 503 {
		t.Errorf("issuer down at the start: %d, want 503", got)
	}
	i.down.Store(false)
	now = now.Add(10 * time.Second)
	if got := status(); got != 200 {
		t.Errorf("issuer up: %d, want 200", got)
	}
	i.key, i.kid = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "k2"
	for range 5 {
		if got := status(); got != 401 {
			t.Errorf("a new key within a minute: %d, want 401", got)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of the keys, want 1", n)
	}
	now = now.Add(2 * time.Minute)
	if got := status(); got != 200 {
		t.Errorf("a new key after a minute: %d, want 200", got)
	}
	i.down.Store(true)
	now = now.Add(2 * time.Hour)
	if got := status(); got != 200 {
		t.Errorf("known key, issuer down: %d, want 200", got)
	}
}
