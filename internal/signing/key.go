// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	// DefaultLifetime is how long a new key is valid.
	DefaultLifetime = 2 * 365 * 24 * time.Hour
	defaultBits     = 4096
	minimumBits     = 3072 // smaller RSA keys are neither created nor used for signing
)

// Key is a private signing key.
type Key struct{ entity *openpgp.Entity }

// KeyOptions describes a new key.
type KeyOptions struct {
	Name, Email string
	Lifetime    time.Duration    // 0: DefaultLifetime
	ECC         bool             // Ed25519, which older Terraform releases refuse, instead of RSA-4096
	Now         func() time.Time // nil: time.Now
}

// NewKey creates a key with one user ID and no subkeys.
func NewKey(o KeyOptions) (*Key, error) {
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	c := packetConfig(o.Now)
	c.KeyLifetimeSecs = uint32(o.Lifetime / time.Second)
	if o.ECC {
		c.Algorithm = packet.PubKeyAlgoEdDSA
		c.Curve = packet.Curve25519
		entity, err := openpgp.NewEntity(o.Name, "", o.Email, c)
		if err != nil {
			return nil, fmt.Errorf("create key: %w", err)
		}
		entity.Subkeys = nil // only for encryption
		return &Key{entity}, nil
	}
	private, err := rsa.GenerateKey(rand.Reader, defaultBits)
	if err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	primary := packet.NewSignerPrivateKey(c.Now(), private)
	entity := &openpgp.Entity{PrimaryKey: &primary.PublicKey, PrivateKey: primary, Identities: map[string]*openpgp.Identity{}}
	if err := entity.AddUserId(o.Name, "", o.Email, c); err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	return &Key{entity}, nil
}

// Successor makes a key for old's user, by its algorithm, valid for a lifetime.
func Successor(old PublicKey, lifetime time.Duration) (*Key, error) {
	o := KeyOptions{Lifetime: lifetime, ECC: old.entity.PrimaryKey.PubKeyAlgo != packet.PubKeyAlgoRSA}
	if id := old.entity.PrimaryIdentity(); id != nil && id.UserId != nil {
		o.Name = id.UserId.Name
		o.Email = id.UserId.Email
	}
	return NewKey(o)
}

// Errors for the wrong half of a key, or a missing passphrase.
var (
	ErrPublic     = errors.New("this is a public key")
	ErrPrivate    = errors.New("this is a private key")
	ErrPassphrase = errors.New("wrong passphrase, or none")
)

// plainKeyError says of text that is no key what the library does not.
func plainKeyError(err error) error {
	if strings.Contains(err.Error(), "no armored data") {
		return errors.New("not an armored OpenPGP key, which begins with -----BEGIN PGP")
	}
	return err
}

// ParseKey parses an armored private key, with a passphrase that no error repeats.
func ParseKey(armored, passphrase []byte) (*Key, error) {
	list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(armored))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read private key: %w", plainKeyError(err))
	case len(list) != 1:
		return nil, fmt.Errorf("read private key: %d keys in one file, expected one", len(list))
	case list[0].PrivateKey == nil:
		return nil, fmt.Errorf("read private key: %w", ErrPublic)
	}
	k := &Key{list[0]}
	if k.entity.PrivateKey.Encrypted {
		if len(passphrase) == 0 {
			return nil, fmt.Errorf("key %s is protected by a passphrase: %w", k.ID(), ErrPassphrase)
		}
		if err := k.entity.DecryptPrivateKeys(passphrase); err != nil {
			return nil, fmt.Errorf("key %s: %w", k.ID(), ErrPassphrase)
		}
	}
	return k, nil
}

// Armor returns the private key, encrypted with a passphrase. k stays usable.
func (k *Key) Armor(passphrase []byte) ([]byte, error) {
	var plain bytes.Buffer
	if err := k.entity.SerializePrivateWithoutSigning(&plain, nil); err != nil {
		return nil, fmt.Errorf("write private key: %w", err)
	}
	if len(passphrase) > 0 {
		list, err := openpgp.ReadKeyRing(bytes.NewReader(plain.Bytes()))
		if err != nil {
			return nil, fmt.Errorf("write private key: %w", err)
		}
		if err := list[0].EncryptPrivateKeys(passphrase, nil); err != nil {
			return nil, fmt.Errorf("write private key: %w", err)
		}
		plain.Reset()
		if err := list[0].SerializePrivateWithoutSigning(&plain, nil); err != nil {
			return nil, fmt.Errorf("write private key: %w", err)
		}
	}
	return encodeArmor(openpgp.PrivateKeyType, plain.Bytes())
}

// ID returns the key ID in the form of the provider protocol.
func (k *Key) ID() string { return k.entity.PrimaryKey.KeyIdString() }

// Public returns the public half.
func (k *Key) Public() (PublicKey, error) {
	var b bytes.Buffer
	if err := k.entity.Serialize(&b); err != nil {
		return PublicKey{}, fmt.Errorf("write public key: %w", err)
	}
	text, err := encodeArmor(openpgp.PublicKeyType, b.Bytes())
	if err != nil {
		return PublicKey{}, err
	}
	return newPublicKey(k.entity, string(text)), nil
}

// Sign returns a detached signature, not by an expired, revoked or short key.
func (k *Key) Sign(message []byte, now time.Time) ([]byte, error) {
	public, err := k.Public()
	if err != nil {
		return nil, err
	}
	switch bits, _ := k.entity.PrimaryKey.BitLength(); {
	case public.Revoked:
		return nil, fmt.Errorf("key %s: %w", k.ID(), ErrRevokedKey)
	case public.Expired(now):
		return nil, fmt.Errorf("key %s expired on %s: %w", k.ID(), public.Expires.Format(time.DateOnly), ErrExpiredKey)
	case k.entity.PrimaryKey.PubKeyAlgo == packet.PubKeyAlgoRSA && bits < minimumBits:
		return nil, fmt.Errorf("key %s has %d bits, at least %d required", k.ID(), bits, minimumBits)
	}
	var b bytes.Buffer
	if err := openpgp.DetachSign(&b, k.entity, bytes.NewReader(message), packetConfig(func() time.Time { return now })); err != nil {
		return nil, fmt.Errorf("sign with key %s: %w", k.ID(), err)
	}
	return b.Bytes(), nil
}

// Revoke marks the key as revoked. After that, Public returns a revoked key.
func (k *Key) Revoke(now time.Time, reason string) error {
	return k.entity.RevokeKey(packet.NoReason, reason, packetConfig(func() time.Time { return now }))
}

func packetConfig(now func() time.Time) *packet.Config {
	return &packet.Config{Time: now, DefaultHash: crypto.SHA256, NonDeterministicSignaturesViaNotation: new(false)}
}

func encodeArmor(kind string, b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := armor.Encode(&out, kind, nil)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return []byte(strings.TrimRight(out.String(), "\n") + "\n"), nil
}
