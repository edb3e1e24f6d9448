// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

const staticToken = "oks_ci_aaaaaaaaaaaaaaaaaaaaaaaa"

func ring(t testing.TB, letter string) *keyring.Ring {
	t.Helper()
	return must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte(letter), 32)}}))(t)
}

func seal(t testing.TB, ring *keyring.Ring, purpose string, v any) string {
	t.Helper()
	return must.Get(ring.Seal(purpose, v))(t)
}

// people is a guard with a login issuer; the group "team" and a static token have many rights.
type people struct {
	*access.Guard
	issuer            *webtest.Issuer
	own, portal, keys *keyring.Ring
	now               time.Time
	policy            access.Policy
}

func newPeople(t testing.TB) *people {
	t.Helper()
	p := &people{issuer: webtest.NewIssuer(t), own: ring(t, "s"), portal: ring(t, "p"), keys: ring(t, "a"), now: time.Now()}
	all := []string{"read:module:**", "use:instance:sandbox/*", "admin:*:**"}
	rule := webtest.Rule(t, "team", all...)
	p.policy = access.Policy{
		Anonymous: rights.AnonymousRead(), Rules: []access.Rule{rule},
		Tokens: []statictoken.Token{{ID: "ci", Hash: sha256.Sum256([]byte(staticToken)), Scopes: rule.Allow}},
	}
	p.Guard = must.Get(access.New(access.Options{
		Policy: p.policy, Keyring: p.keys, Sessions: &access.Sessions{Keyring: p.own, Portals: p.portal}, Now: func() time.Time { return p.now },
		Login: &access.Login{Issuer: access.Issuer{URL: p.issuer.URL}, ClientID: "okara-web", PublicURL: "https://okara.example.com"},
	}))(t)
	return p
}

// session returns the content of a cookie of a member of the team.
func (p *people) session() map[string]any {
	return map[string]any{"iss": p.issuer.URL, "sub": "anna", "groups": []string{"team"}, "n": "Anna", "t": p.now.Unix()}
}

// ask requests a right with cookies and returns the status and the grant.
func (p *people) ask(t *testing.T, method, path string, right rights.Right, cookies ...string) (int, access.Grant) {
	r := httptest.NewRequest(method, "https://okara.example.com"+path, nil)
	for _, c := range cookies {
		r.Header.Add("Cookie", c)
	}
	g, err := p.Allow(r, right)
	return statusOf(t, err), g
}

var (
	launch   = rights.Right{Action: rights.Use, Kind: "instance", Address: "sandbox/vpc"}
	readNet  = rights.Right{Action: rights.Read, Kind: "module", Address: "net/vpc/aws"}
	allLists = rights.Right{Action: rights.List, Kind: rights.AnyKind}
)

