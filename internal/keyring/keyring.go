// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// minSecret is the minimum length of a key's secret, in bytes.
const minSecret = 32

// Key signs and seals what a server hands out and gets back. A ring's first key makes new values,
// all verify and open them. Replicas need the same keys.
type Key struct {
	ID     string // empty: derived from the secret
	Secret []byte // at least 32 bytes
}

// Ring signs lines of text and seals values, each for a purpose. A value made for one
// purpose is not valid for another. It stores no values and is safe for concurrent use.
type Ring struct {
	now atomic.Pointer[[]Key]
	set atomic.Int64
}

// New returns a ring of at least one key.
func New(keys []Key) (*Ring, error) {
	ring := &Ring{}
	return ring, ring.Replace(keys)
}

// Replace replaces the keys. An invalid one is an error, and nothing is replaced.
func (ring *Ring) Replace(keys []Key) error {
	checked, err := checkKeys(keys)
	if err != nil {
		return err
	}
	if old := ring.now.Swap(&checked); old != nil && !slices.EqualFunc(*old, checked, Key.isEqual) {
		ring.set.Add(1)
	}
	return nil
}

// Set returns a number that changes with the keys.
func (ring *Ring) Set() int64 { return ring.set.Load() }

func (k Key) isEqual(other Key) bool { return k.ID == other.ID && bytes.Equal(k.Secret, other.Secret) }

func checkKeys(keys []Key) ([]Key, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("keys: none given")
	}
	var checked []Key
	for i, k := range keys {
		if len(k.Secret) < minSecret {
			return nil, fmt.Errorf("key %d: %d bytes, at least %d required", i+1, len(k.Secret), minSecret)
		}
		if k.ID == "" {
			sum := sha256.Sum256(k.Secret)
			k.ID = hex.EncodeToString(sum[:4])
		}
		if strings.Trim(k.ID, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return nil, fmt.Errorf("key %d: id %q may contain only lower-case letters and digits", i+1, k.ID)
		}
		checked = append(checked, k)
	}
	return checked, nil
}

// Shares reports whether two rings have a secret in common.
func (ring *Ring) Shares(other *Ring) bool {
	return slices.ContainsFunc(*ring.now.Load(), func(k Key) bool {
		return slices.ContainsFunc(*other.now.Load(), func(o Key) bool { return bytes.Equal(k.Secret, o.Secret) })
	})
}

// Sign returns a signature over lines of text, and the id of its key.
func (ring *Ring) Sign(purpose string, lines ...string) (id, signature string) {
	k := (*ring.now.Load())[0]
	return k.ID, k.mac(purpose, lines)
}

// Verify reports whether the key with this id made the signature over the lines.
func (ring *Ring) Verify(purpose, id, signature string, lines ...string) bool {
	for _, k := range *ring.now.Load() {
		if k.ID == id && hmac.Equal([]byte(k.mac(purpose, lines)), []byte(signature)) {
			return true
		}
	}
	return false
}

func (k Key) mac(purpose string, lines []string) string {
	m := hmac.New(sha256.New, k.Secret)
	m.Write([]byte(purpose + "\n" + k.ID + "\n"))
	for _, line := range lines {
		m.Write([]byte(line + "\n"))
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// errSealed means that a sealed value was made with other keys or for another purpose.
var errSealed = errors.New("not issued by this server")

// Seal encrypts v for a purpose, as "<kid>.<base64url of nonce and AES-256-GCM>", readable with the
// same keys alone.
func (ring *Ring) Seal(purpose string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	k := (*ring.now.Load())[0]
	aead, err := k.newAEAD(purpose)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	return k.ID + "." + base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, []byte(purpose))), nil
}

// Open decrypts a value that was sealed for the same purpose into v.
func (ring *Ring) Open(purpose, sealed string, v any) error {
	id, text, _ := strings.Cut(sealed, ".")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSealed
	}
	for _, k := range *ring.now.Load() {
		if k.ID != id {
			continue
		}
		aead, err := k.newAEAD(purpose)
		if err != nil {
			return err
		}
		if len(b) < aead.NonceSize() {
			return errSealed
		}
		plain, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], []byte(purpose))
		if err == nil {
			return json.Unmarshal(plain, v)
		}
	}
	return errSealed
}

func (k Key) newAEAD(purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.Secret, nil, "okara-seal-v1 "+purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
