// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// PublicKey is a trusted key; Armor has it alone, as clients read one block.
type PublicKey struct {
	ID          string // 16 hex digits, upper case
	Fingerprint string // 40 hex digits, upper case
	UserID      string
	Armor       string
	Created     time.Time
	Expires     time.Time // zero: never
	Revoked     bool
	Algorithm   string // "RSA 4096", "Ed25519"

	// Weak says that a verified signature depends on a hash that proves nothing any more, or "".
	Weak string

	entity *openpgp.Entity
}

const armorEnd = "-----END PGP PUBLIC KEY BLOCK-----"

// ParsePublicKeys parses armored blocks, an entry each.
func ParsePublicKeys(text []byte) ([]PublicKey, error) {
	var keys []PublicKey
	for _, block := range bytes.SplitAfter(text, []byte(armorEnd)) {
		if len(bytes.TrimSpace(block)) == 0 {
			continue
		}
		list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(block))
		if err != nil {
			return nil, fmt.Errorf("read public key: %w", plainKeyError(err))
		}
		for _, entity := range list {
			if entity.PrivateKey != nil {
				return nil, fmt.Errorf("read public key: %w", ErrPrivate)
			}
			if len(list) == 1 {
				keys = append(keys, newPublicKey(entity, strings.TrimSpace(string(block))+"\n"))
				continue
			}
			key, err := (&Key{entity}).Public()
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("read public key: no key found")
	}
	return keys, nil
}

// SplitKeys returns the public keys in a file, and whether a private one is in it.
func SplitKeys(text []byte) (keys []PublicKey, private bool, err error) {
	list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text))
	if err != nil {
		return nil, false, fmt.Errorf("read key: %w", plainKeyError(err))
	}
	if len(list) != 1 || list[0].PrivateKey == nil {
		keys, err = ParsePublicKeys(text)
		return keys, false, err
	}
	public, err := (&Key{list[0]}).Public()
	return []PublicKey{public}, true, err
}

func newPublicKey(entity *openpgp.Entity, text string) PublicKey {
	primary := entity.PrimaryKey
	k := PublicKey{
		ID:          primary.KeyIdString(),
		Fingerprint: strings.ToUpper(fmt.Sprintf("%x", primary.Fingerprint)),
		Armor:       text,
		Created:     primary.CreationTime.UTC(),
		Revoked:     len(entity.Revocations) > 0,
		Algorithm:   algorithmName(primary),
		entity:      entity,
	}
	if id := entity.PrimaryIdentity(); id != nil {
		k.UserID = id.Name
	}
	if sig, _ := entity.PrimarySelfSignature(); sig != nil && sig.KeyLifetimeSecs != nil && *sig.KeyLifetimeSecs > 0 {
		k.Expires = k.Created.Add(time.Duration(*sig.KeyLifetimeSecs) * time.Second)
	}
	return k
}

// algorithmName returns a key's algorithm, with a size that varies.
func algorithmName(k *packet.PublicKey) string {
	switch k.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoRSAEncryptOnly:
		bits, err := k.BitLength()
		if err != nil {
			return "RSA"
		}
		return fmt.Sprintf("RSA %d", (int(bits)+7)/8*8) // the first bits of a modulus may be zero
	case packet.PubKeyAlgoDSA:
		return "DSA"
	case packet.PubKeyAlgoECDSA:
		return "ECDSA"
	case packet.PubKeyAlgoEdDSA, packet.PubKeyAlgoEd25519:
		return "Ed25519"
	case packet.PubKeyAlgoEd448:
		return "Ed448"
	}
	return fmt.Sprintf("algorithm %d", k.PubKeyAlgo)
}

// Expired reports whether the key has expired at now.
func (k PublicKey) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// SortKeys sorts as served: unexpired first, then newest.
func SortKeys(keys []PublicKey, now time.Time) {
	slices.SortStableFunc(keys, func(a, b PublicKey) int {
		if a.Expired(now) != b.Expired(now) {
			if a.Expired(now) {
				return 1
			}
			return -1
		}
		return b.Created.Compare(a.Created)
	})
}

// VerifyOptions configures which signatures Verify accepts.
type VerifyOptions struct {
	Now          time.Time // zero: time.Now
	AllowExpired bool      // accept a key that has expired since it signed
}

// maxSignature bounds a signature file of several packets, in bytes.
const maxSignature = 64 << 10