// TestSession checks which cookies identify a caller, and that a request with an invalid
// cookie is refused.
//
// Shows: pages 5 | sessions: forged, old, truncated, with another key, two cookies with one name,
// other sealed values, a key rotation, a removed group
func TestSession(t *testing.T) {
	const cookie = "__Host-okara="
	p := newPeople(t)
	good := seal(t, p.own, "session", p.session())
	old, early, foreign, nobody := p.session(), p.session(), p.session(), p.session()
	old["t"], early["t"], foreign["iss"] = p.now.Add(-12*time.Hour).Unix(), p.now.Add(2*time.Minute).Unix(), "https://evil.example.com"
	delete(nobody, "groups")
	hash := sha256.Sum256([]byte(staticToken))
	token := map[string]any{"k": "ci", "h": hash[:], "t": p.now.Unix()}
	hash2 := sha256.Sum256([]byte(staticToken + "x"))
	gone := map[string]any{"k": "ci", "h": hash2[:], "t": p.now.Unix()}
	own := func(v any) string { return cookie + seal(t, p.own, "session", v) }
	other := "A"
	if good[30] == 'A' {
		other = "B"
	}
	for _, c := range []struct {
		name, path string
		cookies    []string
		status     int
		mode       string
	}{
		{"good", "/ui/x", []string{cookie + good}, 200, "session"},
		{"good, at the API of people", "/api/v1/instances", []string{cookie + good}, 200, "session"},
		{"of a static token", "/ui/x", []string{own(token)}, 200, "static"},
		{"of a static token that is another now", "/ui/x", []string{own(gone)}, 401, ""},
		{"of a token without a hash", "/ui/x", []string{own(map[string]any{"k": "ci", "t": p.now.Unix()})}, 401, ""},
		{"without the group", "/ui/x", []string{own(nobody)}, 403, ""},
		{"old", "/ui/x", []string{own(old)}, 401, ""},
		{"of a clock that ran ahead", "/ui/x", []string{own(early)}, 401, ""},
		{"of another issuer", "/ui/x", []string{own(foreign)}, 401, ""},
		{"of another key", "/ui/x", []string{cookie + seal(t, ring(t, "x"), "session", p.session())}, 401, ""},
		{"of the key of links", "/ui/x", []string{cookie + seal(t, p.keys, "session", p.session())}, 401, ""},
		{"of the key of portals", "/ui/x", []string{cookie + seal(t, p.portal, "session", p.session())}, 401, ""},
		{"cut", "/ui/x", []string{cookie + good[:len(good)-1]}, 401, ""},
		{"changed", "/ui/x", []string{cookie + good[:30] + other + good[31:]}, 401, ""},
		{"empty object", "/ui/x", []string{own(map[string]any{})}, 401, ""},
		{"no object", "/ui/x", []string{own("x")}, 401, ""},
		{"rubbish", "/ui/x", []string{cookie + "x"}, 401, ""},
		{"two of one name are none", "/ui/x", []string{cookie + good + "; " + cookie + good}, 401, ""},
		{"of another name", "/ui/x", []string{"okara=" + good}, 401, ""},
		{"of the name below a path", "/ui/x", []string{"__Secure-okara=" + good}, 401, ""},
		{"where tools are", "/v1/modules/x", []string{cookie + good}, 401, ""},
		{"at the registry", "/v2/x", []string{cookie + good}, 401, ""},
		{"at states", "/state/a/b", []string{cookie + good}, 401, ""},
		{"at the other API", "/api/v2/x", []string{cookie + good}, 401, ""},
		{"at the login of tools", "/login/token", []string{cookie + good}, 401, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, g := p.ask(t, http.MethodGet, c.path, launch, c.cookies...)
			if status != c.status || status == http.StatusOK && g.Mode != c.mode {
				t.Errorf("status %d, %q", status, g.Mode)
			}
			// Even rights of anonymous callers are refused with an invalid cookie.
			status, g = p.ask(t, http.MethodGet, c.path, readNet, c.cookies...)
			none := !strings.HasPrefix(c.path, "/ui/") && !strings.HasPrefix(c.path, "/api/v1/") || strings.Contains(c.name, " name")
			want := c.status
			if none {
				want = http.StatusOK
			}
			if status != want || none && g.Mode != "anonymous" {
				t.Errorf("what anybody may: status %d as %q", status, g.Mode)
			}
		})
	}
	if status, _ := p.ask(t, http.MethodPost, "/api/v1/instances", launch, cookie+good); status != http.StatusOK {
		t.Errorf("a change: %d", status)
	}
	r := httptest.NewRequest(http.MethodPost, "https://okara.example.com/api/v1/instances", nil)
	r.Header.Set("Cookie", cookie+good)
	r.Header.Set("Origin", "https://evil.example.com")
	if _, err := p.Allow(r, launch); statusOf(t, err) != http.StatusForbidden {
		t.Errorf("a change by another site: %v", err)
	}
}

