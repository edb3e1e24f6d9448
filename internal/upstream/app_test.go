// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// Shows: opendepot 4
// Shows: aws-registry 2
func TestAppToken(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	now := time.Unix(1_800_000_000, 0)
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		signed, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
		var claims jwt.Claims
		if err != nil || signed.Claims(&key.PublicKey, &claims) != nil || claims.Issuer != "7" ||
			claims.Validate(jwt.Expected{Time: now}) != nil || r.URL.Path != "/app/installations/42/access_tokens" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":"t%d","expires_at":%q}`, asked, now.Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer srv.Close()
	api := must.Get(url.Parse(srv.URL))(t)
	app := &upstream.App{API: api, ID: 7, Installation: 42, Key: key, Now: func() time.Time { return now }}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "t1"}, {50 * time.Minute, "t1"}, {6 * time.Minute, "t2"}} {
		now = now.Add(step.after)
		if got, err := app.Token(t.Context()); err != nil || got != step.want {
			t.Errorf("after %s: %q, %v, want %q", step.after, got, err, step.want)
		}
	}
	tokens := upstream.NewAppTokens()
	for range 2 {
		again := &upstream.App{API: api, ID: 7, Installation: 42, Key: key, Now: func() time.Time { return now }, Tokens: tokens}
		if got, err := again.Token(t.Context()); err != nil || got != "t3" {
			t.Errorf("the same App by another value: %q, %v", got, err)
		}
	}
	other := &upstream.App{API: api, ID: 8, Installation: 42, Key: key, Tokens: tokens}
	if got, err := other.Token(t.Context()); !errors.Is(err, oci.ErrUnauthenticated) {
		t.Errorf("another App: %q, %v", got, err)
	}
}
