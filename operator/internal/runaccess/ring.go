// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	period = 30 * 24 * time.Hour // interval between new keys
	lead   = 10 * time.Minute    // publication time before a key signs
	linger = 25 * time.Hour      // publication time after a key last signed
)

// key signs tokens from [lead] after its publication until the next key does.
type key struct {
	JWK       jose.JSONWebKey `json:"jwk"`
	Published time.Time       `json:"published,omitzero"` // zero: not yet
}

// ring holds the keys of an issuer, the oldest first.
type ring []key

// maxRing bounds the document of a ring, in bytes. A ring has at most three keys.
const maxRing = 16 << 10

// parseRing reads a document that [ring.encodeRing] wrote.
func parseRing(b []byte) (ring, error) {
	if len(b) > maxRing {
		return nil, errors.New("it is too large")
	}
	var r ring
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, errors.New("it is not a list of keys") // the cause may quote a key
	}
	for _, k := range r {
		private, ok := k.JWK.Key.(*ecdsa.PrivateKey)
		if !ok || private.Curve != elliptic.P256() || k.JWK.KeyID == "" || !k.JWK.Valid() {
			return nil, errors.New("it contains keys other than ES256 private keys")
		}
	}
	return r, nil
}

func (r ring) encodeRing() ([]byte, error) { return json.Marshal(r) }

// signsFrom returns when a key begins to sign; false: unknown.
func (r ring) signsFrom(i int) (time.Time, bool) {
	at := r[i].Published
	if i > 0 {
		at = at.Add(lead)
	}
	return at, !r[i].Published.IsZero()
}

// signer returns the key that signs at the given time, or false if none was published.
func (r ring) signer(now time.Time) (jose.JSONWebKey, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if at, ok := r.signsFrom(i); ok && (i == 0 || !now.Before(at)) {
			return r[i].JWK, true
		}
	}
	return jose.JSONWebKey{}, false
}

// rotate drops expired keys, and adds the next one when it is due.
func (r ring) rotate(now time.Time) (ring, error) {
	for len(r) > 1 {
		if at, ok := r.signsFrom(1); !ok || now.Before(at.Add(linger)) {
			break
		}
		r = r[1:]
	}
	if n := len(r); n > 0 && (r[n-1].Published.IsZero() || now.Before(r[n-1].Published.Add(period))) {
		return r, nil
	}
	next, err := newKey()
	if err != nil {
		return nil, err
	}
	return append(r[:len(r):len(r)], key{JWK: next}), nil
}

func newKey() (jose.JSONWebKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	id := make([]byte, 12)
	rand.Read(id) // never fails
	return jose.JSONWebKey{Key: private, KeyID: base64.RawURLEncoding.EncodeToString(id), Algorithm: string(jose.ES256), Use: "sig"}, nil
}

// withPublished marks the unpublished keys as published.
func (r ring) withPublished(now time.Time) ring {
	out := make(ring, len(r))
	for i, k := range r {
		if k.Published.IsZero() {
			k.Published = now.UTC().Truncate(time.Second)
		}
		out[i] = k
	}
	return out
}

// publicKeys returns the public keys, which okara serve accepts.
func (r ring) publicKeys() jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(r))}
	for i, k := range r {
		set.Keys[i] = k.JWK.Public()
	}
	return set
}
