// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/registry"
)

// begun holds what the issuer knows about a login.
type begun struct {
	nonce, challenge string
	spent            bool
}

// authorize approves at once and redirects the browser back.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer := url.Values{"code": {fmt.Sprintf("issuer-code-%d", len(i.logins))}, "state": {q.Get("state")}}
	i.logins = append(i.logins, begun{nonce: q.Get("nonce"), challenge: q.Get("code_challenge")})
	if i.deny {
		answer = url.Values{"error": {"access_denied"}, "state": {q.Get("state")}}
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

// token returns an ID token once, for verifier and secret.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	if i.moved != "" {
		http.Redirect(w, r, i.moved, http.StatusTemporaryRedirect)
		return
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.FormValue("code"), "issuer-code-"))
	if err != nil || n >= len(i.logins) || i.logins[n].spent || (r.FormValue("client_secret") != "s3cret") != i.public || challenge(r.FormValue("code_verifier")) != i.logins[n].challenge {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	i.logins[n].spent = true
	w.Header().Set("Content-Type", "application/json")
	claims := i.claims(time.Now())
	if i.public {
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.sign(claims), "token_type": "Bearer"})
		return
	}
	claims["aud"], claims["sub"], claims["nonce"], claims["email"] = "okara-web", "alice", i.logins[n].nonce, "alice@example.com"
	if i.tamper != nil {
		i.tamper(claims)
	}
	sign := i.sign
	if i.signer != nil {
		sign = i.signer
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id_token": sign(claims), "access_token": "unused"})
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// unsigned returns a token that states that it needs no signature.
func unsigned(claims map[string]any) string {
	text := func(v any) string { return base64.RawURLEncoding.EncodeToString(must.Fixed(json.Marshal(v))) }
	return text(map[string]string{"alg": "none", "typ": "JWT"}) + "." + text(claims) + "."
}

// loginFront is a front-end to which users log in through the issuer.
func loginFront(t testing.TB, i *issuer, now *time.Time) *front {
	t.Helper()
	f := newFront(t, func(o *server.Options) {
		o.Access = access.Policy{Rules: []access.Rule{{
			Groups: []string{"platform"}, Claims: map[string]string{"email": "*@example.com"}, Allow: rights.AnonymousRead(),
		}}}
		o.Now = func() time.Time { return *now }
		o.Login = &access.Login{
			Issuer: access.Issuer{URL: i.URL}, ClientID: "okara-web", ClientSecret: "s3cret", PublicURL: "http://okara.invalid",
		}
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	return f
}

const verifier = "a-verifier-that-only-the-tool-knows-0123456789"

// login walks from tool to issuer and back: the tool's query, or a status.
func (f *front) login(t testing.TB, q url.Values) (url.Values, int) {
	t.Helper()
	at := f.url(t, "/login/authorize?"+q.Encode())
	for range 3 {
		resp, _ := ask(t, http.MethodGet, at)
		if resp.StatusCode != http.StatusFound {
			return nil, resp.StatusCode
		}
		at = must.Fixed(resp.Location())
		if at.Host == "okara.invalid" { // its public name
			at = f.url(t, at.RequestURI())
		}
		if at.Host == "localhost:10003" {
			return at.Query(), http.StatusFound
		}
	}
	return nil, 0
}

func loginQuery() url.Values {
	return url.Values{
		"client_id": {"okara-cli"}, "response_type": {"code"}, "state": {"tool-state"}, "redirect_uri": {"http://localhost:10003/login"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"},
	}
}

func (f *front) exchange(t testing.TB, code, verifier, redirect string) (string, int) {
	t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {redirect}, "client_id": {"okara-cli"}}
	status, body := f.send(t, http.MethodPost, "/login/token", "", []byte(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	return decode[struct {
		Token string `json:"access_token"`
	}](t, body).Token, status
}

// TestLogin carries out the complete flow of `tofu login` to a token that works.
func TestLogin(t *testing.T) {
	now := time.Now()
	i := newIssuer(t)
	f := loginFront(t, i, &now)
	_, doc := ask(t, http.MethodGet, f.url(t, "/.well-known/terraform.json"))
	service := decode[struct {
		Login struct {
			Client     string
			GrantTypes []string `json:"grant_types"`
			Ports      []int
			Authz      string
			Token      string
			Scopes     []string
		} `json:"login.v1"`
	}](t, doc).Login
	if service.Client == "" || len(service.GrantTypes) != 1 || service.GrantTypes[0] != "authz_code" || len(service.Ports) != 2 || service.Scopes != nil {
		t.Errorf("login.v1: %+v", service)
	}
	q, status := f.login(t, loginQuery())
	if status != http.StatusFound || q.Get("state") != "tool-state" || q.Get("code") == "" {
		t.Fatalf("%d, %v", status, q)
	}
	const redirect = "http://localhost:10003/login"
	for name, try := range map[string][3]string{
		"other verifier": {q.Get("code"), "another-verifier", redirect},
		"other redirect": {q.Get("code"), verifier, "http://localhost:10004/login"},
		"changed code":   {q.Get("code") + "A", verifier, redirect},
		"no code":        {"", verifier, redirect},
	} {
		if token, status := f.exchange(t, try[0], try[1], try[2]); status != 400 || token != "" {
			t.Errorf("%s: %d, %q", name, status, token)
		}
	}
	token, status := f.exchange(t, q.Get("code"), verifier, redirect)
	if status != 200 || !strings.HasPrefix(token, "okl_") {
		t.Fatalf("%d, %q", status, token)
	}
	read := func(token string) int {
		resp, _ := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/versions"), "Authorization", "Bearer "+token)
		return resp.StatusCode
	}
	must.Equal(t, "with the token", read(token), 200)
	if again, status := f.exchange(t, q.Get("code"), verifier, redirect); status != 400 || again != "" {
		t.Errorf("the code a second time: %d, %q", status, again)
	}
	must.Equal(t, "with a changed token", read(token[:len(token)-2]+"AA"), 401)
	must.Equal(t, "with the code as a token", read("okl_"+q.Get("code")), 401)
	old, _ := f.login(t, loginQuery())
	now = now.Add(2 * time.Minute)
	if _, status := f.exchange(t, old.Get("code"), verifier, redirect); status != 400 {
		t.Errorf("an old code: %d, want 400", status)
	}
	now = now.Add(8 * 24 * time.Hour)
	must.Equal(t, "after eight days", read(token), 401)
}

// TestLoginRefuses: requests wrong in one way get no code.
func TestLoginRefuses(t *testing.T) {
	tests := []struct {
		name   string
		query  func(url.Values)
		issuer func(*issuer)
		want   int
	}{
		{name: "plain challenge", query: func(q url.Values) { q.Set("code_challenge_method", "plain") }, want: 400},
		{name: "no challenge", query: func(q url.Values) { q.Del("code_challenge") }, want: 400},
		{name: "wrong nonce", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["nonce"] = "other" } }, want: 403},
		{name: "no nonce", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { delete(c, "nonce") } }, want: 403},
		{name: "wrong audience", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["aud"] = "okara" } }, want: 403},
		{name: "wrong issuer", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["iss"] = "https://evil.example.com" } }, want: 403},
		{name: "expired", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["exp"] = 1 } }, want: 403},
		{name: "no algorithm", issuer: func(i *issuer) { i.signer = unsigned }, want: 403},
		{name: "public key as a secret", issuer: func(i *issuer) {
			i.signer = func(c map[string]any) string { return sign(jose.HS256, must.Fixed(i.key.PublicKey.Bytes()), i.kid, c) }
		}, want: 403},
		{name: "client secret as a secret", issuer: func(i *issuer) {
			i.signer = func(c map[string]any) string { return sign(jose.HS256, []byte(strings.Repeat("s3cret", 6)), i.kid, c) }
		}, want: 403},
		{name: "key that was withdrawn", issuer: func(i *issuer) {
			old := i.key
			i.signer = func(c map[string]any) string { return sign(jose.ES256, old, "k1", c) }
			i.key, i.kid = must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), "k2"
		}, want: 403},
		{name: "key of another under a known name", issuer: func(i *issuer) {
			other := must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
			i.signer = func(c map[string]any) string { return sign(jose.ES256, other, i.kid, c) }
		}, want: 403},
		{name: "issuer down", issuer: func(i *issuer) { i.down.Store(true) }, want: 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			i := newIssuer(t)
			if tt.issuer != nil {
				tt.issuer(i)
			}
			q := loginQuery()
			if tt.query != nil {
				tt.query(q)
			}
			if got, status := loginFront(t, i, &now).login(t, q); status != tt.want {
				t.Errorf("%d %v, want %d", status, got, tt.want)
			}
		})
	}
	t.Run("another state", func(t *testing.T) { // a tool compares it with its own state
		now := time.Now()
		q := loginQuery()
		q.Set("state", "other & state")
		if got, _ := loginFront(t, newIssuer(t), &now).login(t, q); got.Get("state") != "other & state" {
			t.Errorf("the tool gets back %q", got.Get("state"))
		}
	})
	t.Run("user says no", func(t *testing.T) {
		now := time.Now()
		i := newIssuer(t)
		i.deny = true
		if q, _ := loginFront(t, i, &now).login(t, loginQuery()); q.Get("error") != "access_denied" || q.Get("code") != "" {
			t.Errorf("the tool gets %v", q)
		}
	})
	t.Run("state made elsewhere", func(t *testing.T) {
		now := time.Now()
		f := loginFront(t, newIssuer(t), &now)
		for _, state := range []string{"", "x", "k.AAAA"} {
			resp, _ := ask(t, http.MethodGet, f.url(t, "/login/callback?code=issuer-code-0&state="+state))
			if resp.StatusCode != 400 {
				t.Errorf("state %q: %d, want 400", state, resp.StatusCode)
			}
		}
	})
}

