// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
)

const toolRedirect = "http://localhost:10003/login"

// callback walks to the issuer, and returns where it sends the browser.
func (f *front) callback(t testing.TB) *url.URL {
	t.Helper()
	at := f.url(t, "/login/authorize?"+loginQuery().Encode())
	for range 2 {
		resp, body := ask(t, http.MethodGet, at)
		if resp.StatusCode != http.StatusFound {
			t.Fatalf("%s: %s %s", at, resp.Status, body)
		}
		at = must.Fixed(resp.Location())
	}
	return at
}

// callBack returns the answer to that URL, changed, and the tool's code.
func (f *front) callBack(t testing.TB, at *url.URL, replace ...string) (status int, code string) {
	t.Helper()
	q := at.Query()
	for i := 0; i+1 < len(replace); i += 2 {
		q.Set(replace[i], replace[i+1])
	}
	resp, _ := ask(t, http.MethodGet, f.url(t, at.Path+"?"+q.Encode()))
	if to, err := resp.Location(); err == nil {
		code = to.Query().Get("code")
	}
	return resp.StatusCode, code
}

func (f *front) reads(t testing.TB, token string) int {
	t.Helper()
	status, _ := f.send(t, http.MethodGet, "/v1/modules/net/vpc/aws/versions", token, nil)
	return status
}

// token logs in and returns the token of the tool.
func (f *front) token(t testing.TB) string {
	t.Helper()
	_, code := f.callBack(t, f.callback(t))
	token, status := f.exchange(t, code, verifier, toolRedirect)
	if status != http.StatusOK {
		t.Fatalf("login: %d", status)
	}
	return token
}

// TestLoginAttacks tries values that an attacker may have against a broker
// whose issuer is sound: an attacker never gets the login of another user.
//
// Shows: mistakes 21
func TestLoginAttacks(t *testing.T) {
	var now time.Time
	start := func(t *testing.T) (*front, *issuer) {
		i := newIssuer(t)
		now = time.Now()
		return loginFront(t, i, &now), i
	}
	t.Run("code of another login at the issuer", func(t *testing.T) {
		f, _ := start(t)
		stolen, own := f.callback(t), f.callback(t)
		if status, code := f.callBack(t, own, "code", stolen.Query().Get("code")); status != http.StatusForbidden || code != "" {
			t.Errorf("%d %q", status, code)
		}
	})
	t.Run("state of another login", func(t *testing.T) {
		f, _ := start(t)
		stolen, own := f.callback(t), f.callback(t)
		if status, code := f.callBack(t, own, "state", stolen.Query().Get("state")); status != http.StatusForbidden || code != "" {
			t.Errorf("%d %q", status, code)
		}
	})
	t.Run("callback a second time", func(t *testing.T) {
		f, _ := start(t)
		at := f.callback(t)
		if status, code := f.callBack(t, at); status != http.StatusFound || code == "" {
			t.Fatalf("first: %d %q", status, code)
		}
		if status, code := f.callBack(t, at); status != http.StatusForbidden || code != "" {
			t.Errorf("%d %q", status, code)
		}
	})
	t.Run("old state", func(t *testing.T) {
		f, _ := start(t)
		at := f.callback(t)
		now = now.Add(10 * time.Minute)
		if status, code := f.callBack(t, at); status != http.StatusBadRequest || code != "" {
			t.Errorf("%d %q", status, code)
		}
	})
	t.Run("answer of another issuer", func(t *testing.T) { // RFC 9207
		f, i := start(t)
		if status, code := f.callBack(t, f.callback(t), "iss", "https://evil.example.com"); status != http.StatusBadRequest || code != "" {
			t.Errorf("%d %q", status, code)
		}
		if status, code := f.callBack(t, f.callback(t), "iss", i.URL); status != http.StatusFound || code == "" {
			t.Errorf("its own: %d %q", status, code)
		}
	})
	t.Run("token endpoint that redirects", func(t *testing.T) {
		f, i := start(t)
		var got string
		evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.FormValue("client_secret") }))
		t.Cleanup(evil.Close)
		i.moved = evil.URL
		if status, code := f.callBack(t, f.callback(t)); status != http.StatusForbidden || code != "" || got != "" {
			t.Errorf("%d %q; the secret went to another server: %q", status, code, got)
		}
	})
	t.Run("sealed for another purpose", func(t *testing.T) {
		f, _ := start(t)
		at := f.callback(t)
		state := at.Query().Get("state")
		_, code := f.callBack(t, at)
		token, _ := f.exchange(t, code, verifier, toolRedirect)
		for name, try := range map[string]string{"state": state, "token": strings.TrimPrefix(token, "okl_")} {
			if got, status := f.exchange(t, try, verifier, toolRedirect); status != http.StatusBadRequest || got != "" {
				t.Errorf("%s as code: %d", name, status)
			}
			must.Equal(t, "state as token", f.reads(t, "okl_"+state), http.StatusUnauthorized)
		}
		if status, _ := f.callBack(t, at, "state", code); status != http.StatusBadRequest {
			t.Errorf("code as state: %d", status)
		}
	})
	t.Run("without the proof of the tool", func(t *testing.T) {
		f, _ := start(t)
		_, code := f.callBack(t, f.callback(t))
		for _, try := range []string{"", challenge(verifier), verifier + "\x00", verifier[1:]} {
			if got, status := f.exchange(t, code, try, toolRedirect); status != http.StatusBadRequest || got != "" {
				t.Errorf("verifier %q: %d", try, status)
			}
		}
		if _, status := f.exchange(t, code, verifier, toolRedirect); status != http.StatusOK {
			t.Errorf("the tool itself after that: %d", status)
		}
	})
}

