// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// errSealed says that a sealed value was not made here, or for another purpose.
var errSealed = errors.New("not a value of this server")

// seal encrypts v for a purpose, so that the server need not remember it: only
// a replica with the same keys can read or make one. The form is
// "<kid>.<base64url of nonce and AES-256-GCM>".
func (l *links) seal(purpose string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	k := l.keys[0]
	aead, err := k.aead(purpose)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	return k.ID + "." + base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, []byte(purpose))), nil
}

// open reads a sealed value of the same purpose into v.
func (l *links) open(purpose, sealed string, v any) error {
	id, text, _ := strings.Cut(sealed, ".")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSealed
	}
	for _, k := range l.keys {
		if k.ID != id {
			continue
		}
		aead, err := k.aead(purpose)
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

func (k Key) aead(purpose string) (cipher.AEAD, error) {
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