// Verify returns the usable key that made one of the packets over message. Else the error wraps the
// main reason, with unknown keys' IDs.
func Verify(message, signature []byte, keys []PublicKey, o VerifyOptions) (PublicKey, error) {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if len(signature) > maxSignature {
		return PublicKey{}, fmt.Errorf("signature of %d bytes: %w", len(signature), ErrBadSignature)
	}
	issuers, err := issuersOf(signature)
	if err != nil {
		return PublicKey{}, err
	}
	var reasons []error
	for _, k := range keys {
		sig, err := k.verify(message, signature, o)
		if err == nil {
			k.Weak = weaknessOf(sig)
			return k, nil
		}
		if !errors.Is(err, ErrUnknownKey) {
			reasons = append(reasons, fmt.Errorf("key %s: %w", k.ID, err))
		}
	}
	if len(reasons) == 0 {
		return PublicKey{}, fmt.Errorf("%w: %s", ErrUnknownKey, strings.Join(issuers, ", "))
	}
	return PublicKey{}, slices.MinFunc(reasons, func(a, b error) int { return cmp.Compare(errorRank(a), errorRank(b)) })
}

func errorRank(err error) int {
	return slices.IndexFunc([]error{ErrBadSignature, ErrRevokedKey, ErrExpiredKey, ErrEarlyKey}, func(e error) bool { return errors.Is(err, e) })
}

// verify checks all packets that k may have made.
func (k PublicKey) verify(message, signature []byte, o VerifyOptions) (*packet.Signature, error) {
	c := packetConfig(func() time.Time { return o.Now })
	sig, _, err := openpgp.VerifyDetachedSignature(openpgp.EntityList{k.entity}, bytes.NewReader(message), bytes.NewReader(signature), c)
	switch {
	case sig != nil && k.hasRevocation(sig):
		return sig, ErrRevokedKey
	case err == nil:
		return sig, nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return sig, ErrUnknownKey
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return sig, ErrRevokedKey
	case errors.Is(err, pgperrors.ErrKeyExpired), errors.Is(err, pgperrors.ErrSignatureExpired):
		if o.AllowExpired {
			return sig, nil
		}
		return sig, k.outsidePeriod(sig, o.Now)
	}
	return sig, fmt.Errorf("%w (%v)", ErrBadSignature, err)
}

// weaknessOf returns [PublicKey.Weak]: SHA-1 in a recent signature (RFC 9580, 9.5), one after 19
// January 2019 as in GnuPG 2.2.18.
func weaknessOf(sig *packet.Signature) string {
	if sig == nil || sig.Hash != crypto.SHA1 || sig.CreationTime.Before(time.Date(2019, 1, 19, 0, 0, 0, 0, time.UTC)) {
		return ""
	}
	return fmt.Sprintf("the signature of %s uses SHA-1, which is no longer secure: sign it again", sig.CreationTime.UTC().Format(time.DateOnly))
}

// outsidePeriod returns why now is outside a period, which for the library is always "expired".
func (k PublicKey) outsidePeriod(sig *packet.Signature, now time.Time) error {
	from := k.Created
	if sig != nil && sig.CreationTime.After(from) {
		from = sig.CreationTime.UTC()
	}
	switch {
	case from.After(now):
		return fmt.Errorf("%w: valid from %s, the local clock says %s", ErrEarlyKey, from.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case k.Expires.IsZero():
		return fmt.Errorf("%w, or its signature", ErrExpiredKey)
	}
	return fmt.Errorf("%w on %s", ErrExpiredKey, k.Expires.Format(time.DateOnly))
}

// hasRevocation reports whether the key or subkey is revoked, whenever: a clock may be behind.
func (k PublicKey) hasRevocation(sig *packet.Signature) bool {
	return k.Revoked || slices.ContainsFunc(k.entity.Subkeys, func(sub openpgp.Subkey) bool {
		return len(sub.Revocations) > 0 && sig.IssuerKeyId != nil && sub.PublicKey.KeyId == *sig.IssuerKeyId
	})
}

// issuersOf returns the key IDs in the packets of a signature file.
func issuersOf(signature []byte) ([]string, error) {
	var ids []string
	packets := packet.NewReader(bytes.NewReader(signature))
	for {
		p, err := packets.Next()
		if err != nil && len(ids) > 0 {
			return ids, nil // the clients read no further than the first packet that they can use
		}
		if err != nil {
			return nil, fmt.Errorf("not an OpenPGP signature: %w", ErrBadSignature)
		}
		sig, ok := p.(*packet.Signature)
		if !ok || sig.IssuerKeyId == nil {
			return nil, fmt.Errorf("not a detached OpenPGP signature: %w", ErrBadSignature)
		}
		ids = append(ids, fmt.Sprintf("%016X", *sig.IssuerKeyId))
	}
}
