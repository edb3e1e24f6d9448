// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/registry"
)

// authorize says yes at once and sends the browser back.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	i.nonce, i.challenge = q.Get("nonce"), q.Get("code_challenge")
	answer := url.Values{"code": {"issuer-code"}, "state": {q.Get("state")}}
	if i.deny {
		answer = url.Values{"error": {"access_denied"}, "state": {q.Get("state")}}
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

// token gives an ID token to who knows the verifier and the client secret.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("code") != "issuer-code" || r.FormValue("client_secret") != "s3cret" || challenge(r.FormValue("code_verifier")) != i.challenge {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims := i.claims(time.Now())
	claims["aud"], claims["sub"], claims["nonce"], claims["email"] = "okara-web", "alice", i.nonce, "alice@example.com"
	if i.tamper != nil {
		i.tamper(claims)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id_token": i.sign(claims), "access_token": "unused"})
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// loginFront is a front-end that people log in to through the issuer.
func loginFront(t testing.TB, i *issuer, now *time.Time) *front {
	t.Helper()
	f := newFront(t, func(o *registry.Options) {
		o.Access = registry.Access{Rules: []registry.Rule{{
			Groups: []string{"platform"}, Claims: map[string]string{"email": "*@example.com"}, Allow: registry.AnonymousRead(),
		}}}
		o.Now = func() time.Time { return *now }
		o.Login = &registry.Login{
			Issuer: registry.Issuer{URL: i.URL}, ClientID: "okara-web", ClientSecret: "s3cret", PublicURL: "http://okara.invalid",
		}
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	return f
}

const verifier = "a-verifier-that-only-the-tool-knows-0123456789"

// login walks a browser from the tool to the issuer and back and returns the
// query that the tool gets, or the status at which it ended.
func (f *front) login(t testing.TB, q url.Values) (url.Values, int) {
	t.Helper()
	at := f.url(t, "/login/authorize?"+q.Encode())
	for range 3 {
		resp, _ := ask(t, http.MethodGet, at)
		if resp.StatusCode != http.StatusFound {
			return nil, resp.StatusCode
		}
		at = must(resp.Location())
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

// TestLogin is row 21: the whole way of `tofu login` to a token that works.
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
	if got := read(token); got != 200 {
		t.Errorf("with the token: %d", got)
	}
	if got := read(token[:len(token)-2] + "AA"); got != 401 {
		t.Errorf("with a changed token: %d, want 401", got)
	}
	if got := read("okl_" + q.Get("code")); got != 401 {
		t.Errorf("with the code as a token: %d, want 401", got)
	}
	now = now.Add(2 * time.Minute)
	if _, status := f.exchange(t, q.Get("code"), verifier, redirect); status != 400 {
		t.Errorf("an old code: %d, want 400", status)
	}
	now = now.Add(8 * 24 * time.Hour)
	if got := read(token); got != 401 {
		t.Errorf("after eight days: %d, want 401", got)
	}
}

// TestLoginRefuses holds everything that is wrong in one way against the
// broker: nobody gets a code.
func TestLoginRefuses(t *testing.T) {
	tests := []struct {
		name   string
		query  func(url.Values)
		issuer func(*issuer)
		want   int
	}{
		{name: "redirect elsewhere", query: func(q url.Values) { q.Set("redirect_uri", "http://evil.example.com:10003/login") }, want: 400},
		{name: "redirect over another scheme", query: func(q url.Values) { q.Set("redirect_uri", "https://localhost:10003/login") }, want: 400},
		{name: "redirect to another path", query: func(q url.Values) { q.Set("redirect_uri", "http://localhost:10003/other") }, want: 400},
		{name: "port out of range", query: func(q url.Values) { q.Set("redirect_uri", "http://localhost:22/login") }, want: 400},
		{name: "redirect with user", query: func(q url.Values) { q.Set("redirect_uri", "http://localhost:10003@evil.example.com/login") }, want: 400},
		{name: "plain challenge", query: func(q url.Values) { q.Set("code_challenge_method", "plain") }, want: 400},
		{name: "no challenge", query: func(q url.Values) { q.Del("code_challenge") }, want: 400},
		{name: "wrong nonce", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["nonce"] = "other" } }, want: 403},
		{name: "no nonce", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { delete(c, "nonce") } }, want: 403},
		{name: "wrong audience", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["aud"] = "okara" } }, want: 403},
		{name: "wrong issuer", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["iss"] = "https://evil.example.com" } }, want: 403},
		{name: "expired", issuer: func(i *issuer) { i.tamper = func(c map[string]any) { c["exp"] = 1 } }, want: 403},
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
			resp, _ := ask(t, http.MethodGet, f.url(t, "/login/callback?code=issuer-code&state="+state))
			if resp.StatusCode != 400 {
				t.Errorf("state %q: %d, want 400", state, resp.StatusCode)
			}
		}
	})
}
