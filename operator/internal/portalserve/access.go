// SPDX-License-Identifier: Apache-2.0

package portalserve

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// guard returns the guard; kept: what sessions keep of an identity.
func (s *Settings) guard(log *slog.Logger, transport http.RoundTripper, kept func() access.Kept) (*access.Guard, error) {
	policy, err := s.Access.Policy(nil)
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
	proxies, err := syntax.Networks(s.ProxiesAt, s.Proxies)
	if err != nil {
		return nil, err
	}
	return access.New(access.Options{
		Policy: policy, Login: login, Keyring: keys, Sessions: sessions, Names: []string{s.Hostname, s.PublicURL}, Proxies: proxies,
		Audit: log, Logger: log, Transport: transport,
	})
}

// sessions keep browsers logged in. Their keys must not be shared: a holder can be any user here.
func (s *Settings) sessions(kept func() access.Kept) (*access.Sessions, *keyring.Ring, error) {
	ui := s.UI
	if ui == nil {
		return nil, nil, &syntax.SettingError{Err: fmt.Errorf("a portal requires keys for browser sessions\nhint: add ui { session_key_files = [\"FILE\"] }, with 32 bytes in hexadecimal")}
	}
	var keys []keyring.Key
	for _, file := range ui.Keys {
		secret, err := files.ReadSecret(file)
		if err != nil {
			return nil, nil, wrongAt(ui.Range, "session_key_files: %w", err)
		}
		keys = append(keys, keyring.Key{Secret: secret})
	}
	ring, err := keyring.New(keys)
	if err != nil {
		return nil, nil, wrongAt(ui.Range, "session_key_files: %w", err)
	}
	out := &access.Sessions{Keyring: ring, TTL: ui.SessionTTL.Value(), ClientID: ui.ClientID, Plain: s.isPlainHTTP(), Keep: kept}
	if err := syntax.CheckDuration(ui.Range, "session_ttl", ui.SessionTTL); err != nil {
		return nil, nil, err
	}
	if ui.SecretFile != "" {
		b, err := os.ReadFile(ui.SecretFile)
		if err != nil {
			return nil, nil, wrongAt(ui.Range, "client_secret_file: %w", err)
		}
		out.ClientSecret = string(bytes.TrimSpace(b))
	}
	return out, ring, nil
}

// isPlainHTTP reports whether browsers on this machine use no TLS; elsewhere cookies could be read.
func (s *Settings) isPlainHTTP() bool {
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
		return nil, wrongAt(in.Range, "a portal issues no tokens: mode must be \"direct\", and tools get their tokens from the issuer")
	case s.PublicURL == "":
		return nil, wrongAt(in.Range, "login needs public_url, to which the issuer redirects browsers")
	}
	i := slices.IndexFunc(p.Issuers, func(i access.Issuer) bool { return i.URL == in.Issuer })
	if i < 0 {
		return nil, wrongAt(in.Range, "a direct login requires an issuer block %q, or its tokens would be refused", in.Issuer)
	}
	var err error
	if p.NotBefore, err = syntax.Instant(in.Range, "not_before", in.NotBefore); err != nil {
		return nil, err
	}
	return &access.Login{
		Direct: true, Issuer: access.Issuer{URL: in.Issuer, GroupsClaim: p.Issuers[i].GroupsClaim}, ClientID: in.ClientID, Scopes: in.Scopes, PublicURL: s.PublicURL,
	}, nil
}
