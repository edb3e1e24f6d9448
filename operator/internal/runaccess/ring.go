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
	period = 30 * 24 * time.Hour // after which there is a new key
	lead   = 10 * time.Minute    // for which it is published before it signs
	linger = 25 * time.Hour      // for which it is published after it signed
)

// key signs tokens from [lead] after it was published on, until the next one does.
type key struct {
	JWK       jose.JSONWebKey `json:"jwk"`
	Published time.Time       `json:"published,omitzero"` // zero: not yet
}

// ring are the keys of an issuer, the oldest first.
type ring []key

// maxRing bounds the document of a ring, in bytes. There are three keys at most.
const maxRing = 16 << 10

// parseRing reads a document as [ring.document] writes it.
func parseRing(b []byte) (ring, error) {
	if len(b) > maxRing {
		return nil, errors.New("it is too large")
	}
	var r ring
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, errors.New("it is no list of keys") // the cause may quote one
	}
	for _, k := range r {
		private, ok := k.JWK.Key.(*ecdsa.PrivateKey)
		if !ok || private.Curve != elliptic.P256() || k.JWK.KeyID == "" || !k.JWK.Valid() {
			return nil, errors.New("it has something else than private keys for ES256")
		}
	}
	return r, nil
}

func (r ring) document() ([]byte, error) { return json.Marshal(r) }

// starts is when the key of a place begins to sign; false: nobody knows yet.
func (r ring) starts(i int) (time.Time, bool) {
	at := r[i].Published
	if i > 0 {
		at = at.Add(lead)
	}
	return at, !r[i].Published.IsZero()
}

// signer is the key that signs at a time; false if none was published.
func (r ring) signer(now time.Time) (jose.JSONWebKey, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if at, ok := r.starts(i); ok && (i == 0 || !now.Before(at)) {
			return r[i].JWK, true
		}
	}
	return jose.JSONWebKey{}, false
}

// rotate leaves out the keys that are long past, and adds the next one when it is due.
func (r ring) rotate(now time.Time) (ring, error) {
	for len(r) > 1 {
		at, ok := r.starts(1)
		if !ok || now.Before(at.Add(linger)) {
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

// published is the ring with all its keys published, at a time where they were not.
func (r ring) published(now time.Time) ring {
	out := make(ring, len(r))
	for i, k := range r {
		if k.Published.IsZero() {
			k.Published = now.UTC().Truncate(time.Second)
		}
		out[i] = k
	}
	return out
}

// public are the keys that okara serve takes.
func (r ring) public() jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, len(r))}
	for i, k := range r {
		set.Keys[i] = k.JWK.Public()
	}
	return set
}
