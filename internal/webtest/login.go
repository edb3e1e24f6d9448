// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// begun is a login that has begun at an issuer.
type begun struct {
	client, redirect, nonce, challenge string
	spent                              bool
}

// authorize consents at once and redirects the browser back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	i.mu.Lock()
	defer i.mu.Unlock()
	code := fmt.Sprint(len(i.begun))
	i.begun = append(i.begun, begun{client: q.Get("client_id"), redirect: q.Get("redirect_uri"), nonce: q.Get("nonce"), challenge: q.Get("code_challenge")})
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// sendToken answers with an ID token for a code, once, if the verifier is right.
func (i *Issuer) sendToken(t testing.TB, w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	for n, b := range i.begun {
		verified := b.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
		sameClient := b.client == r.FormValue("client_id") && b.redirect == r.FormValue("redirect_uri")
		if fmt.Sprint(n) != r.FormValue("code") || b.spent || !verified || !sameClient {
			continue
		}
		i.begun[n].spent = true
		now := time.Now()
		claims := map[string]any{
			"iss": i.URL, "aud": b.client, "sub": "anna", "name": "Anna", "nonce": b.nonce,
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}
		if i.Says != nil {
			i.Says(claims)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id_token": i.Sign(t, claims), "access_token": "unused", "token_type": "Bearer"})
		return
	}
	http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
}