// TestDirectLogin: the server takes no part in a login at the issuer.
func TestDirectLogin(t *testing.T) {
	i := newIssuer(t)
	now := time.Now()
	f := newFront(t, func(o *server.Options) {
		o.Access = i.access("read:module:**", access.Rule{})
		o.Login = &access.Login{Direct: true, Issuer: access.Issuer{URL: i.URL}, ClientID: "tools", Scopes: []string{"openid", "okara"}}
		o.Now = func() time.Time { return now }
	})
	announced := func() (*http.Response, string) {
		resp, doc := ask(t, http.MethodGet, f.url(t, "/.well-known/terraform.json"))
		return resp, strings.TrimSpace(strings.ReplaceAll(string(doc), i.URL, "ISSUER"))
	}
	i.down.Store(true)
	const others = `"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/"}`
	if resp, doc := announced(); resp.StatusCode != 200 || doc != "{"+others || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("issuer down: %d %s, %v", resp.StatusCode, doc, resp.Header)
	}
	i.down.Store(false)
	now = now.Add(10 * time.Second)
	want := `{"login.v1":{"authz":"ISSUER/authorize","client":"tools","grant_types":["authz_code"],"ports":[10000,10010],"scopes":["openid","okara"],"token":"ISSUER/token"},` + others
	if resp, doc := announced(); doc != want || !strings.HasPrefix(resp.Header.Get("Cache-Control"), "public") {
		t.Errorf("got\n%s\nwant\n%s", doc, want)
	}
	if resp, _ := ask(t, http.MethodGet, f.url(t, "/login/authorize?"+loginQuery().Encode())); resp.StatusCode != 404 {
		t.Errorf("the server's own login: %d, want 404", resp.StatusCode)
	}
	broker := loginFront(t, newIssuer(t), &now)
	q, _ := broker.login(t, loginQuery())
	token, _ := broker.exchange(t, q.Get("code"), verifier, "http://localhost:10003/login")
	if status, _ := f.send(t, http.MethodGet, "/v1/modules/net/vpc/aws/versions", token, nil); token == "" || status != 401 {
		t.Errorf("a token of a login by way of a server with the same keys: %d, want 401", status)
	}
	o := server.Options{Options: registry.Options{Client: f.client}, Keys: []keyring.Key{{Secret: make([]byte, 32)}}}
	o.Login = &access.Login{Direct: true, Issuer: access.Issuer{URL: i.URL}, ClientID: "tools"}
	if _, err := server.New(o); err == nil || !strings.Contains(err.Error(), "not among those that are accepted") {
		t.Errorf("an issuer whose tokens are refused: %v", err)
	}
}
