// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/syntax"
)

type signer struct {
	jose.Signer
	public jose.JSONWebKey
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	s := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil))(t)
	return signer{s, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}
}

func (s signer) set() []byte {
	b, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{s.public}}) // cannot fail for such keys
	return b
}

// token returns a token of an issuer that is valid for an hour from a time on.
func (s signer) token(t *testing.T, issuer string, now time.Time) string {
	t.Helper()
	return s.tokenWith(t, issuer, now, nil)
}

// tokenWith is token with other claims; a nil one is left out.
func (s signer) tokenWith(t *testing.T, issuer string, now time.Time, other map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": issuer, "aud": "okara", "sub": "run", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, other)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return must.Get(jwt.Signed(s).Claims(claims).Serialize())(t)
}

// newKeysGuard returns a guard that lets tokens of an issuer read modules.
func newKeysGuard(t *testing.T, i access.Issuer, now func() time.Time) *access.Guard {
	t.Helper()
	ring := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	i.Audiences = []string{"okara"}
	return must.Get(access.New(access.Options{Keyring: ring, Now: now, Policy: access.Policy{
		Issuers: []access.Issuer{i},
		Rules:   []access.Rule{{Name: "all", Issuer: i.URL, Allow: []rights.Scope{{Action: rights.Read, Kind: "module", Glob: "**"}}}},
	}}))(t)
}

func allowed(g *access.Guard, token string) error {
	r := httptest.NewRequest(http.MethodGet, "https://okara.example.com/v1/modules/a/b/c/versions", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, err := g.Allow(r, rights.Right{Action: rights.Read, Kind: "module", Address: "a/b/c"})
	return err
}

// TestRenewedToken: a renewed token is the same caller, another subject another one.
func TestRenewedToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	s := newSigner(t, "one")
	must.Succeed(t, os.WriteFile(file, s.set(), 0o600))
	now := time.Now()
	g := newKeysGuard(t, access.Issuer{URL: "i", KeysFile: file}, func() time.Time { return now })
	identity := func(claims map[string]any) string {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "https://okara.example.com/", nil)
		r.Header.Set("Authorization", "Bearer "+s.tokenWith(t, "i", now, claims))
		return must.Get(g.Allow(r, rights.Right{Action: rights.Read, Kind: "module", Address: "a/b/c"}))(t).Identity()
	}
	first := identity(nil)
	now = now.Add(2 * time.Hour)
	if again := identity(map[string]any{"jti": "2", "run_attempt": "2"}); again != first || first == "" {
		t.Errorf("the caller was %q and is %q", first, again)
	}
	if other := identity(map[string]any{"sub": "other"}); other == first {
		t.Error("another subject is the same caller")
	}
}

