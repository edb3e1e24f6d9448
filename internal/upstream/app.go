// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/seed-141914ff/okara/oci"
)

// App is an installation of a GitHub App. Its tokens are valid for an hour and
// are renewed a few minutes before they expire.
type App struct {
	HTTP         *http.Client // nil: http.DefaultClient
	API          *url.URL     // nil: the API of github.com
	ID           int64        // of the App
	Installation int64        // of the App on one organisation
	Key          *rsa.PrivateKey
	Now          func() time.Time // nil: time.Now
	Tokens       *AppTokens       // tokens shared with other values of the same App; nil: not shared

	mu      sync.Mutex // guards the fields below
	token   string
	expires time.Time
}

// The App's own token is valid for at most ten minutes. It is issued in the
// past, since GitHub's clock may be behind.
const (
	appTokenLife  = 9 * time.Minute
	appClockSkew  = time.Minute
	renewalMargin = 5 * time.Minute
)

// Token returns a token for the installation.
func (a *App) Token(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	if a.token == "" && a.Tokens != nil {
		a.token, a.expires = a.Tokens.tokenOf(a)
	}
	if a.token != "" && now().Add(renewalMargin).Before(a.expires) {
		return a.token, nil
	}
	signed, err := a.sign(now())
	if err != nil {
		return "", fmt.Errorf("signing as GitHub App %d: %w", a.ID, err)
	}
	answer, err := a.exchange(ctx, signed)
	if err != nil {
		return "", fmt.Errorf("token of GitHub App %d: %w", a.ID, err)
	}
	a.token = answer.Token
	a.expires = answer.ExpiresAt
	if a.Tokens != nil {
		a.Tokens.keepToken(a)
	}
	return a.token, nil
}

// AppTokens caches tokens of Apps, but none of the keys: a new App value with
// the same key gets the token that was issued for that key.
type AppTokens struct {
	mu   sync.Mutex // guards kept
	kept map[[sha256.Size]byte]installationToken
}

// maxAppTokens bounds the number of cached tokens.
const maxAppTokens = 1000

// NewAppTokens returns an empty cache.
func NewAppTokens() *AppTokens { return &AppTokens{kept: map[[sha256.Size]byte]installationToken{}} }

func (t *AppTokens) tokenOf(a *App) (string, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.kept[a.identityHash()]
	return have.Token, have.ExpiresAt
}

func (t *AppTokens) keepToken(a *App) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) >= maxAppTokens {
		clear(t.kept)
	}
	t.kept[a.identityHash()] = installationToken{a.token, a.expires}
}

// identityHash returns a hash of everything that a token depends on.
func (a *App) identityHash() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintln(h, a.ID, a.Installation, a.API)
	_, _ = h.Write(x509.MarshalPKCS1PrivateKey(a.Key)) // a hash never fails
	return [sha256.Size]byte(h.Sum(nil))
}

func (a *App) sign(now time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: a.Key}, nil)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: strconv.FormatInt(a.ID, 10), IssuedAt: jwt.NewNumericDate(now.Add(-appClockSkew)), Expiry: jwt.NewNumericDate(now.Add(appTokenLife)),
	}).Serialize()
}

type installationToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (a *App) exchange(ctx context.Context, signed string) (installationToken, error) {
	api := a.API
	if api == nil {
		api = &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	}
	u := api.JoinPath("app", "installations", strconv.FormatInt(a.Installation, 10), "access_tokens")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return installationToken{}, err
	}
	req.Header.Set("Authorization", "Bearer "+signed)
	req.Header.Set("Accept", "application/vnd.github+json")
	resp, err := carefulClient(a.HTTP).Do(req)
	if err != nil {
		return installationToken{}, fmt.Errorf("%w: %w", err, oci.ErrUnavailable)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return installationToken{}, fmt.Errorf("%s returned %s: %w", u.Redacted(), resp.Status, statusError(resp.StatusCode))
	}
	b, err := readAll(resp.Body, maxSums)
	if err != nil {
		return installationToken{}, err
	}
	var out installationToken
	if err := json.Unmarshal(b, &out); err != nil || out.Token == "" {
		return installationToken{}, fmt.Errorf("the response of %s contains no token: %w", u.Redacted(), oci.ErrCorrupt)
	}
	return out, nil
}
