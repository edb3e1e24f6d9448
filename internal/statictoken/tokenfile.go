// SPDX-License-Identifier: Apache-2.0

package statictoken

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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/text"
)

// Token is a static token. The configuration holds its hash, not the token.
type Token struct {
	ID      string
	Hash    [sha256.Size]byte // SHA-256 of the whole token, "oks_<id>_<secret>"
	Scopes  []rights.Scope
	Expires time.Time // zero: never
	Whole   bool      // its file holds the token itself
}

// Prefix begins each static token; the form of a token selects the one way in which it is checked.
const Prefix = "oks_"

// Hash returns the identifier and the hash of a static token.
func Hash(token string) (id string, hash [sha256.Size]byte, err error) {
	rest, ok := strings.CutPrefix(token, Prefix)
	id, secret, found := strings.Cut(rest, "_")
	if !ok || !found || id == "" || len(secret) < 20 {
		return "", hash, errors.New("a static token has the form oks_<id>_<secret> with a secret of at least 20 characters")
	}
	return id, sha256.Sum256([]byte(token)), nil
}

// expiresField begins the field with the expiry of a token in a token file.
const expiresField = "expires="

var tokenID = text.Pattern(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// New makes a static token with an identifier, which [Hash] returns again: up to 63
// lower-case letters, digits, dots and dashes. The text contains the secret of 160
// random bits; the token has only its hash.
func New(id string, scopes []rights.Scope, expires time.Time) (text string, t Token, err error) {
	if !tokenID().MatchString(id) {
		return "", t, fmt.Errorf("token name %q must be 1 to 63 lower-case letters, digits, dots or dashes, starting with a letter or digit", id)
	}
	if len(scopes) == 0 {
		return "", t, noScope(id)
	}
	secret := make([]byte, 20)
	rand.Read(secret) // never fails
	text = Prefix + id + "_" + hex.EncodeToString(secret)
	return text, Token{ID: id, Hash: sha256.Sum256([]byte(text)), Scopes: scopes, Expires: expires}, nil
}

func noScope(id string) error {
	return fmt.Errorf("token %s has no scope, such as read:module:**", id)
}

// Line returns the line of the token in a token file. It holds only the hash, so a file
// of such lines is not secret.
func (t Token) Line() string {
	field := []string{t.ID, "sha256:" + hex.EncodeToString(t.Hash[:])}
	if !t.Expires.IsZero() {
		field = append(field, expiresField+t.Expires.UTC().Format(time.RFC3339))
	}
	for _, s := range t.Scopes {
		field = append(field, s.String())
	}
	return strings.Join(field, " ")
}

// maxTokenFile bounds a token file, in bytes: several thousand tokens.
const maxTokenFile = 1 << 20

// Read reads a token file. A line has a token or, so that the file need not be secret,
// its id and hash, then optionally its expiry, then its scopes:
//
//	oks_ci_<secret>             publish:module:acme/** read:provider:**
//	ci sha256:<64 hex digits>   expires=2027-01-31T00:00:00Z publish:module:acme/**
//
// Empty lines and those that begin with # are ignored. An error names file and line.
func Read(file string) ([]Token, error) {
	b, err := files.ReadLimited(file, maxTokenFile)
	if err != nil {
		return nil, err
	}
	tokens, err := parseTokens(file, b)
	if err == nil && len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no token", file)
	}
	return tokens, err
}

// CheckMode returns a [*files.ModeError] for a file with whole tokens that everybody may
// read. The group may: Kubernetes mounts files so.
func CheckMode(file string, tokens []Token) error {
	info, err := os.Stat(file)
	isWhole := slices.ContainsFunc(tokens, func(t Token) bool { return t.Whole })
	if err != nil || !isWhole || info.Mode().Perm()&0o007 == 0 || runtime.GOOS == "windows" {
		return err
	}
	return &files.ModeError{Name: file, Mode: info.Mode().Perm()}
}

func parseTokens(file string, b []byte) ([]Token, error) {
	var tokens []Token
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
	return tokens, nil
}

func parseToken(field []string) (Token, error) {
	var (
		t   Token
		err error
	)
	rest := field[1:]
	if hash, ok := strings.CutPrefix(firstString(rest), "sha256:"); ok {
		b, err := hex.DecodeString(hash)
		if err != nil || len(b) != sha256.Size {
			return t, errors.New("token hash must be sha256: followed by 64 hexadecimal digits")
		}
		t.ID = field[0]
		t.Hash = [sha256.Size]byte(b)
		rest = rest[1:]
	} else if t.ID, t.Hash, err = Hash(field[0]); err != nil {
		return t, err
	} else {
		t.Whole = true
	}
	if end, ok := strings.CutPrefix(firstString(rest), expiresField); ok {
		if t.Expires, err = time.Parse(time.RFC3339, end); err != nil {
			return t, fmt.Errorf("%s%s is not a time such as 2027-01-31T00:00:00Z", expiresField, end)
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return t, noScope(t.ID)
	}
	for _, text := range rest {
		if strings.HasPrefix(text, Prefix) {
			return t, fmt.Errorf("second token in the line of token %s", t.ID) // errors must not show it
		}
		s, err := rights.ParseScope(text)
		if err != nil {
			return t, err
		}
		t.Scopes = append(t.Scopes, s)
	}
	return t, nil
}

func firstString(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// Add appends a token's line to a token file, which is created with mode 0600 if it does
// not exist. It makes one write, so a server that reads the file meanwhile sees the whole
// line or none of it. An invalid file is not changed, nor is one that already has the
// id; the error for the latter is [fs.ErrExist].
func Add(file string, t Token) error {
	b, err := files.ReadLimited(file, maxTokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := t.Line() + "\n"
	known, err := parseTokens(file, b)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(k Token) bool { return k.ID == t.ID }) {
		return fmt.Errorf("%s already has token %s: %w", file, t.ID, fs.ErrExist)
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		line = "\n" + line
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Sync(), f.Close())
}

// Revoke makes each line of a token a comment of the same length, in one write: mode, owner and
// links of the file stay as they are, and a server that reads it meanwhile sees the old lines or
// comments. An invalid file is not changed. Without such a token the error is
// [fs.ErrNotExist], for the only token of the file, without which no server reads it, [ErrOnly].
func Revoke(file, id string, now time.Time) error {
	b, err := files.ReadLimited(file, maxTokenFile)
	if err != nil {
		return err
	}
	known, err := parseTokens(file, b)
	if err != nil {
		return err
	}
	comment := fmt.Sprintf("# %s %s revoked %s", now.UTC().Format(time.DateOnly), id, strings.Repeat("#", len(b)))
	at, from, to, left := 0, -1, 0, len(known)
	for line := range bytes.Lines(b) {
		field := strings.Fields(string(line))
		if len(field) > 0 && !strings.HasPrefix(field[0], "#") {
			if t, err := parseToken(field); err == nil && t.ID == id {
				left--
				if from < 0 {
					from = at
				}
				to = at + copy(bytes.TrimRight(line, "\r\n"), comment) // the lines are parts of b
			}
		}
		at += len(line)
	}
	switch {
	case from < 0:
		return fmt.Errorf("%s has no token %s: %w", file, id, fs.ErrNotExist)
	case left == 0:
		return ErrOnly
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b[from:to], int64(from))
	return errors.Join(err, f.Sync(), f.Close())
}

// ErrOnly is the error of [Revoke] for the only token of a file.
var ErrOnly = errors.New("it is the only token in the file, and a server refuses a file without any")
