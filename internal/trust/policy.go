// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"fmt"
	"os"

	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/signing"
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
