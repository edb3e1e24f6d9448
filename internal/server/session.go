// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/syntax"
)

// maxSession bounds how long a browser may stay logged in without a new login.
const maxSession = 30 * 24 * time.Hour

// checkSessions refuses settings of sessions that have no effect or exceed a bound.
func (s *Settings) checkSessions() error {
	direct := s.Login != nil && s.Login.Mode == "direct"
	switch ui := s.UI; {
	case ui.SessionTTL.Value() > maxSession:
		return syntax.WrongAt(ui.Range, fmt.Errorf("session_ttl %q is more than 30 days", string(ui.SessionTTL)))
	case ui.TokenLogin && s.Login == nil:
		return syntax.WrongAt(ui.Range, errors.New("token_login has no effect without a login block: users log in with a token already"))
	case ui.SecretFile != "" && ui.ClientID == "":
		return syntax.WrongAt(ui.Range, errors.New("client_secret_file requires client_id"))
	case ui.ClientID != "" && !direct:
		return syntax.WrongAt(ui.Range, errors.New("client_id is for a direct login; otherwise browsers log in as the client of the login block"))
	case ui.ClientID != "" && s.PublicURL == "":
		return syntax.WrongAt(ui.Range, errors.New("client_id needs public_url, to which the issuer redirects browsers"))
	}
	return nil
}

// sessions configures the sessions of browsers; nil: there are no pages to log in to.
func (s *Settings) sessions(o *Options) (*access.Sessions, error) {
	if !o.Pages && !o.claim.On {
		return nil, nil
	}
	out := &access.Sessions{
		TTL: s.UI.SessionTTL.Value(), Path: s.BasePath, Plain: s.isPlainHTTP(), ClientID: s.UI.ClientID,
		Tokens: s.UI.TokenLogin, Portal: o.claim.Alone,
	}
	if file := s.UI.SecretFile; file != "" {
		b, err := files.ReadLimited(file, files.MaxSecret)
		if err != nil {
			return nil, syntax.WrongAt(s.UI.Range, err)
		}
		out.ClientSecret = strings.TrimSpace(string(b))
	}
	keys, err := s.UI.sessionKeys(s.Storage, archiveKey)
	if err != nil {
		return nil, err
	}
	if out.Keyring, err = keyring.New(keys); err != nil {
		return nil, syntax.WrongAt(s.UI.Range, fmt.Errorf("session_key_files: %w", err))
	}
	if len(o.portalKeys) > 0 {
		if out.Portals, err = keyring.New(o.portalKeys); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sessionKeys reads sessions' keys: the first seals, all are valid. Without files stored gives one.
func (u *UI) sessionKeys(storage string, stored func(file string) (keyring.Key, error)) ([]keyring.Key, error) {
	if len(u.Keys) == 0 {
		key, err := stored(filepath.Join(storage, "session.key"))
		return []keyring.Key{key}, err
	}
	var keys []keyring.Key
	for _, file := range u.Keys {
		key, err := readArchiveKey(file)
		if err != nil {
			return nil, syntax.WrongAt(u.Range, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// isPlainHTTP reports whether browsers use no TLS: only here, where nobody else can read cookies.
func (s *Settings) isPlainHTTP() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	withTLS := s.TLS.Cert != "" || s.TLS.SelfSigned || strings.HasPrefix(s.PublicURL, "https:")
	return err == nil && netaddr.IsLoopback(host) && !withTLS
}

// archiveKey reads the secret that signs archive links, or makes it. Replicas need the same file.
func archiveKey(file string) (keyring.Key, error) {
	key, err := readArchiveKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newArchiveKey(file)
	}
	return key, err
}

func readArchiveKey(file string) (keyring.Key, error) {
	secret, err := files.ReadSecret(file)
	return keyring.Key{Secret: secret}, err
}

func newArchiveKey(file string) (keyring.Key, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return keyring.Key{}, err
	}
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails
	tmp, err := os.CreateTemp(filepath.Dir(file), ".key-*")
	if err != nil {
		return keyring.Key{}, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return keyring.Key{}, fmt.Errorf("write %s: %w", file, err)
	}
	// The file is linked, not renamed: if two servers start at once, one creates it and
	// the other reads that key.
	err = os.Link(tmp.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return archiveKey(file)
	}
	return keyring.Key{Secret: secret}, err
}
