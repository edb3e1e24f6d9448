// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/files"
)

// key wraps and unwraps data keys under one id.
type key struct {
	id     string // without secrets; used in annotations and messages
	wrap   func(ctx context.Context, dataKey []byte) ([]byte, error)
	unwrap func(ctx context.Context, wrapped []byte) ([]byte, error)
}

// mayOpen reports whether a wrap is worth trying: of this id, or of the same service.
func (k key) mayOpen(id string) bool {
	if k.id == id {
		return true
	}
	mine, _, ok := strings.Cut(k.id, "://")
	return ok && strings.HasPrefix(id, mine+"://")
}

// parseKey parses a reference; a file of age identities has several keys.
func parseKey(reference string) ([]key, error) {
	scheme, rest, isURL := strings.Cut(reference, "://")
	switch {
	case reference == "":
		return nil, errors.New("key reference is empty")
	case isURL && scheme == "file":
		return readKeyFile(rest)
	case isURL && scheme == "base64key":
		k, err := parseBase64Key(rest)
		return []key{k}, err
	case isURL:
		k, err := parseKeeper(reference)
		return []key{k}, err
	case strings.HasPrefix(reference, "age1"):
		k, err := parseRecipient(reference)
		return []key{k}, err
	}
	return readKeyFile(reference)
}

const maxKeyFile = 64 << 10

// readKeyFile reads a key of 32 bytes or a list of age identities.
func readKeyFile(path string) ([]key, error) {
	b, err := files.ReadPrivate(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if bytes.Contains(b, []byte("AGE-SECRET-KEY-")) {
		keys, err := parseIdentities(b)
		if err != nil {
			return nil, fmt.Errorf("key file %s: %w", path, err)
		}
		return keys, nil
	}
	secret, ok := decodeSecret(b)
	if !ok {
		return nil, fmt.Errorf("key file %s: neither 32 bytes (raw, hexadecimal or base64) nor age identities", path)
	}
	k, err := newFileKey(secret)
	return []key{k}, err
}

func decodeSecret(b []byte) ([]byte, bool) {
	if len(b) == dataKeySize {
		return b, true
	}
	text := string(bytes.TrimSpace(b))
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.URLEncoding.DecodeString,
		base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if secret, err := decode(text); err == nil && len(secret) == dataKeySize {
			return secret, true
		}
	}
	return nil, false
}

// newFileKey wraps with AES-256-GCM under the secret; random nonces do: data keys are few.
func newFileKey(secret []byte) (key, error) {
	aead, err := newGCM(secret)
	if err != nil {
		return key{}, err
	}
	id := "file:" + keyFingerprint(secret)
	return key{
		id: id,
		wrap: func(_ context.Context, dataKey []byte) ([]byte, error) {
			nonce := make([]byte, nonceSize, nonceSize+len(dataKey)+tagSize)
			rand.Read(nonce)
			return aead.Seal(nonce, nonce, dataKey, []byte(id)), nil
		},
		unwrap: func(_ context.Context, wrapped []byte) ([]byte, error) {
			if len(wrapped) < nonceSize {
				return nil, fmt.Errorf("wrapped key has %d bytes", len(wrapped))
			}
			dataKey, err := aead.Open(nil, wrapped[:nonceSize], wrapped[nonceSize:], []byte(id))
			if err != nil {
				return nil, errors.New("the wrapped key does not belong to this key")
			}
			return dataKey, nil
		},
	}, nil
}

// keyFingerprint distinguishes keys without revealing them.
func keyFingerprint(secret []byte) string {
	sum := sha256.Sum256(append([]byte("okara key id\n"), secret...))
	return hex.EncodeToString(sum[:8])
}
