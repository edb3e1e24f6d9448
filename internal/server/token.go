// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
)

// archiveKey reads the secret that signs archive links, and makes it on the
// first start. Replicas need the same file.
func archiveKey(file string) (access.Key, error) {
	key, err := readArchiveKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newArchiveKey(file)
	}
	return key, err
}

func readArchiveKey(file string) (access.Key, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return access.Key{}, err
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil {
		return access.Key{}, fmt.Errorf("read %s: not a secret in hexadecimal", file)
	}
	return access.Key{Secret: secret}, nil
}

func newArchiveKey(file string) (access.Key, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return access.Key{}, err
	}
	secret := make([]byte, sha256.Size)
	rand.Read(secret) // never fails
	tmp, err := os.CreateTemp(filepath.Dir(file), ".key-*")
	if err != nil {
		return access.Key{}, err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return access.Key{}, fmt.Errorf("write %s: %w", file, err)
	}
	// A link, not a rename: of two servers that start at once, one wins and
	// the other reads the winner's key.
	err = os.Link(tmp.Name(), file)
	if errors.Is(err, fs.ErrExist) {
		return archiveKey(file)
	}
	return access.Key{Secret: secret}, err
}

// readTokens reads the file of static tokens. A line is a token or, so that
// the file need not be secret, its id and hash, then scopes:
//
//	oks_ci_<secret>             publish:module:acme/** read:provider:**
//	ci sha256:<64 hex digits>   publish:module:acme/**
func readTokens(file string) ([]access.Token, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var tokens []access.Token
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		field := strings.Fields(lines.Text())
		if len(field) == 0 || strings.HasPrefix(field[0], "#") {
			continue
		}
		t, err := parseToken(field)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		tokens = append(tokens, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no token", file)
	}
	return tokens, nil
}

func parseToken(field []string) (access.Token, error) {
	var (
		t   access.Token
		err error
	)
	scopes := field[1:]
	if hash, ok := strings.CutPrefix(first(scopes), "sha256:"); ok {
		b, err := hex.DecodeString(hash)
		if err != nil || len(b) != sha256.Size {
			return t, errors.New("the hash of a token is sha256: and 64 hexadecimal digits")
		}
		t.ID, t.Hash, scopes = field[0], [sha256.Size]byte(b), scopes[1:]
	} else if t.ID, t.Hash, err = access.HashToken(field[0]); err != nil {
		return t, err
	}
	if len(scopes) == 0 {
		return t, fmt.Errorf("token %s has no scope, such as read:module:**", t.ID)
	}
	for _, text := range scopes {
		s, err := access.ParseScope(text)
		if err != nil {
			return t, err
		}
		t.Scopes = append(t.Scopes, s)
	}
	return t, nil
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