// TestSealedInPlaceOfAnother presents each kind of sealed value, sealed with each ring,
// as a session and as a login token.
//
// Shows: pages 5
func TestSealedInPlaceOfAnother(t *testing.T) {
	p := newPeople(t)
	for _, ring := range []*keyring.Ring{p.own, p.portal, p.keys} {
		for _, purpose := range []string{"session", "session of a portal", "login of a browser", "message of a form", "login state", "login code", "login token", "run token"} {
			text := seal(t, ring, purpose, p.session())
			r := httptest.NewRequest(http.MethodGet, "https://okara.example.com/ui/x", nil)
			r.Header.Set("Cookie", "__Host-okara="+text)
			_, err := p.Allow(r, launch)
			if ok := ring == p.own && purpose == "session"; ok != (err == nil) {
				t.Errorf("%s as a session: %v", purpose, err)
			}
			for _, prefix := range []string{"okl_", "okr_", "oks_ci_"} {
				r.Header.Set("Authorization", "Bearer "+prefix+text)
				_, err = p.Allow(r, launch)
				if ok := ring == p.keys && purpose == "login token" && prefix == "okl_"; ok != (err == nil) {
					t.Errorf("%s as %s: %v", purpose, prefix, err)
				}
			}
			at := &http.Request{URL: &url.URL{RawQuery: url.Values{"state": {text}}.Encode()}}
			if p.BrowserLogins().Owns(at) != (ring == p.own && purpose == "login of a browser") {
				t.Errorf("%s as the state of a login of a browser", purpose)
			}
		}
	}
}

// TestSessionOfPortal checks that of a portal's session only the proof is trusted, and
// only for templates and instances.
//
// Shows: pages 5
// Shows: platform-attacks 16
func TestSessionOfPortal(t *testing.T) {
	p := newPeople(t)
	claims := func(change func(map[string]any)) string {
		c := map[string]any{
			"iss": p.issuer.URL, "aud": "okara-web", "sub": "bert", "groups": []string{"team"},
			"iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix(),
		}
		if change != nil {
			change(c)
		}
		return p.issuer.Sign(t, c)
	}
	stranger := webtest.NewIssuer(t)
	for _, c := range []struct {
		name, proof string
		after       time.Duration
		status      int
		subject     string
	}{
		{"the issuer's word", claims(nil), 0, 200, "bert"},
		{"hours later, when the ID token has long expired", claims(nil), 11 * time.Hour, 200, "bert"},
		{"after the time of sessions", claims(nil), 12 * time.Hour, 401, ""},
		{"none", "", 0, 401, ""},
		{"of another client", claims(func(c map[string]any) { c["aud"] = "another" }), 0, 401, ""},
		{"an access token for the tools", claims(func(c map[string]any) { c["aud"] = "okara" }), 0, 401, ""},
		{"of another issuer", claims(func(c map[string]any) { c["iss"] = stranger.URL }), 0, 401, ""},
		{"signed by another issuer", stranger.Sign(t, map[string]any{"iss": p.issuer.URL, "aud": "okara-web", "sub": "bert", "groups": []string{"team"}, "iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix()}), 0, 401, ""},
		{"without a time", claims(func(c map[string]any) { delete(c, "iat") }), 0, 401, ""},
		{"of a time to come", claims(func(c map[string]any) { c["iat"] = p.now.Add(time.Hour).Unix() }), 0, 401, ""},
		{"without the group", claims(func(c map[string]any) { delete(c, "groups") }), 0, 403, ""},
		{"a static token", staticToken, 0, 200, "ci"},
		{"a wrong static token", staticToken + "x", 0, 401, ""},
		{"a token of a login", "okl_" + seal(t, p.keys, "login token", p.session()), 0, 401, ""},
		{"rubbish", strings.Repeat("x.", 20<<10), 0, 401, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := p.now
			defer func() { p.now = began }()
			p.now = p.now.Add(c.after)
			v := p.session() // the portal claims that it is Anna, logged in just now
			v["p"] = c.proof
			cookie := "__Host-okara=" + seal(t, p.portal, "session of a portal", v)
			status, g := p.ask(t, http.MethodPost, "/api/v1/instances", launch, cookie)
			if status != c.status || status == http.StatusOK && g.Subject != c.subject {
				t.Fatalf("status %d as %q", status, g.Subject)
			}
			if status != http.StatusOK {
				return
			}
			for _, right := range []rights.Right{readNet, allLists, rights.Server(), {Action: rights.Read, Kind: "state", Address: "shop"}} {
				if status, _ := p.ask(t, http.MethodGet, "/ui/x", right, cookie); status != http.StatusForbidden {
					t.Errorf("%v: %d", right, status)
				}
				if right.Action != rights.List && g.May(right) {
					t.Errorf("%v is seen on a page of instances", right)
				}
			}
		})
	}
	if status, _ := p.ask(t, http.MethodGet, "/ui/x", launch, "__Host-okara="+seal(t, p.own, "session of a portal", p.session())); status != http.StatusUnauthorized {
		t.Errorf("a session of a portal under the key of servers: %d", status)
	}
	_, err := access.New(access.Options{Keyring: p.keys, Sessions: &access.Sessions{Keyring: p.own, Portals: ring(t, "s")}})
	if err == nil {
		t.Error("a portal with the keys of servers was taken")
	}
}

// TestPlainCookie: without TLS the port that the browser used is in a cookie's name, since browsers
// send cookies to every port; a leader gets it unchanged.
//
// Shows: pages 5
func TestPlainCookie(t *testing.T) {
	p := newPeople(t)
	g := must.Get(access.New(access.Options{Policy: p.policy, Keyring: p.keys, Sessions: &access.Sessions{Keyring: p.own, Plain: true}, Now: func() time.Time { return p.now }}))(t)
	hash := sha256.Sum256([]byte(staticToken))
	sealed := seal(t, p.own, "session", map[string]any{"k": "ci", "h": hash[:], "t": p.now.Unix()})
	for _, c := range []struct {
		url, cookie string
		status      int
	}{
		{"http://127.0.0.1:8080/ui/x", "okara-8080", 200},
		{"http://127.0.0.1:9090/ui/x", "okara-8080", 401},
		{"http://127.0.0.1:9090/ui/x", "okara-9090", 200}, // a browser at 9090, forwarded to 8080
		{"http://localhost/ui/x", "okara-8080", 200},
		{"http://127.0.0.1:8080/ui/x", "okara", 401},
		{"http://127.0.0.1:8080/ui/x", "__Host-okara", 401},
	} {
		r := httptest.NewRequest(http.MethodGet, c.url, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})))
		r.Header.Set("Cookie", c.cookie+"="+sealed)
		if _, err := g.Allow(r, launch); statusOf(t, err) != c.status {
			t.Errorf("%s with %s: %v, want %d", c.url, c.cookie, err, c.status)
		}
	}
}

