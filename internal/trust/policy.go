// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// PolicyFiles is a policy as users write it: on a command line or in a configuration file.
type PolicyFiles struct {
	OpenPGP []string // files of armored public keys to trust
	Cosign  []string // files of ECDSA public keys to trust
	Root    string   // file of a trust root for certificates: [keyless.ReadTrust]
	Names   []string // identities in certificates to trust
	Issuer  string   // of these identities
	Require []string // RequireOpenPGP, RequireCosign, RequireScan
	Block   string   // findings of this level and above fail; "": none
	Expired bool     // accept an expired key
}

// Read reads the keys; nil if nothing is required. A yanked version is
// accepted, because the user names the version explicitly.
func (p PolicyFiles) Read() (*Policy, error) {
	certified, err := keyless.ReadTrust(p.Root, p.Names, p.Issuer)
	if err != nil {
		return nil, err
	}
	hasKeys := p.OpenPGP != nil || p.Cosign != nil || certified != nil
	if !hasKeys && p.Require == nil && p.Block == "" && !p.Expired {
		return nil, nil
	}
	o := &Policy{Require: p.Require, Block: p.Block, AllowYanked: true, AllowExpired: p.Expired, Keyless: certified}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.OpenPGP, err = ReadPublicKeys(p.OpenPGP); err != nil {
		return nil, err
	}
	o.Cosign, err = readCosignKeys(p.Cosign)
	return o, err
}

// ReadPublicKeys reads files of armored OpenPGP public keys.
func ReadPublicKeys(files []string) ([]signing.PublicKey, error) {
	return readKeys(files, signing.ParsePublicKeys)
}

func readCosignKeys(files []string) ([]*ecdsa.PublicKey, error) {
	return readKeys(files, func(b []byte) ([]*ecdsa.PublicKey, error) {
		key, err := signing.ParseCosignPublicKey(b)
		return []*ecdsa.PublicKey{key}, err
	})
}

func readKeys[K any](files []string, parse func([]byte) ([]K, error)) ([]K, error) {
	var keys []K
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, some...)
	}
	return keys, nil
}

// ErrUnsigned means that SHA256SUMS has no signature.
var ErrUnsigned = errors.New("SHA256SUMS is not signed")

// PublicKeys parses keys as the provider protocol serves them.
func PublicKeys(keys []artifact.SigningKey) ([]signing.PublicKey, error) {
	var out []signing.PublicKey
	for _, k := range keys {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return nil, fmt.Errorf("signing key %s: %w: %w", k.KeyID, oci.ErrCorrupt, err)
		}
		out = append(out, parsed...)
	}
	return out, nil
}

// warnBefore is how long before its expiry a key causes a warning.
const warnBefore = 60 * 24 * time.Hour

func ExpiryWarning(k signing.PublicKey, now time.Time) []string {
	if k.Expires.IsZero() || k.Expires.Sub(now) > warnBefore {
		return nil
	}
	return []string{fmt.Sprintf("signing key %s expires on %s", k.ID, k.Expires.Format(time.DateOnly))}
}

// ServedKeys returns the keys in the form of the provider protocol, without duplicates.
func ServedKeys(keys []signing.PublicKey, now time.Time) []artifact.SigningKey {
	signing.SortKeys(keys, now)
	seen := map[string]bool{}
	var out []artifact.SigningKey
	for _, k := range keys {
		if seen[k.Fingerprint] {
			continue
		}
		seen[k.Fingerprint] = true
		served := artifact.SigningKey{KeyID: k.ID, ASCIIArmor: k.Armor, Source: k.UserID}
		if !k.Expires.IsZero() {
			served.Expires = k.Expires.Format(time.RFC3339)
		}
		out = append(out, served)
	}
	return out
}
