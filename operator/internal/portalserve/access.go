// SPDX-License-Identifier: Apache-2.0

package portalserve

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/netaddr"
)

// guard decides about requests. kept is what sessions keep of an identity.
func (s *Settings) guard(log *slog.Logger, transport http.RoundTripper, kept func() access.Kept) (*access.Guard, error) {
	policy, err := s.policy()
	if err != nil {
		return nil, err
	}
	sessions, keys, err := s.sessions(kept)
	if err != nil {
		return nil, err
	}
	login, err := s.login(&policy)
	if err != nil {
		return nil, err
	}
	proxies, err := s.proxies()
	if err != nil {
		return nil, err
	}
	return access.New(access.Options{
		Policy: policy, Login: login, Keyring: keys, Sessions: sessions, Names: []string{s.Hostname, s.PublicURL}, Proxies: proxies,
		Audit: log, Logger: log, Transport: transport,
	})
}

func (s *Settings) policy() (access.Policy, error) {
	var p access.Policy
	var err error
	if p.Anonymous, err = scopes(hcl.Range{}, s.Anonymous, access.ParseScope); err != nil {
		return p, err
	}
	for _, t := range s.Tokens {
		hash, err := hex.DecodeString(t.SHA256)
		if err != nil || len(hash) != 32 {
			return p, wrong(t.Range, "sha256 is not 64 hexadecimal digits; it is the hash of the whole token")
		}
		token := access.Token{ID: t.ID, Hash: [32]byte(hash)}
		if token.Scopes, err = scopes(t.Range, t.Scopes, access.ParseScope); err != nil {
			return p, err
		}
		if token.Expires, err = instant(t.Range, "expires", t.Expires); err != nil {
			return p, err
		}
		p.Tokens = append(p.Tokens, token)
	}
	for _, i := range s.Issuers {
		issuer, err := i.read()
		if err != nil {
			return p, err
		}
		p.Issuers = append(p.Issuers, issuer)
	}
	for _, r := range s.Rules {
		allow, err := scopes(r.Range, r.Allow, access.ParseRuleScope)
		if err != nil {
			return p, err
		}
		p.Rules = append(p.Rules, access.Rule{Name: r.Name, Issuer: r.Issuer, Groups: r.Groups, Claims: r.Claims, Allow: allow})
	}
	return p, nil
}

func (i issuerBlock) read() (access.Issuer, error) {
	out := access.Issuer{URL: i.URL, Audiences: i.Audiences, GroupsClaim: i.GroupsClaim, KeysFile: i.KeysFile}
	switch {
	case len(i.Audiences) == 0:
		return out, wrong(i.Range, "an issuer needs at least one audience")
	case i.KeysFile != "" && i.CAFile != "":
		return out, wrong(i.Range, "with jwks_file nothing is fetched: leave ca_file out")
	case i.KeysFile != "":
		if err := access.CheckKeysFile(i.KeysFile); err != nil {
			return out, wrong(i.Range, "jwks_file: %w", err)
		}
	case i.CAFile != "":
		transport, err := httpserve.Transport(httpserve.TransportOptions{CAFile: i.CAFile})
		if err != nil {
			return out, wrong(i.Range, "ca_file: %w", err)
		}
		out.Transport = transport
	}
	return out, nil
}

// sessions says how browsers stay logged in. The keys are of nobody else: who has them
// can be anybody here.
func (s *Settings) sessions(kept func() access.Kept) (*access.Sessions, *access.Keyring, error) {
	ui := s.UI
	if ui == nil {
		return nil, nil, &SettingError{fmt.Errorf("a portal needs keys for the sessions of browsers\nhint: add ui { session_key_files = [\"FILE\"] }, with 32 bytes in hexadecimal")}
	}
	var keys []access.Key
	for _, file := range ui.Keys {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, wrong(ui.Range, "session_key_files: %w", err)
		}
		secret, err := hex.DecodeString(string(bytes.TrimSpace(b)))
		if err != nil {
			return nil, nil, wrong(ui.Range, "session_key_files: %s is not a secret in hexadecimal", file)
		}
		keys = append(keys, access.Key{Secret: secret})
	}
	ring, err := access.NewKeyring(keys)
	if err != nil {
		return nil, nil, wrong(ui.Range, "session_key_files: %w", err)
	}
	out := &access.Sessions{Keyring: ring, ClientID: ui.ClientID, Plain: s.plain(), Keep: kept}
	if out.TTL, err = length(ui.Range, "session_ttl", ui.SessionTTL); err != nil {
		return nil, nil, err
	}
	if ui.SecretFile != "" {
		b, err := os.ReadFile(ui.SecretFile)
		if err != nil {
			return nil, nil, wrong(ui.Range, "client_secret_file: %w", err)
		}
		out.ClientSecret = string(bytes.TrimSpace(b))
	}
	return out, ring, nil
}

// plain reports whether browsers of this machine come without TLS. Elsewhere a cookie
// without TLS would be for everybody on the way.
func (s *Settings) plain() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return err == nil && netaddr.IsLoopback(host) && s.TLS == nil && !strings.HasPrefix(s.PublicURL, "https:")
}

func (s *Settings) login(p *access.Policy) (*access.Login, error) {
	in := s.Login
	if in == nil {
		return nil, nil
	}
	switch {
	case in.Mode != "direct":
		return nil, wrong(in.Range, "a portal gives no tokens: mode is \"direct\", and tools get theirs from the issuer")
	case s.PublicURL == "":
		return nil, wrong(in.Range, "login needs public_url, which the issuer sends browsers back to")
	case !slices.ContainsFunc(s.Issuers, func(i issuerBlock) bool { return i.URL == in.Issuer }):
		return nil, wrong(in.Range, "a direct login needs a block issuer %q, or its tokens are refused", in.Issuer)
	}
	var err error
	if p.NotBefore, err = instant(in.Range, "not_before", in.NotBefore); err != nil {
		return nil, err
	}
	groups := ""
	for _, i := range s.Issuers {
		if i.URL == in.Issuer {
			groups = i.GroupsClaim
		}
	}
	return &access.Login{
		Direct: true, Issuer: access.Issuer{URL: in.Issuer, GroupsClaim: groups}, ClientID: in.ClientID, Scopes: in.Scopes, PublicURL: s.PublicURL,
	}, nil
}

func scopes(at hcl.Range, list []string, parse func(string) (access.Scope, error)) ([]access.Scope, error) {
	var out []access.Scope
	for _, text := range list {
		scope, err := parse(text)
		if err != nil {
			return nil, wrong(at, "%w", err)
		}
		out = append(out, scope)
	}
	return out, nil
}

func instant(at hcl.Range, name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, wrong(at, "%s %q is not a time such as 2027-01-31T00:00:00Z", name, text)
	}
	return t, nil
}