// TestSessionEnds checks how sessions, which are not stored, are revoked: by a time before
// which none counts, and by removing a rule.
//
// Shows: pages 5
func TestSessionEnds(t *testing.T) {
	p := newPeople(t)
	cookie := "__Host-okara=" + seal(t, p.own, "session", p.session())
	v := p.session()
	v["p"] = p.issuer.Sign(t, map[string]any{"iss": p.issuer.URL, "aud": "okara-web", "sub": "bert", "groups": []string{"team"}, "iat": p.now.Unix(), "exp": p.now.Unix()})
	portal := "__Host-okara=" + seal(t, p.portal, "session of a portal", v)
	want := func(what string, status int) {
		t.Helper()
		for _, c := range []string{cookie, portal} {
			if got, _ := p.ask(t, http.MethodGet, "/ui/x", launch, c); got != status {
				t.Errorf("%s: %d, want %d", what, got, status)
			}
		}
	}
	want("as it is", http.StatusOK)
	policy := p.policy
	policy.NotBefore = p.now.Add(time.Second)
	must.Succeed(t, p.Replace(policy))
	want("made before", http.StatusUnauthorized)
	policy = p.policy
	policy.NotBeforeOf = map[string]time.Time{"anna": p.now.Add(time.Second), "bert": p.now.Add(time.Second), "carl": p.now}
	must.Succeed(t, p.Replace(policy))
	want("made before, of these two", http.StatusUnauthorized)
	policy.NotBeforeOf = map[string]time.Time{"carl": p.now.Add(time.Second)}
	must.Succeed(t, p.Replace(policy))
	want("made before, of somebody else", http.StatusOK)
	policy = p.policy
	policy.Rules = nil
	must.Succeed(t, p.Replace(policy))
	want("without the rule", http.StatusForbidden)
	must.Succeed(t, p.Replace(p.policy))
	// Sessions may last longer than groups count for ownership.
	_, g := p.ask(t, http.MethodGet, "/ui/x", launch, cookie)
	p.now = p.now.Add(25 * time.Hour)
	if groups, err := g.Groups(0); statusOf(t, err) != http.StatusUnauthorized {
		t.Errorf("groups of 25 hours ago: %v, %v", groups, err)
	}
}