// TestLoginRedirects has URLs that some parsers confuse with those of the tool.
func TestLoginRedirects(t *testing.T) {
	now := time.Now()
	f := loginFront(t, newIssuer(t), &now)
	for _, redirect := range []string{
		"", "/login", "//localhost:10003/login", "http:localhost:10003/login", "javascript:alert(1)//localhost:10003/login",
		"http://evil.example.com/login", "http://localhost.evil.example.com:10003/login", "http://localhost:10003.evil.example.com/login",
		"http://localhost:10003@evil.example.com:10003/login", `http://localhost:10003\@evil.example.com/login`, `http://evil.example.com\@localhost:10003/login`,
		"http://evil.example.com#@localhost:10003/login", "http://evil.example.com?@localhost:10003/login",
		"http://localhost:10003/login#", "http://localhost:10003/login#x", "http://localhost:10003/login?x=y", "http://localhost:10003/login/", "http://localhost:10003//login",
		"http://localhost:10003/login/../other", "http://localhost:10003/login;x", "http://localhost/login", "http://localhost:80/login", "http://localhost:9999/login", "http://localhost:10011/login",
		"http://user@localhost:10003/login", "http://[::1]:10003/login", "http://127.1:10003/login", "http://0.0.0.0:10003/login", "http://LOCALHOST.:10003/login",
		"ftp://localhost:10003/login", "https://localhost:10003/login", "http://localhost:10003/login\r\nX: y",
	} {
		q := loginQuery()
		q.Set("redirect_uri", redirect)
		if resp, _ := ask(t, http.MethodGet, f.url(t, "/login/authorize?"+q.Encode())); resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" {
			t.Errorf("%q: %s to %q", redirect, resp.Status, resp.Header.Get("Location"))
		}
	}
}

// TestLoginTokens checks that tokens of logins are refused if they are revoked,
// from an issuer other than the login issuer, or not yet valid.
//
// Shows: mistakes 21 | found in further attacks: login tokens of another issuer, secrets that
// followed a redirect, revoked keys that a wrong clock made valid again, two servers on one folder,
// a full disk that left tags without content, one client that occupied every slot for packages from
// origins, an origin that sends slowly or fills the disk | each is refused, bounded or repaired
func TestLoginTokens(t *testing.T) {
	now := time.Now()
	i := newIssuer(t)
	first := loginFront(t, i, &now)
	token := first.token(t)
	with := func(change func(*server.Options)) *front { // the same keys
		return newFront(t, func(o *server.Options) {
			o.Access = access.Policy{Rules: []access.Rule{{Groups: []string{"platform"}, Allow: rights.AnonymousRead()}}}
			o.Now = func() time.Time { return now }
			o.Login = &access.Login{Issuer: access.Issuer{URL: i.URL}, ClientID: "okara-web", ClientSecret: "s3cret", PublicURL: "http://okara.invalid"}
			change(o)
		})
	}
	const good, bad = http.StatusNotFound, http.StatusUnauthorized // the registry of with is empty
	for name, test := range map[string]struct {
		change func(*server.Options)
		want   int
	}{
		"as it was":                    {func(*server.Options) {}, good},
		"not before, in the past":      {func(o *server.Options) { o.Access.NotBefore = now.Add(-time.Minute) }, good},
		"not before, in the future":    {func(o *server.Options) { o.Access.NotBefore = now.Add(time.Second) }, bad},
		"not before, of somebody else": {func(o *server.Options) { o.Access.NotBeforeOf = map[string]time.Time{"somebody": now.Add(time.Second)} }, good},
		"not before, of its subject":   {func(o *server.Options) { o.Access.NotBeforeOf = map[string]time.Time{"alice": now.Add(time.Second)} }, bad},
		"of its subject, in the past":  {func(o *server.Options) { o.Access.NotBeforeOf = map[string]time.Time{"alice": now.Add(-time.Minute)} }, good},
		"another issuer":               {func(o *server.Options) { o.Login.Issuer.URL = "https://issuer.example.com" }, bad},
	} {
		must.Equal(t, name, with(test.change).reads(t, token), test.want)
	}
	for jump, want := range map[time.Duration]int{
		-time.Minute: http.StatusOK, -2 * time.Minute: bad, -8 * time.Hour: bad, // a clock that was ahead
		8 * time.Hour: http.StatusOK, 7 * 24 * time.Hour: bad,
	} {
		then := now
		now = now.Add(jump)
		if got := first.reads(t, token); got != want {
			t.Errorf("clock moved by %s: %d, want %d", jump, got, want)
		}
		now = then
	}
}