// TestProof: a proof ends with its token, a revocation, and the issuer.
func TestProof(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	s := newSigner(t, "one")
	must.Succeed(t, os.WriteFile(file, s.set(), 0o600))
	now := time.Unix(1_800_000_000, 0)
	issuer := access.Issuer{URL: "i", KeysFile: file, Audiences: []string{"okara"}}
	g := newKeysGuard(t, issuer, func() time.Time { return now })
	right := rights.Right{Action: rights.Read, Kind: "module", Address: "a/b/c"}
	r := httptest.NewRequest(http.MethodGet, "https://okara.example.com/", nil)
	r.Header.Set("Authorization", "Bearer "+s.token(t, "i", now))
	p, ends := must.Get(g.Allow(r, right))(t).Proof()
	if !ends.Equal(now.Add(time.Hour + time.Minute)) {
		t.Errorf("it ends %s", ends)
	}
	revoked := func(before time.Time) access.Policy {
		return access.Policy{Issuers: []access.Issuer{issuer}}.Add(access.RulesFile{NotBefore: []access.NotBefore{{Issuer: "i", Subject: "run", Time: before}}})
	}
	for i, tt := range []struct {
		policy access.Policy
		good   bool
	}{{revoked(now), true}, {revoked(now.Add(time.Second)), false}, {access.Policy{}, false}} {
		must.Succeed(t, g.Replace(tt.policy))
		if _, err := g.Proven(r, p, right, "address"); (err == nil) != tt.good {
			t.Errorf("policy %d: %v", i, err)
		}
	}
	for mode, text := range map[string]string{"webhook": `"webhook"`, "": `""`, "login": ""} { // of a later okara, or a damaged one
		if err := g.CheckProof(access.Proof{Mode: mode, Subject: "run"}, right); (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
}

// keysBlock returns the settings of an issuer with its keys in a file.
func keysBlock(t *testing.T, file string) *access.Block {
	t.Helper()
	var b access.Block
	must.Succeed(t, syntax.Wrong(syntax.Decode(fmt.Appendf(nil, "issuer \"i\" {\n  audiences = [\"okara\"]\n  jwks_file = %q\n}\n", file), "okara.hcl", &b)))
	return &b
}

// TestClaims refuses ambiguous claims, and subjects or times that RFC 7519 forbids.
func TestClaims(t *testing.T) {
	const issuer = "okara-operator.prod"
	file := filepath.Join(t.TempDir(), "keys.json")
	s := newSigner(t, "one")
	must.Succeed(t, os.WriteFile(file, s.set(), 0o600))
	now := time.Now()
	g := newKeysGuard(t, access.Issuer{URL: issuer, KeysFile: file}, func() time.Time { return now })
	later := now.Add(time.Hour).Unix()
	for name, tt := range map[string]struct {
		claims map[string]any
		ok     bool
	}{
		"as it should be": {nil, true}, "without the time of issue": {map[string]any{"iat": nil}, true}, "a clock that is a little ahead": {map[string]any{"iat": now.Add(20 * time.Second).Unix()}, true},
		"end as text": {map[string]any{"exp": fmt.Sprint(later)}, false}, "no end": {map[string]any{"exp": nil}, false},
		"issued in the future": {map[string]any{"iat": later}, false}, "issue as text": {map[string]any{"iat": fmt.Sprint(now.Unix())}, false},
		"not before as text": {map[string]any{"nbf": fmt.Sprint(now.Unix())}, false},
		"no subject":         {map[string]any{"sub": nil}, false}, "empty subject": {map[string]any{"sub": ""}, false}, "a number as subject": {map[string]any{"sub": 7}, false},
	} {
		if err := allowed(g, s.tokenWith(t, issuer, now, tt.claims)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Claims that one reader takes for another: once more, or in other letters.
	for more, ok := range map[string]bool{
		`"email":"a"`: true, `"Email":"a","email":"b"`: true, `"deep":{"exp":1,"exp":2}`: true,
		`"exp":` + fmt.Sprint(later): false, `"EXP":` + fmt.Sprint(later): false, `"Sub":"admin"`: false, `"\u0073ub":"admin"`: false,
		`"i\u017fs":"x"`: false, `"aUD":"okara"`: false, `"groups":["a"],"groups":["b"]`: false,
	} {
		for _, claims := range []string{`{"iss":%q,"aud":"okara","sub":"run","iat":%d,"exp":%d,` + more + `}`, `{` + more + `,"iss":%q,"aud":"okara","sub":"run","iat":%d,"exp":%d}`} {
			signed := must.Get(s.Sign(fmt.Appendf(nil, claims, issuer, now.Unix(), later)))(t)
			if err := allowed(g, must.Get(signed.CompactSerialize())(t)); (err == nil) != ok {
				t.Errorf("%s: %v", claims, err)
			}
		}
	}
}

// TestKeysOfAFile reads the keys of an issuer from a file that is changed, corrupted and
// deleted.
//
// Shows: operator 4
func TestKeysOfAFile(t *testing.T) {
	const issuer = "okara-operator.prod"
	file := filepath.Join(t.TempDir(), "keys.json")
	put := func(b []byte) { must.Succeed(t, os.WriteFile(file, b, 0o600)) }
	now := time.Now()
	old, next := newSigner(t, "old"), newSigner(t, "next")
	put(old.set())
	g := newKeysGuard(t, access.Issuer{URL: issuer, KeysFile: file}, func() time.Time { return now })
	oldToken, nextToken := old.token(t, issuer, now), next.token(t, issuer, now)
	must.Succeed(t, allowed(g, oldToken))
	if allowed(g, nextToken) == nil || allowed(g, old.token(t, "else", now)) == nil || allowed(g, newSigner(t, "old").token(t, issuer, now)) == nil {
		t.Error("a token of another key or issuer is taken")
	}
	put(next.set())
	now = now.Add(3 * time.Second)
	if err := allowed(g, nextToken); err != nil || allowed(g, oldToken) == nil {
		t.Errorf("after a change: the new key %v, the old one %v", err, allowed(g, oldToken))
	}
	for _, b := range [][]byte{[]byte(`{"keys": [`), []byte(`{"keys": []}`), bytes.Repeat([]byte(" "), 2<<20)} {
		put(b)
		if _, err := keysBlock(t, file).Policy(nil); err == nil || !strings.Contains(err.Error(), "okara.hcl:1: jwks_file: ") {
			t.Errorf("%.20q is a file of keys: %v", b, err)
		}
		now = now.Add(10 * time.Second)
		if err := allowed(g, nextToken); err != nil {
			t.Errorf("with a broken file: %v", err)
		}
	}
	must.Succeed(t, os.Remove(file))
	now = now.Add(10 * time.Second)
	if err := allowed(g, nextToken); err != nil {
		t.Errorf("without the file: %v", err)
	}
}

// TestIssuerOfAnotherAuthority fetches the keys of an issuer whose certificate is signed
// by a private authority.
//
// Shows: operator 4
func TestIssuerOfAnotherAuthority(t *testing.T) {
	s := newSigner(t, "k")
	var url string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = w.Write(s.set()) // the client may be gone
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": url, "jwks_uri": url + "/keys"}) // likewise
	}))
	t.Cleanup(server.Close)
	url = server.URL
	token := s.token(t, url, time.Now())
	if allowed(newKeysGuard(t, access.Issuer{URL: url}, nil), token) == nil {
		t.Error("an authority that nobody named is trusted")
	}
	must.Succeed(t, allowed(newKeysGuard(t, access.Issuer{URL: url, Transport: server.Client().Transport}, nil), token))
}
